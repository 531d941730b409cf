"""``compact``: merge the store's small files."""

from __future__ import annotations

import dataclasses

import typer

from aucsweep.cli.options import JsonFlag, StoreOption, emit_json


def compact(store: StoreOption, json: JsonFlag = False) -> None:
    """Merge the store's one-file-per-trial results into a few large files; no row is lost."""
    from orchestrator.store import open_store

    result = open_store(store).compact()
    if json:
        emit_json(dataclasses.asdict(result))
        return
    typer.echo(f"{result.files_before} files of runs are now {result.files_after}; {result.rows} rows")
