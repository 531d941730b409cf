"""Space: a named, validated description of what to run, from a preset or a YAML file.

``docs/spaces.md`` describes the file. Validation names every problem it finds at once.
"""

from __future__ import annotations

import copy
import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from search_spaces.cards import TaskCard
from search_spaces.errors import SpaceError, nearest, reason
from search_spaces.grid import Grid, read_grid
from search_spaces.loss_spec import loss_spec
from search_spaces.overrides import (
    PART_KEYS,
    SPACE_KEYS,
    Override,
    apply_overrides,
    left_out,
    parse_override,
    unknown_key,
)
from search_spaces.own_loss import use_loss_files
from search_spaces.own_task import load_own_card
from search_spaces.yaml_text import parse_yaml

__all__ = ["Grid", "Space", "load_space", "preset_names"]

_PRESETS = Path(__file__).parent / "presets"
_YAML = (".yaml", ".yml")


@dataclass(frozen=True)
class Space:
    """What to run. ``parts`` are grids of their own; equal trials of two parts are one trial.

    ``cards`` holds the user's own tasks by name, ``loss_files`` the texts of the files of their own losses by file
    name. ``given`` is what was asked for: the source, the space as written and the overrides.
    """

    name: str
    description: str
    parts: tuple[Grid, ...]
    cards: Mapping[str, TaskCard]
    given: Mapping[str, Any]
    loss_files: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The resolved space ready for JSON: complete settings and own tasks' cards, so that nothing else is needed."""
        return {
            "name": self.name,
            "description": self.description,
            "parts": [part.to_dict() for part in self.parts],
            "cards": {name: dataclasses.asdict(card) for name, card in self.cards.items()},
            "given": dict(self.given),
            "loss_files": dict(self.loss_files),
        }

    def notes(self) -> list[str]:
        """What is right but may not be what was meant, one line each: phases nobody runs, losses that are one run."""
        listed = {name for part in self.parts for name in part.losses}
        unused = dict.fromkeys(name for part in self.parts for name in part.phases if name not in listed)
        lines = [f"phases: never run, since not among losses: {', '.join(unused)}"] if unused else []
        same = {
            spec: loss_spec(card) for part in self.parts for spec, card in zip(part.losses, part.cards(), strict=True)
        }
        lines += [f"losses: {spec} is the same run as {name}" for spec, name in same.items() if spec != name]
        return lines

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Space:
        """The inverse of ``to_dict``. Raises ``SpaceError`` when this version cannot run it."""
        loss_files = values.get("loss_files", {})
        use_loss_files(loss_files)
        cards = {name: _card_from_dict(card) for name, card in values["cards"].items()}
        grids, problems = _read_parts(values["parts"], cards, range(len(values["parts"])))
        if problems:
            raise SpaceError(f"space {values['name']}", problems)
        return cls(values["name"], values["description"], grids, cards, values["given"], loss_files)


def preset_names() -> list[str]:
    """The names of the spaces that come with aucsweep, quickstart first."""
    names = sorted(path.stem for path in _PRESETS.glob("*.yaml"))
    return sorted(names, key=lambda name: (name != "quickstart", name != "paper", name))


def load_space(source: str | Path, overrides: Sequence[str] = ()) -> Space:
    """The space of a preset's name or a YAML file, changed by ``overrides`` such as ``"seeds=1,2"``.

    Raises ``SpaceError`` that lists every problem of the space and of the overrides.
    """
    path = _find(source)
    what = f"space {source}"
    try:
        raw = parse_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SpaceError(what, [reason(error)]) from error
    except ValueError as error:
        raise SpaceError(what, [str(error)]) from error
    if not isinstance(raw, dict):
        raise SpaceError(what, ["expected keys and values"])

    problems = [f"{key}: {unknown_key(str(key), SPACE_KEYS)}" for key in raw if key not in SPACE_KEYS]
    words, parts, shape_problems = _shape(raw, path)
    problems += shape_problems
    changes: list[Override] = []
    for text in overrides:
        try:
            changes.append(parse_override(text))
        except ValueError as error:
            problems.append(str(error))
    listed, folder = raw.get("loss_files"), path.parent
    for change in changes:
        if change.key in words and change.part is None:
            words[change.key] = change.value
        elif change.key == "loss_files":
            listed, folder = change.value, Path.cwd()
    loss_files, file_problems = _read_loss_files(listed, folder)
    problems += file_problems
    of_parts = [change for change in changes if change.key in (*PART_KEYS, "parts")]
    problems += apply_overrides(parts, of_parts, lambda tasks: _absolute(tasks, Path.cwd()))
    gone, none_left = left_out(len(parts), of_parts)
    problems += none_left
    numbers = [number for number in range(len(parts)) if number not in gone]
    parts = [parts[number] for number in numbers]
    for key, value in words.items():
        if not isinstance(value, str):
            problems.append(f"{key}: should be text, got {value!r}")
    cards, card_problems = _own_cards(parts)
    problems += card_problems
    grids, grid_problems = _read_parts(parts, cards, numbers)
    if file_problems:  # the losses of a file that cannot be used are unknown, which is no second problem
        grid_problems = [line for line in grid_problems if "unknown loss" not in line]
    if card_problems:  # a task file that cannot be used leaves its axis empty, which is no second problem
        grid_problems = [line for line in grid_problems if not line.endswith("tasks: empty: give at least one")]
    problems += grid_problems
    if problems:
        raise SpaceError(what, problems)
    given = {"source": str(source), "space": copy.deepcopy(raw), "overrides": list(overrides)}
    return Space(words["name"], words["description"], grids, cards, given, loss_files)


def _read_loss_files(listed: Any, folder: Path) -> tuple[dict[str, str], list[str]]:
    """The texts of the files of ``listed`` by file name, their losses known from now on, and the problems."""
    names = [] if listed is None else listed if isinstance(listed, list) else [listed]
    texts: dict[str, str] = {}
    problems = []
    for name in names:
        if not isinstance(name, str) or not name.endswith(".py"):
            problems.append(f"loss_files: should be Python files (.py), got {name!r}")
            continue
        file = folder / name
        if file.name in texts:
            problems.append(f"loss_files: two files are named {file.name!r}")
            continue
        try:
            texts[file.name] = file.read_text(encoding="utf-8")
            use_loss_files({file.name: texts[file.name]})
        except OSError as error:
            problems.append(f"loss_files: {file}: {reason(error)}")
        except ValueError as error:  # a name with a NUL, bytes that are no UTF-8
            problems.append(f"loss_files: {name!r}: {error}")
        except SpaceError as error:
            problems += [f"loss_files: {file.name}: {problem}" for problem in error.problems]
    return texts, problems


def _find(source: str | Path) -> Path:
    text = str(source)
    preset = _PRESETS / f"{text}.yaml"
    if isinstance(source, str) and text in preset_names():
        return preset
    path = Path(source)
    if path.suffix in _YAML or path.is_file():
        if not path.is_file():
            raise SpaceError(f"space {text}", ["there is no such file"])
        return path
    raise SpaceError(f"space {text}", [f"neither a preset nor a YAML file; presets: {nearest(text, preset_names())}"])


def _shape(raw: Mapping[str, Any], path: Path) -> tuple[dict[str, Any], list[dict[str, Any]], list[str]]:
    """Name and description, the parts as written, and the problems of their shape.

    Part keys at the top level are the whole part when there are no ``parts``, and defaults for each part otherwise.
    """
    words = {"name": raw.get("name", path.stem), "description": raw.get("description", "")}
    shared = {key: raw[key] for key in PART_KEYS if key in raw}
    problems: list[str] = []
    listed = raw.get("parts", [{}])
    if not isinstance(listed, list) or not listed:
        problems.append("parts: expected a list of at least one part")
        listed = []
    parts = []
    for index, part in enumerate(listed):
        if not isinstance(part, dict):
            problems.append(f"parts.{index}: expected keys and values")
            continue
        above = [key for key in part if key in SPACE_KEYS and key not in PART_KEYS]
        problems += [f"parts.{index}.{key}: belongs to the whole space, write it at the top" for key in above]
        part = {key: value for key, value in part.items() if key not in above}
        merged = copy.deepcopy({**shared, **part})
        for key in ("settings", "phases"):
            if isinstance(shared.get(key), dict) and isinstance(part.get(key), dict):
                merged[key] = {**shared[key], **part[key]}
        if "tasks" in merged:
            merged["tasks"] = _absolute(merged["tasks"], path.parent)
        parts.append(merged)
    return words, parts, problems


def _is_task_file(task: Any) -> bool:
    return isinstance(task, str) and task.endswith(_YAML)


def _absolute(tasks: Any, folder: Path) -> Any:
    """``tasks`` with the paths of task files made absolute, seen from ``folder``."""
    if isinstance(tasks, list):
        return [_absolute(task, folder) for task in tasks]
    return str((folder / tasks).resolve()) if _is_task_file(tasks) else tasks


def _own_cards(parts: Sequence[dict[str, Any]]) -> tuple[dict[str, TaskCard], list[str]]:
    """The cards of the task files the parts name. In ``parts`` each path is replaced by its task's name."""
    names: dict[str, str | None] = {}
    cards: dict[str, TaskCard] = {}
    problems: list[str] = []
    for part in parts:
        tasks = part.get("tasks")
        listed: list[Any] = tasks if isinstance(tasks, list) else [tasks]
        for path in (str(task) for task in listed if _is_task_file(task)):
            if path in names:
                continue
            names[path] = None
            if not Path(path).exists():
                problems.append(f"tasks: task file {path}: there is no such file")
                continue
            try:
                card = load_own_card(Path(path))
            except SpaceError as error:
                problems += [f"tasks: {error.what}: {problem}" for problem in error.problems]
                continue
            if card.name in cards:
                problems.append(f"tasks: two task files are named {card.name!r}")
            names[path], cards[card.name] = card.name, card
        if any(_is_task_file(task) for task in listed):
            named = [names[str(task)] if _is_task_file(task) else task for task in listed]
            part["tasks"] = [task for task in named if task is not None]
    return cards, problems


def _read_parts(
    parts: Sequence[Mapping[str, Any]], cards: Mapping[str, TaskCard], numbers: Sequence[int]
) -> tuple[tuple[Grid, ...], list[str]]:
    """The grids of ``parts``, which problems name by their ``numbers``."""
    readings = [read_grid(part, cards) for part in parts]
    shared = Counter(problem for reading in readings for problem in dict.fromkeys(reading.problems))
    # A problem of every part is one of the space (or of an override), and is named once.
    problems = [problem for problem, times in shared.items() if times == len(readings)]
    for index, reading in zip(numbers, readings, strict=True):
        problems += [f"parts.{index}.{problem}" for problem in reading.problems if shared[problem] < len(readings)]
    return tuple(reading.grid for reading in readings if reading.grid is not None), problems


def _card_from_dict(values: Mapping[str, Any]) -> TaskCard:
    counts = {split: tuple(numbers) for split, numbers in values["counts"].items()}
    return TaskCard(**{**values, "counts": counts, "packages": tuple(values["packages"])})
