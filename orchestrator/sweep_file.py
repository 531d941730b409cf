"""What ``sweep.json`` must look like: people open and edit it, and what they get wrong must end in a sentence.

Keys that are not there are as good as empty and keys we do not know are kept: stores of earlier versions stay readable.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from pydantic import TypeAdapter, ValidationError

from orchestrator.schema import SCHEMA_VERSION
from search_spaces.cards import SPLITS, TaskCard
from search_spaces.errors import SpaceError, StoreError
from search_spaces.space import Space

SWEEP = "sweep.json"

_REMEDY = "mend it, or move the file away and launch the space on this store again (finished trials are kept)"

_Kind = tuple[tuple[type, ...], str]
_MAPPING: _Kind = ((dict,), "a JSON object")
_LIST: _Kind = ((list,), "a list")
_TEXT: _Kind = ((str,), "a text")
_NUMBER: _Kind = ((int, float), "a number")
_FLAG: _Kind = ((bool,), "true or false")
_COUNTS: _Kind = ((list,), "the number of examples of each class")

_TOP = {
    "created_at": _TEXT, "space": _MAPPING, "plan_hash": _TEXT, "environment": _MAPPING, "launches": _LIST,
    "definitions": _LIST,
}  # fmt: skip
_ENVIRONMENT = {"code": _MAPPING, "packages": _MAPPING, "gpus": _LIST, "memory_bytes": _NUMBER}
_LAUNCH = {
    "command": _TEXT, "at": _TEXT, "hostname": _TEXT, "code": _MAPPING, "data_root": _TEXT, "address": _TEXT,
    "save_scores": _FLAG, "channels_last": _FLAG, "compiled": _FLAG, "slots": _MAPPING, "pending": _NUMBER,
    "plan_hash": _TEXT,
}  # fmt: skip
_DEFINITION = {"loss": _TEXT, "id": _TEXT, "cells": _TEXT}


def parse_sweep(data: bytes, path: str) -> dict[str, Any]:
    """The content of ``sweep.json``, every key that we read of the type that we wrote.

    Raises ``StoreError`` that names ``path``, the key and what is expected there, and for another schema version.
    """
    try:
        sweep = json.loads(data, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path} is not readable JSON: {error}; {_REMEDY}") from error
    if not isinstance(sweep, dict):
        _refuse(path, "the whole file", _MAPPING, sweep)
    version = sweep.get("schema_version")
    if isinstance(version, bool) or version != SCHEMA_VERSION:
        raise StoreError(
            f"{path} has schema version {version}, this aucsweep reads and writes version {SCHEMA_VERSION}: use the "
            "aucsweep that wrote it, or another store"
        )
    _check(path, "", sweep, _TOP)
    if sweep.get("space"):
        for key in ("given", "resolved"):
            if not isinstance(sweep["space"].get(key), dict):
                _refuse(path, f"space.{key}", _MAPPING, sweep["space"].get(key))
    _check(path, "environment.", sweep.get("environment") or {}, _ENVIRONMENT)
    for key, entries, kinds in (
        ("launches", sweep.get("launches"), _LAUNCH),
        ("environment.gpus", (sweep.get("environment") or {}).get("gpus"), {}),
        ("definitions", sweep.get("definitions"), _DEFINITION),
    ):
        for index, entry in enumerate(entries or ()):
            if not isinstance(entry, dict):
                _refuse(path, f"{key}.{index}", _MAPPING, entry)
            _check(path, f"{key}.{index}.", entry, kinds)
    for index, entry in enumerate(sweep.get("definitions") or ()):
        for name, kind in _DEFINITION.items():
            if entry.get(name) is None:
                _refuse(path, f"definitions.{index}.{name}", kind, None)
    return sweep


def saved_space(sweep: Mapping[str, Any], path: str) -> Space | None:
    """The space launched last, from what ``parse_sweep`` gave; None before any launch.

    Raises ``StoreError`` that names ``path`` and every problem of the space.
    """
    space = sweep.get("space")
    if not space:
        return None
    resolved = space["resolved"]
    for key, kind in (("name", _TEXT), ("description", _TEXT), ("parts", _LIST), ("cards", _MAPPING)):
        if not isinstance(resolved.get(key), kind[0]):
            _refuse(path, f"space.resolved.{key}", kind, resolved.get(key))
    for index, part in enumerate(resolved["parts"]):
        if not isinstance(part, dict):
            _refuse(path, f"space.resolved.parts.{index}", _MAPPING, part)
    _check(path, "space.resolved.", resolved, {"loss_files": _MAPPING})
    files = resolved.get("loss_files") or {}
    _check(path, "space.resolved.loss_files.", files, dict.fromkeys(files, _TEXT))
    for name, card in resolved["cards"].items():
        _check_card(path, f"space.resolved.cards.{name}", card)
    try:
        return Space.from_dict({**resolved, "given": space["given"]})
    except SpaceError as error:
        problems = "\n".join(f"  - {problem}" for problem in error.problems)
        raise StoreError(f"{path}: space.resolved cannot be run by this aucsweep:\n{problems}\n{_REMEDY}") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise StoreError(f"{path}: space.resolved is no space that aucsweep wrote ({error!r}); {_REMEDY}") from error


def _check_card(path: str, key: str, card: Any) -> None:
    try:
        found = TypeAdapter(TaskCard).validate_python(card)
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        place = ".".join([key, *(str(step) for step in detail["loc"])])
        raise StoreError(f"{path}: {place}: {detail['msg']}, got {_shown(detail['input'])}; {_REMEDY}") from error
    for split in SPLITS:
        counts = found.counts.get(split, ())
        if min(counts, default=-1) < 0 or (found.metric == "auc" and len(counts) != 2):
            _refuse(path, f"{key}.counts.{split}", _COUNTS, list(counts))


def _check(path: str, prefix: str, found: Mapping[str, Any], kinds: Mapping[str, _Kind]) -> None:
    for key, kind in kinds.items():
        value = found.get(key)
        if value is not None and (not isinstance(value, kind[0]) or (isinstance(value, bool) and kind is not _FLAG)):
            _refuse(path, prefix + key, kind, value)


def _refuse(path: str, key: str, kind: _Kind, value: Any) -> NoReturn:
    found = "is missing" if value is None else f"is {_shown(value)}"
    raise StoreError(f"{path}: {key} should be {kind[1]} but {found}; {_REMEDY}")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a value of JSON")
