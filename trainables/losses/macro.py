"""Pairwise objectives on class scores: macro one-vs-rest, macro one-vs-one (Hand-Till) and per-label means.

All three are a mean over columns of scores, each with weights on its positives and on its negatives that sum to 1.
Columns of many pairs go through the engine, the others together through padded pair matrices of bounded size, so that
there is no loop over 8,142 columns, and what a batch costs is its number of pairs: B x B at most for class scores.
Classes absent from the batch are left out of the mean: over 8,142 classes a batch of 512 holds 491 at most, and its
macro mean is *not* an unbiased estimate of the full macro mean.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from trainables.losses.common import (
    LossError,
    OneClassError,
    check_weights,
    class_shares,
    result_dtype,
    widen,
    with_nan,
)
from trainables.losses.pair_mean import pair_mean
from trainables.losses.surrogates import Surrogate

ENGINE_FROM = 1 << 16
"""Pairs of a column from which it has a pass of the engine of its own, beside which a call from Python is nothing."""

PAIRS_AT_ONCE = 1 << 20
"""Pairs of the other columns held at a time: 8 MiB of float64."""


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
    columns, position = torch.unique(labels, return_inverse=True)
    present = columns.numel()
    if present < 2:
        raise OneClassError(f"a batch of {labels.numel()} examples of one class: no pair of classes can be formed")
    own = widen(functional.one_hot(position, present))
    other = 1 - own
    if weights is not None:
        own, other = own * weights[:, None], other * weights[:, None]
    up = own / own.sum(0)
    # one against one: the other classes alike, whatever their sizes
    down = (other > 0) * up.sum(1, keepdim=True) / (present - 1) if one_vs_one else other / other.sum(0)
    total = _mean_over_columns(surrogate, widen(scores).index_select(1, columns), up, down)
    return with_nan(total, scores).to(result_dtype(scores))


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
    up = widen(labels)
    down = 1 - up
    if weights is not None:
        counted = weights > 0
        of_examples = class_shares(weights[counted])[:, None]
        scores, up, down = scores[counted], up[counted] * of_examples, down[counted] * of_examples
    positives, negatives = up.sum(0), down.sum(0)
    kept = ((positives > 0) & (negatives > 0)).nonzero().squeeze(1)
    if kept.numel() == 0:
        raise OneClassError(
            f"no label has both classes in a batch of {scores.shape[0]} examples: no pair can be formed"
        )
    columns, of_positives, of_negatives = (
        each.index_select(1, kept) for each in (widen(scores), up / positives, down / negatives)
    )
    return with_nan(_mean_over_columns(surrogate, columns, of_positives, of_negatives), scores).to(result_dtype(scores))


def _mean_over_columns(surrogate: Surrogate, scores: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """The mean over the columns of ``scores`` (B, K) of sum_ij up_i down_j loss(s_i - s_j), all float64.

    ``up`` and ``down`` (B, K) are the shares of positives and negatives, each summing to 1 in a column, 0 for others.
    """
    of_positives, of_negatives = (up > 0).sum(0), (down > 0).sum(0)
    height, width = int(of_positives.max()), int(of_negatives.max())
    if scores.shape[1] * height * width <= ENGINE_FROM:
        return _padded(surrogate, scores, up, down, height, width) / scores.shape[1]
    large = of_positives * of_negatives > ENGINE_FROM
    total = scores.new_zeros(())
    for column in large.nonzero().squeeze(1):
        p, q = (each[:, column].nonzero().squeeze(1) for each in (up, down))
        total = total + pair_mean(surrogate, scores[:, column], p, q, (up[p, column], down[q, column]))
    # columns of like size together, so that little is padding
    by_size = of_positives.sort()[1]
    small = by_size[~large[by_size]]
    parts = _parts(of_positives[small].tolist(), of_negatives[small].tolist())
    widths = [count for count, _, _ in parts]
    pieces = (torch.split(each.index_select(1, small), widths, 1) for each in (scores, up, down))
    # the pairs of several parts are made again for the gradient: no more than one part is held
    mean: Callable[..., Tensor] = _padded
    if len(parts) > 1:
        mean = partial(checkpoint, _padded, use_reentrant=False, preserve_rng_state=False)
    for (_, height, width), s, u, d in zip(parts, *pieces, strict=True):
        total = total + mean(surrogate, s, u, d, height, width)
    return total / scores.shape[1]


def _parts(heights: list[int], widths: list[int]) -> list[tuple[int, int, int]]:
    """How many columns (count, height, width) to put together so that a part holds ``PAIRS_AT_ONCE`` pairs."""
    parts: list[tuple[int, int, int]] = []
    for height, width in zip(heights, widths, strict=True):
        if parts:
            count, highest, widest = parts[-1]
            highest, widest = max(height, highest), max(width, widest)
            if (count + 1) * highest * widest <= PAIRS_AT_ONCE:
                parts[-1] = count + 1, highest, widest
                continue
        parts.append((1, height, width))
    return parts


def _padded(surrogate: Surrogate, s: Tensor, u: Tensor, d: Tensor, height: int, width: int) -> Tensor:
    """The weighted means over the pairs of each column of ``s`` (B, c), ``height`` x ``width`` at most, added up."""
    rows = (u > 0).to(torch.int8).argsort(dim=0, descending=True, stable=True)[:height]
    columns = (d > 0).to(torch.int8).argsort(dim=0, descending=True, stable=True)[:width]
    u, d = u.gather(0, rows)[:, None], d.gather(0, columns)
    margins = s.gather(0, rows)[:, None] - s.gather(0, columns)
    # what is padding must not bring an inf * 0 into the sum
    margins = torch.where((u > 0) & (d > 0), margins, 0.0)
    total: Tensor = (surrogate(margins) * u * d).sum()
    return total


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
