"""Logistic sums in O(n K): the kernel log(1 + e^(q - p)) is analytic, hence of low rank on short intervals.

Scores are put in bins of width w <= 4. For a p and a q whose bins are d apart, x = d w + (u - v) w / 2 with u, v in
[-1, 1], and the kernel is interpolated at K x K Chebyshev nodes; its nearest singularity is at distance pi from the
real axis, so that K = log(1 / tolerance) / asinh(2 pi / w) gives the tolerance. The K x K matrices depend on d alone.
Where |x| is beyond 40 the kernel is replaced by its asymptote, -x or e^-x (relative error e^-40), which separates.
Value and weight agree with the pair matrix to about 1e-13 relative; the scores need no particular range.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

import torch
from torch import Tensor

from trainables.losses.kernels import matrix
from trainables.losses.surrogates import Surrogate

WIDTH = 4.0
FAR = 40.0
UNDERFLOW = 750.0
TOLERANCE = 1e-15
CHUNK = 8192
MOST_BINS = 1 << 15
"""Wider score ranges than ``WIDTH * MOST_BINS`` go to the tiled pair matrix."""


def sums(surrogate: Surrogate, orders: Sequence[int], p: Tensor, q: Tensor, weights: Tensor) -> list[Tensor]:
    """Row sums of the logistic surrogate (see ``matrix.sums``), up to its third derivative (order 3)."""
    low, high = float(torch.minimum(p.min(), q.min())), float(torch.maximum(p.max(), q.max()))
    bins = max(1, math.ceil((high - low) / WIDTH))
    if bins > MOST_BINS:
        return matrix.sums(surrogate, orders, p, q, weights)
    width = max((high - low) / bins, 1e-3)
    nodes = math.ceil(-math.log(TOLERANCE) / math.asinh(2 * math.pi / width))

    sources = _Binned(q, low, width, bins, nodes)
    targets = _Binned(p, low, width, bins, nodes)
    columns = weights.shape[1]
    gathered = sources.gather(weights)
    spread = _spread(surrogate, orders, gathered, width)
    out = targets.scatter(spread.reshape(bins, nodes, len(orders) * columns))
    results = [out[:, slot * columns : (slot + 1) * columns] for slot in range(len(orders))]

    reach = math.ceil(FAR / width)
    if bins > reach + 1:
        mass, first = sources.tails(weights, q - low, reach + 1, targets.index)
        decayed = sources.decayed(weights, reach + 1, targets)
        above = {0: first - (p - low)[:, None] * mass, 1: mass}
        results = [result + decayed + above.get(order, 0.0) for result, order in zip(results, orders, strict=True)]
    return results


def smoothed_indicator_sums(
    surrogate: Surrogate, orders: Sequence[int], p: Tensor, q: Tensor, weights: Tensor
) -> list[Tensor]:
    """Row sums of 1 / (1 + e^(k x)), which is the logistic weight of the scores times k."""
    k = surrogate.steepness
    found = sums(Surrogate("logistic"), [order + 1 for order in orders], k * p, k * q, weights)
    return [result * k**order for result, order in zip(found, orders, strict=True)]


class _Binned:
    """Scores sorted into bins of equal width, with their Chebyshev basis made chunk by chunk."""

    def __init__(self, scores: Tensor, low: float, width: float, bins: int, nodes: int):
        ordered, self.order = scores.sort()
        index = ((ordered - low) / width).floor().clamp(0, bins - 1).to(torch.int64)
        centres = low + (index.to(ordered.dtype) + 0.5) * width
        self.u = (ordered - centres) * (2 / width)
        self.width = width
        self.bins, self.nodes = bins, nodes
        self.index = torch.empty_like(index)
        self.index[self.order] = index
        counts = torch.bincount(index, minlength=bins)
        self.occupied = counts.nonzero().squeeze(1).tolist()
        self.ends = counts.cumsum(0)[self.occupied].tolist()

    def gather(self, weights: Tensor) -> Tensor:
        """(bins, K, k): for each bin the weighted sum of the basis over its scores."""
        ordered = weights[self.order]
        out = weights.new_zeros(self.bins, self.nodes, weights.shape[1])
        for basis, start, pieces in self._chunks():
            for bin_, first, last in pieces:
                out[bin_] += basis[:, first - start : last - start] @ ordered[first:last]
        return out

    def scatter(self, coefficients: Tensor) -> Tensor:
        """(n, c): the Chebyshev series ``coefficients[bin]`` (bins, K, c) at each score, in the scores' order."""
        ordered = coefficients.new_empty(self.u.numel(), coefficients.shape[2])
        for basis, start, pieces in self._chunks():
            for bin_, first, last in pieces:
                ordered[first:last] = basis[:, first - start : last - start].T @ coefficients[bin_]
        out = torch.empty_like(ordered)
        out[self.order] = ordered
        return out

    def tails(self, weights: Tensor, offsets: Tensor, distance: int, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Mass and first moment of ``offsets`` of all bins at least ``distance`` above each target's bin."""
        stacked = torch.cat((weights, weights * offsets[:, None]), 1)
        per_bin = stacked.new_zeros(self.bins + 1, stacked.shape[1]).index_add_(0, self.index, stacked)
        above = per_bin.flip(0).cumsum(0).flip(0)
        picked = above[(targets + distance).clamp(max=self.bins)]
        return picked[:, : weights.shape[1]], picked[:, weights.shape[1] :]

    def decayed(self, weights: Tensor, distance: int, targets: _Binned) -> Tensor:
        """The sum of weight_j e^(q_j - p_i) over all bins at least ``distance`` below each target's bin.

        Bin b's own part is scaled to its centre, and E_b = part_b + e^-w E_(b-1) is unrolled by doubling.
        """
        half = self.width / 2
        parts = weights[self.order] * torch.exp(self.u * half)[:, None]
        running = weights.new_zeros(self.bins + distance, weights.shape[1])
        running[distance:].index_add_(0, self.index[self.order], parts)
        step = 1
        while step < self.bins and step * self.width < UNDERFLOW:
            running[step:] += math.exp(-step * self.width) * running[:-step].clone()
            step *= 2
        ordered = running[targets.index[targets.order]] * torch.exp(-targets.u * half - distance * self.width)[:, None]
        out = torch.empty_like(ordered)
        out[targets.order] = ordered
        return out

    def _chunks(self) -> Iterator[tuple[Tensor, int, list[tuple[int, int, int]]]]:
        """The basis (K, m) of each chunk of sorted scores, its start, and the (bin, first, last) it is made of."""
        position = begin = 0
        for start in range(0, self.u.numel(), CHUNK):
            stop = min(start + CHUNK, self.u.numel())
            pieces = []
            begin = start
            while begin < stop:
                last = min(self.ends[position], stop)
                pieces.append((self.occupied[position], begin, last))
                begin = last
                position += last == self.ends[position]
            yield _basis(self.u[start:stop], self.nodes), start, pieces


def _spread(surrogate: Surrogate, orders: Sequence[int], gathered: Tensor, width: float) -> Tensor:
    """(bins, K, orders, k): the near field, every bin's gathered series taken through the kernel to every bin."""
    bins, nodes, columns = gathered.shape
    reach = min(bins - 1, math.ceil(FAR / width))
    points, to_series = _nodes(nodes)
    points, to_series = points.to(gathered.device), to_series.to(gathered.device)
    x = (width / 2) * (points[:, None] - points)
    out = gathered.new_zeros(bins, nodes, len(orders), columns)
    for distance in range(-reach, reach + 1):
        source = gathered[max(0, -distance) : bins - max(0, distance)]
        target = out[max(0, distance) : bins - max(0, -distance)]
        for slot, order in enumerate(orders):
            kernel = to_series @ surrogate.derivative(x + distance * width, order) @ to_series.T
            target[:, :, slot] += kernel @ source
    return out


def _basis(u: Tensor, nodes: int) -> Tensor:
    """T_0(u) .. T_{K-1}(u), shape (K, m)."""
    out = u.new_empty(max(2, nodes), u.numel())
    out[0] = 1
    out[1] = u
    twice = 2 * u
    for k in range(2, nodes):
        torch.mul(twice, out[k - 1], out=out[k])
        out[k] -= out[k - 2]
    return out[:nodes]


@lru_cache(maxsize=64)
def _nodes(nodes: int) -> tuple[Tensor, Tensor]:
    """The K Chebyshev nodes and the (K, K) matrix from values at them to coefficients."""
    angles = (torch.arange(nodes, dtype=torch.float64) + 0.5) * (math.pi / nodes)
    to_series = torch.cos(torch.arange(nodes, dtype=torch.float64)[:, None] * angles) * (2 / nodes)
    to_series[0] /= 2
    return torch.cos(angles), to_series
