"""Numbered pieces of work, fetched ahead by worker processes or made in process: the same values either way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

import torch
from torch.utils.data import DataLoader, Dataset

T = TypeVar("T")


def prefetch(make: Callable[[int], T], numbers: Sequence[int], workers: int) -> Iterator[T]:
    """``make(number)`` for each of ``numbers``, in order. ``make`` must be a pure function of the number.

    With ``workers`` > 0, that many forked processes work ahead (``make`` need not be picklable, its results must be)
    and an error of ``make`` is raised here with its own class. No random state of the process is touched.
    """
    if workers == 0:
        yield from map(make, numbers)
        return
    yield from DataLoader(
        _Numbered(make),
        sampler=numbers,
        batch_size=None,
        collate_fn=_unchanged,
        num_workers=workers,
        multiprocessing_context="fork",
        generator=torch.Generator(),
    )


def _unchanged(value: T) -> T:
    return value


class _Numbered(Dataset[T], Generic[T]):
    def __init__(self, make: Callable[[int], T]):
        self._make = make

    def __getitem__(self, number: int) -> T:
        return self._make(number)
