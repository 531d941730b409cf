"""The p-norm push: each negative's own loss, raised to a power, so that the top of the list counts most.

    loss = (mean over negatives j of L_j^p)^(1/p),     L_j = mean over positives i of l(p_i - q_j)

p = 1 is the plain pairwise loss; p -> infinity the worst negative. The p-th root (Rudin 2009 leaves it out) keeps value
and gradient on the scale of the plain loss, so that one learning rate serves every p.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from search_spaces.cards import LossCard
from trainables.losses.columns import column_losses
from trainables.losses.common import check_vectors, result_dtype, weighted_classes
from trainables.losses.surrogates import Surrogate


@dataclass(frozen=True)
class PNormPush:
    """``p`` >= 1 over the column losses of a positive surrogate (exponential or logistic).

    ``weights`` weigh the positives in each L_j and the negatives in the mean of the powers.
    """

    card: LossCard
    surrogate: Surrogate
    p: float

    def __call__(self, scores: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
        """The loss of ``scores`` (n,) and ``labels`` (n,) in {0, 1}; raises as every pairwise loss does."""
        check_vectors(scores, labels, weights)
        positives, negatives, shares = weighted_classes(labels, weights)
        of_positives, of_negatives = shares or (None, None)
        losses = column_losses(self.surrogate, scores, positives, negatives, of_positives)
        largest = losses.detach().max()
        if not 0 < largest.item() < math.inf:  # all 0, infinite or NaN: so is the loss, and its slope that of each L_j
            return losses.sum().to(result_dtype(scores))
        # the p-norm is homogeneous: dividing by a constant and multiplying after changes nothing but the range
        present = losses > 0  # the slope of x^p at 0 has none itself for p < 2
        powers = torch.where(present, (torch.where(present, losses, 1.0) / largest).pow(self.p), 0.0)
        mean = powers.mean() if of_negatives is None else of_negatives @ powers
        return (largest * mean.pow(1 / self.p)).to(result_dtype(scores))
