"""The built-in tasks by name."""

from __future__ import annotations

from collections.abc import Mapping

from search_spaces import (
    cards_extensions,
    cards_extensions_offline,
    cards_images,
    cards_large_batch,
    cards_offline,
    cards_texts,
)
from search_spaces.cards import TaskCard
from search_spaces.errors import SpaceError, nearest

BINARY: dict[str, TaskCard] = {
    card.name: card for card in (*cards_offline.CARDS, *cards_images.CARDS, *cards_images.SIBLINGS, *cards_texts.CARDS)
}
"""Every built-in binary task."""

EXTENSIONS: dict[str, TaskCard] = {
    card.name: card for card in (*cards_extensions.CARDS, *cards_large_batch.CARDS, *cards_extensions_offline.CARDS)
}
"""The multiclass and multilabel tasks, the paper's first."""

TASKS: dict[str, TaskCard] = BINARY | EXTENSIONS
"""Every built-in task, in the order they are listed."""


def task_card(name: str, extra: Mapping[str, TaskCard] | None = None) -> TaskCard:
    """The card of the task ``name``, looked up in ``extra`` (a user's own tasks) and then among the built-in ones.

    Raises ``SpaceError`` naming the nearest task when there is none of that name.
    """
    known = TASKS | dict(extra or {})
    if name not in known:
        raise SpaceError(f"task {name}", [f"unknown task {name!r}: {nearest(name, known)}"])
    return known[name]
