"""Cross entropy on the logits: the baseline, and the loss of every CE warm-up phase."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from search_spaces.cards import LossCard
from trainables.losses.common import (
    LossError,
    check_vectors,
    check_weights,
    class_shares,
    result_dtype,
    widen,
)
from trainables.losses.macro import check_classes


@dataclass(frozen=True)
class CrossEntropy:
    """Mean over the batch of ``log(1 + exp(-z))`` (positives) and ``log(1 + exp(z))`` (negatives).

    ``scores`` are logits (n,), ``labels`` (n,) in {0, 1}; ``weights`` (n,) >= 0 turn the mean over examples into a
    weighted mean. Logits (n, C) with labels (n,) give the softmax cross entropy, with labels (n, C) in {0, 1} the mean
    binary one.
    A batch of one class is allowed: nothing here needs a pair.
    """

    card: LossCard

    def __call__(self, scores: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
        """The loss of one batch; raises ``LossError`` for wrong shapes, labels or an empty batch."""
        if scores.dim() == 2 and scores.shape[1] > 1:
            check_weights(weights, scores.shape[0])
            if labels.shape != scores.shape:
                check_classes(scores, labels)
                how = "mean" if weights is None else "none"
                loss = functional.cross_entropy(widen(scores), labels.to(torch.int64), reduction=how)
                return (loss if weights is None else class_shares(weights) @ loss).to(result_dtype(scores))
        else:
            check_vectors(scores, labels, weights)
        if scores.numel() == 0:
            raise LossError("a batch needs at least one example")
        targets = widen(labels)
        if bool(((targets != 0) & (targets != 1)).any()):
            raise LossError(f"labels must be 0 or 1, got {targets[(targets != 0) & (targets != 1)].tolist()[:5]}")
        losses = functional.binary_cross_entropy_with_logits(widen(scores), targets, reduction="none")
        if weights is None:
            return losses.mean().to(result_dtype(scores))
        mean = class_shares(weights) @ losses.reshape(weights.numel(), -1).mean(1)
        return mean.to(result_dtype(scores))
