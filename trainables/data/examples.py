"""One example as a source describes it, and the pool of all examples of a task in canonical order."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from search_spaces.errors import DataError

Content: TypeAlias = Path | str | tuple[str, str] | NDArray[np.uint8]
"""An image file, a text, a text pair, or a decoded image (height, width, channels)."""


@dataclass(frozen=True)
class Example:
    """One example as its source describes it, before anything is decoded.

    ``id`` is the same on every machine (never an absolute path). ``part`` is the source's own split, or empty.
    ``group`` names what must not be spread over two splits (a lesion, a patient), or is empty. ``where`` says where
    the row came from ("labels.csv row 12"), for messages. ``weight`` is the confidence in the label, above 0, or None
    in a task without weights.
    """

    id: str
    label: int | tuple[int, ...]
    content: Content
    part: str = ""
    group: str = ""
    where: str = ""
    weight: float | None = None


def digest(content: Content) -> str:
    """SHA-256 of what a source holds: a file's bytes, a text, a decoded image's shape and pixels."""
    if isinstance(content, Path):
        return hashlib.sha256(content.read_bytes()).hexdigest()
    if isinstance(content, np.ndarray):
        header = f"{content.dtype}{content.shape}".encode()
        return hashlib.sha256(header + np.ascontiguousarray(content).tobytes()).hexdigest()
    return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()


def in_order(examples: Iterable[Example]) -> list[Example]:
    """``examples`` sorted by id, so that nothing depends on the order of files or rows.

    Raises ``DataError`` when two examples have one id.
    """
    ordered = sorted(examples, key=lambda example: example.id)
    for before, after in pairwise(ordered):
        if before.id == after.id:
            places = " and ".join(place for place in (before.where, after.where) if place)
            raise DataError(f"duplicate id {after.id!r}" + (f" ({places})" if places else ""))
    return ordered


def numbered(examples: list[Example]) -> list[Example]:
    """Examples whose ids are hashes of their content, with repeats told apart: numbered in the order of part, label
    and weight, so that the order of rows means nothing.
    """
    repeated = {name for name, count in Counter(example.id for example in examples).items() if count > 1}
    distinct = [example for example in examples if example.id not in repeated]
    seen: Counter[str] = Counter()
    equal = (example for example in examples if example.id in repeated)
    for example in sorted(equal, key=lambda e: (e.id, e.part, e.label, e.weight or 0.0)):
        seen[example.id] += 1
        distinct.append(replace(example, id=f"{example.id}#{seen[example.id]}"))
    return distinct


@dataclass(frozen=True)
class Index:
    """The columns of a pool that splits and fingerprints need, in order of ids. n examples.

    ``labels`` is int64 (n,), or (n, labels) for a multilabel task. ``digests`` are content hashes.
    ``weights`` is float64 (n,), or None for a task without weights.
    """

    ids: tuple[str, ...]
    labels: NDArray[np.int64]
    parts: tuple[str, ...]
    groups: tuple[str, ...]
    digests: tuple[str, ...]
    weights: NDArray[np.float64] | None = None

    def fingerprint(self) -> str:
        """SHA-256 over ids, labels, parts, groups, content and weights, the same on every machine and row order."""
        total = hashlib.sha256()
        columns = [self.ids, self.labels.tolist(), self.parts, self.groups, self.digests]
        if self.weights is not None:  # a task without weights keeps the fingerprint it had before there were any
            columns.append(self.weights.tolist())
        for row in zip(*columns, strict=True):
            total.update(json.dumps(row, ensure_ascii=False).encode() + b"\n")
        return total.hexdigest()


def index_of(examples: list[Example], digests: Iterable[str]) -> Index:
    """The index of ``examples``, which must be in order and have a weight each, or none of them."""
    weights = [example.weight for example in examples if example.weight is not None]
    if len(weights) not in (0, len(examples)):
        raise ValueError(f"{len(weights)} of {len(examples)} examples have a weight; all must, or none")
    return Index(
        ids=tuple(example.id for example in examples),
        labels=np.array([example.label for example in examples], dtype=np.int64),
        parts=tuple(example.part for example in examples),
        groups=tuple(example.group for example in examples),
        digests=tuple(digests),
        weights=np.array(weights, dtype=np.float64) if weights else None,
    )
