"""The loss of each negative against all positives, L_j = mean over i of l(p_i - q_j): what top-heavy losses weigh.

One pass of the kernel engine each way, so that O(n log n) surrogates stay so.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from trainables.losses import kernels
from trainables.losses.common import widen
from trainables.losses.surrogates import Surrogate


def column_losses(
    surrogate: Surrogate, scores: Tensor, positives: Tensor, negatives: Tensor, shares: Tensor | None = None
) -> Tensor:
    """L_j (n-,) in float64 for positions ``positives``, ``negatives`` of ``scores`` (n,). Differentiable twice.

    ``shares`` (n+,) are the weights of the mean over positives, which sum to 1; None is the plain mean.
    """
    losses: Tensor = _ColumnLosses.apply(scores, positives, negatives, shares, surrogate)
    return losses


class _ColumnLosses(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, positives: Tensor, negatives: Tensor, shares: Tensor | None, surrogate: Surrogate
    ) -> Tensor:
        p, q = widen(scores[positives]), widen(scores[negatives])
        of_p = torch.full_like(p, 1 / p.numel()) if shares is None else shares
        values, weights = kernels.column_sums(surrogate, (0, 1), p, q, of_p[:, None])
        ctx.save_for_backward(scores, positives, negatives, of_p, weights[:, 0])
        ctx.surrogate = surrogate
        return values[:, 0]

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
        scores, positives, negatives, of_p, weights = ctx.saved_tensors
        gradient = _ColumnGradient.apply(scores, outer, positives, negatives, of_p, weights, ctx.surrogate)
        return gradient, None, None, None, None


class _ColumnGradient(torch.autograd.Function):
    """The gradient of u.L by the scores, as a function of the scores and of ``outer`` u (n-,).

    Its derivative along a tangent (a on positives, b on negatives) is that of sum_ij v_i u_j w_ij (b_j - a_i).
    """

    @staticmethod
    def forward(
        ctx: Any,
        scores: Tensor,
        outer: Tensor,
        positives: Tensor,
        negatives: Tensor,
        of_p: Tensor,
        weights: Tensor,
        surrogate: Surrogate,
    ) -> Tensor:
        p, q = widen(scores[positives]), widen(scores[negatives])
        (rows,) = kernels.row_sums(surrogate, (1,), p, q, outer[:, None])
        gradient = outer.new_zeros(scores.shape)
        gradient[positives] = -of_p * rows[:, 0]
        gradient[negatives] = outer * weights
        ctx.save_for_backward(scores, outer, positives, negatives, of_p)
        ctx.surrogate = surrogate
        return gradient.to(scores.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, tangent: Tensor) -> tuple[Tensor | None, ...]:
        scores, outer, positives, negatives, of_p = ctx.saved_tensors
        p, q = widen(scores[positives]), widen(scores[negatives])
        a, b = widen(tangent[positives]), widen(tangent[negatives])
        weights, curvatures = kernels.column_sums(ctx.surrogate, (1, 2), p, q, torch.stack((of_p, of_p * a), 1))
        (rows,) = kernels.row_sums(ctx.surrogate, (2,), p, q, torch.stack((outer, outer * b), 1))
        product = outer.new_zeros(scores.shape)
        product[positives] = of_p * (a * rows[:, 0] - rows[:, 1])
        product[negatives] = outer * (b * curvatures[:, 0] - curvatures[:, 1])
        of_outer = b * weights[:, 0] - weights[:, 1]
        return product.to(scores.dtype), of_outer, None, None, None, None, None
