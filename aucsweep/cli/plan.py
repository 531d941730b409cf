"""``plan``: what a space would run and what it would cost; trains nothing."""

from __future__ import annotations

from typing import Annotated

import typer

from aucsweep.cli.options import JsonFlag, Overrides, SpaceArgument, count, duration, emit_columns, emit_json, size


def plan(
    space: SpaceArgument,
    override: Overrides = [],  # noqa: B006 (typer reads the default)
    store: Annotated[str | None, typer.Option("--store", "-s", metavar="S", help="Count what it has as done.")] = None,
    gpus: Annotated[int, typer.Option(min=1, help="GPUs the wall time is estimated for.")] = 1,
    json: JsonFlag = False,
) -> None:
    """Count the product, cells, trials and updates of SPACE and estimate its cost; train nothing."""
    from orchestrator.plan import make_plan
    from orchestrator.store import open_store, store_exists
    from search_spaces.space import load_space

    loaded = load_space(space, override)
    existing = open_store(store) if store is not None and store_exists(store) else None
    made = make_plan(loaded, existing, gpus=gpus)
    facts = made.to_json()
    if json:
        emit_json(facts)
        return
    updates = facts["updates"]
    product = updates["product"]
    emit_columns(
        [
            ["space", f"{loaded.name}: {loaded.description}"],
            ["plain product", f"{count(facts['product'])} runs, {count(product)} updates"],
            ["cells", f"{count(facts['cells'])} (a margin means nothing to a loss without one)"],
            [
                "trials",
                f"{count(facts['trials'])} (cells that are the same run merged), {count(updates['trials'])} updates",
            ],
            ["shared prefixes", f"{count(updates['with_shared_prefixes'])} updates if every CE prefix is trained once"],
            ["done / pending", f"{count(facts['done'])} / {count(facts['pending'])}"],
            ["GPU time", f"{duration(facts['gpu_hours'] * 3600)} pending ({facts['estimate_source']})"],
            ["wall time", f"{duration(facts['wall_hours'] * 3600)} on {gpus} GPU" + ("s" if gpus > 1 else "")],
            ["disk", size(facts["disk_bytes"])],
        ]
    )
