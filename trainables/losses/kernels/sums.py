"""Choosing how to sum: the pair matrix for small batches, the surrogate's own fast method for large ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from trainables.losses.kernels import matrix
from trainables.losses.surrogates import Surrogate

Backend = Callable[[Surrogate, Sequence[int], Tensor, Tensor, Tensor], list[Tensor]]

METHODS = ("auto", "matrix", "fast")


def row_sums(
    surrogate: Surrogate, orders: Sequence[int], p: Tensor, q: Tensor, weights: Tensor, method: str = "auto"
) -> list[Tensor]:
    """``sum_j derivative_o(p_i - q_j) weights[j, k]`` for each order o (0 value, 1 weight, 2 curvature)."""
    return matrix.sums(surrogate, orders, p, q, weights)


def column_sums(
    surrogate: Surrogate, orders: Sequence[int], p: Tensor, q: Tensor, weights: Tensor, method: str = "auto"
) -> list[Tensor]:
    """``sum_i derivative_o(p_i - q_j) weights[i, k]`` for each order o: the row sums of the reflected problem."""
    return row_sums(surrogate, orders, -q, -p, weights, method)
