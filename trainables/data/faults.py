"""A list of what is wrong with a source, so that a user hears of all bad rows at once and not of one per attempt."""

from __future__ import annotations

from search_spaces.errors import DataError

SHOWN = 20
"""How many faults a message lists."""


class Faults:
    """Collects sentences about one source and raises them together."""

    def __init__(self, source: str):
        self.source = source
        self.sentences: list[str] = []

    def add(self, sentence: str) -> None:
        """Note one fault."""
        self.sentences.append(sentence)

    def raise_if_any(self) -> None:
        """Raise ``DataError`` when something was noted: one line for one fault, a list for more."""
        count = len(self.sentences)
        if count == 1:
            raise DataError(f"{self.source}: {self.sentences[0]}")
        if count:
            listed = "\n".join(f"  - {sentence}" for sentence in self.sentences[:SHOWN])
            more = f"\n  and {count - SHOWN} more" if count > SHOWN else ""
            raise DataError(f"{self.source}: {count} faults\n{listed}{more}")
