"""Confidence interval of one AUC and paired test of two, by DeLong's covariance in O(n log n).

DeLong, DeLong & Clarke-Pearson 1988; the fast form of Sun & Xu 2014. The structural components are the share of
negatives below each positive and of positives above each negative, ties counting half.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainables.metrics.inputs import MetricError, binary_inputs

INTERVALS = ("wald", "logit")


@dataclass(frozen=True)
class AucInterval:
    """An AUC (fraction 0..1), its standard error and the two-sided interval ``low`` .. ``high`` at ``level``."""

    auc: float
    standard_error: float
    low: float
    high: float
    level: float


@dataclass(frozen=True)
class AucComparison:
    """Two AUCs on the same examples: ``difference`` = first - second, its standard error, z and two-sided p value."""

    first: float
    second: float
    difference: float
    standard_error: float
    z: float
    p_value: float


def delong_interval(scores: Any, labels: Any, *, level: float = 0.95, method: str = "wald") -> AucInterval:
    """DeLong's interval for the AUC of ``scores`` (n,) against ``labels`` (n,) in {0, 1}.

    ``wald`` is auc +- z se, cut to [0, 1]; ``logit`` is symmetric on the logit scale and better near 1. A perfect (or
    perfectly wrong) ranking has standard error 0 and an interval of one point: the data cannot say more.
    Raises ``MetricError`` as ``binary_auc`` does, for fewer than two examples of a class, and for a wrong ``level``.
    """
    if not 0 < level < 1:
        raise MetricError(f"level must be between 0 and 1, got {level}")
    if method not in INTERVALS:
        raise MetricError(f"method must be one of {INTERVALS}, got {method!r}")
    by_positive, by_negative = _components(scores, labels)
    auc = float(by_positive.mean())
    error = math.sqrt(
        float(by_positive.var(ddof=1)) / by_positive.size + float(by_negative.var(ddof=1)) / by_negative.size
    )
    reach = NormalDist().inv_cdf(0.5 + level / 2) * error
    if method == "wald" or not 0 < auc < 1:
        return AucInterval(auc, error, max(0.0, auc - reach), min(1.0, auc + reach), level)
    centre, reach = math.log(auc / (1 - auc)), reach / (auc * (1 - auc))
    return AucInterval(auc, error, 1 / (1 + math.exp(reach - centre)), 1 / (1 + math.exp(-reach - centre)), level)


def delong_test(first: Any, second: Any, labels: Any) -> AucComparison:
    """DeLong's paired test that two score vectors (n,) of the same examples have the same AUC.

    Raises ``MetricError`` as ``delong_interval`` does. When the difference has variance 0, p is 1 for equal AUCs and 0
    for different ones.
    """
    pairs = [_components(scores, labels) for scores in (first, second)]
    aucs = [float(by_positive.mean()) for by_positive, _ in pairs]
    variance = 0.0
    for one, other in zip(*pairs, strict=True):
        variance += float((one - other).var(ddof=1)) / one.size
    difference, error = aucs[0] - aucs[1], math.sqrt(variance)
    z = difference / error if error > 0 else math.copysign(math.inf, difference) if difference else 0.0
    return AucComparison(aucs[0], aucs[1], difference, error, z, math.erfc(abs(z) / math.sqrt(2)))


def _components(scores: Any, labels: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    values, truth = binary_inputs(scores, labels)
    positives, negatives = values[truth == 1], values[truth == 0]
    if min(positives.size, negatives.size) < 2:
        raise MetricError(
            f"a variance needs two examples a class, got {positives.size} positive, {negatives.size} negative"
        )
    return _share_below(positives, negatives), 1 - _share_below(negatives, positives)


def _share_below(values: NDArray[Any], others: NDArray[Any]) -> NDArray[np.float64]:
    """For each value the share of ``others`` below it, ties counting half."""
    ordered = np.sort(others)
    twice = np.searchsorted(ordered, values, side="left") + np.searchsorted(ordered, values, side="right")
    return np.asarray(twice / (2 * others.size), dtype=np.float64)
