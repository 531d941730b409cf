"""Finding a trial by its id or the first characters of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from search_spaces.errors import UsageError, nearest

if TYPE_CHECKING:
    from orchestrator.store import Store


def resolve_trial(store: Store, text: str) -> str:
    """The one trial of the store whose id starts with ``text``.

    Raises ``UsageError`` when none or several do.
    """
    known: list[str] = sorted(set(store.read_cells()["trial_id"]))
    found = [trial for trial in known if trial.startswith(text.lower())]
    if len(found) == 1:
        return found[0]
    if not found:
        shown = nearest(text, known) if 0 < len(known) <= 20 else f"the store has {len(known)} trials"
        raise UsageError(f"trial {text!r}: not in {store.uri}; {shown}")
    raise UsageError(f"trial {text!r}: {len(found)} trials start with it: {', '.join(found[:5])}")
