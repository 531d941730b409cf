"""Baselines on class scores that are no ranking losses: the multiclass hinge and the squared error of the softmax."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from search_spaces.cards import LossCard
from trainables.losses.common import LossError, check_weights, class_shares, result_dtype, widen
from trainables.losses.macro import check_classes


@dataclass(frozen=True)
class ClassBaseline:
    """The mean over the batch of a loss of each example's class scores."""

    card: LossCard
    per_example: Callable[[Tensor, Tensor], Tensor]

    def __call__(self, scores: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
        """The loss of scores (n, C) with classes (n,) in 0 .. C-1; ``weights`` (n,) give the weighted mean.

        Raises ``LossError`` for other shapes or labels and for an empty batch.
        """
        if scores.dim() != 2 or labels.dim() != 1:
            raise LossError(
                f"loss {self.card.name} takes class scores (n, C) with labels (n,), got {tuple(scores.shape)} and "
                f"{tuple(labels.shape)}"
            )
        check_classes(scores, labels)
        check_weights(weights, labels.numel())
        losses = self.per_example(widen(scores), labels.to(torch.int64))
        mean = losses.mean() if weights is None else class_shares(weights) @ losses
        return mean.to(result_dtype(scores))


def hinge(scores: Tensor, labels: Tensor) -> Tensor:
    """(n,): the mean over the C classes of max(0, 1 - s_y + s_c), c other than y (torch's MultiMarginLoss).

    Not torch's own function, which takes a NaN for a pair without loss and would let such a trial go on.
    """
    own = functional.one_hot(labels, scores.shape[1]).bool()
    reached = 1 - scores.gather(1, labels[:, None]) + scores
    return reached.clamp(min=0).masked_fill(own, 0.0).mean(1)


def softmax_error(scores: Tensor, labels: Tensor) -> Tensor:
    """(n,): the mean over the C classes of (softmax(s)_c - [c = y])^2."""
    target = functional.one_hot(labels, scores.shape[1])
    return (torch.softmax(scores, 1) - target).square().mean(1)
