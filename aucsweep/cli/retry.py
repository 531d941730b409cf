"""``retry``: run failed trials again."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from aucsweep.cli.options import SavedDataRoot, StoreOption
from aucsweep.cli.run_options import with_run_options


@with_run_options
def retry(
    store: StoreOption,
    kind: Annotated[str | None, typer.Option(metavar="K", help="Only failures of this kind, e.g. nan or oom.")] = None,
    data_root: SavedDataRoot = None,
    **options: Any,
) -> None:
    """Run failed trials again, all or those of one kind; the records of earlier attempts stay."""
    from orchestrator import launching

    raise typer.Exit(launching.retry(store, kind=kind, data_root=data_root, **options).exit_code)
