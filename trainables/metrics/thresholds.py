"""Choosing the score from which an example is called positive, on validation scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from trainables.metrics.binary import roc_points
from trainables.metrics.inputs import MetricError, binary_inputs

RULES = ("youden", "accuracy", "f1", "max_fpr", "count")


@dataclass(frozen=True)
class Threshold:
    """Call positive every score >= ``value``; the rates are those of the set it was chosen on."""

    value: float
    rule: str
    true_positive_rate: float
    false_positive_rate: float


def choose_threshold(scores: Any, labels: Any, rule: str = "youden", *, max_fpr: float | None = None) -> Threshold:
    """The best threshold on ``scores`` (n,), ``labels`` (n,) under ``rule``; the highest one among equals.

    ``youden``: largest TPR - FPR. ``accuracy``, ``f1``: largest value of that measure. ``max_fpr``: largest TPR with
    FPR <= ``max_fpr``. ``count``: as many called positive as there are positives, the natural one for the
    hypersimplex loss, which fixes that number and no threshold. Raises ``MetricError`` for an unknown rule.
    """
    if rule not in RULES:
        raise MetricError(f"rule must be one of {RULES}, got {rule!r}")
    if (rule == "max_fpr") != (max_fpr is not None):
        raise MetricError("rule 'max_fpr' needs max_fpr=, the other rules have none")
    false, true, values = roc_points(scores, labels)
    _, truth = binary_inputs(scores, labels)
    positives = int(truth.sum())
    hits, alarms = true * positives, false * (truth.size - positives)
    gain = {
        "youden": true - false,
        "accuracy": hits - alarms,
        "f1": 2 * hits / (hits + alarms + positives),
        "max_fpr": np.where(false <= (max_fpr or 0.0), true, -1.0),
        "count": -np.abs(hits + alarms - positives),
    }[rule]
    best = int(np.argmax(np.round(gain, 12)))
    return Threshold(float(values[best]), rule, float(true[best]), float(false[best]))
