"""A loss as a space names it: ``hinge``, or with parameters ``partial_auc(max_fpr=0.1, surrogate=hinge)``."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from typing import Any

from search_spaces.cards import LossCard
from search_spaces.errors import nearest
from search_spaces.identity import canonical
from search_spaces.loss_params import faults
from search_spaces.losses import LOSSES

_SPEC = re.compile(r"\s*([^\s()]+)\s*(?:\((.*)\)\s*)?", re.DOTALL)


def loss_card(spec: str, also: Iterable[str] = ()) -> LossCard:
    """The card of the loss ``spec`` names, its ``params`` those of the spec and for the rest the defaults.

    Parameters that are the same run are the same here (``LossCard.equal``). Raises ``ValueError`` with every problem:
    an unknown loss (``also`` are further names that would have been known), an unknown parameter, a value it may not
    have.
    """
    card = _read(spec, also)
    params = dict(card.params)
    for where, instead in card.equal:
        if all(params[key] == value for key, value in where.items()):
            params |= instead
    return dataclasses.replace(card, params=params) if params != card.params else card


def as_written(spec: str) -> str:
    """``spec`` in the one way to write it, parameters that mean nothing beside the others included."""
    return loss_spec(_read(spec, ()))


def _read(spec: str, also: Iterable[str]) -> LossCard:
    match = _SPEC.fullmatch(spec)
    if match is None:
        split = spec.count("(") != spec.count(")")
        hint = '; a list ends an item at its comma, so quote it: "name(one=1, two=2)"' if split else ""
        raise ValueError(f"{spec!r} is no loss: write name or name(parameter=value, ...){hint}")
    name, inside = match.groups()
    if name not in LOSSES:
        raise ValueError(f"unknown loss {name!r}: {nearest(name, [*LOSSES, *also])}")
    card = LOSSES[name]
    if inside is None:
        return card
    given: dict[str, Any] = {}
    for part in inside.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not key or not value:
            raise ValueError(f"{spec!r}: write parameters as name=value, got {part.strip()!r}")
        if key in given:
            raise ValueError(f"{spec!r}: {key} is given twice")
        given[key] = _value(value)
    problems = []
    if "margin" in given and "margin" not in card.rules:
        del given["margin"]
        where = "which is listed in the space's margins (a phase's margin)" if card.has_margin else "and has no margin"
        problems.append(f"loss {name} has no parameter 'margin', {where}")
    problems += faults(name, card.rules, given)
    if problems:
        raise ValueError("; ".join(problems))
    return dataclasses.replace(card, params={**card.params, **given})


def loss_spec(card: LossCard) -> str:
    """The one way to write ``card``: parameters that differ from their defaults, in the order of the card.

    Phases of a space are written by their name.
    """
    if card.name not in LOSSES:
        return card.name
    defaults = LOSSES[card.name].params
    changed = [f"{key}={canonical(value)}" for key, value in card.params.items() if value != defaults[key]]
    return f"{card.name}({', '.join(changed)})" if changed else card.name


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
