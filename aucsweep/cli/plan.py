"""``plan``: what a space would run and what it would cost; trains nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aucsweep.cli.options import (
    DEFAULT_DATA_ROOT,
    DataRoot,
    JsonFlag,
    Overrides,
    SpaceArgument,
    count,
    duration,
    emit_columns,
    emit_json,
    read_space,
    size,
)

if TYPE_CHECKING:
    from search_spaces.space import Space

_NAMED = 3
"""At most this many tasks or models are named, more are counted."""


def plan(
    space: SpaceArgument,
    override: Overrides = [],  # noqa: B006 (typer reads the default)
    store: Annotated[str | None, typer.Option("--store", "-s", metavar="S", help="Count what it has as done.")] = None,
    gpus: Annotated[int, typer.Option(min=1, help="GPUs the wall time is estimated for.")] = 1,
    data_root: DataRoot = DEFAULT_DATA_ROOT,
    json: JsonFlag = False,
) -> None:
    """Count the product, cells, trials and updates of SPACE and estimate its cost; train nothing."""
    from orchestrator.plan import make_plan
    from orchestrator.store import open_store, store_exists

    loaded = read_space(space, override)
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
            ["runs on", _runs_on(loaded, data_root)],
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


def _runs_on(space: Space, data_root: Path) -> str:
    """Tasks, models, and the tasks whose data are not there yet."""
    from search_spaces.prepared import has_data
    from search_spaces.tasks import task_card

    tasks = list(dict.fromkeys(task for part in space.parts for task in part.tasks))
    models = list(dict.fromkeys(model for part in space.parts for model in part.models))
    missing = [task for task in tasks if not has_data(task_card(task, space.cards), data_root)]
    line = f"{_named('task', tasks)}; {_named('model', models)}"
    if not missing:
        return line
    return f"{line}; not prepared under {data_root}: {_named('task', missing)} (aucsweep data prepare TASK)"


def _named(what: str, names: Sequence[str]) -> str:
    if len(names) > _NAMED:
        return f"{len(names)} {what}s"
    return f"{what}{'s' if len(names) > 1 else ''} {', '.join(names)}"
