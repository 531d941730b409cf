"""Macro one-vs-rest and one-vs-one AUC, exact, at thousands of classes in seconds and bounded memory.

For class c with sorted positives P, one pass over the column of scores counts u(x) = #{P > x} + #{P = x} / 2 for every
example x. One-vs-rest is the mean of u over the examples of other classes; one-vs-one (Hand & Till 2001) the mean
over the other classes of the class means of u. Counts are integers, sums float64.

A row-wise monotone map (softmax of each row) changes both numbers, because rows are shifted against each other:
say which scores were ranked. ``log_softmax_scores`` gives the ones aucsweep reports.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainables.metrics.binary import pair_share
from trainables.metrics.inputs import MetricError, OneClassSetError, as_labels, as_scores, numbered

CHUNK = 64
"""Columns copied at a time: memory beyond the scores is CHUNK * N numbers."""

DIRECT = 8
"""Up to this many positives, comparing with each is faster than a binary search."""


def macro_ovo_auc(scores: Any, labels: Any, *, absent: str = "raise") -> float:
    """Hand and Till's M: the mean over ordered class pairs (c, k) of P(score_c of a c > score_c of a k).

    ``scores`` (n, C), ``labels`` (n,) in 0 .. C-1. ``absent="raise"`` refuses a set that lacks a class
    (``OneClassSetError`` names it); ``"exclude"`` leaves such classes out and warns with their names.
    """
    return macro_aucs(scores, labels, absent=absent)[0]


def macro_ovr_auc(scores: Any, labels: Any, *, absent: str = "raise") -> float:
    """The mean over classes of the AUC of a class's score against all other examples. See ``macro_ovo_auc``."""
    return macro_aucs(scores, labels, absent=absent)[1]


def macro_aucs(scores: Any, labels: Any, *, absent: str = "raise") -> tuple[float, float]:
    """(macro one-vs-one, macro one-vs-rest) in one pass: half the time of computing them apart."""
    values = as_scores(scores, 2, keep_float32=True)
    n, classes = values.shape
    if classes < 2:
        raise MetricError(f"multiclass scores need at least 2 columns, got shape {values.shape}")
    truth = as_labels(labels, (n,), classes)
    counts = np.bincount(truth, minlength=classes)
    present = _present(counts, absent)
    others = np.maximum(counts, 1)
    one_vs_rest = one_vs_one = 0.0
    order = np.argsort(truth, kind="stable")
    starts = np.r_[0, np.cumsum(counts)]
    for first in range(0, present.size, CHUNK):
        columns = present[first : first + CHUNK]
        block = np.ascontiguousarray(values[:, columns].T)
        for c, column in zip(columns, block, strict=True):
            mine = order[starts[c] : starts[c + 1]]
            twice = _twice_above(column[mine], column)
            twice[mine] = 0
            sums = np.bincount(truth, weights=twice, minlength=classes)
            one_vs_rest += sums.sum() / (2.0 * mine.size * (n - mine.size))
            one_vs_one += float((sums / others).sum()) / (2.0 * mine.size * (present.size - 1))
    return float(one_vs_one / present.size), float(one_vs_rest / present.size)


def multilabel_macro_auc(scores: Any, labels: Any, *, absent: str = "raise") -> float:
    """The mean over labels of the AUC of their column: ``scores`` (n, L), ``labels`` (n, L) in {0, 1}.

    ``absent="raise"`` refuses a set in which a label has one class only (``OneClassSetError``), ``"exclude"``
    leaves such labels out and warns with their numbers.
    """
    values = as_scores(scores, 2, keep_float32=True)
    truth = as_labels(labels, values.shape, 2)
    counts = truth.sum(axis=0)
    both = (counts > 0) & (counts < values.shape[0])
    kept = _choose(both, absent, "label", "has one class only")
    if kept.size == 0:
        raise OneClassSetError("no label has both classes: the metric is undefined")
    each = [pair_share(values[truth[:, c] == 1, c], values[truth[:, c] == 0, c]) for c in kept]
    return float(np.mean(each))


def log_softmax_scores(logits: Any) -> NDArray[Any]:
    """Row-wise log-softmax of (n, C) logits, in float64 for float64 input and float32 otherwise.

    These are the scores aucsweep ranks in multiclass tasks. Log probabilities do not underflow as probabilities do,
    which would create ties.
    """
    values = as_scores(logits, 2, keep_float32=True)
    shifted = values - values.max(axis=1, keepdims=True)
    total = np.exp(shifted, dtype=np.float64).sum(axis=1, keepdims=True)
    scores: NDArray[Any] = (shifted - np.log(total)).astype(values.dtype, copy=False)
    return scores


def _twice_above(positives: NDArray[Any], column: NDArray[Any]) -> NDArray[np.int64]:
    """2 #{positives > x} + #{positives = x} for every x of ``column``."""
    if positives.size <= DIRECT:
        twice = np.zeros(column.shape, dtype=np.int64)
        for p in positives:
            twice += p > column
            twice += p >= column
        return twice
    ordered = np.sort(positives)
    below = np.searchsorted(ordered, column, side="left") + np.searchsorted(ordered, column, side="right")
    return 2 * positives.size - below


def _present(counts: NDArray[np.int64], absent: str) -> NDArray[np.int64]:
    present = _choose(counts > 0, absent, "class", "has no example")
    if present.size < 2:
        raise OneClassSetError(f"the set holds {present.size} class: at least 2 are needed")
    return present


def _choose(usable: NDArray[np.bool_], absent: str, noun: str, fault: str) -> NDArray[np.int64]:
    """Positions of the usable columns; the others are refused or named in a warning."""
    if absent not in ("raise", "exclude"):
        raise MetricError(f"absent must be 'raise' or 'exclude', got {absent!r}")
    missing = np.flatnonzero(~usable).tolist()
    if missing and absent == "raise":
        raise OneClassSetError(f"{noun} {numbered(missing)} {fault}; pass absent='exclude' to leave it out")
    if missing:
        warnings.warn(f"{len(missing)} of {usable.size} left out: {noun} {numbered(missing)} {fault}", stacklevel=4)
    return np.flatnonzero(usable)
