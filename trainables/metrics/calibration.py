"""From scores to probabilities. A ranking loss leaves the scale of its scores free: they are *not* probabilities.

Fit on validation scores, apply to test scores, and look at ``reliability``. Calibration is monotone, so the AUC does
not change (isotonic steps can tie neighbours).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainables.metrics.inputs import MetricError, NonFiniteScoresError, as_labels, as_scores, binary_inputs

METHODS = ("platt", "isotonic")


@dataclass(frozen=True)
class Calibrator:
    """A fitted map from scores to probabilities of the positive class."""

    method: str
    apply: Callable[[NDArray[np.float64]], NDArray[np.float64]]

    def __call__(self, scores: Any) -> NDArray[np.float64]:
        """Probabilities (n,) of ``scores`` (n,)."""
        return self.apply(as_scores(scores, 1))


def fit_calibrator(scores: Any, labels: Any, method: str = "platt") -> Calibrator:
    """Fit ``platt`` (a logistic curve with Platt's 1999 smoothed targets) or ``isotonic`` (a monotone step function).

    ``scores`` (n,) and ``labels`` (n,) in {0, 1}, both classes present, finite; computed by scikit-learn.
    Isotonic needs a few hundred examples of the rarer class not to overfit.
    Raises ``MetricError`` for an unknown method and as ``binary_auc`` does.
    """
    if method not in METHODS:
        raise MetricError(f"method must be one of {METHODS}, got {method!r}")
    values, truth = binary_inputs(scores, labels)
    if not np.isfinite(values).all():
        raise NonFiniteScoresError("calibration needs finite scores")
    return Calibrator(method, (_platt if method == "platt" else _isotonic)(values, truth))


def _platt(values: NDArray[np.float64], truth: NDArray[np.int64]) -> Callable[[Any], NDArray[np.float64]]:
    from sklearn.linear_model import LogisticRegression

    positives = int(truth.sum())
    target = np.where(truth == 1, (positives + 1) / (positives + 2), 1 / (truth.size - positives + 2))
    centre, spread = float(values.mean()), float(values.std()) or 1.0
    column = ((values - centre) / spread)[:, None]
    # a soft target is the two hard ones, weighted
    model = LogisticRegression(C=1e12, tol=1e-10, max_iter=1000)
    hard = np.r_[np.ones(truth.size), np.zeros(truth.size)]
    model.fit(np.r_[column, column], hard, sample_weight=np.r_[target, 1 - target])
    slope, intercept = float(model.coef_[0, 0]), float(model.intercept_[0])
    return lambda scores: 1 / (1 + np.exp(-np.clip(intercept + slope * (scores - centre) / spread, -700, 700)))


def _isotonic(values: NDArray[np.float64], truth: NDArray[np.int64]) -> Callable[[Any], NDArray[np.float64]]:
    from sklearn.isotonic import IsotonicRegression

    model = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(values, truth)
    return lambda scores: np.asarray(model.predict(scores), dtype=np.float64)


@dataclass(frozen=True)
class Reliability:
    """What a reliability diagram shows, one entry per non-empty bin, and the expected calibration error."""

    predicted: tuple[float, ...]
    observed: tuple[float, ...]
    counts: tuple[int, ...]
    expected_error: float


def reliability(probabilities: Any, labels: Any, bins: int = 10) -> Reliability:
    """Mean predicted probability against the observed share of positives in ``bins`` equal-width bins of [0, 1].

    ``expected_error`` is the mean of |predicted - observed| weighted by bin size (ECE). Raises ``MetricError`` for
    values outside [0, 1], which is what the raw scores of a ranking loss usually are.
    """
    values = as_scores(probabilities, 1)
    truth = as_labels(labels, values.shape, 2)
    if bins < 1:
        raise MetricError(f"bins must be at least 1, got {bins}")
    if values.size == 0 or values.min() < 0 or values.max() > 1:
        raise MetricError("probabilities must be in [0, 1]; calibrate the scores of a ranking loss first")
    index = np.minimum((values * bins).astype(np.int64), bins - 1)
    counts = np.bincount(index, minlength=bins)
    used = counts > 0
    predicted = np.bincount(index, weights=values, minlength=bins)[used] / counts[used]
    observed = np.bincount(index, weights=truth, minlength=bins)[used] / counts[used]
    error = float((np.abs(predicted - observed) * counts[used]).sum() / values.size)
    return Reliability(tuple(predicted.tolist()), tuple(observed.tolist()), tuple(counts[used].tolist()), error)
