"""The mean over pairs, its gradient and its Hessian-vector product, from row and column sums."""

from __future__ import annotations

import torch
from torch import Tensor

from trainables.losses.kernels import matrix
from trainables.losses.kernels.sums import column_sums, row_sums, takes_matrix
from trainables.losses.surrogates import Surrogate

Shares = tuple[Tensor, Tensor] | None
"""The two classes' weights (n+,) and (n-,), each summing to 1; None for equal weights."""


def mean_and_gradient(
    surrogate: Surrogate, p: Tensor, q: Tensor, shares: Shares = None, method: str = "auto"
) -> tuple[Tensor, Tensor, Tensor]:
    """The mean of the surrogate over pairs and its derivatives by ``p`` (n+,) and ``q`` (n-,), all float64."""
    if takes_matrix(surrogate, p, q, method):
        rows = matrix.rows_at_once(p, q)
        return _by_matrix(surrogate, p, q, shares) if rows >= p.numel() else _in_tiles(surrogate, p, q, shares, rows)
    of_p, of_q = shares if shares is not None else _equal(p, q)
    values, weights = row_sums(surrogate, (0, 1), p, q, of_q[:, None], method)
    (by_column,) = column_sums(surrogate, (1,), p, q, of_p[:, None], method)
    return of_p @ values[:, 0], -of_p * weights[:, 0], of_q * by_column[:, 0]


def _by_matrix(surrogate: Surrogate, p: Tensor, q: Tensor, shares: Shares) -> tuple[Tensor, Tensor, Tensor]:
    """Training batches live here: one matrix for everything, and as few calls as the plain formula."""
    x = p[:, None] - q
    values, weights, pairs = surrogate.value(x), surrogate.weight(x), x.numel()
    if shares is None:
        return values.sum() / pairs, weights.sum(1) / -pairs, weights.sum(0) / pairs
    of_p, of_q = shares
    return of_p @ values @ of_q, -of_p * (weights @ of_q), of_q * (of_p @ weights)


def _in_tiles(surrogate: Surrogate, p: Tensor, q: Tensor, shares: Shares, rows: int) -> tuple[Tensor, Tensor, Tensor]:
    """``rows`` rows of the pair matrix at a time."""
    value, of_p, of_q = p.new_zeros(()), torch.empty_like(p), torch.zeros_like(q)
    for start in range(0, p.numel(), rows):
        some = slice(start, start + rows)
        of_tile = _by_matrix(surrogate, p[some], q, None if shares is None else (shares[0][some], shares[1]))
        part = p[some].numel() / p.numel() if shares is None else 1.0  # of a plain mean over all rows
        value += part * of_tile[0]
        of_p[some] = part * of_tile[1]
        of_q += part * of_tile[2]
    return value, of_p, of_q


def hessian_product(
    surrogate: Surrogate,
    p: Tensor,
    q: Tensor,
    tangent_p: Tensor,
    tangent_q: Tensor,
    shares: Shares = None,
    method: str = "auto",
) -> tuple[Tensor, Tensor]:
    """The score-space Hessian of the mean times a tangent, as its parts on ``p`` (n+,) and ``q`` (n-,)."""
    of_p, of_q = shares if shares is not None else _equal(p, q)
    (rows,) = row_sums(surrogate, (2,), p, q, torch.stack((of_q, of_q * tangent_q), 1), method)
    (columns,) = column_sums(surrogate, (2,), p, q, torch.stack((of_p, of_p * tangent_p), 1), method)
    return of_p * (rows[:, 0] * tangent_p - rows[:, 1]), of_q * (columns[:, 0] * tangent_q - columns[:, 1])


def _equal(p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    return torch.full_like(p, 1 / p.numel()), torch.full_like(q, 1 / q.numel())
