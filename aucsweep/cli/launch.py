"""``launch``: run what the store lacks of a space."""

from __future__ import annotations

from typing import Any

import typer

from aucsweep.cli.options import DEFAULT_DATA_ROOT, DataRoot, Overrides, SpaceArgument, StoreOption, read_space
from aucsweep.cli.run_options import with_run_options


@with_run_options
def launch(
    space: SpaceArgument,
    store: StoreOption,
    override: Overrides = [],  # noqa: B006 (typer reads the default)
    data_root: DataRoot = DEFAULT_DATA_ROOT,
    **options: Any,
) -> None:
    """Run every trial of SPACE that the store lacks; what is there already is never run again."""
    from orchestrator import launching

    result = launching.launch(read_space(space, override), store, data_root=data_root, **options)
    raise typer.Exit(result.exit_code)
