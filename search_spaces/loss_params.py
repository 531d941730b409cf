"""What values a loss's parameters may have, checked without torch so that a space is refused before anything starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from search_spaces.errors import nearest
from search_spaces.fields import finite


@dataclass(frozen=True)
class Between:
    """A number from ``low`` to ``high`` (None: no limit); an end is excluded when its ``open_`` flag is set."""

    low: float
    high: float | None = None
    open_low: bool = False
    open_high: bool = False
    whole: bool = False

    def __str__(self) -> str:
        noun = "a whole number" if self.whole else "a number"
        left = f"> {self.low:g}" if self.open_low else f">= {self.low:g}"
        right = "" if self.high is None else f" and {'<' if self.open_high else '<='} {self.high:g}"
        return f"{noun} {left}{right}"

    def fault(self, value: Any) -> str | None:
        """What is wrong with ``value``, or None."""
        ok = finite(value)
        ok = ok and (not self.whole or float(value).is_integer())
        ok = ok and (value > self.low if self.open_low else value >= self.low)
        if self.high is not None:
            ok = ok and (value < self.high if self.open_high else value <= self.high)
        return None if ok else f"must be {self}, got {value!r}"


@dataclass(frozen=True)
class OneOf:
    """One of a few words."""

    words: tuple[str, ...]

    def __str__(self) -> str:
        return " or ".join(self.words)

    def fault(self, value: Any) -> str | None:
        """What is wrong with ``value``, or None."""
        return (
            None if value in self.words else f"must be a valid word, got {value!r}: {nearest(str(value), self.words)}"
        )


Rule = Between | OneOf


def faults(loss: str, rules: Mapping[str, Rule], params: Mapping[str, Any]) -> list[str]:
    """Every problem of ``params`` given to ``loss``, one line each; empty when there is none."""
    problems = []
    for name, value in params.items():
        if name not in rules:
            allowed = nearest(name, rules) if rules else "it has none"
            problems.append(f"loss {loss} has no parameter {name!r}: {allowed}")
        elif fault := rules[name].fault(value):
            problems.append(f"{name} of loss {loss} {fault}")
    return problems
