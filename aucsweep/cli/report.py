"""``report``: the whole sweep as one self-contained HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aucsweep.cli.options import StoreOption


def report(
    store: StoreOption,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="F.html", help="The file to write.")] = Path(
        "report.html"
    ),
) -> None:
    """Write what was run, the table, the warm-up gain, learning curves, failures and environment to one HTML file."""
    from analysis.report import write_report

    typer.echo(f"report: {write_report(store, output).resolve()}")
