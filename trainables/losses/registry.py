"""``make_loss`` and ``pair_weight``: from a name in a space to a callable."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from search_spaces.cards import LossCard
from search_spaces.errors import nearest
from search_spaces.loss_params import faults
from search_spaces.losses import LOSSES
from trainables.losses.aucm import AucMargin, AucMarginClosed
from trainables.losses.class_baselines import ClassBaseline, hinge, softmax_error
from trainables.losses.common import Loss, LossError
from trainables.losses.cross_entropy import CrossEntropy
from trainables.losses.hand_till import HandTill
from trainables.losses.hypersimplex import Hypersimplex
from trainables.losses.listwise import Listwise
from trainables.losses.p_norm_push import PNormPush
from trainables.losses.pairwise import PairwiseLoss
from trainables.losses.selected_pairs import PairSelection, SelectedPairs, semi_hard
from trainables.losses.surrogates import SURROGATES, Surrogate

Builder = Callable[[LossCard, float | None, Mapping[str, Any]], Loss]
"""Makes a loss from its card, its margin (checked) and all of its parameters (checked, defaults filled in)."""


def _surrogate(margin: float | None, params: Mapping[str, Any]) -> Surrogate:
    return Surrogate(params["surrogate"], margin)


BUILDERS: dict[str, Builder] = {
    "ce": lambda card, m, given: CrossEntropy(card),
    **{
        name: lambda card, m, given: PairwiseLoss(card, Surrogate(card.name, m, given.get("steepness", 1.0)))
        for name in SURROGATES
    },
    "partial_auc": lambda card, m, given: SelectedPairs(
        card, _surrogate(m, given), PairSelection(max_fpr=float(given["max_fpr"]), min_tpr=float(given["min_tpr"]))
    ),
    "top_push": lambda card, m, given: SelectedPairs(
        card, _surrogate(m, given), PairSelection(negatives=int(given["k"]))
    ),
    "p_norm_push": lambda card, m, given: PNormPush(card, _surrogate(None, given), float(given["p"])),
    "incomplete_pairs": lambda card, m, given: SelectedPairs(
        card, _surrogate(m, given), PairSelection(budget=int(given["per_example"]))
    ),
    "semi_hard": lambda card, m, given: SelectedPairs(card, _surrogate(m, given), PairSelection(semi_hard=True)),
    "listwise": lambda card, m, given: Listwise(card, float(given["tau"])),
    "hand_till": lambda card, m, given: HandTill(card, _surrogate(m, given)),
    "aucm": lambda card, m, given: AucMargin(card, m or 0.0, given["version"], given["variant"]),
    "aucm_closed": lambda card, m, given: AucMarginClosed(card, m or 0.0),
    "hypersimplex": lambda card, m, given: Hypersimplex(
        card, float(given["tau"]), given["k"], float(given["share"]), given["reduction"]
    ),
    "multiclass_hinge": lambda card, m, given: ClassBaseline(card, hinge),
    "softmax_mse": lambda card, m, given: ClassBaseline(card, softmax_error),
}
"""How each loss of ``search_spaces.losses`` is made, by name."""


def make_loss(name: str, margin: float | None = None, **params: Any) -> Loss:
    """The loss ``name``: a callable ``(scores (n,), labels (n,)) -> scalar tensor`` with a ``card``.

    ``ce`` takes logits; the pairwise losses take scores on the scale the caller trains on. Raises ``LossError`` (a
    ``ValueError``) for an unknown name or parameter and for a margin that is missing, needless or not positive.
    """
    card = _card(name)
    checked = check_margin(card, margin)
    if problems := faults(name, card.rules, params):
        raise LossError("; ".join(problems))
    return BUILDERS[name](card, checked, {**card.params, **params})


def register_loss(card: LossCard, build: Builder) -> None:
    """Make a loss of one's own known to ``make_loss`` and to spaces, in this process.

    ``build(card, margin, params)`` gets the checked margin and parameters, defaults filled in. Raises ``LossError`` for
    a name that is taken, for a parameter without a rule, and for a slip in the code that a small batch brings out.
    """
    if card.name in LOSSES:
        raise LossError(f"there is a loss {card.name!r} already")
    if set(card.params) != set(card.rules):
        raise LossError(f"every parameter of loss {card.name} needs a default and a rule, got {sorted(card.params)}")
    try:
        _try(card, build)
    except (AttributeError, LossError, NameError, TypeError) as error:
        raise LossError(f"loss {card.name} fails on 12 scores: {type(error).__name__}: {error}") from error
    except Exception as error:  # it may want a larger batch or another margin: the trials will tell
        said = f"{type(error).__name__}: {error}"
        warnings.warn(f"loss {card.name} could not be tried on 12 scores, trials may do ({said})", stacklevel=2)
    LOSSES[card.name] = card
    BUILDERS[card.name] = build


def _try(card: LossCard, build: Builder) -> None:
    """Raise what ``build``'s loss raises on a small batch of the first kind it is for, its gradient included.

    A slip in a loss of one's own would otherwise show in the trials, each of which fails.
    """
    loss = build(card, 0.5 if card.has_margin else None, dict(card.params))
    if not callable(loss):
        raise TypeError("its builder gives no callable; register a function of both classes' scores as on_classes(it)")
    scores = torch.linspace(-1, 1, 12 if card.kinds[0] == "binary" else 36).sin().requires_grad_()
    labels = torch.arange(12) % 2
    if card.kinds[0] != "binary":
        scores = scores.detach().reshape(12, 3).requires_grad_()
        labels = torch.arange(36).reshape(12, 3) % 2 if card.kinds[0] == "multilabel" else torch.arange(12) % 3
    for weights in (None, torch.ones(12)) if card.weighted else (None,):
        value = loss(scores, labels, weights)
        if not value.requires_grad:
            raise TypeError("its value has no gradient: compute it from the scores with torch, without detach or item")
        value.backward()  # type: ignore[no-untyped-call]


def pair_weight(name: str, x: Tensor, margin: float | None = None, **params: Any) -> Tensor:
    """The weight w(x) = -loss'(x) that the loss ``name`` gives a pair of margin ``x`` (any shape).

    For ``partial_auc``, ``top_push`` and ``incomplete_pairs`` it is that of a pair they choose (the others have none),
    for ``hand_till`` that of a pair of its two classes. Raises ``LossError`` as ``make_loss`` does, and for a loss
    whose weight depends on more than x and the choice of pairs: ``p_norm_push``, and those that are no mean over pairs.
    """
    loss = make_loss(name, margin, **params)
    if not isinstance(loss, PairwiseLoss | SelectedPairs | HandTill):
        raise LossError(f"loss {name} gives no weight to a single pair: {loss.card.weight}")
    x = torch.as_tensor(x)
    x = x if x.is_floating_point() else x.to(torch.float64)
    weight = loss.surrogate.weight(x)
    if isinstance(loss, SelectedPairs) and loss.selection.semi_hard:
        return torch.where(semi_hard(x, loss.surrogate), weight, 0.0)
    return weight


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
