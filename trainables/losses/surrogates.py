"""The five pairwise surrogates as functions of the margin x = f(x+) - f(x-), with their first two derivatives.

At the kink x = m the hinge has weight 0 and curvature 0, and the squared hinge curvature 0.
Source: Table 1 of the paper (``shared/paper/protocol.md``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class Surrogate:
    """One surrogate at one margin (``None`` for logistic and exponential). Every method is elementwise on x."""

    name: str
    margin: float | None = None

    def value(self, x: Tensor) -> Tensor:
        """The loss."""
        return _FORMS[self.name][0](x, self.margin or 0.0)

    def weight(self, x: Tensor) -> Tensor:
        """Minus the derivative of the loss."""
        return _FORMS[self.name][1](x, self.margin or 0.0)

    def curvature(self, x: Tensor) -> Tensor:
        """The second derivative of the loss (0 at a kink)."""
        return _FORMS[self.name][2](x, self.margin or 0.0)

    def derivative(self, x: Tensor, order: int) -> Tensor:
        """``value``, ``weight`` or ``curvature`` for ``order`` 0, 1 or 2: the loss differentiated by -x."""
        return _FORMS[self.name][order](x, self.margin or 0.0)


_Form = Callable[[Tensor, float], Tensor]


def _sigmoid_curvature(x: Tensor, _: float) -> Tensor:
    return torch.sigmoid(x) * torch.sigmoid(-x)


def _exponential(x: Tensor, _: float) -> Tensor:
    return torch.exp(-x)


_FORMS: dict[str, tuple[_Form, _Form, _Form]] = {
    "square": (
        lambda x, m: (m - x).square(),
        lambda x, m: 2 * (m - x),
        lambda x, m: torch.full_like(x, 2.0),
    ),
    "hinge": (
        lambda x, m: (m - x).clamp(min=0),
        lambda x, m: (x < m).to(x.dtype),
        lambda x, m: torch.zeros_like(x),
    ),
    "squared_hinge": (
        lambda x, m: (m - x).clamp(min=0).square(),
        lambda x, m: 2 * (m - x).clamp(min=0),
        lambda x, m: 2 * (x < m).to(x.dtype),
    ),
    # softplus switches to its linear branch at 20, an error of 2e-9; -logsigmoid is exact to rounding
    "logistic": (
        lambda x, _: -functional.logsigmoid(x),
        lambda x, _: torch.sigmoid(-x),
        _sigmoid_curvature,
    ),
    "exponential": (_exponential, _exponential, _exponential),
}

SURROGATES = tuple(_FORMS)
"""Names of the pairwise surrogates."""
