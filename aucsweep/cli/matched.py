"""``matched``: warm-up gain from random and from pretrained weights, all else equal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aucsweep.cli.options import StoreOption, drawing


def matched(
    store: StoreOption,
    format: Annotated[str, typer.Option(help="md, csv, latex or html.")] = "md",
    figure: Annotated[Path | None, typer.Option(help="Also draw it to this file (.png, .svg or .pdf).")] = None,
    exclude: Annotated[
        bool, typer.Option("--exclude", help="Leave out settings whose two grids differ instead of refusing.")
    ] = False,
) -> None:
    """Print the warm-up gain from random and from pretrained weights, over settings with equal grids."""
    from analysis import load_runs, matched_gain, matched_table

    found = matched_gain(load_runs(store), unmatched="exclude" if exclude else "raise")
    typer.echo(matched_table(found, format))
    if figure is not None:
        from analysis.figures import save_matched_figure

        with drawing(figure):
            save_matched_figure(found, figure)
        typer.echo(f"figure: {figure}", err=True)
