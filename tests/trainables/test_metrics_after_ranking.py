"""DeLong against its definition and a bootstrap, calibration against first-order conditions, thresholds by search."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import f1_score

from trainables.metrics import (
    MetricError,
    NonFiniteScoresError,
    binary_auc,
    choose_threshold,
    delong_interval,
    delong_test,
    fit_calibrator,
    reliability,
)


def sample(seed: int = 0, n: int = 120) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    labels = (np.arange(n) % 3 == 0).astype(int)
    return np.round(random.standard_normal(n) + 0.8 * labels, 1), labels


def kernel(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    x = scores[labels == 1][:, None] - scores[labels == 0]
    return (x > 0) + 0.5 * (x == 0)


def test_delong_equals_its_definition() -> None:
    scores, labels = sample()
    psi = kernel(scores, labels)
    variance = psi.mean(1).var(ddof=1) / psi.shape[0] + psi.mean(0).var(ddof=1) / psi.shape[1]
    found = delong_interval(scores, labels, level=0.9)
    assert found.auc == pytest.approx(binary_auc(scores, labels), rel=1e-12)
    assert found.standard_error == pytest.approx(math.sqrt(variance), rel=1e-12)
    assert found.high - found.auc == pytest.approx(1.6448536269514722 * math.sqrt(variance), rel=1e-9)
    assert found.auc - found.low == pytest.approx(found.high - found.auc, rel=1e-9)


def test_delong_paired_test_equals_its_definition() -> None:
    scores, labels = sample(1)
    other = scores + np.random.default_rng(5).standard_normal(scores.size)
    first, second = kernel(scores, labels), kernel(other, labels)
    columns = np.cov(np.stack((first.mean(1), second.mean(1)))) / first.shape[0]
    columns += np.cov(np.stack((first.mean(0), second.mean(0)))) / first.shape[1]
    variance = columns[0, 0] + columns[1, 1] - 2 * columns[0, 1]
    found = delong_test(scores, other, labels)
    z = (first.mean() - second.mean()) / math.sqrt(variance)
    assert found.z == pytest.approx(z, rel=1e-9)
    assert found.p_value == pytest.approx(math.erfc(abs(z) / math.sqrt(2)), rel=1e-9)
    same = delong_test(scores, 2 * scores + 1, labels)
    assert (same.difference, same.z, same.p_value) == (0.0, 0.0, 1.0)


def test_delong_error_is_that_of_a_bootstrap() -> None:
    scores, labels = sample(2, 300)
    random = np.random.default_rng(0)
    positives, negatives = scores[labels == 1], scores[labels == 0]
    truth = np.r_[np.ones(positives.size), np.zeros(negatives.size)]
    drawn = [
        binary_auc(np.r_[random.choice(positives, positives.size), random.choice(negatives, negatives.size)], truth)
        for _ in range(2000)
    ]
    assert delong_interval(scores, labels).standard_error == pytest.approx(np.std(drawn, ddof=1), rel=0.08)


def test_delong_at_the_ends_and_wrong_calls() -> None:
    perfect = delong_interval([1, 2, 3, 4], [0, 0, 1, 1], method="logit")
    assert (perfect.auc, perfect.standard_error, perfect.low, perfect.high) == (1.0, 0.0, 1.0, 1.0)
    assert delong_test([1, 2, 3, 4], [4, 3, 2, 1], [0, 0, 1, 1]).p_value == 0.0
    scores, labels = sample(3)
    near = delong_interval(scores + 2.5 * labels, labels, level=0.999, method="logit")
    assert 0 < near.low < near.auc < near.high < 1
    with pytest.raises(MetricError, match="two examples"):
        delong_interval([1, 2, 3], [0, 0, 1])
    with pytest.raises(MetricError, match="level"):
        delong_interval(scores, labels, level=95)
    with pytest.raises(MetricError, match="method"):
        delong_interval(scores, labels, method="bootstrap")


def test_platt_meets_its_first_order_conditions() -> None:
    scores, labels = sample(4)
    scores = 1e-3 * scores + 50  # a ranking loss leaves any scale
    positives = labels.sum()
    targets = np.where(labels == 1, (positives + 1) / (positives + 2), 1 / (labels.size - positives + 2))
    probabilities = fit_calibrator(scores, labels)(scores)
    standard = (scores - scores.mean()) / scores.std()
    assert abs((targets - probabilities).sum()) < 1e-3
    assert abs(((targets - probabilities) * standard).sum()) < 1e-3
    assert binary_auc(probabilities, labels) == pytest.approx(binary_auc(scores, labels), rel=1e-12)


def test_isotonic_is_sklearns_and_clips() -> None:
    scores, labels = sample(5)
    calibrator = fit_calibrator(scores, labels, "isotonic")
    assert np.array_equal(calibrator(scores), IsotonicRegression().fit_transform(scores, labels))
    assert 0 <= calibrator([-1e9])[0] <= calibrator([1e9])[0] <= 1


def test_reliability_counts_by_hand() -> None:
    found = reliability([0.05, 0.15, 0.1, 0.95, 1.0], [0, 1, 0, 1, 1], bins=2)
    assert found.counts == (3, 2)
    assert found.predicted == pytest.approx((0.1, 0.975))
    assert found.observed == pytest.approx((1 / 3, 1.0))
    assert found.expected_error == pytest.approx((3 * (1 / 3 - 0.1) + 2 * 0.025) / 5)


def test_calibration_refuses_what_is_no_probability() -> None:
    with pytest.raises(MetricError, match="calibrate"):
        reliability([-0.5, 2.0], [0, 1])
    with pytest.raises(MetricError, match="bins"):
        reliability([0.5], [1], bins=0)
    with pytest.raises(MetricError, match="method"):
        fit_calibrator([0.1, 0.2], [0, 1], "beta")
    with pytest.raises(NonFiniteScoresError):
        fit_calibrator([0.1, float("inf")], [0, 1])


@pytest.mark.parametrize("rule", ["youden", "accuracy", "f1", "max_fpr", "count"])
def test_thresholds_are_the_best_of_all(rule: str) -> None:
    scores, labels = sample(6)

    def gain(value: float) -> float:
        called = scores >= value
        tpr, fpr = called[labels == 1].mean(), called[labels == 0].mean()
        return {
            "youden": tpr - fpr,
            "accuracy": (called == labels).mean(),
            "f1": f1_score(labels, called, zero_division=0),
            "max_fpr": tpr if fpr <= 0.2 else -1,
            "count": -abs(int(called.sum()) - int(labels.sum())),
        }[rule]

    found = choose_threshold(scores, labels, rule, max_fpr=0.2 if rule == "max_fpr" else None)
    best = max(gain(value) for value in [*np.unique(scores), np.inf])
    assert gain(found.value) == pytest.approx(best, rel=1e-12)
    assert found.true_positive_rate == pytest.approx((scores >= found.value)[labels == 1].mean())


def test_threshold_rules_are_checked() -> None:
    scores, labels = sample(7)
    for wrong in ({"rule": "best"}, {"rule": "max_fpr"}, {"rule": "f1", "max_fpr": 0.1}):
        with pytest.raises(MetricError):
            choose_threshold(scores, labels, **wrong)
