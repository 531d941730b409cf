"""A user's own task: its YAML file, and the card it becomes once its data were prepared.

``aucsweep data prepare task.yaml`` reads the data, counts the classes and writes ``task.card.json`` next to the YAML
(``write_card``); a space that names ``task.yaml`` reads that card (``load_own_card``), so a plan needs no data.
``docs/spaces.md`` shows the file format.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from search_spaces.cards import SPLITS, TaskCard
from search_spaces.errors import SpaceError, nearest
from search_spaces.fields import Whole, Word, complaints
from search_spaces.identity import content_id
from search_spaces.own_task_schema import SPLIT_KINDS, FileSplits, FractionSplits, OwnTask, SeedCountSplits, SplitKind
from search_spaces.tasks import TASKS
from search_spaces.yaml_text import parse_yaml

_Count = Annotated[Whole, Field(ge=0)]


class _Counts(BaseModel):
    """(negatives, positives) of each split."""

    train: tuple[_Count, _Count]
    validation: tuple[_Count, _Count]
    test: tuple[_Count, _Count]


class _Table(BaseModel):
    """What a table was when it was prepared."""

    modified: Whole
    sha256: Word


class _Prepared(BaseModel):
    """The contents of ``task.card.json``."""

    definition: Word
    counts: _Counts
    fingerprint: Word
    tables: dict[str, _Table] = {}
    """The tables the data came from, by path as the YAML file gives it. Cards of version 0.1 before them have none."""


_WORDS = ("title", "source", "licence")
_PLACES = ("name", "file", "folder", "images")


def read_own_task(path: Path) -> OwnTask:
    """The validated contents of the YAML file ``path``. Raises ``SpaceError`` that lists every problem."""
    what = f"task file {path}"
    try:
        raw = parse_yaml(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SpaceError(what, [str(error)]) from error
    if not isinstance(raw, dict):
        raise SpaceError(what, ["expected keys and values"])
    splits, split_problems = _read_splits(raw.get("splits"))
    task, problems = _read_task({**raw, "splits": splits})
    problems += split_problems
    if raw.get("name") in TASKS:
        problems.append(f"name: {raw['name']!r} is a built-in task, choose another")
    if problems or task is None:
        raise SpaceError(what, problems)
    return task


def _read_task(raw: dict[str, Any]) -> tuple[OwnTask | None, list[str]]:
    try:
        task = OwnTask.model_validate(raw)
        return task, task.inconsistencies()
    except ValidationError as error:
        found = complaints(error, OwnTask, raw)
    problems = [f"{key}: {sentence}" for key, sentence in found if not key.startswith("splits")]
    # What can still be said of the rest, so that the user sees every problem at once.
    wrong = {key.split(".")[0] for key, _ in found}
    rest = {"name": "x", "positive": ["x"]} | {key: value for key, value in raw.items() if key not in wrong}
    with contextlib.suppress(ValidationError):
        problems += OwnTask.model_validate(rest).inconsistencies()
    return None, problems


def _read_splits(raw: Any) -> tuple[SplitKind | None, list[str]]:
    if not isinstance(raw, dict):
        return None, [f"splits: missing, say how the data are split (by: {', '.join(SPLIT_KINDS)})"]
    by = raw.get("by")
    model = SPLIT_KINDS.get(str(by))
    if model is None:
        return None, [f"splits.by: unknown value {by!r}: {nearest(str(by), SPLIT_KINDS)}"]
    if by == "seed" and "counts" in raw:
        model = SeedCountSplits
    try:
        return model.model_validate(raw), []
    except ValidationError as error:
        found = complaints(error, model, raw)
        return None, [f"splits.{key}: {sentence}" if key else f"splits: {sentence}" for key, sentence in found]


def draft_card(path: Path) -> TaskCard:
    """The card of the task in ``path`` before its data were seen: counts are 0, there is no fingerprint."""
    task = read_own_task(path)
    definition = _definition(task)
    return TaskCard(
        name=task.name,
        title=task.title or task.name,
        modality=task.modality,
        revision="draft",
        source=task.source or str(path),
        licence=task.licence or "the owner's",
        construction=f"own task, {task.kind}: {task.describe()}",
        positive=", ".join(task.positive),
        negative=", ".join(task.negative) if task.negative else "every other label",
        counts={split: (0, 0) for split in SPLITS},
        split=task.splits.describe(),
        seeded=isinstance(task.splits, FractionSplits | SeedCountSplits),
        loader="own",
        options={"folder": str(path.resolve().parent), "definition": definition},
        get=f"described in {path}",
    )


def _definition(task: OwnTask) -> dict[str, Any]:
    return task.model_dump(mode="json", exclude_none=True)


def _definition_id(card: TaskCard) -> str:
    return content_id({key: value for key, value in card.options["definition"].items() if key not in _WORDS})


def split_sizes(task: OwnTask, totals: tuple[int, int]) -> dict[str, tuple[int, int]]:
    """Examples per split and class when the seed makes the splits; ``totals`` = (negatives, positives) in all.

    With fractions validation and test get floor(fraction * n + 1/2) of each class and train the rest. Raises
    ``ValueError`` when the data are too few, or when the file gives the splits itself.
    """
    splits = task.splits
    if isinstance(splits, SeedCountSplits):
        wanted_of = {name: getattr(splits.counts, name) for name in SPLITS}
        sizes = {name: (counts.negative, counts.positive) for name, counts in wanted_of.items()}
        for label, word in enumerate(("negatives", "positives")):
            wanted = sum(sizes[name][label] for name in SPLITS)
            if wanted > totals[label]:
                raise ValueError(f"splits.counts want {wanted} {word}, the data have {totals[label]}")
        return sizes
    if not isinstance(splits, FractionSplits):
        raise ValueError(f"the splits of {task.name} are given by {splits.by}")
    by_class = [_fractions_of(total, splits) for total in totals]
    sizes = {name: (by_class[0][name], by_class[1][name]) for name in SPLITS}
    for name, (negatives, positives) in sizes.items():
        if not negatives or not positives:
            raise ValueError(f"{name} would have {positives} positives and {negatives} negatives; both are needed")
    return sizes


def _fractions_of(total: int, splits: FractionSplits) -> dict[str, int]:
    held_out = {
        name: int(Fraction(repr(getattr(splits.fractions, name))) * total + Fraction(1, 2))
        for name in ("validation", "test")
    }
    return {"train": max(total - sum(held_out.values()), 0), **held_out}


def card_path(path: Path) -> Path:
    """Where the prepared card of the task file ``path`` lies."""
    return path.with_name(f"{path.stem}.card.json")


def prepared_card(path: Path, counts: Mapping[str, Sequence[int]], fingerprint: str) -> TaskCard:
    """The card of the task in ``path`` with what its data turned out to be.

    The revision, and with it every trial id, changes with the definition and with the data, not with their location.
    """
    draft = draft_card(path)
    definition = {key: value for key, value in draft.options["definition"].items() if key not in _WORDS + _PLACES}
    return replace(
        draft,
        counts={split: tuple(int(count) for count in counts[split]) for split in SPLITS},
        fingerprint=fingerprint,
        revision=content_id({"definition": definition, "fingerprint": fingerprint}),
    )


def write_card(
    path: Path,
    counts: Mapping[str, Sequence[int]],
    fingerprint: str,
    tables: Mapping[str, Mapping[str, Any]] | None = None,
) -> Path:
    """Write the prepared card of the task file ``path``, whole or not at all, and return where it lies.

    ``counts[split]`` = (negatives, positives); ``fingerprint`` identifies the data; ``tables`` is ``tables_now(path)``
    from before they were read, None for those that lie there now.
    """
    card = prepared_card(path, counts, fingerprint)
    target = card_path(path)
    text = json.dumps(
        {
            "definition": _definition_id(card),
            "counts": {split: list(card.counts[split]) for split in SPLITS},
            "fingerprint": fingerprint,
            "tables": tables_now(path) if tables is None else tables,
        },
        indent=2,
    )
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    temporary.write_text(text + "\n", encoding="utf-8")
    temporary.replace(target)
    return target


def load_own_card(path: Path) -> TaskCard:
    """The prepared card of the task file ``path``.

    Raises ``SpaceError`` when the file is wrong, was never prepared, or it or its tables were changed since; the
    message says which command to run. Tables that are gone may be: what was prepared from them is whole. Images are not
    looked at (``aucsweep data check`` does).
    """
    definition = _definition_id(draft_card(path))
    target = card_path(path)
    what, remedy = f"task file {path}", f"run: aucsweep data prepare {path}"
    if not target.is_file():
        raise SpaceError(what, [f"its data were never prepared; {remedy}"])
    try:
        prepared = _read_prepared(target)
    except (OSError, ValueError, RecursionError) as error:
        raise SpaceError(what, [f"{target} cannot be read: {error}; {remedy}"]) from error
    if prepared.definition != definition:
        raise SpaceError(what, [f"it was changed after its data were prepared; {remedy}"])
    changed = [
        f"{table} was changed after the data were prepared; {remedy}"
        for name, table in _tables(path).items()
        if name in prepared.tables and _differs(table, prepared.tables[name])
    ]
    if changed:
        raise SpaceError(what, changed)
    return prepared_card(path, prepared.counts.model_dump(), prepared.fingerprint)


def tables_now(path: Path) -> dict[str, dict[str, Any]]:
    """The tables of the task in ``path`` as they are: time of the last change (ns) and SHA-256 by name."""
    return {name: _table(table) for name, table in _tables(path).items() if table.is_file()}


def _tables(path: Path) -> dict[str, Path]:
    """The tables of the task in ``path``, by name as it gives them."""
    task, base = read_own_task(path), path.resolve().parent
    names = [task.splits.train, task.splits.validation, task.splits.test] if isinstance(task.splits, FileSplits) else []
    return {name: base / name for name in [*names, *([task.file] if task.file else [])]}


def _table(path: Path) -> dict[str, Any]:
    with path.open("rb") as opened:
        return {"modified": path.stat().st_mtime_ns, "sha256": hashlib.file_digest(opened, "sha256").hexdigest()}


def _differs(path: Path, prepared: _Table) -> bool:
    """Whether the contents are others; they are read only when the time of the last change is another."""
    try:
        return path.stat().st_mtime_ns != prepared.modified and _table(path)["sha256"] != prepared.sha256
    except OSError:  # gone, or not for this user to read
        return False


def _read_prepared(target: Path) -> _Prepared:
    """What ``write_card`` wrote; raises ``ValueError`` that names the key and what is expected there."""
    raw = json.loads(target.read_text(encoding="utf-8"))
    if not isinstance(raw, dict):
        raise ValueError("expected a JSON object with definition, counts and fingerprint")
    try:
        return _Prepared.model_validate(raw)
    except ValidationError as error:
        found = complaints(error, _Prepared, raw)
    raise ValueError("; ".join(f"{key}: {sentence}" for key, sentence in found))
