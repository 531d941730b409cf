"""``-o key=value``: changes to a space from the command line."""

from __future__ import annotations

import copy
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
    """One change. ``part`` is the index of its part, None for all; ``field`` is set for ``settings.field``.

    ``below`` are the steps after ``phases``, such as ``("curriculum", "0", "share")``. A part is left out where ``key``
    is ``parts``.
    """

    text: str
    key: str
    field: str | None
    part: int | None
    value: Any
    below: tuple[str, ...] = ()


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
        if len(steps) == 1 or not steps[1].isdecimal():
            raise ValueError(
                f"override {text!r}: expected parts.NUMBER.key=value, or parts.NUMBER=null to leave it out"
            )
        if len(steps) == 2:
            if _value(text, "parts", value_text.strip()) is not None:
                raise ValueError(
                    f"override {text!r}: expected parts.{steps[1]}.key=value, or parts.{steps[1]}=null to leave it out"
                )
            return Override(text, "parts", None, int(steps[1]), None)
        part, steps, allowed = int(steps[1]), steps[2:], PART_KEYS
    key = steps[0]
    if key not in allowed or (part is None and key == "parts"):
        raise ValueError(f"override {text!r}: {unknown_key(key, allowed)}")
    field = None
    if key == "settings" and len(steps) == 2:
        field = steps[1]
        if field not in Settings.model_fields:
            raise ValueError(f"override {text!r}: unknown setting, {nearest(field, Settings.model_fields)}")
    elif len(steps) > 1 and key != "phases":
        raise ValueError(f"override {text!r}: {key} has no keys of its own")
    below = tuple(steps[1:])
    return Override(text, key, field, part, _value(text, key, value_text.strip()), below if key == "phases" else ())


def _value(text: str, key: str, value_text: str) -> Any:
    if key in (*AXES, "loss_files") and not value_text.startswith(("[", "{")):
        value_text = f"[{value_text}]"
    try:
        return parse_yaml(value_text)
    except ValueError as error:
        raise ValueError(f"override {text!r}: {error}") from error


def left_out(count: int, overrides: Sequence[Override]) -> tuple[set[int], list[str]]:
    """Which of ``count`` parts ``overrides`` leave out, by number, and the problem when that is all of them."""
    gone = {change.part for change in overrides if change.key == "parts" and change.part is not None}
    numbers = gone & set(range(count))
    if numbers and len(numbers) == count:
        return numbers, ["parts: the overrides leave out every part, keep at least one"]
    return numbers, []


def apply_overrides(
    parts: Sequence[dict[str, Any]], overrides: Sequence[Override], localise: Callable[[Any], Any]
) -> list[str]:
    """Change ``parts`` in place; returns the problems. ``localise`` is applied to the tasks of an override.

    No part is taken out here, so that every number is that of the file (``left_out``).
    """
    problems = []
    for override in overrides:
        if override.part is not None and override.part >= len(parts):
            problems.append(f"override {override.text!r}: the space has parts 0 to {len(parts) - 1}")
            continue
        chosen = parts if override.part is None else [parts[override.part]]
        if override.below:
            problems += _change_phases(chosen, override)
            continue
        value = localise(override.value) if override.key == "tasks" else override.value
        for part in chosen if override.key != "parts" else ():
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


def _change_phases(parts: Sequence[dict[str, Any]], override: Override) -> list[str]:
    """Set what ``override.below`` leads to in each of ``parts`` that has the list; the problem if none has."""
    path = ".".join(override.below)
    found = [part["phases"] for part in parts if isinstance(part.get("phases"), dict)]
    names = list(dict.fromkeys(str(name) for phases in found for name in phases))
    # The name of a list may have dots, as 0.5-hard: the longest that is there is meant.
    named = max((name for name in names if f"{path}.".startswith(f"{name}.")), key=len, default=None)
    if named is None:
        near = nearest(override.below[0], names) if names else "there are none"
        return [
            f"override {override.text!r}: no list of phases has that name, {near} (new ones: phases={{name: [...]}})"
        ]
    steps = path.removeprefix(named).split(".")[1:]
    for part in parts:
        if isinstance(part.get("phases"), dict) and named in part["phases"]:
            part["phases"] = copy.deepcopy(part["phases"])  # parts may share what the top of the file says
            try:
                _put(part["phases"], [named, *steps], override.value)
            except LookupError as error:
                return [f"override {override.text!r}: {error.args[0]}"]
    return []


def _put(node: Any, steps: Sequence[str], value: Any) -> None:
    """Set the value ``steps`` lead to; raises ``LookupError`` with a sentence where they lead nowhere.

    A last step that is no key yet becomes one, for the space's validation to judge.
    """
    for index, step in enumerate(steps):
        key: Any = step
        if isinstance(node, list):
            if not step.isdecimal() or len(step) > 9 or int(step) >= len(node):
                raise LookupError(f"{'.'.join(steps[:index])} has phases 0 to {len(node) - 1}, got {step}")
            key = int(step)
        elif not isinstance(node, dict):
            raise LookupError(f"{'.'.join(steps[:index])} is {node!r}, which has no keys: give the whole of it")
        if index == len(steps) - 1:
            node[key] = value
            return
        if isinstance(node, dict) and key not in node:
            node[key] = {}
        node = node[key]
