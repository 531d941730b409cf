"""How modes and losses are called, ordered and coloured, so that every table and figure agrees."""

from __future__ import annotations

from collections.abc import Iterable

LOSS_ORDER = ("ce", "square", "hinge", "exponential", "logistic", "squared_hinge")
"""Column order of the paper's Table 1; losses not listed follow by name."""

LOSS_TITLES = {
    "ce": "CE",
    "square": "Square",
    "hinge": "Hinge",
    "exponential": "Exp.",
    "logistic": "Logistic",
    "squared_hinge": "Sq.-hinge",
    "aucm": "Deep-AUC",
    "aucm_closed": "Deep-AUC closed form",
}

MODE_TITLES = {"ce": "CE", "direct": "Direct", "warmup": "Warm-up"}

# Okabe and Ito's palette: told apart under the common colour-vision deficiencies, readable on white and on near-black.
LOSS_COLOURS = {
    "square": "#e69f00",
    "hinge": "#0072b2",
    "exponential": "#cc79a7",
    "logistic": "#009e73",
    "squared_hinge": "#d55e00",
}
_SPARE_COLOURS = ("#56b4e9", "#8c6d31", "#7570b3", "#999999")


def loss_title(loss: str) -> str:
    """Short column title of a loss; an unlisted loss is shown by its name, parameters as the space has them."""
    name, bracket, parameters = loss.partition("(")
    title = LOSS_TITLES.get(name, name.replace("_", " "))
    return f"{title} ({parameters}" if bracket else title


def entry_title(loss: str, mode: str) -> str:
    """A loss and its mode in words, e.g. ``Sq.-hinge warm-up``; a baseline has no mode to tell."""
    return loss_title(loss) if mode == "ce" else f"{loss_title(loss)} {MODE_TITLES[mode].lower()}"


def order_losses(losses: Iterable[str]) -> list[str]:
    """The distinct losses in column order: the paper's, then all others by name."""
    rank = {loss: index for index, loss in enumerate(LOSS_ORDER)}
    return sorted(set(losses), key=lambda loss: (rank.get(loss, len(rank)), loss))


def loss_colours(losses: Iterable[str]) -> dict[str, str]:
    """A colour per pairwise loss: fixed for the paper's losses, from a spare list (by name) for others."""
    others = [loss for loss in order_losses(losses) if loss not in LOSS_COLOURS and loss != "ce"]
    spare = {loss: _SPARE_COLOURS[index % len(_SPARE_COLOURS)] for index, loss in enumerate(others)}
    return LOSS_COLOURS | spare


def order_tasks(tasks: Iterable[str]) -> list[str]:
    """The distinct tasks in the order of the task list (the paper's tables), then a user's own tasks by name."""
    from search_spaces.tasks import TASKS

    rank = {task: index for index, task in enumerate(TASKS)}
    return sorted(set(tasks), key=lambda task: (rank.get(task, len(rank)), task))


def order_models(models: Iterable[str]) -> list[str]:
    """The distinct models in the order of the model list, then others by name."""
    from search_spaces.models import MODELS

    rank = {model: index for index, model in enumerate(MODELS)}
    return sorted(set(models), key=lambda model: (rank.get(model, len(rank)), model))


def order_settings(settings: Iterable[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """The distinct (model, init, task) in table order: by model, then random before pretrained, then by task."""
    there = set(settings)
    models = order_models(model for model, _, _ in there)
    inits = sorted({init for _, init, _ in there}, reverse=True)
    tasks = order_tasks(task for _, _, task in there)
    return [key for model in models for init in inits for task in tasks if (key := (model, init, task)) in there]
