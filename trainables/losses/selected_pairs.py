"""A surrogate over some of the pairs: the hardest examples of each class, a budget of pairs, the semi-hard ones.

The parts compose, in this order:

- hard: the ``negatives`` of largest score, or the ``max_fpr`` share of negatives of largest and the ``1 - min_tpr``
  share of positives of smallest score. A share that is no whole number of examples takes a fraction of the last one,
  and examples tied at the boundary share it evenly, so that nothing depends on the order of the batch.
- example weights are multiplied on; they do not move the selection.
- a ``budget`` of pairs for each example of the larger class among those that are left: a balanced incomplete
  U-statistic (Blom 1976; Clemencon, Colin, Bellet, JMLR 2016). The design is fixed, and the order of the batch, which
  the sampler shuffles, is the randomness: a cut run goes on bit-equal with nothing to save.
- of those pairs the semi-hard ones, ranked right but by less than the margin, 0 < x < m; the loss is 0 without any.

The gradient holds the selection fixed, which is its exact derivative almost everywhere. The boundary of the hard part
is an order statistic *of the batch*: it fluctuates from batch to batch, and this adds a first-order term to the
variance of the gradient that no weight per pair shows (section C.1 of the paper). A share of a batch of 24 is a handful
of examples: raise the batch, or max_fpr.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from search_spaces.cards import LossCard
from trainables.losses.common import check_vectors, class_shares, result_dtype, split_classes, widen
from trainables.losses.kernels.matrix import TILE_PAIRS
from trainables.losses.pairwise import pair_mean
from trainables.losses.surrogates import Surrogate

Shares = tuple[Tensor, Tensor] | None
"""The weights of positives (n+,) and negatives (n-,), each summing to 1; None for equal weights."""


@dataclass(frozen=True)
class PairSelection:
    """Which pairs count; None and False leave a part out. ``max_fpr`` and ``min_tpr`` are shares of a class."""

    negatives: int | None = None
    max_fpr: float | None = None
    min_tpr: float | None = None
    budget: int | None = None
    semi_hard: bool = False


@dataclass(frozen=True)
class SelectedPairs:
    """``surrogate`` averaged over the pairs that ``selection`` chooses."""

    card: LossCard
    surrogate: Surrogate
    selection: PairSelection

    def __call__(self, scores: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
        """The loss of ``scores`` (n,) and ``labels`` (n,) in {0, 1}; raises as every pairwise loss does."""
        check_vectors(scores, labels, weights)
        positives, negatives = split_classes(labels)
        values = widen(scores.detach())
        shares = self._hard(values[positives], values[negatives])
        if weights is not None:
            of_p, of_q = (1.0, 1.0) if shares is None else shares
            shares = class_shares(of_p * weights[positives]), class_shares(of_q * weights[negatives])
        if self.selection.budget is None and not self.selection.semi_hard:
            return pair_mean(self.surrogate, scores, positives, negatives, shares)
        wide = widen(scores)
        p, q = wide[positives], wide[negatives]
        mean = self._of_all(p, q, shares) if self.selection.budget is None else self._of_budget(p, q, shares)
        return mean.to(result_dtype(scores))

    def _hard(self, p: Tensor, q: Tensor) -> Shares:
        chosen = self.selection
        if chosen.negatives is None and chosen.max_fpr is None and chosen.min_tpr is None:
            return None
        max_fpr = 1.0 if chosen.max_fpr is None else chosen.max_fpr
        mass = float(chosen.negatives) if chosen.negatives is not None else max_fpr * q.numel()
        return top_shares(-p, (1 - (chosen.min_tpr or 0.0)) * p.numel()), top_shares(q, mass)

    def _of_budget(self, p: Tensor, q: Tensor, shares: Shares) -> Tensor:
        of_pairs = None
        if shares is not None:
            of_p, of_q = shares
            p, q = p[of_p > 0], q[of_q > 0]
        budget = (self.selection.budget or 0) * max(p.numel(), q.numel())
        first, second = balanced_pairs(p.numel(), q.numel(), budget, device=p.device)
        if shares is not None:
            of_pairs = of_p[of_p > 0][first] * of_q[of_q > 0][second]
        x = p[first] - q[second]
        if self.selection.semi_hard:
            return _quotient(*self._semi_hard(x, of_pairs))
        losses = self.surrogate(x)
        return losses.mean() if of_pairs is None else of_pairs @ losses / of_pairs.sum()

    def _of_all(self, p: Tensor, q: Tensor, shares: Shares) -> Tensor:
        """The semi-hard pairs of all, in tiles whose pairs are made again for the gradient."""

        def tile(some: Tensor, q: Tensor, of_some: Tensor | None) -> tuple[Tensor, Tensor]:
            of_pairs = None if of_some is None or shares is None else of_some[:, None] * shares[1]
            return self._semi_hard(some[:, None] - q, of_pairs)

        rows = max(1, TILE_PAIRS // q.numel())
        if rows >= p.numel():
            return _quotient(*tile(p, q, None if shares is None else shares[0]))
        cuts = [slice(start, start + rows) for start in range(0, p.numel(), rows)]
        sums = [
            checkpoint(tile, p[cut], q, None if shares is None else shares[0][cut], use_reentrant=False) for cut in cuts
        ]
        return _quotient(torch.stack([total for total, _ in sums]).sum(), torch.stack([mass for _, mass in sums]).sum())

    def _semi_hard(self, x: Tensor, of_pairs: Tensor | None) -> tuple[Tensor, Tensor]:
        """The sum of the losses of the semi-hard pairs, and of their weights."""
        chosen = ~((x <= 0) | (x >= (self.surrogate.margin or 0.0)))  # a NaN is chosen, so that it shows in the loss
        losses = torch.where(chosen, self.surrogate(x), 0.0)
        if of_pairs is None:
            return losses.sum(), chosen.sum()
        return (losses * of_pairs).sum(), (of_pairs * chosen).sum()


def _quotient(total: Tensor, mass: Tensor) -> Tensor:
    return total / torch.where(mass > 0, mass, 1)


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


def balanced_pairs(n_pos: int, n_neg: int, budget: int, *, device: torch.device | None = None) -> tuple[Tensor, Tensor]:
    """The first ``budget`` pairs (positions in each class) of an order in which every example takes its turn.

    No pair comes twice, and at ``n_pos * n_neg`` (the most there are) all have come.
    """
    turn = torch.arange(min(budget, n_pos * n_neg), device=device)
    return turn % n_pos, (turn + turn // math.lcm(n_pos, n_neg)) % n_neg
