"""``-o key=value``: changes to a space from the command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from search_spaces.errors import nearest
from search_spaces.settings import Settings
from search_spaces.yaml_text import parse_yaml

AXES = ("tasks", "models", "inits", "losses", "warmup_ratios", "margins", "seeds")
PART_KEYS = ("regime", *AXES, "phases", "settings")
SPACE_KEYS = ("name", "description", "loss_files", "parts", *PART_KEYS)


@dataclass(frozen=True)
class Override:
    """One change. ``part`` is the index of its part, None for all; ``field`` is set for ``settings.field``."""

    text: str
    key: str
    field: str | None
    part: int | None
    value: Any


def unknown_key(key: str, allowed: Sequence[str]) -> str:
    """The sentence for a key that does not exist."""
    if key in Settings.model_fields:
        return f"unknown key, did you mean settings.{key}?"
    return f"unknown key, {nearest(key, allowed)}"


def parse_override(text: str) -> Override:
    """Read ``key=value``. The value is YAML, so 3 is a number; a list may be written without brackets (1,2,3).

    Raises ``ValueError`` whose message names the override and the nearest valid key.
    """
    path, equals, value_text = text.partition("=")
    steps = path.strip().split(".")
    if not equals or not steps[0]:
        raise ValueError(f"override {text!r}: expected key=value")
    part = None
    allowed: Sequence[str] = SPACE_KEYS
    if steps[0] == "parts":
        if len(steps) < 3 or not steps[1].isdigit():
            raise ValueError(f"override {text!r}: expected parts.NUMBER.key=value")
        part, steps, allowed = int(steps[1]), steps[2:], PART_KEYS
    key = steps[0]
    if key not in allowed or (part is None and key == "parts"):
        raise ValueError(f"override {text!r}: {unknown_key(key, allowed)}")
    field = None
    if key == "settings" and len(steps) == 2:
        field = steps[1]
        if field not in Settings.model_fields:
            raise ValueError(f"override {text!r}: unknown setting, {nearest(field, Settings.model_fields)}")
    elif len(steps) > 1:
        raise ValueError(f"override {text!r}: {key} has no keys of its own")
    return Override(text, key, field, part, _value(text, key, value_text.strip()))


def _value(text: str, key: str, value_text: str) -> Any:
    if key in (*AXES, "loss_files") and not value_text.startswith(("[", "{")):
        value_text = f"[{value_text}]"
    try:
        return parse_yaml(value_text)
    except ValueError as error:
        raise ValueError(f"override {text!r}: {error}") from error


def apply_overrides(
    parts: Sequence[dict[str, Any]], overrides: Sequence[Override], localise: Callable[[Any], Any]
) -> list[str]:
    """Change ``parts`` in place; returns the problems. ``localise`` is applied to the tasks of an override."""
    problems = []
    for override in overrides:
        if override.part is not None and override.part >= len(parts):
            problems.append(f"override {override.text!r}: the space has parts 0 to {len(parts) - 1}")
            continue
        value = localise(override.value) if override.key == "tasks" else override.value
        for part in parts if override.part is None else [parts[override.part]]:
            if override.key != "settings":
                part[override.key] = value
            elif not isinstance(part.get("settings") or {}, dict):
                continue  # already a problem of the space itself
            elif override.field is not None:
                part["settings"] = {**(part.get("settings") or {}), override.field: value}
            elif isinstance(value, dict):
                part["settings"] = {**(part.get("settings") or {}), **value}
            else:
                problems.append(f"override {override.text!r}: settings expects keys and values")
                break
    return problems
