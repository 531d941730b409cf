"""The mean of a surrogate over all positive-negative pairs of a batch, with exact gradient and Hessian products.

    L = sum_ij v_i v_j loss(p_i - q_j) / sum_ij v_i v_j        p: positives' scores, q: negatives', v: example weights

The autograd node takes value and gradient from one pass of ``kernels`` in float64; its second derivative is the
score-space Hessian-vector product, so that ``create_graph=True`` works and no pair matrix is kept for backward.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from trainables.losses import kernels
from trainables.losses.common import result_dtype, widen
from trainables.losses.surrogates import Surrogate


def pair_mean(
    surrogate: Surrogate,
    scores: Tensor,
    positives: Tensor,
    negatives: Tensor,
    shares: tuple[Tensor, Tensor] | None = None,
    method: str = "auto",
) -> Tensor:
    """The (weighted) mean of ``surrogate`` over the pairs ``positives`` x ``negatives`` (positions in ``scores``).

    ``shares`` are the two classes' weights (n+,), (n-,), each summing to 1; None means equal weights.
    """
    result: Tensor = _PairMean.apply(scores, positives, negatives, shares, surrogate, method)
    return result


class _PairMean(torch.autograd.Function):
    """Value forward; the gradient is computed in the same pass and kept (n numbers)."""

    @staticmethod
    def forward(
        ctx: Any,
        scores: Tensor,
        positives: Tensor,
        negatives: Tensor,
        shares: tuple[Tensor, Tensor] | None,
        surrogate: Surrogate,
        method: str,
    ) -> Tensor:
        wide = widen(scores)
        value, of_positives, of_negatives = kernels.mean_and_gradient(
            surrogate, wide.index_select(0, positives), wide.index_select(0, negatives), shares, method
        )
        # index_select and index_copy_ take half the time of [], which counts in a small batch
        gradient = (
            torch.zeros_like(wide).index_copy_(0, positives, of_positives).index_copy_(0, negatives, of_negatives)
        )
        ctx.save_for_backward(scores, positives, negatives, gradient)
        ctx.shares, ctx.surrogate, ctx.method = shares, surrogate, method
        return value.to(result_dtype(scores))

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
        scores, positives, negatives, gradient = ctx.saved_tensors
        if torch.is_grad_enabled():
            gradient = _PairGradient.apply(
                scores, gradient, positives, negatives, ctx.shares, ctx.surrogate, ctx.method
            )
        return (outer * gradient).to(scores.dtype), None, None, None, None, None


class _PairGradient(torch.autograd.Function):
    """The gradient as a function of the scores; its derivative along a vector is the Hessian-vector product."""

    @staticmethod
    def forward(
        ctx: Any,
        scores: Tensor,
        gradient: Tensor,
        positives: Tensor,
        negatives: Tensor,
        shares: tuple[Tensor, Tensor] | None,
        surrogate: Surrogate,
        method: str,
    ) -> Tensor:
        ctx.save_for_backward(scores, positives, negatives)
        ctx.shares, ctx.surrogate, ctx.method = shares, surrogate, method
        return gradient.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, tangent: Tensor) -> tuple[Tensor | None, ...]:
        scores, positives, negatives = ctx.saved_tensors
        wide, tangent = widen(scores), widen(tangent)
        of_positives, of_negatives = kernels.hessian_product(
            ctx.surrogate,
            wide[positives],
            wide[negatives],
            tangent[positives],
            tangent[negatives],
            ctx.shares,
            ctx.method,
        )
        product = torch.zeros_like(wide)
        product[positives] = of_positives
        product[negatives] = of_negatives
        return product.to(scores.dtype), None, None, None, None, None, None
