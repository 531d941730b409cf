"""Hinge and squared hinge sums in O(n log n): sort, cumulate, look up.

With q sorted from the largest down, the pairs of row i with x < m are its first c_i ones, and

    S_r(i) = sum over them of weight_j (m - p_i + q_j)^r,   r = 0, 1, 2

follows from the sums at the last active knot q_c, which grow by gaps between neighbours: every term added is of one
sign (for weights >= 0), so that nothing cancels however large the scores are. Whether a pair is active is decided by
the floating-point difference of the raw scores, p - q < m, exactly as the pair matrix decides it.
Same idea as Rust & Hocking 2023 (arXiv 2302.11062), whose running coefficients are not centred.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from trainables.losses.surrogates import Surrogate


def sums(surrogate: Surrogate, orders: Sequence[int], p: Tensor, q: Tensor, weights: Tensor) -> list[Tensor]:
    """Row sums of the hinge or the squared hinge (see ``matrix.sums``)."""
    margin = surrogate.margin or 0.0
    below, order = (-q).sort()
    count = active_count(p, below, margin)
    last = (count - 1).clamp(min=0)
    inside = (count > 0)[:, None]
    reach = (margin - (p + below[last]))[:, None]

    highest = max(0, (1 if surrogate.name == "hinge" else 2) - min(orders))
    mass = weights[order].cumsum(0)
    knots = [mass]
    gaps = (below[1:] - below[:-1])[:, None]
    if highest >= 1:
        knots.append(_from_zero(gaps * mass[:-1]))
    if highest >= 2:
        knots.append(_from_zero(gaps * (2 * knots[1][:-1] + gaps * mass[:-1])))
    moments = [torch.where(inside, knot[last], 0.0) for knot in knots]

    def truncated(power: int) -> Tensor:
        if power == 0:
            return moments[0]
        if power == 1:
            return moments[1] + reach * moments[0]
        return moments[2] + reach * (2 * moments[1] + reach * moments[0])

    if surrogate.name == "hinge":
        return [truncated(1 - order) if order < 2 else torch.zeros_like(moments[0]) for order in orders]
    return [truncated(2 - order) * (1 if order == 0 else 2) for order in orders]


def active_count(p: Tensor, below: Tensor, margin: float) -> Tensor:
    """For each p_i the number of pairs with p_i - q_j < margin, where ``below`` is -q in ascending order.

    The search compares -q with margin - p, which can round the other way than p - q against margin. Rounding is
    monotone, so the answer is still a prefix: where it is off, it is bisected again by the pair's own difference.
    """
    count = torch.searchsorted(below, margin - p)
    size = below.numel()
    too_many = (count > 0) & ~(p + below[(count - 1).clamp(min=0)] < margin)
    too_few = (count < size) & (p + below[count.clamp(max=size - 1)] < margin)
    wrong = (too_many | too_few).nonzero().squeeze(1)
    if wrong.numel():
        count[wrong] = _bisect(p[wrong], below, margin)
    return count


def _bisect(p: Tensor, below: Tensor, margin: float) -> Tensor:
    size = below.numel()
    low = torch.zeros(p.shape, dtype=torch.int64, device=p.device)
    high = torch.full_like(low, size)
    for _ in range(size.bit_length()):
        middle = (low + high) // 2
        active = (middle < high) & (p + below[middle.clamp(max=size - 1)] < margin)
        low = torch.where(active, middle + 1, low)
        high = torch.where(active, high, middle)
    return low


def _from_zero(steps: Tensor) -> Tensor:
    """Cumulative sums of ``steps`` (n-1, k) with a leading row of zeros: (n, k)."""
    return torch.cat((steps.new_zeros(1, steps.shape[1]), steps.cumsum(0)))
