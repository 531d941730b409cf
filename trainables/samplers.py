"""Batches for any number of classes: the training split as it is (natural), or every class alike (balanced).

Like the stratified batches of ``trainables.sampling``, they are pure functions of (seed, update).

- natural: each epoch takes the split in a new random order and cuts it into U = ceil(n / B) batches whose sizes
  differ by one at most, so that no epoch ends in a tiny batch. Every example is seen once an epoch. A batch may lack
  classes.
- balanced: the slots of an epoch go to the classes in turn (slot s to class s mod C), so that every class has the same
  share of each batch, to within one example, and of the epoch. Each class is recycled in a new random order per pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from search_spaces.batches import class_shares
from search_spaces.errors import DataError, TrialError
from search_spaces.trial import TrialConfig
from trainables.sampling import Batch, make_sampler, ordered
from trainables.seeding import stream_seed

WHOLE = -1
"""In the place of a class in the ``order`` stream: all examples together."""


class Sampler(Protocol):
    """The batches of a run."""

    def micro_batches(self, update: int) -> tuple[Batch, ...]:
        """The micro-batches of the update made after ``update`` others (0-based)."""
        ...


@dataclass(frozen=True)
class NaturalSampler:
    """``labels`` (n,) or (n, L) of the training split, in ``updates_per_epoch`` batches an epoch."""

    labels: NDArray[np.int64]
    updates_per_epoch: int
    seed: int
    parts: int = 1

    def micro_batches(self, update: int) -> tuple[Batch, ...]:
        """The micro-batches of the update made after ``update`` others (0-based): ``parts`` even cuts of its batch."""
        epoch, step = divmod(update, self.updates_per_epoch)
        size = len(self.labels)
        first, last = (size * place // self.updates_per_epoch for place in (step, step + 1))
        return _cut(ordered(size, self.seed, WHOLE, epoch, 0)[first:last], self.labels, self.seed, update, self.parts)


@dataclass(frozen=True)
class BalancedSampler:
    """``members[c]`` holds the positions of class c's examples in the training split, ``labels`` (n,) all labels."""

    labels: NDArray[np.int64]
    members: tuple[NDArray[np.int64], ...]
    batch_size: int
    updates_per_epoch: int
    seed: int
    parts: int = 1

    def micro_batches(self, update: int) -> tuple[Batch, ...]:
        """The micro-batches of the update made after ``update`` others (0-based): ``parts`` even cuts of its batch."""
        epoch, step = divmod(update, self.updates_per_epoch)
        slots = np.arange(step * self.batch_size, (step + 1) * self.batch_size)
        rounds, classes = np.divmod(slots, len(self.members))
        indices = np.array(
            [self._example(int(label), epoch, int(place)) for label, place in zip(classes, rounds, strict=True)]
        )
        return _cut(indices, self.labels, self.seed, update, self.parts)

    def _example(self, label: int, epoch: int, place: int) -> int:
        """The example of class ``label`` at ``place`` of its stream in ``epoch``."""
        members = self.members[label]
        index, rank = divmod(place, len(members))
        return int(members[ordered(len(members), self.seed, label, epoch, index)[rank]])


def _cut(
    indices: NDArray[np.int64], labels: NDArray[np.int64], seed: int, update: int, parts: int
) -> tuple[Batch, ...]:
    draws = np.array([stream_seed("augment", seed, update, slot) for slot in range(len(indices))], dtype=np.int64)
    return tuple(
        Batch(some, labels[some], those)
        for some, those in zip(np.array_split(indices, parts), np.array_split(draws, parts), strict=True)
    )


def expected_shares(config: TrialConfig, labels: NDArray[np.int64], outputs: int) -> tuple[float, ...]:
    """The share of a batch that each class is expected to have, (outputs,); of the positives, (1,), for two classes.

    ``labels`` (n,) or (n, L) are those of the training split; with several labels it is that of each label's positives.
    """
    if config.sampling == "stratified":
        return (class_shares(config.batch_size, config.positive_fraction or 0.0)[1] / config.batch_size,)
    if config.sampling == "balanced":
        return (1 / outputs,) * outputs if outputs > 1 else (0.5,)
    if labels.ndim == 2:
        return tuple(labels.mean(0).tolist())
    counts = np.bincount(labels, minlength=max(outputs, 2)) / len(labels)
    return tuple(counts.tolist()) if outputs > 1 else (float(counts[1]),)


def sampler_of(config: TrialConfig, labels: NDArray[np.int64], outputs: int) -> Sampler:
    """The sampler ``config`` asks for, over training ``labels`` (n,) or (n, L) of a task with ``outputs`` logits.

    Raises ``DataError`` when a class it needs in every batch has no example, or when there are fewer examples than
    batches, and ``TrialError`` for an unknown ``sampling`` or an ``accumulation`` that leaves a part empty.
    """
    if config.sampling == "stratified":
        if config.positive_fraction is None:
            raise TrialError("stratified sampling needs a positive_fraction")
        return make_sampler(
            labels,
            batch_size=config.batch_size,
            positive_fraction=config.positive_fraction,
            updates_per_epoch=config.updates_per_epoch,
            seed=config.seed,
            accumulation=config.accumulation,
        )
    if config.accumulation > config.batch_size // 2:
        raise TrialError(f"accumulation {config.accumulation} leaves a part of {config.batch_size} without a pair")
    if config.sampling == "natural":
        if len(labels) < config.updates_per_epoch * config.accumulation:
            raise DataError(f"{len(labels)} training examples cannot fill {config.updates_per_epoch} batches an epoch")
        return NaturalSampler(labels, config.updates_per_epoch, config.seed, config.accumulation)
    if config.sampling == "balanced":
        classes = max(outputs, 2)
        members = tuple(np.flatnonzero(labels == label) for label in range(classes))
        empty = [label for label, examples in enumerate(members) if len(examples) == 0]
        if empty:
            raise DataError(f"balanced batches need every class, but the training split has no example of {empty[:5]}")
        return BalancedSampler(
            labels, members, config.batch_size, config.updates_per_epoch, config.seed, config.accumulation
        )
    raise TrialError(f"unknown sampling {config.sampling!r} (allowed: balanced, natural, stratified)")
