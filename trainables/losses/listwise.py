"""A listwise objective: the top-one cross entropy of ListNet (Cao et al. 2007) with binary relevance.

    loss = log sum_i e^(s_i / tau) - mean over positives of s_i / tau

The softmax runs over the whole batch, so the loss is shift-invariant, O(n), and lower-bounded by log n+, not by 0. With
scores in [0, 1] (sigmoid scale) use tau of 0.1 or less: at 1 the softmax over a batch is nearly flat.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from search_spaces.cards import LossCard
from trainables.losses.common import check_vectors, class_shares, result_dtype, split_classes, widen


@dataclass(frozen=True)
class Listwise:
    """ListNet's top-one loss at temperature ``tau``; ``weights`` weigh the positives."""

    card: LossCard
    tau: float

    def __call__(self, scores: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
        """The loss of ``scores`` (n,) and ``labels`` (n,) in {0, 1}; raises as every pairwise loss does."""
        check_vectors(scores, labels, weights)
        positives, _ = split_classes(labels)
        logits = widen(scores) / self.tau
        chosen = logits[positives]
        target = chosen.mean() if weights is None else class_shares(weights[positives]) @ chosen
        return (logits.logsumexp(0) - target).to(result_dtype(scores))
