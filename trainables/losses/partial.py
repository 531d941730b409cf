"""Partial AUC and top-push losses: a surrogate averaged over the hardest part of the pairs.

One-way partial AUC keeps the ``max_fpr`` share of negatives of largest score, two-way also the ``1 - min_tpr`` share of
positives of smallest score. A share that is no whole number of examples takes a fraction of the last one, and
examples tied at the boundary share it evenly, so that the loss is the surrogate's version of
``1 - partial_auc(normalisation="mean")`` and does not depend on the order of the batch.

The gradient holds the selection fixed, which is its exact derivative almost everywhere. The boundary is an order
statistic *of the batch*: it fluctuates from batch to batch, and this adds a first-order term to the variance of the
gradient that no weight per pair shows (section C.1 of the paper). A share of a batch of 24 is a handful of examples:
raise the batch, or max_fpr.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from search_spaces.cards import LossCard
from trainables.losses.common import check_vectors, no_weights, split_classes, widen
from trainables.losses.pairwise import pair_mean
from trainables.losses.surrogates import Surrogate


@dataclass(frozen=True)
class PartialAucLoss:
    """``surrogate`` over the hardest ``max_fpr`` of negatives and ``1 - min_tpr`` of positives of the batch."""

    card: LossCard
    surrogate: Surrogate
    max_fpr: float
    min_tpr: float = 0.0

    def __call__(self, scores: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
        """The loss of ``scores`` (n,) and ``labels`` (n,) in {0, 1}; raises as every pairwise loss does."""
        check_vectors(scores, labels, weights)
        no_weights(weights, self.card.name)
        positives, negatives = split_classes(labels)
        values = widen(scores.detach())
        of_positives = top_shares(-values[positives], (1 - self.min_tpr) * positives.numel())
        of_negatives = top_shares(values[negatives], self.max_fpr * negatives.numel())
        return pair_mean(self.surrogate, scores, positives, negatives, (of_positives, of_negatives))


@dataclass(frozen=True)
class TopPushLoss:
    """``surrogate`` over all positives and the ``k`` negatives of largest score (all of them when there are fewer)."""

    card: LossCard
    surrogate: Surrogate
    k: int = 1

    def __call__(self, scores: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
        """The loss of ``scores`` (n,) and ``labels`` (n,) in {0, 1}; raises as every pairwise loss does."""
        check_vectors(scores, labels, weights)
        no_weights(weights, self.card.name)
        positives, negatives = split_classes(labels)
        values = widen(scores.detach())
        of_positives = torch.full_like(values[positives], 1 / positives.numel())
        of_negatives = top_shares(values[negatives], float(self.k))
        return pair_mean(self.surrogate, scores, positives, negatives, (of_positives, of_negatives))


def top_shares(values: Tensor, mass: float) -> Tensor:
    """Weights (n,) that sum to 1 and spread over the ``mass`` largest of ``values``, ties at the boundary evenly.

    ``mass`` may be fractional; at least the largest value and at most all of them count.
    """
    mass = min(mass, float(values.numel()))
    # 0.3 * 10 is 3.0000000000000004: that is 3 examples, not 4
    place = max(1, math.ceil(mass - 1e-9))
    boundary = values.topk(place).values[-1]
    # counts in the dtype of the values: a Python float minus an integer tensor is float32
    above, tied = (values > boundary).to(values.dtype), (values == boundary).to(values.dtype)
    weights = above + tied * ((max(mass, 1e-12) - above.sum()) / tied.sum())
    return weights / weights.sum()
