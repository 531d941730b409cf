"""``logs``: what a trial printed."""

from __future__ import annotations

from typing import Annotated

import typer

from aucsweep.cli.options import StoreOption


def logs(
    trial: Annotated[str, typer.Argument(metavar="TRIAL", help="A trial id, or its first characters.")],
    store: StoreOption,
) -> None:
    """Print the log of one trial."""
    from aucsweep.cli.trials import resolve_trial
    from orchestrator.store import open_store

    opened = open_store(store)
    text = opened.read_log(resolve_trial(opened, trial))
    if text is None:
        typer.echo("this trial has written no log", err=True)
        return
    typer.echo(text, nl=not text.endswith("\n"))
