"""Which objective each update minimises: CE on the logit first, then the run's own loss, or its phases of losses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from search_spaces.errors import TrialError
from search_spaces.losses import LOSSES
from search_spaces.phase_spec import PHASED
from search_spaces.trial import TrialConfig
from trainables.losses import make_loss
from trainables.losses.common import Loss, OneClassError
from trainables.losses.hypersimplex import Hypersimplex
from trainables.losses.selected_pairs import PairSelection, SelectedPairs
from trainables.losses.surrogates import Surrogate

SCORE_SCALES = ("sigmoid", "identity", "log_softmax")


class Objective(Protocol):
    """What an update minimises: logits (n,), labels (n,) and example weights (n,) or None give a scalar.

    For several classes logits are (n, C), for several labels both are (n, L).
    """

    def __call__(self, logits: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
        """The objective of one batch."""
        ...


class Step(NamedTuple):
    """One update's objective: the name of its loss, and whether it takes the weights of the task's examples."""

    name: str
    objective: Objective
    weighted: bool


@dataclass(frozen=True)
class Phase:
    """The updates up to ``last`` (exclusive), 0-based, and what each of them minimises."""

    last: int
    at: Callable[[int], Step]


@dataclass(frozen=True)
class Phases:
    """The phases of a run, in order; the last one ends with it."""

    phases: tuple[Phase, ...]
    module: nn.Module | None = None
    """The run's own loss when it has variables to train and to save (``aucm``)."""

    def at(self, update: int) -> Step:
        """What the update made after ``update`` others (0-based) minimises."""
        return next(phase for phase in self.phases if update < phase.last).at(update)


def ce_updates(config: TrialConfig) -> int:
    """How many of the run's first updates use plain CE: all of a CE run's, none of a direct run's, W of a warm-up's."""
    if config.loss == "ce":
        return config.total_updates
    return config.warmup_updates if config.mode == "warmup" else 0


def make_phases(config: TrialConfig, shares: Sequence[float] = ()) -> Phases:
    """The phases of ``config``. ``shares`` (C,) are the classes' expected shares of a batch, which some losses need.

    Raises ``TrialError`` for an unknown score scale and for phases that do not fill the run, ``LossError`` for a loss.

    A baseline that is not pairwise has no score scale and acts on the logits, like CE.
    """
    scale = config.score_scale or "identity"
    if scale not in SCORE_SCALES:
        raise TrialError(f"unknown score_scale {scale!r} (allowed: {', '.join(SCORE_SCALES)})")
    weighted = config.example_weights == "task"
    ce = Step("ce", _objective(make_loss("ce"), "identity"), weighted)
    phases = [Phase(ce_updates(config), lambda _: ce)]
    if config.loss == PHASED:
        for given in config.loss_params[PHASED]:
            phases.append(_phase(given, config, shares, first=phases[-1].last))
        if phases[-1].last != config.total_updates:
            raise TrialError(f"the phases end at update {phases[-1].last} of {config.total_updates}")
        return Phases(tuple(phases))
    loss = _made(config.loss, config.margin, config.loss_params, shares)
    own = Step(config.loss, _objective(loss, scale), weighted)
    phases.append(Phase(config.total_updates, lambda _: own))
    return Phases(tuple(phases), loss if isinstance(loss, nn.Module) else None)


def _made(name: str, margin: float | None, params: Mapping[str, Any], shares: Sequence[float]) -> Loss:
    loss = make_loss(name, margin=margin, **params)
    return loss.expecting(shares) if isinstance(loss, Hypersimplex) and shares else loss


def _phase(given: Mapping[str, Any], config: TrialConfig, shares: Sequence[float], first: int) -> Phase:
    """The phase ``given`` (as ``search_spaces.phase_spec.effective_loss`` writes it), which begins at ``first``."""
    updates = given["updates"]
    scale = "identity" if given["loss"] == "ce" else config.score_scale or "identity"
    weighted = given.get("weights", config.example_weights) == "task"
    factors, mixture = given.get("margin", (1, 1)), given.get("ce", (0, 0))

    def at(update: int) -> Step:
        share = (update - first) / (updates - 1) if updates > 1 else 1.0
        has_margin = LOSSES[given["loss"]].has_margin
        margin = (config.margin or 0.0) * _between(factors, share) if has_margin else None
        loss = _chosen(given, margin) if "pairs" in given else _made(given["loss"], margin, given["params"], shares)
        return Step(given["loss"], _objective(loss, scale, ce=_between(mixture, share)), weighted)

    return Phase(first + updates, at)


def _between(ends: Sequence[float], share: float) -> float:
    return ends[0] + (ends[1] - ends[0]) * share


def _chosen(given: Mapping[str, Any], margin: float | None) -> Loss:
    """The loss of a phase over the pairs it chooses."""
    pairs = given["pairs"]
    selection = PairSelection(
        negatives=pairs.get("hard_negatives"),
        max_fpr=pairs.get("max_fpr"),
        min_tpr=pairs.get("min_tpr"),
        budget=pairs.get("budget"),
        semi_hard=pairs.get("semi_hard", False),
    )
    surrogate = Surrogate(given["loss"], margin, given["params"].get("steepness", 1.0))
    return SelectedPairs(LOSSES[given["loss"]], surrogate, selection)


def _objective(loss: Loss, scale: str, ce: float = 0.0) -> Objective:
    """``ce`` times CE of the logits and the rest times ``loss`` of the scores, all in float32 or better.

    A batch without a pair has the CE alone where there is some.

    The scores are the logits (``identity``), their sigmoid or their log-softmax. Half-precision logits are widened
    first: sigmoids near 0 and 1 and the margins between them lose their order in bfloat16, which keeps 8 bits.
    """
    cross_entropy = make_loss("ce")

    def objective(logits: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
        wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
        if ce == 1.0:
            return cross_entropy(wide, labels, weights)
        try:
            own = loss(_scaled(wide, scale), labels, weights)
        except OneClassError:
            if not ce:
                raise
            return ce * cross_entropy(wide, labels, weights)
        return ce * cross_entropy(wide, labels, weights) + (1 - ce) * own if ce else own

    return objective


def _scaled(logits: Tensor, scale: str) -> Tensor:
    if scale == "log_softmax":
        return torch.log_softmax(logits, 1)
    return torch.sigmoid(logits) if scale == "sigmoid" else logits
