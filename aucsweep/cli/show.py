"""``show``: one trial: its configuration, curve and environment."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from aucsweep.cli.options import JsonFlag, StoreOption, emit_columns, emit_json

_CURVE = ("epoch", "update", "train_loss", "train_auc", "val_auc", "test_auc", "learning_rate_now", "seconds")
_ENVIRONMENT = ("hostname", "device", "finished_at", "code_version", "schema_version", "peak_memory_bytes", "prefix_id")


def show(
    trial: Annotated[str, typer.Argument(metavar="TRIAL", help="A trial id, or its first characters.")],
    store: StoreOption,
    json: JsonFlag = False,
) -> None:
    """Show one trial: configuration, the cells it serves, curve, environment, and its failures if it has any."""
    from aucsweep.cli.trials import resolve_trial
    from orchestrator.store import open_store
    from search_spaces.expand import expand

    opened = open_store(store)
    trial_id = resolve_trial(opened, trial)
    space = opened.read_space()
    config = expand(space).trials.get(trial_id) if space is not None else None
    cells = opened.read_cells()
    cells = cells[cells["trial_id"] == trial_id]
    runs, _ = opened.read_runs([trial_id])
    failures = opened.read_failures()
    failures = failures[failures["trial_id"] == trial_id]
    facts: dict[str, Any] = {
        "trial_id": trial_id,
        "state": "done" if len(runs) else ("failed" if len(failures) else "pending"),
        "config": config.as_dict() if config else None,
        "cells": cells.astype(object).where(cells.notna(), None).to_dict("records"),
        "curve": runs[list(_CURVE)].to_dict("records"),
        "environment": runs[list(_ENVIRONMENT)].iloc[-1].to_dict() if len(runs) else None,
        "failures": failures.astype(object).where(failures.notna(), None).to_dict("records"),
    }
    if json:
        emit_json(facts)
        return
    _print(facts)


def _print(facts: dict[str, Any]) -> None:
    typer.echo(f"trial {facts['trial_id']}: {facts['state']}")
    if facts["config"]:
        typer.echo("\nconfiguration")
        emit_columns([f"  {key}", value] for key, value in facts["config"].items())
    else:
        typer.echo("\nconfiguration: of an earlier space of this store; see the columns of its rows")
    typer.echo("\ncells")
    emit_columns(
        [[f"  {cell['cell_id']}", cell["mode"], f"warm-up ratio {cell['warmup_ratio']:g}"] for cell in facts["cells"]]
    )
    if facts["curve"]:
        typer.echo("\ncurve")
        emit_columns(
            [[f"{row[column]:.6g}" for column in _CURVE] for row in facts["curve"]],
            header=list(_CURVE),
        )
        typer.echo("\nenvironment")
        emit_columns([f"  {key}", value] for key, value in facts["environment"].items())
    for failure in facts["failures"]:
        typer.echo(f"\nfailure, attempt {failure['attempt']}: {failure['kind']}: {failure['message']}")
        typer.echo(failure["traceback"] or "")
