"""Natural and balanced batches against what they promise, counted by hand."""

import dataclasses

import numpy as np
import pytest

from search_spaces.batches import balanced_updates, natural_updates
from search_spaces.errors import DataError, TrialError
from trainables.samplers import expected_shares, sampler_of

LABELS = np.array([0] * 23 + [1] * 9 + [2] * 4 + [3])[np.random.RandomState(0).permutation(37)]


def sampler(config_of, labels=LABELS, outputs=4, **changes):
    return sampler_of(config_of(positive_fraction=None, **changes), labels, outputs)


def flat(batches):
    return np.concatenate([batch.indices for batch in batches])


@pytest.mark.parametrize(("batch", "updates"), [(8, 5), (36, 2), (37, 1), (100, 1), (10, 4)])
def test_natural_epoch_is_one_pass_in_even_batches(config_of, batch, updates):
    assert natural_updates(37, batch) == updates
    found = sampler(config_of, sampling="natural", batch_size=batch, updates_per_epoch=updates)
    epochs = []
    for epoch in range(3):
        batches = [found.micro_batches(epoch * updates + step) for step in range(updates)]
        sizes = [len(flat(parts)) for parts in batches]
        assert max(sizes) <= batch
        assert max(sizes) - min(sizes) <= 1
        order = np.concatenate([flat(parts) for parts in batches])
        assert sorted(order.tolist()) == list(range(37))
        epochs.append(order.tolist())
        for (part,) in batches:
            assert part.labels.tolist() == LABELS[part.indices].tolist()
    assert len({tuple(order) for order in epochs}) == 3


def test_batches_are_functions_of_seed_and_update_alone(config_of):
    for sampling in ("natural", "balanced"):
        one, two = (sampler(config_of, sampling=sampling, batch_size=8, updates_per_epoch=5, seed=4) for _ in range(2))
        forward = [one.micro_batches(update) for update in range(12)]
        backward = [two.micro_batches(update) for update in reversed(range(12))][::-1]
        for (a,), (b,) in zip(forward, backward, strict=True):
            assert a.indices.tolist() == b.indices.tolist()
            assert a.draws.tolist() == b.draws.tolist()
        other = sampler(config_of, sampling=sampling, batch_size=8, updates_per_epoch=5, seed=5)
        assert flat(other.micro_batches(0)).tolist() != flat(one.micro_batches(0)).tolist()


@pytest.mark.parametrize("batch", [8, 10, 3])
def test_balanced_batches_share_alike(config_of, batch):
    updates = 6
    found = sampler(config_of, sampling="balanced", batch_size=batch, updates_per_epoch=updates)
    total = np.zeros(4, dtype=int)
    visits = [[] for _ in range(4)]
    for update in range(updates):
        (part,) = found.micro_batches(update)
        counts = np.bincount(part.labels, minlength=4)
        assert counts.sum() == batch
        assert counts.max() - counts.min() <= 1
        assert part.labels.tolist() == LABELS[part.indices].tolist()
        total += counts
        for index, label in zip(part.indices, part.labels, strict=True):
            visits[label].append(int(index))
    assert total.max() - total.min() <= 1
    for label, size in ((1, 9), (2, 4), (3, 1)):  # each pass holds every example once
        for start in range(0, len(visits[label]) - size + 1, size):
            assert len(set(visits[label][start : start + size])) == size


def test_one_pass_of_the_largest_class(config_of):
    updates = balanced_updates((23, 9, 4, 1), 8)
    assert updates == 12
    found = sampler(config_of, sampling="balanced", batch_size=8, updates_per_epoch=updates)
    seen = np.concatenate([flat(found.micro_batches(update)) for update in range(updates)])
    assert set(seen.tolist()) == set(range(37))


@pytest.mark.parametrize(
    ("labels", "outputs", "expected"),
    [
        (LABELS, 4, [23 / 37, 9 / 37, 4 / 37, 1 / 37]),
        ((LABELS == 1).astype(np.int64), 1, [9 / 37]),
        (np.stack((LABELS == 0, LABELS > 1), 1).astype(np.int64), 2, [23 / 37, 5 / 37]),
    ],
)
def test_expected_shares_of_natural_batches_are_those_of_the_split(config_of, labels, outputs, expected):
    config = config_of(positive_fraction=None, sampling="natural")
    assert expected_shares(config, labels, outputs) == pytest.approx(expected)


def test_expected_shares_of_balanced_and_stratified_batches_are_those_of_the_batch(config_of):
    for labels, outputs in ((LABELS, 4), ((LABELS == 0).astype(np.int64), 1)):
        found = sampler(config_of, labels, outputs, sampling="balanced", batch_size=24, updates_per_epoch=2)
        (part,) = found.micro_batches(0)
        counts = np.bincount(part.labels, minlength=max(outputs, 2)) / 24
        wanted = counts if outputs > 1 else counts[1:]
        config = config_of(positive_fraction=None, sampling="balanced")
        assert expected_shares(config, labels, outputs) == pytest.approx(wanted.tolist())
    config = config_of(batch_size=24, positive_fraction=0.2)  # floor(4.8 + 1/2) = 5 positives
    assert expected_shares(config, (LABELS == 0).astype(np.int64), 1) == (5 / 24,)


def test_parts_cut_a_batch_without_changing_it(config_of):
    for sampling in ("natural", "balanced"):
        common = {"sampling": sampling, "batch_size": 10, "updates_per_epoch": 4}
        whole = sampler(config_of, **common).micro_batches(2)[0]
        parts = sampler(config_of, **common, accumulation=3).micro_batches(2)
        assert len(parts) == 3
        assert flat(parts).tolist() == whole.indices.tolist()
        assert np.concatenate([part.draws for part in parts]).tolist() == whole.draws.tolist()


def test_multilabel_rows_go_with_their_examples(config_of):
    labels = np.random.RandomState(1).randint(0, 2, (20, 3))
    found = sampler(config_of, labels, 3, sampling="natural", batch_size=7, updates_per_epoch=3)
    (part,) = found.micro_batches(1)
    assert part.labels.tolist() == labels[part.indices].tolist()


def test_what_cannot_be_drawn_is_refused(config_of):
    with pytest.raises(DataError, match=r"no example of \[4\]"):
        sampler(config_of, outputs=5, sampling="balanced", batch_size=10, updates_per_epoch=4)
    with pytest.raises(DataError, match="37 training examples cannot fill 40 batches"):
        sampler(config_of, sampling="natural", batch_size=2, updates_per_epoch=40)
    with pytest.raises(TrialError, match="accumulation 6"):
        sampler(config_of, sampling="natural", batch_size=10, updates_per_epoch=4, accumulation=6)
    with pytest.raises(TrialError, match="unknown sampling 'random'"):
        sampler(config_of, sampling="random", batch_size=10, updates_per_epoch=4)
    with pytest.raises(TrialError, match="needs a positive_fraction"):
        sampler(config_of, sampling="stratified", batch_size=10, updates_per_epoch=4)


def test_ids_of_first_trials_do_not_know_the_new_fields(config_of):
    first = config_of()
    assert {"sampling", "selection"} & set(first.as_dict()) == set()
    natural = dataclasses.replace(first, sampling="natural", positive_fraction=None)
    last = dataclasses.replace(first, selection="last")
    assert len({first.trial_id, natural.trial_id, last.trial_id}) == 3
    assert len({first.prefix_id, natural.prefix_id, last.prefix_id}) == 3
    for config in (first, natural, last):
        assert type(first).from_dict(config.as_dict()) == config
