"""AUC, partial AUC and average precision of a binary ranking, in float64, ties counting half."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainables.metrics.inputs import MetricError, binary_inputs

COUNTED_UP_TO = 16
"""Positives for which average precision counts examples instead of sorting them: 8,142 rare classes take seconds."""

PARTIAL_NORMALISATIONS = ("mean", "mcclish")


def binary_auc(scores: Any, labels: Any) -> float:
    """The share of positive-negative pairs ranked right, a tied pair counting half.

    ``scores`` (n,), ``labels`` (n,) in {0, 1}: numpy, torch or a sequence. O(n log n); the count of pairs is exact.
    Raises ``MetricError`` for wrong shapes or labels, and its subclasses for NaN and for a set of one class.
    """
    values, truth = binary_inputs(scores, labels)
    return pair_share(values[truth == 1], values[truth == 0])


def pair_share(positives: NDArray[Any], negatives: NDArray[Any]) -> float:
    """P(positive > negative) + P(tie) / 2 over all pairs of two non-empty arrays without NaN."""
    ordered = np.sort(negatives)
    below = np.searchsorted(ordered, positives, side="left").sum(dtype=np.int64)
    not_above = np.searchsorted(ordered, positives, side="right").sum(dtype=np.int64)
    return (int(below) + int(not_above)) / (2 * positives.size * negatives.size)


def roc_points(scores: Any, labels: Any) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """The corners of the ROC curve: false positive rate, true positive rate and threshold, from (0, 0) to (1, 1).

    Example i is called positive when its score is >= the threshold; the first threshold is infinity.
    """
    values, truth = binary_inputs(scores, labels)
    order = np.argsort(-values, kind="stable")
    ranked, hits = values[order], truth[order]
    last = np.flatnonzero(np.r_[ranked[1:] != ranked[:-1], True])
    true = np.r_[0, np.cumsum(hits)[last]]
    false = np.r_[0, last + 1] - true
    return false / false[-1], true / true[-1], np.r_[np.inf, ranked[last]]


def partial_auc(
    scores: Any, labels: Any, max_fpr: float = 1.0, min_tpr: float = 0.0, *, normalisation: str = "mean"
) -> float:
    """The area of the ROC curve with false positive rate <= ``max_fpr`` and above ``min_tpr``, normalised.

    ``normalisation="mean"`` divides by ``max_fpr * (1 - min_tpr)``: with ``min_tpr=0`` the share of right pairs
    among the ceil(max_fpr * n-) hardest negatives (interpolated when that is no whole number, or ties cross it); with
    ``min_tpr > 0`` the two-way area of Yang et al. (2021).
    ``normalisation="mcclish"`` (McClish 1989; one-way only) maps chance to 0.5 and perfection to 1; this is
    ``sklearn.metrics.roc_auc_score(max_fpr=)``. The two are different numbers: name the one you report.
    Raises ``MetricError`` for a range outside (0, 1] and [0, 1), and as ``binary_auc`` does.
    """
    if not 0 < max_fpr <= 1:
        raise MetricError(f"max_fpr must be in (0, 1], got {max_fpr}")
    if not 0 <= min_tpr < 1:
        raise MetricError(f"min_tpr must be in [0, 1), got {min_tpr}")
    if normalisation not in PARTIAL_NORMALISATIONS:
        raise MetricError(f"normalisation must be one of {PARTIAL_NORMALISATIONS}, got {normalisation!r}")
    if normalisation == "mcclish" and min_tpr > 0:
        raise MetricError("McClish's normalisation is defined for min_tpr=0 only; use normalisation='mean'")
    false, true, _ = roc_points(scores, labels)
    area = _area_above(false, true, max_fpr, min_tpr)
    if normalisation == "mean":
        return area / (max_fpr * (1 - min_tpr))
    chance = max_fpr**2 / 2
    return 0.5 * (1 + (area - chance) / (max_fpr - chance))


def _area_above(false: NDArray[np.float64], true: NDArray[np.float64], max_fpr: float, min_tpr: float) -> float:
    """The integral over [0, max_fpr] of (TPR - min_tpr)+ for the piecewise linear ROC curve."""
    stop = int(np.searchsorted(false, max_fpr, side="right"))
    x, y = false[:stop], true[:stop]
    if x[-1] < max_fpr:
        share = (max_fpr - x[-1]) / (false[stop] - x[-1])
        x, y = np.r_[x, max_fpr], np.r_[y, y[-1] + share * (true[stop] - y[-1])]
    width, left, right = np.diff(x), y[:-1] - min_tpr, y[1:] - min_tpr
    crossing = (left < 0) & (right > 0)
    triangle = width * right**2 / (2 * np.where(crossing, right - left, 1.0))
    trapezoid = width * (np.maximum(left, 0) + np.maximum(right, 0)) / 2
    return float(np.where(crossing, triangle, trapezoid).sum())


def average_precision(scores: Any, labels: Any) -> float:
    """The sum over thresholds of (recall step) x precision, without interpolation, as scikit-learn defines it.

    That is the mean over positives of the precision among the examples that score no less than they.
    """
    values, truth = binary_inputs(scores, labels)
    of_positives = values[truth == 1]
    if of_positives.size <= COUNTED_UP_TO:
        true = (of_positives >= of_positives[:, None]).sum(axis=1)
        return float((true / (values >= of_positives[:, None]).sum(axis=1)).mean())
    order = np.argsort(-values, kind="stable")
    ranked, hits = values[order], truth[order]
    last = np.flatnonzero(np.r_[ranked[1:] != ranked[:-1], True])
    true = np.cumsum(hits)[last]
    precision = true / (last + 1)
    steps = np.diff(np.r_[0, true])
    return float((steps * precision).sum() / true[-1])
