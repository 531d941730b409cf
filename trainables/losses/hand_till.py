"""The Hand-Till objective: a surrogate of macro one-vs-one AUC on class logits.

The pairwise losses by their own names are the macro one-vs-rest objective on class scores (``losses.macro``); this one
weighs every pair of classes alike, so that rare classes count as much against each other as against the common ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from search_spaces.cards import LossCard
from trainables.losses.macro import multiclass_mean
from trainables.losses.surrogates import Surrogate


@dataclass(frozen=True)
class HandTill:
    """``surrogate`` averaged over ordered pairs of the classes present in the batch."""

    card: LossCard
    surrogate: Surrogate

    def __call__(self, scores: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
        """The loss of ``scores`` (n, C) and ``labels`` (n,) in 0 .. C-1; raises as ``multiclass_mean`` does."""
        return multiclass_mean(self.surrogate, scores, labels, weights, one_vs_one=True)
