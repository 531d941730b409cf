"""Thresholds from the training scores, for a loss that fixes how many are positive and leaves the level open.

The hypersimplex loss does not change when a constant is added to all scores of a class: 0 is no threshold, and between
classes the largest score is no decision. So its runs save, with every epoch, the training scores at which as many
examples are called positive as there are (per class), and the accuracy that follows from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from search_spaces.cards import TaskCard
from trainables.metrics import choose_threshold

SAVED_AT_MOST = 100
"""Classes or labels whose thresholds are saved, one number each; tasks with more have none."""


def training_thresholds(scores: NDArray[Any], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """The threshold of each class or label, (outputs,), or (1,) for binary scores (n,).

    Call positive every score >= it. Infinite where the training scores hold no positive or no negative.
    """
    columns = scores[:, None] if scores.ndim == 1 else scores
    truth = labels[:, None] if scores.ndim == 1 else labels
    if truth.ndim == 1:
        truth = labels[:, None] == np.arange(columns.shape[1])
    found = np.full(columns.shape[1], np.inf)
    for column, (values, positive) in enumerate(zip(columns.T, truth.T, strict=True)):
        if 0 < positive.sum() < len(positive):
            found[column] = choose_threshold(values, positive.astype(np.int64), "count").value
    return found


def threshold_metrics(
    card: TaskCard, scores: Mapping[str, NDArray[Any]], labels: Mapping[str, NDArray[np.int64]]
) -> dict[str, float]:
    """``train_threshold`` (binary) or ``train_threshold_<class>``, and the accuracy on the other splits by them.

    Binary: ``val_accuracy`` and ``test_accuracy``. Multiclass: ``val_accuracy_by_threshold`` and
    ``test_accuracy_by_threshold``, of the class whose score exceeds its threshold by most. ``scores`` and ``labels``
    are by split (train, validation, test); empty for more than ``SAVED_AT_MOST`` classes.
    """
    if card.outputs > SAVED_AT_MOST:
        return {}
    levels = training_thresholds(scores["train"], labels["train"])
    if card.kind == "binary":
        found = {"train_threshold": float(levels[0])}
    else:
        found = {f"train_threshold_{column}": float(level) for column, level in enumerate(levels) if np.isfinite(level)}
    for split, short in (("validation", "val"), ("test", "test")):
        if split not in scores:
            continue
        if card.kind == "binary":
            found[f"{short}_accuracy"] = float(((scores[split] >= levels[0]) == labels[split]).mean())
        elif card.kind == "multiclass":
            decided = (scores[split] - levels).argmax(1)
            found[f"{short}_accuracy_by_threshold"] = float((decided == labels[split]).mean())
    return found
