"""``load_task``, ``check_task`` and ``prepare_task``: what the rest of the program calls."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from search_spaces.cards import SPLITS, TaskCard
from search_spaces.errors import AucsweepError, DataError, SpaceError
from search_spaces.identity import canonical_json
from search_spaces.own_task import card_path, load_own_card, tables_now, write_card
from search_spaces.prepared import MANIFEST, prepared_folder
from trainables.data import own
from trainables.data.augment import AUGMENTATIONS
from trainables.data.content import ImageSplit, TextSplit
from trainables.data.download import download as fetch_source
from trainables.data.download import recorded_revision, source_name
from trainables.data.examples import Example
from trainables.data.loader import Loader, image_size, loader_of
from trainables.data.packages import package_file
from trainables.data.prepare import (
    fingerprint_of,
    listed,
    placed,
    pool_in_memory,
    read_through,
    recipe_of,
    rows_of,
    write_pool,
)
from trainables.data.store import Pool, lock_of, read_manifest, read_pool
from trainables.data.types import Check, Prepared, Progress, Split, TaskData

_Value = TypeVar("_Value")
_POOLS: OrderedDict[str, Pool] = OrderedDict()
_TASKS: OrderedDict[str, TaskData] = OrderedDict()
KEPT_POOLS, KEPT_TASKS = 4, 16
"""How many pools (all examples of a task) and splits of them a process keeps, the least recently used leaving first."""


def load_task(card: TaskCard, *, seed: int, data_root: Path, augmentation: str = "none") -> TaskData:
    """The task's three splits for ``seed``. Pools are read once per process, whatever the seed.

    Raises ``DataError`` when the data are missing or not those of the card, ``ValueError`` for an unknown augmentation.
    """
    if augmentation not in AUGMENTATIONS:
        raise ValueError(f"unknown augmentation {augmentation!r} (allowed: {', '.join(AUGMENTATIONS)})")
    loader = loader_of(card)
    pool_key = _pool_key(card, data_root)
    counts = {split: list(card.counts[split]) for split in SPLITS}
    key = canonical_json([pool_key, seed if card.seeded else None, augmentation, counts, card.fingerprint])
    data = _kept(_TASKS, key)
    if data is None:
        pool = _kept(_POOLS, pool_key)
        if pool is None:
            pool = _keep(_POOLS, pool_key, _read(card, loader, data_root), KEPT_POOLS)
        data = _keep(_TASKS, key, _split(card, loader, pool, seed, augmentation), KEPT_TASKS)
    return data


def prepare_task(
    task: TaskCard | Path, data_root: Path, progress: Progress | None = None, *, download: bool = False
) -> Prepared:
    """Read the task's sources once and write what trials read. Doing it again changes nothing.

    ``task`` is a card, or the YAML file of a user's own task, whose card is written beside it. With
    ``download`` a source that is missing is fetched first, by the library that owns it.

    A packaged text or small image task needs no files: its data are checked and its fingerprint is given.
    Raises ``DataError`` naming every file or row that cannot be used.
    """
    if isinstance(task, Path):
        return _prepare_own(task, data_root, progress)
    card, loader = task, loader_of(task)
    counts = {split: tuple(card.counts[split]) for split in SPLITS}
    if loader.packaged and loader.storage != "resized":
        pool = pool_in_memory(card, loader, listed(card, loader, data_root))
        return Prepared(pool.fingerprint, counts, None, pool.notes)
    final = prepared_folder(card, data_root)
    with lock_of(final):
        manifest = _usable(card, final)
        if download and manifest is None:
            fetch_source(card, data_root)
        try:
            examples = listed(card, loader, data_root)
        except DataError:
            if manifest is None:
                raise
            # The sources may have been deleted to save space; what was prepared from them is still whole.
            return Prepared(manifest["fingerprint"], counts, final, tuple(manifest["notes"]))
        if manifest is None or manifest["fingerprint"] != fingerprint_of(examples):
            manifest = write_pool(card, loader, examples, final, progress, recorded_revision(card, data_root))
    return Prepared(manifest["fingerprint"], counts, final, tuple(manifest["notes"]))


def check_task(task: TaskCard | Path, data_root: Path) -> Check:
    """Whether trials of this task can run here: sources or prepared data present, readable, with the card's counts."""
    return _check_own(task, data_root) if isinstance(task, Path) else _check(task, data_root)


def task_state(card: TaskCard, data_root: Path) -> str:
    """In one word, without decoding anything: ``prepared``, ``packaged`` (in an installed package), ``sources`` (there,
    not prepared), ``downloadable`` (``prepare_task(..., download=True)`` brings them) or ``missing``.
    """
    if _usable(card, prepared_folder(card, data_root)) is not None:
        return "prepared"
    loader = loader_of(card)
    try:
        if loader.packaged:
            for package in card.packages:
                package_file(package, "")
            return "packaged"
        loader.collect(card, data_root)
    except DataError:
        return "downloadable" if not loader.packaged and source_name(card) else "missing"
    return "sources"


def _check(card: TaskCard, data_root: Path) -> Check:
    lines = [f"{card.title}: {card.construction}", f"licence: {card.licence}", f"source: {card.source}"]
    try:
        loader = loader_of(card)
        final = prepared_folder(card, data_root)
        manifest = _usable(card, final)
        if manifest is not None:
            pool = read_pool(final, manifest)
            lines.append(f"prepared: {final}")
        elif loader.packaged:
            pool = pool_in_memory(card, loader, listed(card, loader, data_root))
            lines.append("read from the installed package")
        else:
            listed(card, loader, data_root)
            lines.append("the sources are here, with the card's counts, but the task is not prepared")
            lines.append(f"run: aucsweep data prepare {card.name} --data-root {data_root}")
            return Check(False, tuple(lines), preparable=True)
        rows = rows_of(card, loader, pool, 0)
        for split in SPLITS:
            lines.append(f"{split}: {len(rows[split])} examples, per class {list(card.counts[split])}")
        lines.extend(pool.notes)
        lines.append(f"fingerprint: {pool.fingerprint}")
        _check_fingerprint(card, pool.fingerprint)
    except AucsweepError as error:
        lines.extend(str(error).splitlines())
        if card.get:
            lines.append(f"get it: {card.get}")
        return Check(False, tuple(lines))
    return Check(True, tuple(lines), pool.fingerprint)


def _prepare_own(path: Path, data_root: Path, progress: Progress | None) -> Prepared:
    tables = tables_now(path)
    examples, card, loader = _own(path)
    card = own.final_card(path, card, fingerprint_of(examples))
    final = prepared_folder(card, data_root)
    with lock_of(final):
        manifest = _usable(card, final) or write_pool(card, loader, examples, final, progress)
    if manifest["fingerprint"] != card.fingerprint:
        raise DataError(f"{path}: its files changed while they were read; prepare it again")
    write_card(path, card.counts, manifest["fingerprint"], tables)
    counts = {split: tuple(card.counts[split]) for split in SPLITS}
    return Prepared(manifest["fingerprint"], counts, final, tuple(manifest["notes"]))


def _check_own(path: Path, data_root: Path) -> Check:
    """The prepared data of the user's task, and whether its files are still those that were prepared."""
    remedy = f"run: aucsweep data prepare {path} --data-root {data_root}"
    lines = []
    try:
        examples, card, loader = _own(path)
        pool = read_through(card, loader, examples, None)
        lines += [f"{card.title}: {card.construction}", *pool.notes]
        lines += [
            f"{split}: {sum(card.counts[split])} examples, per class {list(card.counts[split])}" for split in SPLITS
        ]
        if (weights := pool.index.weights) is not None:
            column = card.options["definition"]["weight"]
            lines.append(f"weights: column {column}, {weights.min():g} to {weights.max():g}")
        lines.append(f"fingerprint: {pool.fingerprint}")
        if not card_path(path).is_file():
            return Check(False, (*lines, f"the data can be used, but were never prepared; {remedy}"), preparable=True)
        try:
            prepared = load_own_card(path)
        except SpaceError as error:
            return Check(False, (*lines, *error.problems))
        if prepared.fingerprint != pool.fingerprint:
            return Check(False, (*lines, f"the files changed after the task was prepared; {remedy}"))
        final = prepared_folder(prepared, data_root)
        manifest = _usable(prepared, final)
        if manifest is None:
            unprepared = f"the data can be used, but are not prepared under {data_root}; {remedy}"
            return Check(False, (*lines, unprepared), preparable=True)
        read_pool(final, manifest)
    except (DataError, SpaceError) as error:
        return Check(False, (*lines, *str(error).splitlines()))
    return Check(True, (*lines, f"prepared: {final}"), pool.fingerprint)


def _own(path: Path) -> tuple[list[Example], TaskCard, Loader]:
    collected = own.own_examples(path)
    card = own.counted_card(path, collected)
    loader = loader_of(card)
    return placed(card, loader, collected), card, loader


def _read(card: TaskCard, loader: Loader, data_root: Path) -> Pool:
    final = prepared_folder(card, data_root)
    manifest = _usable(card, final)
    if manifest is not None:
        pool = read_pool(final, manifest)
    elif loader.packaged:
        pool = pool_in_memory(card, loader, listed(card, loader, data_root))
    else:
        raise DataError(
            f"task {card.name} is not prepared under {data_root}. "
            f"Run: aucsweep data prepare {card.name} --data-root {data_root}"
        )
    _check_fingerprint(card, pool.fingerprint)
    return pool


def _usable(card: TaskCard, final: Path) -> dict[str, Any] | None:
    manifest = read_manifest(final)
    return manifest if manifest is not None and manifest["recipe"] == recipe_of(card) else None


def _check_fingerprint(card: TaskCard, fingerprint: str) -> None:
    if card.fingerprint is not None and card.fingerprint != fingerprint:
        raise DataError(
            f"task {card.name}: the data have fingerprint {fingerprint[:12]}, its card says {card.fingerprint[:12]}; "
            "prepare the task again to accept the new data as a new task"
        )


def _split(card: TaskCard, loader: Loader, pool: Pool, seed: int, augmentation: str) -> TaskData:
    rows = rows_of(card, loader, pool, seed)

    def split_of(name: str) -> Split:
        chosen: NDArray[np.int64] = rows[name]
        index, size = pool.index, image_size(card, loader)
        labels, weights = index.labels[chosen], None if index.weights is None else index.weights[chosen]
        if pool.images is not None:
            return ImageSplit(labels, chosen, pool.images, size, augmentation, pool.views, weights)
        assert pool.texts is not None
        return TextSplit(labels, chosen, pool.texts, weights)

    return TaskData(card, split_of("train"), split_of("validation"), split_of("test"), pool.fingerprint)


def _pool_key(card: TaskCard, data_root: Path) -> str:
    manifest = prepared_folder(card, data_root) / MANIFEST
    written = manifest.stat().st_mtime_ns if manifest.exists() else 0
    return canonical_json([recipe_of(card), card.name, str(data_root), written])


def _kept(cache: OrderedDict[str, _Value], key: str) -> _Value | None:
    if key in cache:
        cache.move_to_end(key)
        return cache[key]
    return None


def _keep(cache: OrderedDict[str, _Value], key: str, value: _Value, most: int) -> _Value:
    cache[key] = value
    while len(cache) > most:
        cache.popitem(last=False)
    return value
