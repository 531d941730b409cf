"""Which objective each update minimises: CE on the logit first, then the pairwise loss on the scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from search_spaces.errors import TrialError
from search_spaces.trial import TrialConfig
from trainables.losses import make_loss
from trainables.losses.scheduled import ScheduledLoss

Objective = Callable[[Tensor, Tensor], Tensor]
"""(logits (n,), labels (n,)) -> scalar loss. For several classes logits are (n, C), for several labels both (n, L)."""

SCORE_SCALES = ("sigmoid", "identity", "log_softmax")


@dataclass(frozen=True)
class Phases:
    """The objectives of a run: ``ce`` for the first ``ce_updates`` updates, then ``own``, the run's own loss."""

    ce_updates: int
    loss: str
    ce: Objective
    own: Objective
    module: nn.Module | None = None
    """The run's own loss when it has variables to train and to save (``aucm``)."""

    moving: Callable[[int], Objective] | None = None
    """The run's own objective by update, where it changes over the phase (``scheduled``)."""

    def at(self, update: int) -> tuple[str, Objective]:
        """Name and objective of the update made after ``update`` others (0-based)."""
        if update < self.ce_updates:
            return "ce", self.ce
        return self.loss, self.own if self.moving is None else self.moving(update)


def ce_updates(config: TrialConfig) -> int:
    """How many of the run's first updates use plain CE: all of a CE run's, none of a direct run's, W of a warm-up's."""
    if config.loss == "ce":
        return config.total_updates
    return config.warmup_updates if config.mode == "warmup" else 0


def make_phases(config: TrialConfig) -> Phases:
    """The phases of ``config``. Raises ``TrialError`` for an unknown score scale, ``LossError`` for a loss.

    A baseline that is not pairwise has no score scale and acts on the logits, like CE.
    """
    own = make_loss(config.loss, margin=config.margin, **config.loss_params)
    return Phases(
        ce_updates=ce_updates(config),
        loss=config.loss,
        ce=_on_scale(make_loss("ce"), "identity"),
        own=_on_scale(own, config.score_scale or "identity"),
        module=own if isinstance(own, nn.Module) else None,
        moving=_moving(own, config) if isinstance(own, ScheduledLoss) else None,
    )


def _moving(loss: ScheduledLoss, config: TrialConfig) -> Callable[[int], Objective]:
    """What ``loss`` is at each update: the phase begins at the switch and ends with the run."""
    first = ce_updates(config)

    def at(update: int) -> Objective:
        share = (update - first) / (config.total_updates - first)

        def objective(logits: Tensor, labels: Tensor) -> Tensor:
            wide = _widened(logits)
            return loss.value(share, wide, _scaled(wide, config.score_scale or "identity"), labels)

        return objective

    return at


def _on_scale(loss: Objective, scale: str) -> Objective:
    """``loss`` applied to the logits (``identity``), their sigmoid or their log-softmax, in float32 or better.

    Half-precision logits are widened first: sigmoids near 0 and 1 and the margins between them lose their order in
    bfloat16, which keeps 8 bits.
    """
    if scale not in SCORE_SCALES:
        raise TrialError(f"unknown score_scale {scale!r} (allowed: {', '.join(SCORE_SCALES)})")

    def objective(logits: Tensor, labels: Tensor) -> Tensor:
        return loss(_scaled(_widened(logits), scale), labels)

    return objective


def _widened(logits: Tensor) -> Tensor:
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def _scaled(logits: Tensor, scale: str) -> Tensor:
    if scale == "log_softmax":
        return torch.log_softmax(logits, 1)
    return torch.sigmoid(logits) if scale == "sigmoid" else logits
