"""Phases: what a run minimises after its CE warm-up, as a named list in a space.

    phases:
      easy-to-hard:
        - share: 0.5                       # of the updates after the warm-up; the last phase takes the rest
          loss: squared_hinge
          margin: {from: 0.2, to: 1}       # times the cell's margin: a curriculum
          ce: {from: 0.5, to: 0}           # weight of CE in the mixture
        - loss: squared_hinge
          pairs: {hard_negatives: 8}       # which pairs count

The name then stands among ``losses`` and is multiplied with warm-up ratios, margins and seeds like any other. Here a
list is validated and counted; ``trainables.phases`` trains it.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationError

from search_spaces.batches import warmup_updates
from search_spaces.cards import ALL_KINDS, LossCard
from search_spaces.errors import nearest
from search_spaces.fields import Number, Whole, Word, complaints
from search_spaces.loss_families import WITH_MARGIN
from search_spaces.loss_spec import loss_card, loss_spec
from search_spaces.losses import LOSSES

PHASED = "phases"
"""``TrialConfig.loss`` of a run with phases of its own; they are in its ``loss_params``."""

WITH_PAIRS = ("square", "hinge", "squared_hinge", "logistic", "exponential", "smoothed_indicator")
"""The losses that are a mean over pairs, of which ``pairs`` can choose some."""

_CHOOSING = ("partial_auc", "top_push", "incomplete_pairs", "semi_hard")
"""Those that choose the pairs they are a mean over."""

Ramp = tuple[float, float]
"""A value at the first and at the last update of a phase, linear between them."""


def _ramp(value: Any) -> Any:
    if not isinstance(value, Mapping):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError("should be a number, or {from: number, to: number} for one that changes over the phase")
        return (value, value)
    wrong = [f"unknown key {key!r}, {nearest(str(key), ('from', 'to'))}" for key in value if key not in ("from", "to")]
    wrong += [f"{key} is missing" for key in ("from", "to") if key not in value]
    if wrong:
        raise ValueError(f"{'; '.join(wrong)} (write a number, or {{from: number, to: number}})")
    return (value["from"], value["to"])


def _written(ramp: Ramp) -> float | dict[str, float]:
    return ramp[0] if ramp[0] == ramp[1] else {"from": ramp[0], "to": ramp[1]}


def _in_phase(value: str) -> str:
    card = loss_card(value)
    if card.name == "aucm":
        raise ValueError("aucm has variables and an optimiser of its own and cannot be a phase; aucm_closed can")
    return loss_spec(card)


_RAMP = (BeforeValidator(_ramp), PlainSerializer(_written))
Factor = Annotated[Number, Field(gt=0, le=100)]
Portion = Annotated[Number, Field(ge=0, le=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Pairs(_Strict):
    """Which pairs of a batch count. The parts compose in this order: hard ones, a budget of those, the semi-hard."""

    hard_negatives: Annotated[Whole, Field(ge=1)] | None = None
    """The negatives of largest score, by number."""
    max_fpr: Annotated[Number, Field(gt=0, le=1)] | None = None
    """The negatives of largest score, by share."""
    min_tpr: Annotated[Number, Field(ge=0, lt=1)] | None = None
    """The positives of smallest score, by share: 1 - min_tpr of them."""
    budget: Annotated[Whole, Field(ge=1)] | None = None
    """Pairs for each example of the larger class."""
    semi_hard: bool = False
    """Pairs ranked right but by less than the margin."""


class Phase(_Strict):
    """One phase. ``margin`` and ``ce`` are numbers, or ``{from, to}``: linear from its first update to its last."""

    share: Annotated[Number, Field(gt=0, lt=1)] | None = None
    """Of the updates after the CE warm-up; None for the last phase, which takes the rest."""
    loss: Annotated[Word, AfterValidator(_in_phase)]
    margin: Annotated[tuple[Factor, Factor], *_RAMP] = (1.0, 1.0)
    """Times the margin of the cell."""
    ce: Annotated[tuple[Portion, Portion], *_RAMP] = (0.0, 0.0)
    """Weight c of CE on the logits: the phase minimises c CE + (1 - c) loss."""
    pairs: Pairs | None = None
    weights: Literal["none", "task"] | None = None
    """Whether the examples have the weights their task gives them; None is what the settings say."""


PhaseList = tuple[Phase, ...]


def read_phases(raw: Any) -> tuple[dict[str, PhaseList], list[str]]:
    """The valid phase lists of ``raw`` by name, and what is wrong with it, as sentences that begin with the key."""
    if raw is None:
        return {}, []
    if not isinstance(raw, Mapping):
        return {}, [f"{PHASED}: expected names with a list of phases each, got {raw!r}"]
    found: dict[str, PhaseList] = {}
    problems = []
    for name, listed in raw.items():
        phases, wrong = _read_list(name, listed)
        problems += [f"{PHASED}.{name}{line}" for line in wrong]
        if not wrong:
            found[str(name)] = phases
    return found, problems


def _read_list(name: Any, listed: Any) -> tuple[PhaseList, list[str]]:
    if not isinstance(name, str) or not name or not all(char.isalnum() or char in "-_." for char in name):
        return (), [": the name should be made of letters, digits, - _ and ."]
    if name in LOSSES or name == PHASED:
        return (), [f": {name!r} is a loss already, choose another name"]
    if not isinstance(listed, list | tuple) or not listed:
        return (), [": expected a list of at least one phase"]
    phases, wrong = [], []
    for index, item in enumerate(listed):
        try:
            phases.append(Phase.model_validate(item))
        except ValidationError as error:
            given = item if isinstance(item, Mapping) else {}
            wrong += [f".{index}.{key}: {line}" if key else f".{index}: {line}" for key, line in _said(error, given)]
    if wrong:
        return (), wrong
    for index, phase in enumerate(phases):
        wrong += [f".{index}.{line}" for line in _inconsistencies(phase, index, len(phases))]
    total = sum(Fraction(repr(phase.share)) for phase in phases[:-1] if phase.share is not None)
    if not wrong and total >= 1:
        wrong.append(f": the shares sum to {float(total):g}, which leaves nothing for the last phase")
    return tuple(phases), wrong


def _said(error: ValidationError, given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """``complaints``, each key once and without the index of an end of a ramp."""
    said: dict[str, str] = {}
    for key, line in complaints(error, Phase, given):
        field = key.split(".")[0]
        said.setdefault(field if field in ("margin", "ce") else key, line)
    return list(said.items())


def _inconsistencies(phase: Phase, index: int, count: int) -> list[str]:
    card = loss_card(phase.loss)
    problems = []
    if index < count - 1 and phase.share is None:
        problems.append("share: missing (only the last phase has none: it takes the rest)")
    if index == count - 1 and phase.share is not None:
        problems.append("share: the last phase has none, it takes the rest")
    if not card.pairwise and (index == 0 or card.name != "ce"):
        reason = "what warmup_ratios put before the first phase" if card.name == "ce" else "a baseline of its own"
        problems.append(f"loss: {card.name} is {reason}")
    if not card.has_margin and phase.margin != (1.0, 1.0):
        problems.append(f"margin: {card.name} has none")
    if phase.ce == (1.0, 1.0):
        problems.append("ce: 1 throughout is loss: ce")
    if card.name == "ce" and phase.ce != (0.0, 0.0):
        problems.append("ce: the loss is CE already")
    pairs = phase.pairs or Pairs()
    if pairs != Pairs() and card.name not in WITH_PAIRS:
        reason = "chooses its own" if card.name in _CHOOSING else "is no mean over all pairs"
        problems.append(f"pairs: {card.name} {reason} (allowed with {', '.join(WITH_PAIRS)})")
    if pairs.hard_negatives is not None and pairs.max_fpr is not None:
        problems.append("pairs: hard_negatives and max_fpr both choose negatives, give one of them")
    if pairs.semi_hard and not card.has_margin:
        problems.append(f"pairs.semi_hard: needs a margin, which {card.name} has not")
    if phase.weights == "task" and not card.weighted:
        problems.append(f"weights: {card.name} takes no example weights")
    return problems


def phase_card(name: str, phases: PhaseList) -> LossCard:
    """What a space needs to know of the list as of any loss; its parameters are the phases as written."""
    cards = [loss_card(phase.loss) for phase in phases]
    kinds = [kind for kind in ALL_KINDS if all(kind in card.kinds for card in cards)]
    if any(phase.pairs not in (None, Pairs()) or phase.weights == "task" for phase in phases):
        kinds = [kind for kind in kinds if kind == "binary"]
    return LossCard(
        name=name,
        title=name,
        formula="; then ".join(phase.loss for phase in phases),
        weight="that of the phase",
        has_margin=any(card.has_margin for card in cards),
        pairwise=True,
        source="phases of the space",
        params={PHASED: [phase.model_dump(mode="json", exclude_defaults=True) for phase in phases]},
        kinds=tuple(kinds),
        weighted=all(card.weighted for phase, card in zip(phases, cards, strict=True) if phase.weights != "none"),
    )


def card_of(spec: str, phases: Mapping[str, PhaseList]) -> LossCard:
    """The card of what a space lists among its losses: one of its ``phases`` by name, or a loss.

    Raises ``ValueError`` as ``loss_card`` does.
    """
    name, bracket, _ = spec.partition("(")
    if (name := name.strip()) in phases:
        if bracket:
            raise ValueError(f"{spec!r}: {name} is a list of phases, which has no parameters")
        return phase_card(name, phases[name])
    return loss_card(spec, also=phases)


def effective_loss(phases: PhaseList, updates: int, weights: str) -> tuple[str, dict[str, Any], float]:
    """Name and parameters of the loss that ``phases`` are over the ``updates`` after the CE warm-up; a margin's factor.

    Shares become updates (each end floor(share * updates + 1/2)). However a list is written, equal runs are equal here:
    phases without an update are left out, pairs that a loss with a name of its own chooses are that loss, and
    neighbours that do not differ are one phase. A single phase that is a loss is that loss, ``ce`` included, and its
    factor of the margin, if constant, is returned apart (1 for several). ``weights`` is what the settings say.
    """
    kept: list[dict[str, Any]] = []
    for phase, length in _lengths(phases, updates):
        found = _effective(phase, length, weights)
        constant = all(len(set(found.get(key, [0]))) == 1 for key in ("margin", "ce"))
        if kept and constant and {**kept[-1], "updates": length} == found:
            kept[-1]["updates"] += length
        else:
            kept.append(found)
    factor = 1.0
    if len(kept) == 1 and len(set(kept[0].get("margin", ()))) == 1:
        factor = kept[0].pop("margin")[0]
    if len(kept) == 1 and set(kept[0]) == {"updates", "loss", "params"}:
        return kept[0]["loss"], kept[0]["params"], factor
    return PHASED, {PHASED: kept}, factor


def weights_throughout(phases: PhaseList, updates: int, weights: str) -> str:
    """What the settings would have to say for no phase to say it again, where all agree; else ``weights``."""
    said = {phase.weights or weights for phase, _ in _lengths(phases, updates)}
    return said.pop() if len(said) == 1 else weights


def _lengths(phases: PhaseList, updates: int) -> list[tuple[Phase, int]]:
    """The phases that have any of the ``updates``, and how many."""
    ends, past = [0], Fraction(0)
    for phase in phases[:-1]:
        past += Fraction(repr(phase.share))
        ends.append(warmup_updates(float(past), updates))
    lengths = [last - first for first, last in zip(ends, [*ends[1:], updates], strict=True)]
    return [(phase, length) for phase, length in zip(phases, lengths, strict=True) if length]


def _effective(phase: Phase, updates: int, weights: str) -> dict[str, Any]:
    card = loss_card(phase.loss)
    # The only update of a phase is its last one.
    margin, ce = (ramp if updates > 1 else (ramp[1], ramp[1]) for ramp in (phase.margin, phase.ce))
    if ce == (1.0, 1.0):
        return _effective(Phase(loss="ce", weights=phase.weights), updates, weights)
    name, params, pairs = _by_its_name(card.name, card.params, phase.pairs or Pairs())
    fields: dict[str, Any] = {"updates": updates, "loss": name, "params": params}
    if margin != (1.0, 1.0):
        fields["margin"] = list(margin)
    if ce != (0.0, 0.0):
        fields["ce"] = list(ce)
    if pairs:
        fields["pairs"] = pairs
    if phase.weights not in (None, weights):
        fields["weights"] = phase.weights
    return fields


def _by_its_name(loss: str, params: Mapping[str, Any], chosen: Pairs) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """The loss over the ``chosen`` pairs: that with a name of its own if there is one, else ``loss`` and its pairs."""
    pairs = chosen.model_dump(exclude_none=True, exclude_defaults=True)
    pairs = {key: value for key, value in pairs.items() if (key, value) not in {("max_fpr", 1.0), ("min_tpr", 0.0)}}
    if chosen.semi_hard and loss == "square":  # the pairs are below the margin, where they are one function
        loss = "squared_hinge"
    surrogate = {"surrogate": loss}
    if not WITH_MARGIN.fault(loss):
        match sorted(pairs):
            case ["hard_negatives"]:
                return "top_push", surrogate | {"k": pairs["hard_negatives"]}, {}
            case ["budget"]:
                return "incomplete_pairs", surrogate | {"per_example": pairs["budget"]}, {}
            case ["semi_hard"]:
                return "semi_hard", surrogate, {}
            case ["max_fpr"] | ["min_tpr"] | ["max_fpr", "min_tpr"]:
                shares = {"max_fpr": pairs.get("max_fpr", 1.0), "min_tpr": pairs.get("min_tpr", 0.0)}
                return "partial_auc", surrogate | shares, {}
    return loss, dict(params), pairs


def most_of_margin(phases: PhaseList) -> float:
    """The largest multiple of the cell's margin that the phases reach (0 when none has a margin)."""
    return max((max(phase.margin) for phase in phases if loss_card(phase.loss).has_margin), default=0.0)


def losses_of(name: str, params: Mapping[str, Any]) -> tuple[str, ...]:
    """The losses of a run with loss ``name`` and parameters ``params``: several when it has phases."""
    return tuple(phase["loss"] for phase in params[PHASED]) if name == PHASED else (name,)
