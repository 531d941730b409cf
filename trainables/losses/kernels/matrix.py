"""Sums by the pair matrix itself: the fastest way for small batches and the yardstick for every other backend."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from trainables.losses.surrogates import Surrogate

WHOLE_PAIRS = 1 << 16
"""Pairs up to which the matrix is made at once."""

TILE_PAIRS = 1 << 20
"""Pairs held at a time of a larger matrix: 8 MiB of float64."""

CPU_TILE_PAIRS = 1 << 15
"""The same on a CPU: 256 KiB stay in its cache, while larger blocks are mapped and cleared anew by every operation,
which takes up to five times as long as the arithmetic."""


def sums(surrogate: Surrogate, orders: Sequence[int], p: Tensor, q: Tensor, weights: Tensor) -> list[Tensor]:
    """``out[o][i, k] = sum_j derivative_o(p_i - q_j) weights[j, k]`` in tiles of bounded memory.

    ``p`` (n+,), ``q`` (n-,), ``weights`` (n-, k), all float64; one (n+, k) tensor per order.
    """
    rows = rows_at_once(p, q)
    if rows >= p.numel():
        x = p[:, None] - q
        return [surrogate.derivative(x, order) @ weights for order in orders]
    out = [p.new_empty(p.numel(), weights.shape[1]) for _ in orders]
    for start in range(0, p.numel(), rows):
        x = p[start : start + rows, None] - q
        for result, order in zip(out, orders, strict=True):
            result[start : start + rows] = surrogate.derivative(x, order) @ weights
    return out


def rows_at_once(p: Tensor, q: Tensor) -> int:
    """How many rows of the matrix of ``p`` and ``q`` to hold at a time: all of a small one."""
    if p.numel() * q.numel() <= WHOLE_PAIRS:
        return p.numel()
    return max(1, (CPU_TILE_PAIRS if p.device.type == "cpu" else TILE_PAIRS) // q.numel())
