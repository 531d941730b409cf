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


def column_losses(surrogate: Surrogate, scores: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
    """L_j (n-,) in float64 for positions ``positives``, ``negatives`` of ``scores`` (n,). Differentiable once."""
    losses: Tensor = _ColumnLosses.apply(scores, positives, negatives, surrogate)
    return losses


class _ColumnLosses(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, positives: Tensor, negatives: Tensor, surrogate: Surrogate) -> Tensor:
        p, q = widen(scores[positives]), widen(scores[negatives])
        share = torch.full((p.numel(), 1), 1 / p.numel(), dtype=p.dtype, device=p.device)
        values, weights = kernels.column_sums(surrogate, (0, 1), p, q, share)
        ctx.save_for_backward(p, q, positives, negatives, weights[:, 0])
        ctx.surrogate, ctx.like = surrogate, scores
        return values[:, 0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
        p, q, positives, negatives, weights = ctx.saved_tensors
        (rows,) = kernels.row_sums(ctx.surrogate, (1,), p, q, outer[:, None])
        gradient = outer.new_zeros(ctx.like.shape)
        gradient[positives] = rows[:, 0] / -p.numel()
        gradient[negatives] = outer * weights
        return gradient.to(ctx.like.dtype), None, None, None
