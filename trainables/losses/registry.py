"""``make_loss`` and ``pair_weight``: from a name in a space to a callable."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from search_spaces.cards import LossCard
from search_spaces.errors import nearest
from search_spaces.losses import LOSSES
from trainables.losses.common import Loss, LossError
from trainables.losses.cross_entropy import CrossEntropy
from trainables.losses.pairwise import PairwiseLoss
from trainables.losses.surrogates import SURROGATES, Surrogate

Builder = Callable[[LossCard, float | None, Mapping[str, Any]], Loss]
"""Makes a loss from its card, its margin and all of its parameters (defaults filled in)."""

BUILDERS: dict[str, Builder] = {
    "ce": lambda card, margin, params: CrossEntropy(card),
    **{name: lambda card, margin, params: PairwiseLoss(card, Surrogate(card.name, margin)) for name in SURROGATES},
}


def make_loss(name: str, margin: float | None = None, **params: Any) -> Loss:
    """The loss ``name``: a callable ``(scores (n,), labels (n,)) -> scalar tensor`` with a ``card``.

    ``ce`` takes logits; the pairwise losses take scores on the scale the caller trains on. Raises ``LossError`` (a
    ``ValueError``) for an unknown name or parameter and for a margin that is missing, needless or not positive.
    """
    card = _card(name)
    checked = check_margin(card, margin)
    unknown = [key for key in params if key not in card.params]
    if unknown:
        allowed = nearest(unknown[0], card.params) if card.params else "it has none"
        raise LossError(f"loss {name} has no parameter {unknown[0]!r}: {allowed}")
    return BUILDERS[name](card, checked, {**card.params, **params})


def pair_weight(name: str, x: Tensor, margin: float | None = None) -> Tensor:
    """The weight w(x) = -loss'(x) that the pairwise loss ``name`` gives a pair of margin ``x`` (any shape).

    Raises ``LossError`` as ``make_loss`` does, and for a loss that has no weight per pair (``ce``).
    """
    card = _card(name)
    if name not in SURROGATES:
        raise LossError(f"loss {name} gives no weight to a single pair ({nearest(name, SURROGATES)})")
    x = torch.as_tensor(x)
    return Surrogate(name, check_margin(card, margin)).weight(x if x.is_floating_point() else x.to(torch.float64))


def check_margin(card: LossCard, margin: float | None) -> float | None:
    """``margin`` as a float where ``card`` has one. Raises ``LossError`` if missing, needless or not positive."""
    if not card.has_margin:
        if margin is not None:
            raise LossError(f"loss {card.name} has no margin, got margin={margin!r}; leave it out")
        return None
    if margin is None:
        raise LossError(f"loss {card.name} needs a margin, a positive number such as 0.5")
    try:
        value = float(margin)
    except (TypeError, ValueError):
        raise LossError(f"margin of loss {card.name} must be a positive number, got {margin!r}") from None
    if isinstance(margin, bool) or not math.isfinite(value) or value <= 0:
        raise LossError(f"margin of loss {card.name} must be a positive number, got {margin!r}")
    return value


def _card(name: str) -> LossCard:
    if name not in LOSSES:
        raise LossError(f"unknown loss {name!r}: {nearest(str(name), LOSSES)}")
    return LOSSES[name]
