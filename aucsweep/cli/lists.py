"""``spaces``, ``tasks``, ``models`` and ``losses``: what exists, one line each."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from aucsweep.cli.options import JsonFlag, emit_columns, emit_json


def _cards(key: str, cards: Mapping[str, Any], as_json: bool, *columns: str) -> None:
    if as_json:
        emit_json({key: [dataclasses.asdict(card) for card in cards.values()]})
        return
    emit_columns([[getattr(card, column) for column in ("name", *columns)] for card in cards.values()])


def spaces(json: JsonFlag = False) -> None:
    """List the preset spaces."""
    from search_spaces.space import load_space, preset_names

    presets = [load_space(name) for name in preset_names()]
    if json:
        emit_json({"spaces": [{"name": space.name, "description": space.description} for space in presets]})
        return
    emit_columns([[space.name, space.description] for space in presets])


def tasks(json: JsonFlag = False) -> None:
    """List the built-in tasks with their kind, training examples by class (or in all) and licences."""
    from search_spaces.tasks import TASKS

    if json:
        _cards("tasks", TASKS, True)
        return
    emit_columns(
        [
            [card.name, card.kind, card.modality, _counts(card.counts["train"]), card.licence, card.title]
            for card in TASKS.values()
        ],
        header=["task", "kind", "reads", "train", "licence", "title"],
    )


def _counts(counts: Sequence[int]) -> str:
    """Examples by class (binary: negatives/positives), or of the largest and smallest of many classes."""
    if len(counts) <= 10:
        return "/".join(map(str, counts))
    return f"{max(counts)}..{min(counts)} ({len(counts)} classes)"


def models(json: JsonFlag = False) -> None:
    """List the models and their initialisations."""
    from search_spaces.models import MODELS

    if json:
        _cards("models", MODELS, True)
        return
    emit_columns(
        [
            [card.name, card.modality, "|".join(card.inits), f"{card.parameters:,}", card.licence, card.title]
            for card in MODELS.values()
        ],
        header=["model", "reads", "init", "parameters", "licence", "title"],
    )


def losses(json: JsonFlag = False) -> None:
    """List the objectives with formula, pair weight, parameters (defaults), kinds of task and source."""
    from search_spaces.losses import LOSSES

    if json:
        _cards("losses", LOSSES, True)
        return
    emit_columns(
        [
            [
                card.name,
                card.formula,
                card.weight,
                ", ".join(f"{name}={value}" for name, value in card.params.items()) or "-",
                "|".join(card.kinds),
                "yes" if card.weighted else "no",
                card.source,
            ]
            for card in LOSSES.values()
        ],
        header=["loss", "formula", "pair weight", "parameters", "tasks", "example weights", "source"],
    )
