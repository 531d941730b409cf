"""Scores and metrics of a split at the end of an epoch, and the epoch a run is judged by. Uses no random numbers."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from search_spaces.cards import TaskCard
from search_spaces.errors import DataError, NonFiniteError
from trainables.data import Split
from trainables.device import Inputs, to_device
from trainables.metrics import average_precision, binary_auc, macro_aucs, multilabel_macro_auc, partial_auc
from trainables.models import BuiltModel
from trainables.prefetch import prefetch
from trainables.seeding import permutation

SCORES_AT_MOST = 2**27
"""Numbers (examples x outputs) scored of a training split: 512 MiB. A larger one is scored on ``training_rows``."""

PARTIAL_UP_TO = 0.1
"""False positive rate up to which the rows of binary tasks have a partial AUC."""

KEPT_AT_MOST = 2**24
"""Numbers of validation and test scores a run keeps for its best epoch, and in every saved state."""


def training_rows(size: int, outputs: int) -> NDArray[np.int64]:
    """The training examples whose scores give ``train_auc``: all, or as many as ``SCORES_AT_MOST`` allows.

    Those are drawn once and for all, the same for every seed. Of the paper's tasks, only iNaturalist 2018 has too many
    (16,484 of 437,513 examples are scored).
    """
    most = SCORES_AT_MOST // outputs
    return np.arange(size) if size <= most else np.sort(permutation(size, "split", 0)[:most])


def score_split(
    model: BuiltModel,
    split: Split,
    *,
    name: str,
    epoch: int,
    batch_size: int,
    device: torch.device,
    rows: NDArray[np.int64] | None = None,
    log_softmax: bool = False,
    workers: int = 0,
    before_batch: Callable[[], None] = lambda: None,
) -> NDArray[Any]:
    """The raw logits of the whole split (or its ``rows``) in its own order, with the evaluation view of each example.

    (n,) in float64, or (n, outputs) in float32, which is what models give. ``log_softmax`` normalises each row, in
    float64 before it is rounded. Texts are batched by length, the longest first. The module is left in evaluation
    mode. ``name`` and ``epoch`` are for messages.
    ``before_batch`` is called before each batch of ``batch_size`` and may raise. Raises ``NonFiniteError`` when a logit
    is NaN or infinite.
    """
    chosen = np.arange(len(split.labels)) if rows is None else rows
    size = len(chosen)
    order = evaluation_order(split, chosen)

    def inputs(start: int) -> Inputs:
        return model.encode(split.fetch(chosen[order[start : start + batch_size]], None))

    model.module.eval()
    scores: NDArray[Any] | None = None
    filled = 0
    with torch.no_grad():  # not inference_mode: a tensor that a module caches here may be needed for a gradient later
        for batch in prefetch(inputs, range(0, size, batch_size), workers):
            before_batch()
            logits = model.module(to_device(batch, device)).double()
            found = (torch.log_softmax(logits, 1) if log_softmax else logits).cpu().numpy()
            if scores is None:  # one array from the start: the parts and their concatenation would take twice as much
                scores = np.empty((size, *found.shape[1:]), np.float64 if found.ndim == 1 else np.float32)
            scores[order[filled : filled + len(found)]] = found
            filled += len(found)
    assert scores is not None
    finite = np.isfinite(scores) if scores.ndim == 1 else np.isfinite(scores).all(axis=1)
    bad = np.flatnonzero(~finite)
    if len(bad):
        raise NonFiniteError(
            f"{len(bad)} of {size} {name} scores are not finite at the end of epoch {epoch} "
            f"(first: example {chosen[bad[0]]}, {scores[bad[0]]})"
        )
    return scores


def evaluation_order(split: Split, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The order (positions in ``rows``) in which they are scored: by falling length where the split has ``lengths``.

    Texts of one length need little padding, and a batch that does not fit in memory comes first.
    """
    lengths: NDArray[np.int64] | None = getattr(split, "lengths", None)
    return np.arange(len(rows)) if lengths is None else np.argsort(-lengths[rows], kind="stable")


def metrics_of(
    card: TaskCard, scores: NDArray[Any], labels: NDArray[np.int64], name: str, *, primary: bool = False
) -> dict[str, float]:
    """Metrics of a split by name, 0 .. 1, the task's primary one (``card.metric``) first, or with ``primary`` alone.

    Binary: ``auc``, ``average_precision``, and ``partial_auc``: the share of pairs ranked right among those with the
    tenth of the negatives that scores highest (``PARTIAL_UP_TO``). Multiclass, of log-softmax ``scores`` (n, C): macro
    one-vs-one and one-vs-rest AUC, macro average precision, and the accuracy of the largest score. Multilabel, of
    logits (n, L): the mean AUC and average precision over labels. A class without an example in the split, and a label
    that has one class only, is left out of every mean but accuracy; ``classes_ranked`` then says how many are in it.
    Raises ``DataError`` when nothing is left to rank.
    """
    if card.kind == "binary":
        found = {"auc": auc(scores, labels, name)}
        if primary:
            return found
        partial = partial_auc(scores, labels, max_fpr=PARTIAL_UP_TO)
        return found | {"average_precision": average_precision(scores, labels), "partial_auc": partial}
    ranked = ranked_columns(labels, card.outputs)
    with warnings.catch_warnings():  # said once a run, by ``absent_note``
        warnings.simplefilter("ignore")
        if card.kind == "multiclass":
            one_vs_one, one_vs_rest = macro_aucs(scores, labels, absent="exclude")
            found = {"macro_ovo_auc": one_vs_one, "macro_ovr_auc": one_vs_rest}
        else:
            found = {"multilabel_macro_auc": multilabel_macro_auc(scores, labels, absent="exclude")}
    if primary:
        return {card.metric: found[card.metric]}
    truth = labels if labels.ndim == 2 else None
    each = [
        average_precision(scores[:, column], labels == column if truth is None else truth[:, column])
        for column in ranked
    ]
    found["average_precision"] = float(np.mean(each))
    if card.kind == "multiclass":
        found["accuracy"] = float((scores.argmax(1) == labels).mean())
    return found if len(ranked) == card.outputs else found | {"classes_ranked": float(len(ranked))}


def ranked_columns(labels: NDArray[np.int64], outputs: int) -> NDArray[np.int64]:
    """The classes with an example among ``labels`` (n,), or the labels of (n, L) with both of their classes there."""
    if labels.ndim == 2:
        positives = labels.sum(axis=0)
        return np.flatnonzero((positives > 0) & (positives < len(labels)))
    return np.flatnonzero(np.bincount(labels, minlength=outputs))


def absent_note(card: TaskCard, labels: NDArray[np.int64], name: str) -> str | None:
    """What is left out of the metrics of a split of several classes or labels, in words; None when nothing is."""
    missing = np.setdiff1d(np.arange(card.outputs), ranked_columns(labels, card.outputs))
    if card.kind == "binary" or not len(missing):
        return None
    names = card.options.get("classes") or card.options.get("labels") or [str(c) for c in range(card.outputs)]
    shown = ", ".join(str(names[column]) for column in missing[:10]) + (", ..." if len(missing) > 10 else "")
    fault = "without an example" if card.kind == "multiclass" else "of one class only"
    noun = "classes" if card.kind == "multiclass" else "labels"
    return f"{name} split: {len(missing)} of {card.outputs} {noun} left out of its metrics, {fault} there: {shown}"


def require_rankable(card: TaskCard, labels: NDArray[np.int64], name: str) -> None:
    """Raise ``DataError`` unless a ranking metric is defined on ``labels``."""
    if card.kind == "binary":
        require_both_classes(labels, name)
    elif len(ranked_columns(labels, card.outputs)) < (2 if card.kind == "multiclass" else 1):
        raise DataError(f"the {name} split has too few classes for {card.metric}: it is undefined")


def require_both_classes(labels: NDArray[np.int64], name: str) -> None:
    """Raise ``DataError`` unless ``labels`` holds both classes: no AUC is defined on one."""
    positives = int((labels == 1).sum())
    if positives in (0, len(labels)):
        raise DataError(
            f"the {name} split holds one class only ({len(labels) - positives} negatives, {positives} positives): "
            "its AUC is undefined"
        )


def auc(scores: NDArray[np.float64], labels: NDArray[np.int64], name: str) -> float:
    """AUC of a split, 0 .. 1. Raises ``DataError`` when it holds one class only."""
    require_both_classes(labels, name)
    return binary_auc(scores, labels)


def selected_epoch(rows: Sequence[dict[str, Any]]) -> int:
    """The epoch a run is judged by: the first with the largest ``val_auc`` of those that were evaluated."""
    best = max(row["val_auc"] for row in rows if not math.isnan(row["val_auc"]))
    return int(next(row["epoch"] for row in rows if row["val_auc"] == best))
