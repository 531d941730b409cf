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
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from search_spaces.cards import LossCard
from trainables.losses.common import check_vectors, class_shares, result_dtype, split_classes, widen
from trainables.losses.kernels.matrix import TILE_PAIRS
from trainables.losses.pair_mean import pair_mean
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
        shares = self._hard(values, positives, negatives)
        if weights is not None:
            of_p, of_q = (1.0, 1.0) if shares is None else shares
            shares = class_shares(of_p * weights[positives]), class_shares(of_q * weights[negatives])
        hard_only = self.selection.budget is None and not self.selection.semi_hard
        if shares is not None and not (hard_only and weights is None):
            positives, of_p = _left(values, positives, shares[0])
            negatives, of_q = _left(values, negatives, shares[1])
            shares = of_p, of_q
        if hard_only:
            return pair_mean(self.surrogate, scores, positives, negatives, shares)
        wide = widen(scores)
        return self._mean(wide[positives], wide[negatives], shares).to(result_dtype(scores))

    def _hard(self, values: Tensor, positives: Tensor, negatives: Tensor) -> Shares:
        chosen = self.selection
        if chosen.negatives is None and chosen.max_fpr is None and chosen.min_tpr is None:
            return None
        max_fpr = 1.0 if chosen.max_fpr is None else chosen.max_fpr
        mass = float(chosen.negatives) if chosen.negatives is not None else max_fpr * negatives.numel()
        kept = (1 - (chosen.min_tpr or 0.0)) * positives.numel()
        return top_shares(-values[positives], kept), top_shares(values[negatives], mass)

    def _mean(self, p: Tensor, q: Tensor, shares: Shares) -> Tensor:
        """The mean over the budget, or the semi-hard pairs of it or of all, in parts of at most ``TILE_PAIRS`` pairs.

        The pairs of several parts are made again for the gradient, so that no more than one part is ever held.
        """
        if self.selection.budget is None:
            size, at_once = p.numel(), max(1, TILE_PAIRS // q.numel())
        else:
            size = min(self.selection.budget * max(p.numel(), q.numel()), p.numel() * q.numel())
            at_once = TILE_PAIRS

        def part(first: int, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
            last = min(first + at_once, size)
            up: Any = (slice(first, last), None)
            down: Any = slice(None)
            if self.selection.budget is not None:
                up, down = balanced_pairs(p.numel(), q.numel(), last, first=first, device=p.device)
            return self._sums(p[up] - q[down], None if shares is None else shares[0][up] * shares[1][down])

        if size <= at_once:
            total, mass = part(0, p, q)
        else:
            parts = [
                checkpoint(part, first, p, q, use_reentrant=False, preserve_rng_state=False)
                for first in range(0, size, at_once)
            ]
            total, mass = (torch.stack(each).sum() for each in zip(*parts, strict=True))
        return total / (torch.where(mass > 0, mass, 1) if self.selection.semi_hard else mass)

    def _sums(self, x: Tensor, of_pairs: Tensor | None) -> tuple[Tensor, Tensor]:
        """The sum of the losses of the pairs, or of the semi-hard ones among them, and of their weights."""
        losses = self.surrogate(x)
        if not self.selection.semi_hard:
            if of_pairs is None:
                return losses.sum(), losses.new_tensor(losses.numel())
            return (losses * of_pairs).sum(), of_pairs.sum()
        chosen = semi_hard(x, self.surrogate)
        losses = torch.where(chosen, losses, 0.0)
        if of_pairs is None:
            return losses.sum(), chosen.sum()
        return (losses * of_pairs).sum(), (of_pairs * chosen).sum()


def semi_hard(x: Tensor, surrogate: Surrogate) -> Tensor:
    """Whether each ``x`` is ranked right but inside the margin. A NaN is, so that it shows in the loss."""
    return ~((x <= 0) | (x >= (surrogate.margin or 0.0)))


def _left(values: Tensor, positions: Tensor, shares: Tensor) -> tuple[Tensor, Tensor]:
    """``positions`` and ``shares`` without those of share 0. A NaN score stays, so that it shows in the loss."""
    left = (shares > 0) | values[positions].isnan()
    return positions[left], shares[left]


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


def balanced_pairs(
    n_pos: int, n_neg: int, budget: int, *, first: int = 0, device: torch.device | None = None
) -> tuple[Tensor, Tensor]:
    """The first ``budget`` pairs (positions in each class) of an order in which every example takes its turn.

    No pair comes twice, and at ``n_pos * n_neg`` (the most there are) all have come. ``first`` pairs are left out.
    """
    turn = torch.arange(first, min(budget, n_pos * n_neg), device=device)
    return turn % n_pos, (turn + turn // math.lcm(n_pos, n_neg)) % n_neg
