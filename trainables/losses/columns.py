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
    """L_j (n-,) in float64 for positions ``positives``, ``negatives`` of ``scores`` (n,). Differentiable once.

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
        ctx.save_for_backward(p, q, positives, negatives, shares, weights[:, 0])
        ctx.surrogate, ctx.like = surrogate, scores
        return values[:, 0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
        p, q, positives, negatives, shares, weights = ctx.saved_tensors
        (rows,) = kernels.row_sums(ctx.surrogate, (1,), p, q, outer[:, None])
        gradient = outer.new_zeros(ctx.like.shape)
        gradient[positives] = rows[:, 0] / -p.numel() if shares is None else -shares * rows[:, 0]
        gradient[negatives] = outer * weights
        return gradient.to(ctx.like.dtype), None, None, None, None
