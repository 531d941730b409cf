"""Pairwise objectives on class scores: macro one-vs-rest, macro one-vs-one (Hand-Till) and per-label means.

For a batch of B examples only the columns of the classes present matter, so the work is B x B whatever the number of
classes: D[k, i] = s_k[y_i] is the score of example k for the class of example i, and the pair (i, k) has margin
D[i, i] - D[k, i] when y_k != y_i. Classes absent from the batch are left out of the mean: over 8,142 classes a batch of
512 holds 491 at most, and its macro mean is *not* an unbiased estimate of the full macro mean.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trainables.losses.common import (
    LossError,
    OneClassError,
    check_weights,
    class_shares,
    result_dtype,
    widen,
)
from trainables.losses.surrogates import Surrogate

LABELS_AT_ONCE = 1 << 22
"""Pairs held at a time by the multilabel loss: 32 MiB of float64."""


def multiclass_mean(
    surrogate: Surrogate, scores: Tensor, labels: Tensor, weights: Tensor | None = None, *, one_vs_one: bool = False
) -> Tensor:
    """The macro mean over classes (one against the rest) or over ordered class pairs of ``surrogate``.

    ``scores`` (B, C) class logits, ``labels`` (B,) in 0 .. C-1. With ``weights`` (B,) the mean over the pairs of a
    class (of two classes) is weighted by the product of the pair's two; classes count alike. An example of weight 0
    is absent. Raises ``LossError`` for wrong labels or weights and ``OneClassError`` when fewer than two classes are
    present.
    """
    check_classes(scores, labels)
    check_weights(weights, labels.numel())
    labels = labels.to(torch.int64)
    if weights is not None:
        counted = weights > 0
        scores, labels, weights = scores[counted], labels[counted], class_shares(weights[counted])
    counts_of_all = torch.bincount(labels)
    seen = counts_of_all > 0
    position = (seen.cumsum(0) - 1)[labels]
    counts = counts_of_all[seen]
    present = counts.numel()
    if present < 2:
        raise OneClassError(f"a batch of {labels.numel()} examples of one class: no pair of classes can be formed")
    of_class = widen(scores).index_select(1, labels)
    margins = of_class.diagonal() - of_class
    different = position[:, None] != position
    if weights is None:
        own = counts[position].to(torch.float64)
        if one_vs_one:
            of_pairs = 1 / (own[:, None] * own * (present * (present - 1)))
        else:
            of_pairs = (1 / (own * (labels.numel() - own) * present)).expand(different.shape)
    else:
        # quotients first: the products of very small weights would be 0
        own = weights / weights.new_zeros(present).index_add(0, position, weights)[position]
        if one_vs_one:
            of_pairs = own[:, None] * own / (present * (present - 1))
        else:
            rest = different.to(weights.dtype) @ weights  # not 1 - own: that cancels
            of_pairs = own * (weights[:, None] / rest) / present
    of_pairs = of_pairs * different
    # same-class entries must not bring an inf * 0 into the sum
    margins = torch.where(of_pairs > 0, margins, 0.0)
    total: Tensor = (surrogate(margins) * of_pairs).sum()
    return total.to(result_dtype(scores))


def multilabel_mean(surrogate: Surrogate, scores: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
    """The mean over labels with both classes in the batch of ``surrogate`` over the label's pairs.

    ``scores`` and ``labels`` (B, L), labels in {0, 1}. With ``weights`` (B,) the mean over a label's pairs is weighted
    by the product of the pair's two; labels count alike. An example of weight 0 is absent. Raises ``LossError`` for
    other labels or weights and ``OneClassError`` when no label has both classes.
    """
    check_weights(weights, labels.shape[0])
    wrong = labels[(labels != 0) & (labels != 1)]
    if wrong.numel():
        raise LossError(f"labels must be 0 or 1, got {wrong.tolist()[:5]}")
    truth = widen(labels)
    up, down = truth, 1 - truth
    if weights is not None:
        of_examples = class_shares(weights)[:, None]
        up, down = up * of_examples, down * of_examples
    positives, negatives = up.sum(0), down.sum(0)
    kept = ((positives > 0) & (negatives > 0)).nonzero().squeeze(1)
    if kept.numel() == 0:
        raise OneClassError(
            f"no label has both classes in a batch of {labels.shape[0]} examples: no pair can be formed"
        )
    at_once = max(1, LABELS_AT_ONCE // labels.shape[0] ** 2)
    total = widen(scores).new_zeros(())
    for some in torch.split(kept, at_once):
        s, u, d = (each.index_select(1, some).T for each in (widen(scores), up, down))
        of_pairs = (u / positives[some, None])[:, :, None] * (d / negatives[some, None])[:, None, :]
        margins = torch.where(of_pairs > 0, s[:, :, None] - s[:, None, :], 0.0)
        total = total + (surrogate(margins) * of_pairs).sum()
    return (total / kept.numel()).to(result_dtype(scores))


def check_classes(scores: Tensor, labels: Tensor) -> None:
    """Raise ``LossError`` unless ``labels`` (B,) are whole numbers in 0 .. C-1 for floating ``scores`` (B, C)."""
    if scores.dim() != 2 or labels.dim() != 1 or scores.shape[0] != labels.shape[0]:
        shapes = f"{tuple(scores.shape)} and {tuple(labels.shape)}"
        raise LossError(f"class scores and labels must have shapes (n, C) and (n,), got {shapes}")
    if not scores.is_floating_point():
        raise LossError(f"scores must be floating point, got {scores.dtype}")
    classes = scores.shape[1]
    if classes < 2:
        raise LossError(f"class scores need at least 2 columns, got shape {tuple(scores.shape)}")
    if labels.numel() == 0:
        raise LossError("a batch needs at least one example")
    wrong = labels[(labels < 0) | (labels >= classes) | (labels != labels.to(torch.int64))]
    if wrong.numel():
        raise LossError(f"labels must be whole numbers from 0 to {classes - 1}, got {wrong.tolist()[:5]}")
