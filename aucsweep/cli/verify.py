"""``verify``: check every file of a store against the plan."""

from __future__ import annotations

import dataclasses

import typer

from aucsweep.cli.options import JsonFlag, StoreOption, emit_json


def verify(store: StoreOption, json: JsonFlag = False) -> None:
    """Check every file of the store: whole, unchanged, complete, and of the plan. Exit code 1 if something is wrong."""
    from orchestrator.store import open_store
    from orchestrator.verify import verify_store

    findings = verify_store(open_store(store))
    faults = [finding for finding in findings if finding.is_fault]
    if json:
        emit_json({"ok": not faults, "findings": [dataclasses.asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            typer.echo(str(finding))
        typer.echo("the store is whole" if not faults else f"{len(faults)} faults", err=bool(faults))
    raise typer.Exit(1 if faults else 0)
