"""What the training loop sees of a task: three splits that give labels and, on request, raw examples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from search_spaces.cards import TaskCard

Raw: TypeAlias = list[str] | list[tuple[str, str]] | torch.Tensor
"""Examples before a model's own preparation: texts, text pairs, or images uint8 (n, channels, height, width)."""

Progress: TypeAlias = Callable[[int, int], None]
"""Called with (done, total) while data are prepared."""


class Split(Protocol):
    """One of the three parts of a task."""

    @property
    def labels(self) -> NDArray[np.int64]:
        """int64 (n,), or (n, labels) of zeros and ones for a multilabel task."""
        ...

    @property
    def weights(self) -> NDArray[np.float64] | None:
        """float64 (n,) above 0, in the order of ``labels``; None for a task without weights (``TaskCard.weighted``)."""
        ...

    def fetch(self, indices: NDArray[np.int64], draws: NDArray[np.int64] | None = None) -> Raw:
        """The examples at ``indices`` (m,), a pure function of both arguments.

        ``draws`` (m,) seeds the augmentation of each example; None means the evaluation view.
        """
        ...


@dataclass(frozen=True)
class TaskData:
    """A task's data for one seed. ``fingerprint`` identifies the whole pool, so it is the same for every seed."""

    card: TaskCard
    train: Split
    validation: Split
    test: Split
    fingerprint: str


@dataclass(frozen=True)
class Check:
    """The outcome of ``check_task``: whether a trial could run on these data, and why, one line a finding.

    ``fingerprint`` is None when the data could not be read far enough to have one. ``preparable`` says that nothing is
    wrong and only ``prepare_task`` is missing.
    """

    ok: bool
    lines: tuple[str, ...]
    fingerprint: str | None = None
    preparable: bool = False


@dataclass(frozen=True)
class Prepared:
    """The outcome of ``prepare_task``: what identifies the data, the counts per split and class, and the folder.

    ``path`` is None for a task that is read straight from an installed package. ``notes`` counts what was converted.
    """

    fingerprint: str
    counts: dict[str, tuple[int, ...]]
    path: Path | None
    notes: tuple[str, ...] = ()
