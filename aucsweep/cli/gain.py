"""``gain``: warm-up gain per task, model and loss."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aucsweep.cli.options import StoreOption


def gain(
    store: StoreOption,
    format: Annotated[str, typer.Option(help="md, csv, latex or html.")] = "md",
    figure: Annotated[Path | None, typer.Option(help="Also draw it to this file (.png, .svg or .pdf).")] = None,
) -> None:
    """Print the warm-up gain: selected warm-up test AUC minus selected direct test AUC."""
    from analysis import load_runs
    from analysis.gain import warmup_gain
    from analysis.tables import gain_table
    from search_spaces.errors import UsageError

    gains = warmup_gain(load_runs(store))
    typer.echo(gain_table(gains, format))
    if figure is not None:
        from analysis.figures import save_gain_figure

        try:
            save_gain_figure(gains, figure)
        except (OSError, ValueError) as error:  # no such folder, or an ending that names no image format
            raise UsageError(f"cannot draw {figure}: {error}") from error
        typer.echo(f"figure: {figure}", err=True)
