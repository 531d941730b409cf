"""``table``: paper-style tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated

import typer

from aucsweep.cli.options import StoreOption


def table(
    name: Annotated[str, typer.Argument(metavar="NAME", help="main, multiclass, multilabel, large or deep-auc.")],
    store: StoreOption,
    format: Annotated[str, typer.Option(help="md, csv, latex or html.")] = "md",
) -> None:
    """Print a paper-style table of the store's results."""
    from analysis import main_table
    from analysis.extensions import METRICS, deep_auc_table, extension_table
    from search_spaces.errors import UsageError, nearest

    tables: dict[str, Callable[..., str]] = {
        "main": main_table,
        **{extension: partial(extension_table, extension) for extension in METRICS},
        "deep-auc": deep_auc_table,
    }
    if name not in tables:
        raise UsageError(f"table {name!r}: unknown; {nearest(name, tables)}")
    typer.echo(tables[name](store, format=format))
