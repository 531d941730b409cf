"""PESG, the optimizer of the AUC margin objective: descent in the model, a and b, ascent in alpha >= 0.

Yuan et al. 2021, and LibAUC 2.0.1 in SGD mode. Every step adds to the gradient a pull ``epoch_decay`` towards a
reference point and ``weight_decay`` towards 0; ``update_reference`` moves the reference to the mean of the iterates
since the last call (LibAUC's recipes do so at 50 % and 75 % of the epochs).

``variant="paper"``: the reference starts at the point where the objective does, momentum is heavy-ball (gain
1 / (1 - momentum)), alpha ascends its own gradient. ``variant="libauc-2.0.1"``, as shipped: the reference starts at
random numbers N(0, 0.01^2), gradients are clamped elementwise to +-1, the momentum buffer is
``(1 - momentum) * buffer + momentum * gradient`` (an average that keeps a tenth at 0.9: hardly any momentum), and
alpha follows 2 (m + b - a - alpha) from the updated a and b whatever the version of the loss.

Updates before the first one of the AUC margin objective, a CE warm-up, are plain SGD with heavy-ball momentum and
weight decay, the same for both variants; PESG starts with the objective, its momentum empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from trainables.losses.aucm import AucMargin
from trainables.losses.common import LossError

CLIP = 1.0
REFERENCE_SPREAD = 0.01
LARGEST_ALPHA = 999.0
REFERENCE_AT = (0.5, 0.75)
"""Shares of the run's updates after which the reference moves, as in LibAUC's recipes."""


class Pesg(Optimizer):
    """Steps the model's parameters and the auxiliary variables of ``loss`` together.

    ``state_dict`` holds momentum, reference point and averages; save ``loss.state_dict()`` beside it.
    The random reference of the shipped variant is drawn from torch's global generator at the first step.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        loss: AucMargin,
        lr: float = 0.1,
        *,
        momentum: float = 0.9,
        weight_decay: float = 1e-5,
        epoch_decay: float = 2e-3,
    ):
        for name, value in (("lr", lr), ("weight_decay", weight_decay), ("epoch_decay", epoch_decay)):
            if value < 0:
                raise LossError(f"{name} of PESG must not be negative, got {value}")
        if not 0 <= momentum < 1:
            raise LossError(f"momentum of PESG must be in [0, 1), got {momentum}")
        self.loss = loss
        self.shipped = loss.variant != "paper"
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "epoch_decay": epoch_decay}
        super().__init__([*parameters, loss.a, loss.b], defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One update from the gradients that the loss, or CE before it, left."""
        value = None
        if closure is not None:
            with torch.enable_grad():
                value = closure()
        in_objective = self.loss.alpha.grad is not None
        for group in self.param_groups:
            for parameter in group["params"]:
                if in_objective and "reference" not in self.state[parameter]:
                    self.state[parameter] = self._start(parameter)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._step_one(parameter, group, in_objective)
            if in_objective:
                self._step_alpha(group["lr"])
        return value

    def _start(self, parameter: Tensor) -> dict[str, Any]:
        if self.shipped:
            reference = torch.empty(parameter.shape).normal_(mean=0, std=REFERENCE_SPREAD).to(parameter)
        else:
            reference = parameter.detach().clone()
        return {"reference": reference, "total": torch.zeros_like(parameter), "count": 0}

    def _step_one(self, parameter: Tensor, group: dict[str, Any], in_objective: bool) -> None:
        state, shipped = self.state[parameter], self.shipped and in_objective
        assert parameter.grad is not None
        direction = parameter.grad.clamp(-CLIP, CLIP) if shipped else parameter.grad
        if in_objective:
            direction = direction + group["epoch_decay"] * (parameter - state["reference"])
        direction = direction + group["weight_decay"] * parameter
        momentum = group["momentum"]
        if momentum:
            if "buffer" not in state:
                state["buffer"] = direction.clone()
            elif shipped:
                state["buffer"].mul_(1 - momentum).add_(direction, alpha=momentum)
            else:
                state["buffer"].mul_(momentum).add_(direction)
            direction = state["buffer"]
        parameter.sub_(group["lr"] * direction)
        if in_objective:
            state["total"].add_(parameter)
            state["count"] += 1

    def _step_alpha(self, rate: float) -> None:
        alpha = self.loss.alpha
        assert alpha.grad is not None
        slope = 2 * (self.loss.margin + self.loss.b - self.loss.a) - 2 * alpha if self.shipped else alpha.grad
        alpha.add_(rate * slope).clamp_(0, LARGEST_ALPHA if self.shipped else None)
        alpha.grad = None

    @torch.no_grad()
    def update_reference(self) -> None:
        """Move the reference point to the mean of the iterates since the last call (no-op before the first step)."""
        for state in self.state.values():
            if state.get("count"):
                state["reference"].copy_(state["total"] / state["count"])
                state["total"].zero_()
                state["count"] = 0
