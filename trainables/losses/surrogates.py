"""The pairwise surrogates as functions of the margin x = f(x+) - f(x-), with their derivatives.

At the kink x = m the hinge has weight 0 and curvature 0, and the squared hinge curvature 0.
Source: Table 1 of the paper (``shared/paper/protocol.md``); the smoothed indicator is 1 / (1 + e^(k x)).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class Surrogate:
    """One surrogate at one margin or steepness (1 where it has none). Every method is elementwise on x."""

    name: str
    margin: float | None = None
    steepness: float = 1.0

    def value(self, x: Tensor) -> Tensor:
        """The loss."""
        return self.derivative(x, 0)

    def weight(self, x: Tensor) -> Tensor:
        """Minus the derivative of the loss."""
        return self.derivative(x, 1)

    def curvature(self, x: Tensor) -> Tensor:
        """The second derivative of the loss (0 at a kink)."""
        return self.derivative(x, 2)

    def derivative(self, x: Tensor, order: int) -> Tensor:
        """``value``, ``weight`` or ``curvature`` for ``order`` 0, 1 or 2: the loss differentiated by -x."""
        if self.name == "smoothed_indicator":
            # 1 / (1 + e^x) is the weight of the logistic loss, so that each order is one further derivative of that
            return _FORMS["logistic"][order + 1](self.steepness * x, 0.0) * self.steepness**order
        return _FORMS[self.name][order](x, self.margin or 0.0)

    def __call__(self, x: Tensor) -> Tensor:
        """The loss elementwise, for autograd: its first and second derivatives are the exact ones at a kink too."""
        losses: Tensor = _Elementwise.apply(x, self, 0)
        return losses


class _Elementwise(torch.autograd.Function):
    """A derivative of a surrogate, which differentiates to the next one."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, surrogate: Surrogate, order: int) -> Tensor:
        ctx.save_for_backward(x)
        ctx.surrogate, ctx.order = surrogate, order
        return surrogate.derivative(x, order)

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        if ctx.order == 2:
            raise NotImplementedError("surrogates have two derivatives")
        return -outer * _Elementwise.apply(x, ctx.surrogate, ctx.order + 1), None, None


_Form = Callable[[Tensor, float], Tensor]


def _sigmoid_curvature(x: Tensor, _: float) -> Tensor:
    return torch.sigmoid(x) * torch.sigmoid(-x)


def _sigmoid_third(x: Tensor, _: float) -> Tensor:
    return torch.sigmoid(x) * torch.sigmoid(-x) * torch.tanh(x / 2)


def _exponential(x: Tensor, _: float) -> Tensor:
    return torch.exp(-x)


_FORMS: dict[str, tuple[_Form, ...]] = {
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
        _sigmoid_third,
    ),
    "exponential": (_exponential, _exponential, _exponential),
}

SURROGATES = (*_FORMS, "smoothed_indicator")
"""Names of the pairwise surrogates."""
