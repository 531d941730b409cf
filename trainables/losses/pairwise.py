"""The pairwise losses by name: a surrogate averaged over the pairs of a batch, of one score, class scores or labels."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from search_spaces.cards import LossCard
from trainables.losses.common import check_vectors, weighted_classes
from trainables.losses.macro import multiclass_mean, multilabel_mean
from trainables.losses.pair_mean import pair_mean
from trainables.losses.surrogates import Surrogate


@dataclass(frozen=True)
class PairwiseLoss:
    """A surrogate averaged over the pairs of a batch.

    ``scores`` (n,) on whatever scale the caller trains on, ``labels`` (n,) in {0, 1}, ``weights`` (n,) >= 0: the weight
    of a pair is the product of its two examples' weights, and no gradient flows into them. Half-precision scores are
    widened; the result is float32 for them, else of the scores' dtype.
    Class scores (n, C) with labels (n,) give the macro one-vs-rest mean, with labels (n, C) in {0, 1} the mean over
    labels (``losses.macro``); ``weights`` are (n,) there too. Raises ``OneClassError`` for a batch of one class and
    ``LossError`` for wrong shapes, labels or weights.
    """

    card: LossCard
    surrogate: Surrogate
    method: str = "auto"

    @property
    def margin(self) -> float | None:
        """The margin m, or None where the surrogate has none."""
        return self.surrogate.margin

    def __call__(self, scores: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
        """The loss of one batch, a scalar tensor."""
        if scores.dim() == 2 and scores.shape[1] > 1:
            of_batch = multilabel_mean if labels.shape == scores.shape else multiclass_mean
            return of_batch(self.surrogate, scores, labels, weights)
        check_vectors(scores, labels, weights)
        positives, negatives, shares = weighted_classes(labels, weights)
        return pair_mean(self.surrogate, scores, positives, negatives, shares, self.method)
