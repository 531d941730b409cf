"""Batch and warm-up arithmetic against the decimals worked out by hand and by the decimal module."""

import math
from decimal import ROUND_FLOOR, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces.batches import class_shares, updates_per_epoch, warmup_updates
from search_spaces.regimes import REGIMES
from search_spaces.tasks import TASKS


@pytest.mark.parametrize(
    ("batch", "fraction", "expected"),
    [
        (128, 0.25, (96, 32)),
        (64, 0.25, (48, 16)),
        (48, 0.25, (36, 12)),
        (32, 0.25, (24, 8)),
        (24, 0.25, (18, 6)),
        (10, 0.25, (7, 3)),  # 2.5 goes up
        (2, 0.5, (1, 1)),
    ],
)
def test_class_shares(batch, fraction, expected):
    assert class_shares(batch, fraction) == expected


@pytest.mark.parametrize(("batch", "fraction"), [(2, 0.1), (4, 0.9), (1, 0.5)])
def test_a_batch_of_one_class_is_refused(batch, fraction):
    with pytest.raises(ValueError, match="every batch needs both"):
        class_shares(batch, fraction)


@pytest.mark.parametrize(
    ("task", "regime", "expected"),
    [
        ("imagenet-lt-dogs", "cv-imagenet-lt", 69),  # three epochs = 207 updates in the paper's text
        ("aptos", "cv-resnet50", 22),  # three epochs = 66 updates
        ("apple-disease", "cv-densenet121", 3),  # T = 30
        ("mnist-8-low-shot", "quickstart-mnist", 47),
        ("drug-reviews", "drug-reviews", 33),
        ("solar-cell-defects", "solar-cell", 25),
    ],
)
def test_updates_per_epoch_of_known_settings(task, regime, expected):
    settings = REGIMES[regime].settings
    counts = TASKS[task].counts["train"]
    assert updates_per_epoch(counts, settings.batch_size, settings.positive_fraction) == expected


@given(st.tuples(st.integers(1, 5000), st.integers(1, 5000)), st.integers(4, 200))
def test_updates_per_epoch_see_the_slower_class_once(counts, batch):
    negatives, positives = class_shares(batch, 0.25)
    updates = updates_per_epoch(counts, batch, 0.25)
    assert updates == max(math.ceil(counts[0] / negatives), math.ceil(counts[1] / positives))


def test_only_two_classes():
    with pytest.raises(ValueError, match="counts of two classes, got 3"):
        updates_per_epoch((1, 2, 3), 8, 0.25)


@pytest.mark.parametrize(
    ("ratio", "total", "expected"),
    [
        (0, 30, 0),
        (0.01, 30, 0),
        (0.025, 30, 1),
        (0.05, 30, 2),
        (0.15, 30, 5),
        (0.15, 10, 2),
        (0.3, 1380, 414),
        (0.35, 10, 4),
    ],
)
def test_warmup_updates(ratio, total, expected):
    assert warmup_updates(ratio, total) == expected


@given(st.decimals(0, "0.999", places=3), st.integers(0, 100_000))
def test_warmup_updates_are_exact(ratio, total):
    exact = (ratio * total + Decimal("0.5")).to_integral_value(ROUND_FLOOR)
    assert warmup_updates(float(ratio), total) == exact


@pytest.mark.parametrize("ratio", [-0.1, 1.5, float("nan")])
def test_warmup_ratio_outside_is_refused(ratio):
    with pytest.raises(ValueError, match="between 0 and 1"):
        warmup_updates(ratio, 10)
