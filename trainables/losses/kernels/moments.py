"""Square and exponential sums in O(n): both separate into a function of p times a function of q."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from trainables.losses.surrogates import Surrogate


def square_sums(surrogate: Surrogate, orders: Sequence[int], p: Tensor, q: Tensor, weights: Tensor) -> list[Tensor]:
    """(m - p + q)^2 and its derivatives, from the weighted moments of q about its mean (see ``matrix.sums``)."""
    centre = q.mean()
    shifted = q - centre
    mass, first, second = weights.sum(0), shifted @ weights, shifted.square() @ weights
    gap = ((surrogate.margin or 0.0) - (p - centre))[:, None]
    forms = {
        0: lambda: gap.square() * mass + 2 * gap * first + second,
        1: lambda: 2 * (gap * mass + first),
        2: lambda: (2 * mass).expand(p.numel(), -1),
    }
    return [forms[order]() for order in orders]


def exponential_sums(
    surrogate: Surrogate, orders: Sequence[int], p: Tensor, q: Tensor, weights: Tensor
) -> list[Tensor]:
    """e^(q - p), equal for every order, with each column scaled by its largest q of non-zero weight.

    So large scores do not overflow, nor small ones vanish, unless the sum itself does.
    """
    counts = weights != 0
    top = torch.where(counts, q[:, None], torch.finfo(q.dtype).min).amax(0)
    total = (torch.where(counts, torch.exp(q[:, None] - top), 0.0) * weights).sum(0)
    out = torch.exp(top - p[:, None]) * total
    out = torch.where(total == 0, torch.zeros_like(out), out)  # not inf * 0
    return [out for _ in orders]
