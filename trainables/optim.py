"""The optimizer of a run. One lives through the whole run, the switch included, with its moments."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from search_spaces.errors import TrialError
from search_spaces.trial import TrialConfig
from trainables.losses.aucm import AucMargin
from trainables.pesg import REFERENCE_AT, Pesg


def make_optimizer(
    parameters: Iterable[torch.nn.Parameter], config: TrialConfig, loss: nn.Module | None = None
) -> Optimizer:
    """SGD with momentum, AdamW (betas 0.9 and 0.999, eps 1e-8) or PESG over the parameters that require a gradient.

    Weight decay acts on all of them, biases and normalisation included: the text names no exception. The learning
    rate is set before every update by the loop. SGD and AdamW are the fused implementations, one call for all tensors:
    for a small network on a CPU a step takes a fifth of the time. ``loss`` is the run's loss when it has variables of
    its own, those of the AUC margin objective, which PESG and only PESG can train.

    Raises ``TrialError`` for another optimizer, and for one that does not fit the loss.
    """
    trainable = [parameter for parameter in parameters if parameter.requires_grad]
    if config.optimizer in ("adamw", "sgd", "pesg") and (config.optimizer == "pesg") != isinstance(loss, AucMargin):
        raise TrialError(f"optimizer {config.optimizer} cannot train loss {config.loss}: pesg and aucm go together")
    if isinstance(loss, AucMargin):
        return Pesg(trainable, loss, config.learning_rate, momentum=config.momentum, weight_decay=config.weight_decay)
    if config.optimizer == "sgd":
        return torch.optim.SGD(
            trainable, config.learning_rate, config.momentum, weight_decay=config.weight_decay, fused=True
        )
    if config.optimizer == "adamw":
        return torch.optim.AdamW(trainable, config.learning_rate, weight_decay=config.weight_decay, fused=True)
    raise TrialError(f"unknown optimizer {config.optimizer!r} (allowed: adamw, pesg, sgd)")


def after_update(optimizer: Optimizer, made: int, total: int) -> None:
    """What an optimizer does besides its steps, after ``made`` of ``total`` updates: PESG moves its reference point."""
    if isinstance(optimizer, Pesg) and made in {int(share * total) for share in REFERENCE_AT}:
        optimizer.update_reference()


def set_learning_rate(optimizer: Optimizer, rate: float) -> None:
    """Use ``rate`` for every parameter at the next step."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def clip_gradients(optimizer: Optimizer, max_norm: float | None) -> float:
    """Scale the gradients down to an L2 norm of ``max_norm`` (None: leave them) and return the norm they had.

    The norm is over all parameters together, as in ``torch.nn.utils.clip_grad_norm_``.
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    gradients: list[Tensor] = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients)
    if max_norm is not None:
        torch.nn.utils.clip_grads_with_norm_(parameters, max_norm, norm)
    return float(norm)
