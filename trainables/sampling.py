"""Which examples make up each batch: full batches with a fixed number of each class, the same for every objective.

Within an epoch, the stream of a class is its examples in random order, then again in a new random order, and so on.
Batch k of the epoch takes the k-th run of B- negatives and the k-th run of B+ positives. The slower class (the one
that sets ``updates_per_epoch``) is thus seen at least once per epoch and the other is recycled, each pass
reshuffled; a class smaller than its share is recycled within one batch. Streams start afresh each epoch.

A batch is a pure function of (seed, update): there is no sampler state to save.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from search_spaces.batches import class_shares
from search_spaces.errors import DataError, TrialError
from trainables.seeding import permutation, stream_seed


@dataclass(frozen=True)
class Batch:
    """One micro-batch: ``indices`` (n,) into the training split, their ``labels`` (n,) and augmentation seeds (n,).

    Negatives come first, then positives. No model or loss of ours looks at the position in the batch, and a fixed
    order lets an example keep its augmentation and, without accumulation, its dropout mask in every arm.
    """

    indices: NDArray[np.int64]
    labels: NDArray[np.int64]
    draws: NDArray[np.int64]


@dataclass(frozen=True)
class BatchSampler:
    """The batches of a run. ``members[c]`` holds the positions of class c's examples in the training split.

    ``shares`` is (B-, B+). ``parts`` is the number of micro-batches an update is cut into (gradient accumulation);
    each holds both classes in proportion (rounded where a share is not a multiple of ``parts``), so that batch
    normalisation and the pairs of a micro-batch see the prescribed share of positives.
    """

    members: tuple[NDArray[np.int64], NDArray[np.int64]]
    shares: tuple[int, int]
    updates_per_epoch: int
    seed: int
    parts: int = 1

    def micro_batches(self, update: int) -> tuple[Batch, ...]:
        """The micro-batches of the update made after ``update`` others (0-based), ``parts`` of them."""
        epoch, step = divmod(update, self.updates_per_epoch)
        slots = [np.arange(step * share, (step + 1) * share) for share in self.shares]
        chosen = [self._stream(label, epoch, slots[label]) for label in (0, 1)]
        # A slot's augmentation is numbered in the undivided batch: the same example gets the same augmentation
        # whether or not the batch is cut into parts.
        draws = [stream_seed("augment", self.seed, update, slot) for slot in range(sum(self.shares))]
        seeds = np.split(np.array(draws, dtype=np.int64), [self.shares[0]])
        batches = []
        for part in range(self.parts):
            cut = [slice(part * share // self.parts, (part + 1) * share // self.parts) for share in self.shares]
            indices = [chosen[label][cut[label]] for label in (0, 1)]
            labels = np.repeat(np.array([0, 1], dtype=np.int64), [len(each) for each in indices])
            batches.append(Batch(np.concatenate(indices), labels, np.concatenate([seeds[c][cut[c]] for c in (0, 1)])))
        return tuple(batches)

    def _stream(self, label: int, epoch: int, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """The examples of class ``label`` at the given slots of its stream in ``epoch``."""
        size = len(self.members[label])
        passes, places = np.divmod(slots, size)
        ranks = np.empty(len(slots), dtype=np.int64)
        for index in np.unique(passes):
            here = passes == index
            ranks[here] = ordered(size, self.seed, label, epoch, int(index))[places[here]]
        return self.members[label][ranks]


@lru_cache(maxsize=128)
def ordered(size: int, seed: int, label: int, epoch: int, index: int) -> NDArray[np.int64]:
    """The order in which pass ``index`` of ``epoch`` visits a class's ``size`` examples: shared, not to be written."""
    return permutation(size, "order", seed, label, epoch, index)


def make_sampler(
    labels: NDArray[np.int64],
    *,
    batch_size: int,
    positive_fraction: float,
    updates_per_epoch: int,
    seed: int,
    accumulation: int = 1,
) -> BatchSampler:
    """The sampler for training ``labels`` (n,) in {0, 1}.

    Raises ``DataError`` when a batch would hold one class only, because the class is empty or its share is 0, and
    ``TrialError`` when ``accumulation`` leaves a part without one of the classes.
    """
    try:
        shares = class_shares(batch_size, positive_fraction)
    except ValueError as error:
        raise DataError(str(error)) from error
    members = (np.flatnonzero(labels == 0), np.flatnonzero(labels == 1))
    for name, share, examples in zip(("negative", "positive"), shares, members, strict=True):
        if len(examples) == 0:
            raise DataError(f"the training split has no {name} example: every batch would have one class only")
        if share < accumulation:
            raise TrialError(
                f"accumulation {accumulation} cuts the {share} {name} examples of a batch of {batch_size} into more "
                "parts than there are: every part must hold both classes"
            )
    return BatchSampler(members, shares, updates_per_epoch, seed, accumulation)
