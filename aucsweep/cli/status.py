"""``status``: how far a sweep is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from aucsweep.cli.options import JsonFlag, StoreOption, duration, emit_columns, emit_json

if TYPE_CHECKING:
    from orchestrator.listing import Memory
    from orchestrator.status import Status

_REFRESH_SECONDS = 2.0


def status(
    store: StoreOption,
    watch: Annotated[bool, typer.Option("--watch", help="Show it again every two seconds until all is done.")] = False,
    json: JsonFlag = False,
) -> None:
    """Say what is done, running, failed and pending, per task, with rate, ETA and failures by kind."""
    from orchestrator.status import store_status
    from orchestrator.store import open_store

    if json and watch:
        raise typer.BadParameter("--json prints one object; it does not go with --watch", param_hint="--watch")
    opened = open_store(store)
    memory: Memory = {}
    while True:
        now = store_status(opened, memory=memory)
        if json:
            emit_json(now.to_json())
            return
        if watch:
            Console().clear()
        _print(now)
        if not watch or (now.pending == 0 and now.running == 0):
            return
        try:
            time.sleep(_REFRESH_SECONDS)
        except KeyboardInterrupt:
            return


def _print(now: Status) -> None:
    line = f"{now.done} of {now.wanted} trials done, {now.running} running, {now.failed} failed, {now.pending} pending"
    if now.rate_per_hour is not None:
        line += f", {now.rate_per_hour:,.0f} trials an hour, {duration(now.eta_seconds)} left"
    typer.echo(line)
    emit_columns(
        [[row.task, row.done, row.running, row.failed, row.pending] for row in now.tasks],
        header=["task", "done", "running", "failed", "pending"],
    )
    for kind, number in sorted(now.failures.items()):
        typer.echo(f"failed with {kind}: {number} (run them again: aucsweep retry --store ... --kind {kind})")
    for broken in now.broken:
        typer.echo(f"broken file: {broken}", err=True)
    if now.holder:
        typer.echo(f"held by {now.holder}")
