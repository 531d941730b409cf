"""The soft-binary-argmax loss: the whole batch projected onto the hypersimplex (arXiv 2602.23336).

    loss = 1/2 |P_k(s / tau) - y|^2
    P_k(z) = argmin over {0 <= v <= 1, sum v = k} of |v - z|^2 = clip(z - lambda, 0, 1)

k is the number of positives, so that a vertex is a perfect labelling. On class scores (n, C) every column is projected
on its own and the losses are added. ``k="labels"`` counts the batch's positives (per class), ``k="expected"`` takes
their expected number, each class's share of the examples drawn times n (the paper's text), and ``k="share"`` takes
``share * n`` for every class (the paper's published image runs: n / 2).

What to know (``docs/losses.md``): clipped examples, the worst errors among them, get no gradient, so a small tau can
freeze training; a column with k = 0 or n gives no gradient at all; a constant added to a column changes nothing, so
the scores carry no threshold (choose one on training scores with ``choose_threshold(rule="count")``); the batch is
coupled, so accumulating over parts of it is another loss. Half precision is widened: the sums need it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import functional

from search_spaces.cards import LossCard
from trainables.losses.common import (
    LossError,
    OneClassError,
    check_vectors,
    check_weights,
    class_shares,
    result_dtype,
    split_classes,
    widen,
    with_nan,
)
from trainables.losses.macro import check_classes


@dataclass(frozen=True)
class Hypersimplex:
    """The loss at temperature ``tau``; ``reduction`` "sum" is the published one, "mean" divides by n."""

    card: LossCard
    tau: float
    k: str = "labels"
    share: float = 0.5
    reduction: str = "sum"
    shares: tuple[float, ...] | None = None
    """The expected share of each class, for ``k="expected"``; see ``expecting``."""

    def expecting(self, shares: Sequence[float]) -> Self:
        """The same loss for data of which ``shares`` (C,), in 0 .. 1, are positive: (1,) for scores (n,)."""
        return replace(self, shares=tuple(float(share) for share in shares))

    def __call__(self, scores: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
        """The loss of scores (n,) with labels (n,) in {0, 1}, or (n, C) with (n,) classes or (n, C) in {0, 1}.

        With ``k="labels"`` scores (n,) need both classes; raises ``OneClassError`` without.
        ``weights`` (n,), scaled to mean 1, weigh the examples' squared errors; the projection does not know them.
        """
        targets = self._targets(scores, labels)
        size = targets.shape[0]
        check_weights(weights, size)
        projected = project(widen(scores).reshape(targets.shape) / self.tau, self._counts(targets))
        errors = (projected - targets).square()
        if weights is not None:
            errors = errors * (class_shares(weights) * size)[:, None]
        loss = errors.sum() / 2
        return with_nan(loss / size if self.reduction == "mean" else loss, scores).to(result_dtype(scores))

    def _counts(self, targets: Tensor) -> Tensor:
        size = targets.shape[0]
        if self.k == "labels":
            return targets.sum(0)
        if self.k == "share":
            return torch.full_like(targets[0], self.share * size)
        if self.shares is None or len(self.shares) != targets.shape[1]:
            given = "none" if self.shares is None else str(len(self.shares))
            raise LossError(
                f"k=expected of loss hypersimplex needs {targets.shape[1]} expected shares, got {given}: "
                "loss.expecting(shares); a sweep takes them from the sampling"
            )
        return targets.new_tensor(self.shares) * size

    def _targets(self, scores: Tensor, labels: Tensor) -> Tensor:
        if scores.dim() == 1:
            check_vectors(scores, labels, None)
            try:
                split_classes(labels)
            except OneClassError:
                if self.k == "labels":  # the projection is the labels whatever the scores: nothing to learn
                    raise
            return widen(labels)[:, None]
        if labels.dim() == 1:
            check_classes(scores, labels)
            return widen(functional.one_hot(labels.to(torch.int64), scores.shape[1]))
        if scores.dim() != 2 or labels.shape != scores.shape or bool(((labels != 0) & (labels != 1)).any()):
            raise LossError(f"labels must be 0 or 1 and of shape {tuple(scores.shape)}, got {tuple(labels.shape)}")
        return widen(labels)


def project(z: Tensor, k: Tensor) -> Tensor:
    """Each column of ``z`` (n, C) projected onto {0 <= v <= 1, sum v = k_c}, ``k`` (C,) in 0 .. n, fractions allowed.

    O(n log n) and exact to rounding. The derivative along a vector g is g minus its mean over the unclipped entries, on
    those entries, and 0 elsewhere (0 throughout where nothing is unclipped).
    """
    projected: Tensor = _Projection.apply(z, k)
    return projected


class _Projection(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, k: Tensor) -> Tensor:
        level = _level(z, k)
        # the sum over the entries between the clips fixes the level to the last bit
        free = (z > level) & (z < level + 1)
        count = free.sum(0)
        ones = (z >= level + 1).sum(0)
        exact = ((z * free).sum(0) - (k - ones)) / count.clamp(min=1)
        projected = (z - torch.where(count > 0, exact, level)).clamp(0, 1)
        projected = torch.where(k <= 0, 0.0, torch.where(k >= z.shape[0], 1.0, projected))
        ctx.save_for_backward((projected > 0) & (projected < 1))
        return projected

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, None]:
        (free,) = ctx.saved_tensors
        mean = (outer * free).sum(0) / free.sum(0).clamp(min=1)
        return (outer - mean) * free, None


def _level(z: Tensor, k: Tensor) -> Tensor:
    """The lambda (C,) with sum clip(z - lambda, 0, 1) = k, from the 2n points where an entry is clipped."""
    points, order = torch.cat((z, z - 1)).sort(dim=0, descending=True)
    steps = torch.where(order < z.shape[0], 1.0, -1.0).to(z.dtype)
    growing = steps.cumsum(0)
    gained = (growing[:-1] * (points[:-1] - points[1:])).cumsum(0)
    reached = torch.cat((torch.zeros_like(gained[:1]), gained))
    place = (reached < k).sum(0).clamp(min=1) - 1
    pick = place[None]
    missing = (k - reached.gather(0, pick)[0]) / growing.gather(0, pick)[0].clamp(min=1)
    return points.gather(0, pick)[0] - missing
