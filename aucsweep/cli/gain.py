"""``gain``: warm-up gain per task, model and loss."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aucsweep.cli.options import StoreOption, drawing


def gain(
    store: StoreOption,
    format: Annotated[str, typer.Option(help="md, csv, latex or html.")] = "md",
    figure: Annotated[Path | None, typer.Option(help="Also draw it to this file (.png, .svg or .pdf).")] = None,
) -> None:
    """Print the warm-up gain: selected warm-up test AUC minus selected direct test AUC."""
    from analysis import load_runs
    from analysis.gain import warmup_gain
    from analysis.tables import gain_table

    gains = warmup_gain(load_runs(store))
    typer.echo(gain_table(gains, format))
    if figure is not None:
        from analysis.figures import save_gain_figure

        with drawing(figure):
            save_gain_figure(gains, figure)
        typer.echo(f"figure: {figure}", err=True)
