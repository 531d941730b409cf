"""Choosing how to sum: the pair matrix for small batches, the surrogate's own fast method for large ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from trainables.losses.common import LossError
from trainables.losses.kernels import chebyshev, matrix, moments, truncated
from trainables.losses.surrogates import Surrogate

Backend = Callable[[Surrogate, Sequence[int], Tensor, Tensor, Tensor], list[Tensor]]

METHODS = ("auto", "matrix", "fast")

FAST: dict[str, Backend] = {
    "square": moments.square_sums,
    "exponential": moments.exponential_sums,
    "hinge": truncated.sums,
    "squared_hinge": truncated.sums,
    "logistic": chebyshev.sums,
    "smoothed_indicator": chebyshev.smoothed_indicator_sums,
}

MATRIX_UP_TO = {
    "square": 20_000,
    "exponential": 20_000,
    "hinge": 120_000,
    "squared_hinge": 150_000,
    "logistic": 350_000,
    "smoothed_indicator": 800_000,
}
"""Pairs up to which the matrix is faster than the fast method, measured on one CPU thread (benchmarks/losses.py)."""


def takes_matrix(surrogate: Surrogate, p: Tensor, q: Tensor, method: str) -> bool:
    """Whether the pairs of ``p`` and ``q`` are few enough for one pair matrix. Raises for an unknown ``method``."""
    if method not in METHODS:
        raise LossError(f"method must be one of {METHODS}, got {method!r}")
    return method != "fast" and p.numel() * q.numel() <= MATRIX_UP_TO[surrogate.name]


def row_sums(
    surrogate: Surrogate, orders: Sequence[int], p: Tensor, q: Tensor, weights: Tensor, method: str = "auto"
) -> list[Tensor]:
    """``sum_j derivative_o(p_i - q_j) weights[j, k]`` for each order o (0 value, 1 weight, 2 curvature).

    ``p`` (n+,), ``q`` (n-,) and ``weights`` (n-, k) are float64 on one device; each result is (n+, k). The weights may
    have any sign. ``method`` is ``auto`` (by size), ``matrix`` or ``fast``. Large inputs that hold a NaN or an infinity
    give NaN throughout. With weights a_j times 1 this gives the Hoeffding row projections of psi.
    """
    if method == "matrix" or takes_matrix(surrogate, p, q, method):
        return matrix.sums(surrogate, orders, p, q, weights)
    if not bool(torch.isfinite(p.sum() + q.sum())):
        return [p.new_full((p.numel(), weights.shape[1]), torch.nan) for _ in orders]
    return FAST[surrogate.name](surrogate, orders, p, q, weights)


def column_sums(
    surrogate: Surrogate, orders: Sequence[int], p: Tensor, q: Tensor, weights: Tensor, method: str = "auto"
) -> list[Tensor]:
    """``sum_i derivative_o(p_i - q_j) weights[i, k]`` for each order o: (n-, k) from weights (n+, k).

    These are the row sums of the reflected problem, since p - q = (-q) - (-p) to the last bit.
    """
    return row_sums(surrogate, orders, -q, -p, weights, method)
