"""A surrogate over some of the pairs: a fixed budget of them, or the semi-hard ones.

The hardest ones, by share or by count, are ``losses.partial``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from search_spaces.cards import LossCard
from trainables.losses.common import check_vectors, no_weights, result_dtype, split_classes, widen
from trainables.losses.surrogates import Surrogate


@dataclass(frozen=True)
class IncompletePairs:
    """``surrogate`` over ``per_example`` pairs for each example of the larger class (at most all pairs).

    A balanced incomplete U-statistic (Blom 1976; Clemencon, Colin, Bellet, JMLR 2016). The design is fixed, and the
    order of the batch, which the sampler shuffles, is the randomness: a cut run goes on bit-equal with nothing to save.
    """

    card: LossCard
    surrogate: Surrogate
    per_example: int

    def __call__(self, scores: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
        """The loss of ``scores`` (n,) and ``labels`` (n,) in {0, 1}; raises as every pairwise loss does."""
        check_vectors(scores, labels, weights)
        no_weights(weights, self.card.name)
        positives, negatives = split_classes(labels)
        budget = self.per_example * max(positives.numel(), negatives.numel())
        first, second = balanced_pairs(positives.numel(), negatives.numel(), budget, device=scores.device)
        wide = widen(scores)
        x = wide[positives[first]] - wide[negatives[second]]
        return self.surrogate(x).mean().to(result_dtype(scores))


def balanced_pairs(n_pos: int, n_neg: int, budget: int, *, device: torch.device | None = None) -> tuple[Tensor, Tensor]:
    """The first ``budget`` pairs (positions in each class) of an order in which every example takes its turn.

    No pair comes twice, and at ``n_pos * n_neg`` (the most there are) all have come.
    """
    turn = torch.arange(min(budget, n_pos * n_neg), device=device)
    return turn % n_pos, (turn + turn // math.lcm(n_pos, n_neg)) % n_neg


@dataclass(frozen=True)
class SemiHard:
    """``surrogate`` over the pairs ranked right but by less than the margin, 0 < x < m; 0 when there is none."""

    card: LossCard
    surrogate: Surrogate

    def __call__(self, scores: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
        """The loss of ``scores`` (n,) and ``labels`` (n,) in {0, 1}; raises as every pairwise loss does."""
        check_vectors(scores, labels, weights)
        no_weights(weights, self.card.name)
        positives, negatives = split_classes(labels)
        wide = widen(scores)
        x = wide[positives][:, None] - wide[negatives]
        chosen = ~((x <= 0) | (x >= (self.surrogate.margin or 0.0)))  # a NaN is chosen, so that it shows in the loss
        losses = torch.where(chosen, self.surrogate(x), 0.0)
        return (losses.sum() / chosen.sum().clamp(min=1)).to(result_dtype(scores))
