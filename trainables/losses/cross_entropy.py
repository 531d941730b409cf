"""Binary cross entropy on the logit: the baseline, and the loss of every CE warm-up phase."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional

from search_spaces.cards import LossCard
from trainables.losses.common import LossError, check_vectors, class_shares, result_dtype, widen


@dataclass(frozen=True)
class CrossEntropy:
    """Mean over the batch of ``log(1 + exp(-z))`` (positives) and ``log(1 + exp(z))`` (negatives).

    ``scores`` are logits (n,), ``labels`` (n,) in {0, 1}; ``weights`` (n,) >= 0 turn the mean into a weighted mean.
    A batch of one class is allowed: nothing here needs a pair.
    """

    card: LossCard

    def __call__(self, scores: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
        """The loss of one batch; raises ``LossError`` for wrong shapes, labels or an empty batch."""
        check_vectors(scores, labels, weights)
        if scores.numel() == 0:
            raise LossError("a batch needs at least one example")
        targets = widen(labels)
        if bool(((targets != 0) & (targets != 1)).any()):
            raise LossError(f"labels must be 0 or 1, got {sorted(set(labels.tolist()))[:5]}")
        losses = functional.binary_cross_entropy_with_logits(widen(scores), targets, reduction="none")
        mean = losses.mean() if weights is None else class_shares(weights) @ losses
        return mean.to(result_dtype(scores))
