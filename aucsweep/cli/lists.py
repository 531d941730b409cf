"""``spaces``, ``tasks``, ``models`` and ``losses``: what exists, a line each; ``losses NAME`` explains one."""

from __future__ import annotations

import dataclasses
import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aucsweep.cli.options import JsonFlag, emit_columns, emit_json
from search_spaces.errors import UsageError, nearest

if TYPE_CHECKING:
    from search_spaces.cards import LossCard

_LETTERS = (
    ("z", "logit of an example"),
    ("s", "score of an example: what settings.score_scale makes of its logit; of a baseline's (no pairs) the logit"),
    ("x", "score of a positive minus that of a negative; one-vs-rest for several classes"),
    ("m", "margin"),
    ("l(x), w(x)", "loss of a pair by the loss named in surrogate; its weight, -l'(x)"),
    ("L_j", "mean of l(x) over the pairs of negative j"),
    ("p, k, tau, ...", 'parameters of the loss; a space lists it with others than the defaults as "p_norm_push(p=8)"'),
    ("E+, Var+, n+", "mean and variance of s over the positives, and their number; E-, Var-, n- of the negatives"),
    ("y, C", "class or labels of an example; number of classes"),
)
"""What the letters in formulas and weights of the cards stand for."""


def _emit_cards(key: str, cards: Mapping[str, Any]) -> None:
    emit_json({key: [dataclasses.asdict(card) for card in cards.values()]})


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
        _emit_cards("tasks", TASKS)
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
        _emit_cards("models", MODELS)
        return
    emit_columns(
        [
            [card.name, card.modality, "|".join(card.inits), f"{card.parameters:,}", card.licence, card.title]
            for card in MODELS.values()
        ],
        header=["model", "reads", "init", "parameters", "licence", "title"],
    )


def losses(
    name: Annotated[str | None, typer.Argument(help="Explain this loss.")] = None, json: JsonFlag = False
) -> None:
    """List the objectives, or explain one: formula, pair weight, margin, parameters, kinds of task and source."""
    from search_spaces.losses import LOSSES

    if name is not None and name not in LOSSES:
        raise UsageError(f"unknown loss {name!r}: {nearest(name, LOSSES)}")
    shown = LOSSES if name is None else {name: LOSSES[name]}
    if json:
        _emit_cards("losses", shown)
    elif name is None:
        rows = [
            [
                card.name,
                card.formula,
                card.weight,
                "margin" if card.has_margin else "-",
                ", ".join(f"{key}={value}" for key, value in card.params.items()) or "-",
                "|".join(card.kinds),
                "yes" if card.weighted else "no",
                card.source,
            ]
            for card in shown.values()
        ]
        header = ["loss", "formula", "pair weight", "margin", "parameters", "tasks", "example weights", "source"]
        emit_columns(rows, header=header)
    else:
        _explain(shown[name])


def _explain(card: LossCard) -> None:
    from search_spaces.identity import canonical

    width = min(shutil.get_terminal_size((100, 24)).columns, 120)
    typer.echo(f"{typer.style(card.name, bold=True)}  {card.title}")
    _describe(
        [
            ("loss", card.formula),
            ("pair weight", card.weight),
            ("margin", "needed: margins of the space" if card.has_margin else "none"),
            *((key, f"{card.rules[key]}; default {canonical(default)}") for key, default in card.params.items()),
            ("tasks", f"{', '.join(card.kinds)}; example weights: {'yes' if card.weighted else 'no'}"),
            ("source", card.source),
        ],
        width,
    )
    typer.echo("In the formulas:")
    _describe(_LETTERS, width)


def _describe(lines: Iterable[tuple[str, str]], width: int) -> None:
    """Print names and what they are, indented and wrapped at ``width``."""
    for name, text in lines:
        start = f"    {name:<14} "
        typer.echo(
            textwrap.fill(
                text,
                max(width, 40),
                initial_indent=start,
                subsequent_indent=" " * len(start),
                break_long_words=False,
                break_on_hyphens=False,
            )
        )
