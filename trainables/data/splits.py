"""Which examples go to which split: a draw of exactly the card's counts per class, a function of the seed alone.

A draw orders examples by the SHA-256 of (seed, id) and takes them from the front, so it depends neither on the order
of rows nor on any library's random generator, and adding an example moves no other one.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from search_spaces.cards import SPLITS
from search_spaces.errors import DataError
from trainables.data.examples import Index
from trainables.seeding import stream_seed

DRAW_ORDER = ("test", "validation", "train")
"""Test first: when the draw leaves examples over, they are kept from training, never from testing."""


@dataclass(frozen=True)
class DrawRule:
    """How a task's splits are drawn.

    ``parts`` maps a split to the source's own part it is drawn from; absent means from every example. ``leftover``
    allows examples that end up in no split; when it is False, they mean the data are not those of the card.
    ``grouped`` keeps the examples of a group in one split.
    """

    parts: Mapping[str, str] = field(default_factory=dict)
    leftover: bool = False
    grouped: bool = False


def draw_splits(
    index: Index, counts: Mapping[str, Sequence[int]], seed: int, rule: DrawRule
) -> dict[str, NDArray[np.int64]]:
    """Rows of ``index`` for each split, ascending, with exactly ``counts[split][label]`` examples of each class.

    Raises ``DataError`` when a class has too few examples, or too many and the rule refuses leftovers.
    """
    order = shuffled(index.ids, seed)
    free = np.ones(len(index.ids), dtype=bool)
    chosen: dict[str, NDArray[np.int64]] = {}
    for split in DRAW_ORDER:
        part = rule.parts.get(split)
        open_rows = [row for row in order if free[row] and (part is None or index.parts[row] == part)]
        wanted = list(counts[split])
        if rule.grouped:
            rows, used = _take_groups(index, open_rows, wanted, seed, truncate=rule.leftover)
        else:
            rows = _take(index.labels, open_rows, wanted)
            used = rows
        _check_drawn(index, rows, wanted, split, open_rows)
        chosen[split] = np.array(sorted(rows), dtype=np.int64)
        free[used] = False
    if not rule.leftover and free.any():
        left = np.bincount(index.labels[free], minlength=len(counts["train"])).tolist()
        raise DataError(f"{int(free.sum())} examples more than the task card counts; left over per class: {left}")
    return {split: chosen[split] for split in SPLITS}


def stratified_counts(
    available: Sequence[int], percent: tuple[int, int, int] = (70, 15, 15)
) -> dict[str, tuple[int, ...]]:
    """Counts of a stratified split: each class apart, train and validation rounded half up, test the rest.

    This is the rule that gives the published counts of Dog Breeds, APTOS and HAM10000 from 70/15/15.

    >>> stratified_counts((999, 488))
    {'train': (699, 342), 'validation': (150, 73), 'test': (150, 73)}
    """
    if sum(percent) != 100 or min(percent) < 0:
        raise ValueError(f"percentages must be non-negative and sum to 100, got {percent}")
    # Integers only: 0.15 * 370 = 55.5 must round up on every machine.
    train = tuple((2 * percent[0] * have + 100) // 200 for have in available)
    validation = tuple((2 * percent[1] * have + 100) // 200 for have in available)
    test = tuple(have - a - b for have, a, b in zip(available, train, validation, strict=True))
    return {"train": train, "validation": validation, "test": test}


def shuffled(names: Sequence[str], seed: int) -> list[int]:
    """Positions of ``names`` in the order of the hash of (seed, name)."""
    prefix = f"{stream_seed('split', seed)}:".encode()
    keys = [hashlib.sha256(prefix + name.encode()).digest() for name in names]
    return sorted(range(len(names)), key=keys.__getitem__)


def _take(labels: NDArray[np.int64], rows: Sequence[int], wanted: Sequence[int]) -> list[int]:
    left = list(wanted)
    taken = []
    for row in rows:
        label = int(labels[row])
        if label < len(left) and left[label] > 0:
            left[label] -= 1
            taken.append(row)
    return taken


def _take_groups(
    index: Index, rows: Sequence[int], wanted: Sequence[int], seed: int, *, truncate: bool
) -> tuple[list[int], list[int]]:
    """Rows taken group by group, and all rows of the groups touched (none of which another split may use).

    Without ``truncate`` a group is taken whole or not at all: one that does not fit what is still wanted is skipped,
    so that with enough small groups the counts are met exactly and no example is lost.
    """
    members: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        members[index.groups[row]].append(row)
    names = sorted(members)
    left = np.array(wanted, dtype=np.int64)
    taken: list[int] = []
    used: list[int] = []
    for position in shuffled(names, seed):
        if not left.any():
            break
        group = members[names[position]]
        if truncate:
            kept = _take(index.labels, group, left.tolist())
            if not kept:
                continue
        else:
            kept = group
            if (np.bincount(index.labels[group], minlength=len(left)) > left).any():
                continue
        left -= np.bincount(index.labels[kept], minlength=len(left))
        taken.extend(kept)
        used.extend(group)
    return taken, used


def _check_drawn(
    index: Index, rows: Sequence[int], wanted: Sequence[int], split: str, open_rows: Sequence[int]
) -> None:
    got = np.bincount(index.labels[rows] if rows else np.zeros(0, dtype=np.int64), minlength=len(wanted))
    for label, want in enumerate(wanted):
        if got[label] != want:
            there = int((index.labels[list(open_rows)] == label).sum()) if open_rows else 0
            raise DataError(
                f"{split} needs {want} examples of class {label}, got {got[label]} of the {there} still free there"
            )
