"""Sums by the pair matrix itself: the fastest way for small batches and the yardstick for every other backend."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from trainables.losses.surrogates import Surrogate

TILE_PAIRS = 1 << 20
"""Pairs held at a time: 8 MiB of float64."""


def sums(surrogate: Surrogate, orders: Sequence[int], p: Tensor, q: Tensor, weights: Tensor) -> list[Tensor]:
    """``out[o][i, k] = sum_j derivative_o(p_i - q_j) weights[j, k]`` in tiles of bounded memory.

    ``p`` (n+,), ``q`` (n-,), ``weights`` (n-, k), all float64; one (n+, k) tensor per order.
    """
    rows = max(1, TILE_PAIRS // max(1, q.numel()))
    if rows >= p.numel():
        x = p[:, None] - q
        return [surrogate.derivative(x, order) @ weights for order in orders]
    out = [p.new_empty(p.numel(), weights.shape[1]) for _ in orders]
    for start in range(0, p.numel(), rows):
        x = p[start : start + rows, None] - q
        for result, order in zip(out, orders, strict=True):
            result[start : start + rows] = surrogate.derivative(x, order) @ weights
    return out
