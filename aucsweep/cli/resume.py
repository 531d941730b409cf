"""``resume``: go on with the space a store was launched with last."""

from __future__ import annotations

from typing import Any

import typer

from aucsweep.cli.options import SavedDataRoot, StoreOption
from aucsweep.cli.run_options import with_run_options


@with_run_options
def resume(store: StoreOption, data_root: SavedDataRoot = None, **options: Any) -> None:
    """Run what the store still lacks of the space it was launched with last."""
    from orchestrator import launching

    raise typer.Exit(launching.resume(store, data_root=data_root, **options).exit_code)
