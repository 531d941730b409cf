"""Batches: composition, coverage, recycling, and independence from everything but seed and update."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from search_spaces.errors import DataError, TrialError
from trainables.sampling import BatchSampler, make_sampler
from trainables.seeding import permutation, stream_seed


def mixed_labels(negatives: int, positives: int) -> NDArray[np.int64]:
    labels = np.array([0] * negatives + [1] * positives, dtype=np.int64)
    return labels[np.random.RandomState(0).permutation(len(labels))]


def sampler_of(
    negatives: int, positives: int, *, batch_size: int = 8, epochs_updates: int, seed: int = 123, accumulation: int = 1
) -> tuple[BatchSampler, NDArray[np.int64]]:
    labels = mixed_labels(negatives, positives)
    sampler = make_sampler(
        labels,
        batch_size=batch_size,
        positive_fraction=0.25,
        updates_per_epoch=epochs_updates,
        seed=seed,
        accumulation=accumulation,
    )
    return sampler, labels


def naive_stream(members: list[int], label: int, epoch: int, length: int, seed: int = 123) -> list[int]:
    """A class's stream by the book: whole permutations one after another, cut to ``length``."""
    stream: list[int] = []
    index = 0
    while len(stream) < length:
        stream += [members[place] for place in permutation(len(members), "order", seed, label, epoch, index)]
        index += 1
    return stream[:length]


@pytest.mark.parametrize(
    ("batch_size", "shares"),
    [(8, (6, 2)), (64, (48, 16)), (48, (36, 12)), (128, (96, 32)), (24, (18, 6)), (32, (24, 8))],
)
def test_every_batch_is_full_and_has_the_prescribed_classes(batch_size: int, shares: tuple[int, int]) -> None:
    sampler, labels = sampler_of(131, 29, batch_size=batch_size, epochs_updates=22)
    assert sampler.shares == shares
    for update in range(3 * 22):
        (batch,) = sampler.micro_batches(update)
        assert len(batch.indices) == len(batch.draws) == batch_size
        assert Counter(batch.labels.tolist()) == {0: shares[0], 1: shares[1]}
        assert np.array_equal(labels[batch.indices], batch.labels)
        assert batch.labels.tolist() == sorted(batch.labels.tolist())  # negatives, then positives


@pytest.mark.parametrize(("negatives", "positives", "updates"), [(60, 5, 10), (7, 30, 15), (25, 25, 13), (60, 1, 10)])
def test_batches_are_the_concatenated_permutations_of_each_class(negatives: int, positives: int, updates: int) -> None:
    sampler, labels = sampler_of(negatives, positives, epochs_updates=updates)
    for epoch in range(3):
        streams = [
            naive_stream(np.flatnonzero(labels == label).tolist(), label, epoch, updates * share)
            for label, share in ((0, 6), (1, 2))
        ]
        for step in range(updates):
            (batch,) = sampler.micro_batches(epoch * updates + step)
            expected = streams[0][step * 6 : step * 6 + 6] + streams[1][step * 2 : step * 2 + 2]
            assert batch.indices.tolist() == expected


def test_the_slower_class_is_seen_once_per_epoch_and_the_other_recycled_evenly() -> None:
    sampler, labels = sampler_of(60, 7, epochs_updates=10)  # 60 / 6 = 10 updates; 20 positive slots for 7 positives
    for epoch in range(3):
        seen = Counter(
            int(index) for step in range(10) for index in sampler.micro_batches(epoch * 10 + step)[0].indices
        )
        assert all(seen[index] == 1 for index in np.flatnonzero(labels == 0))
        # 20 = 2 whole passes and 6 of a third: six positives three times, one twice.
        assert sorted(seen[index] for index in np.flatnonzero(labels == 1)) == [2, 3, 3, 3, 3, 3, 3]


def test_a_slower_class_that_does_not_fill_its_last_batch_is_topped_up_from_a_new_pass() -> None:
    sampler, labels = sampler_of(57, 7, epochs_updates=10)
    seen = Counter(int(index) for step in range(10) for index in sampler.micro_batches(step)[0].indices)
    assert sorted(seen[index] for index in np.flatnonzero(labels == 0)) == [1] * 54 + [2] * 3


def test_a_class_smaller_than_its_share_is_recycled_inside_the_batch_reshuffled() -> None:
    sampler, labels = sampler_of(48, 3, batch_size=32, epochs_updates=2)  # 8 positive slots for 3 positives
    (batch,) = sampler.micro_batches(0)
    positives = batch.indices[batch.labels == 1].tolist()
    assert len(positives) == 8
    assert set(positives[:3]) == set(positives[3:6]) == set(np.flatnonzero(labels == 1).tolist())
    passes = {tuple(sampler.micro_batches(update)[0].indices[24:27].tolist()) for update in range(0, 40, 2)}
    assert len(passes) == 6  # every order of three comes up


def test_epochs_and_seeds_differ_in_order() -> None:
    sampler, _ = sampler_of(60, 20, epochs_updates=10)
    other, _ = sampler_of(60, 20, epochs_updates=10, seed=124)
    first = sampler.micro_batches(0)[0].indices.tolist()
    assert first != sampler.micro_batches(10)[0].indices.tolist()
    assert first != other.micro_batches(0)[0].indices.tolist()


def test_a_batch_depends_on_nothing_that_happened_before() -> None:
    sampler, _ = sampler_of(60, 20, epochs_updates=10)
    in_order = [sampler.micro_batches(update)[0] for update in range(25)]
    torch.manual_seed(99)
    np.random.seed(99)
    fresh, _ = sampler_of(60, 20, epochs_updates=10)
    for update in (24, 3, 17, 3, 0):
        (batch,) = fresh.micro_batches(update)
        assert np.array_equal(batch.indices, in_order[update].indices)
        assert np.array_equal(batch.draws, in_order[update].draws)


def test_augmentation_seeds_are_those_of_update_and_slot_and_never_repeat() -> None:
    sampler, _ = sampler_of(60, 20, epochs_updates=10)
    draws = [sampler.micro_batches(update)[0].draws.tolist() for update in range(30)]
    assert draws[13] == [stream_seed("augment", 123, 13, slot) for slot in range(8)]
    flat = [draw for batch in draws for draw in batch]
    assert len(set(flat)) == len(flat)


def test_accumulation_cuts_the_same_update_into_parts_of_equal_composition() -> None:
    whole, _ = sampler_of(60, 20, epochs_updates=10)
    halves, labels = sampler_of(60, 20, epochs_updates=10, accumulation=2)
    for update in range(20):
        (batch,) = whole.micro_batches(update)
        parts = halves.micro_batches(update)
        assert [part.labels.tolist() for part in parts] == [[0, 0, 0, 1]] * 2
        assert all(np.array_equal(labels[part.indices], part.labels) for part in parts)
        drawn = sorted(zip(batch.indices.tolist(), batch.draws.tolist(), strict=True))
        again = [pair for part in parts for pair in zip(part.indices.tolist(), part.draws.tolist(), strict=True)]
        assert sorted(again) == drawn


def test_parts_are_as_even_as_the_shares_allow() -> None:
    sampler, _ = sampler_of(60, 20, batch_size=24, epochs_updates=10, accumulation=4)  # 18 and 6 in four parts
    compositions = [Counter(part.labels.tolist()) for part in sampler.micro_batches(3)]
    assert [(count[0], count[1]) for count in compositions] == [(4, 1), (5, 2), (4, 1), (5, 2)]


def test_accumulation_that_leaves_a_part_without_a_class_is_refused() -> None:
    with pytest.raises(TrialError, match=r"accumulation 3 cuts the 2 positive examples"):
        sampler_of(60, 20, epochs_updates=10, accumulation=3)


@pytest.mark.parametrize(("negatives", "positives", "word"), [(0, 5, "negative"), (5, 0, "positive")])
def test_training_data_of_one_class_are_refused(negatives: int, positives: int, word: str) -> None:
    with pytest.raises(DataError, match=f"no {word} example.*one class"):
        sampler_of(negatives, positives, epochs_updates=1)


def test_a_share_of_zero_is_refused() -> None:
    with pytest.raises(DataError, match=r"batch of 2.*0 positives"):
        make_sampler(mixed_labels(5, 5), batch_size=2, positive_fraction=0.1, updates_per_epoch=3, seed=1)
