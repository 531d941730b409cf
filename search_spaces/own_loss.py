"""A user's own losses: Python files that a space names, run wherever the space is.

    loss_files: [gap.py]               # calls trainables.losses.register_loss (docs/add-a-loss.md)
    losses: [ce, "gap(scale=2)"]

The text of a file goes with the space into the store and to every worker, and its hash is part of each of its losses'
trials: a changed file means other trials. A file is run as it is, with the rights of whoever launches or resumes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import sys
import traceback
from collections.abc import Mapping
from types import ModuleType

from search_spaces.errors import SpaceError
from search_spaces.identity import ID_LENGTH
from search_spaces.losses import LOSSES

_IN_USE: dict[str, tuple[str, tuple[str, ...]]] = {}
"""By file name: the revision that was run last in this process, and the names of its losses."""


def revision(text: str) -> str:
    """16 hexadecimal digits that change with the text of a file."""
    return hashlib.sha256(text.encode()).hexdigest()[:ID_LENGTH]


def use_loss_files(files: Mapping[str, str]) -> None:
    """Run each file (name to text) unless it was the last of its name here, so that spaces and trials know its losses.

    Raises ``SpaceError`` for a file that fails, that adds no loss, or whose loss has the name of another one.
    """
    for name, text in files.items():
        found = revision(text)
        used, losses = _IN_USE.get(name, ("", ()))
        if used == found:
            continue
        for loss in losses:
            LOSSES.pop(loss, None)
        _IN_USE.pop(name, None)
        _IN_USE[name] = found, _run(name, text, found)


def _run(name: str, text: str, found: str) -> tuple[str, ...]:
    """Run one file; returns the names of the losses it added, each of which now carries the file's revision."""
    before = set(LOSSES)
    module = ModuleType(f"aucsweep_losses_{found}")
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what it prints is no part of a command's output
            exec(compile(text, name, "exec", dont_inherit=True), module.__dict__)
    except Exception as error:
        for loss in set(LOSSES) - before:
            del LOSSES[loss]
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == name]
        line = lines[-1] if lines else getattr(error, "lineno", None)
        where = f" (line {line})" if line else ""
        raise SpaceError(f"loss file {name}", [f"{type(error).__name__}{where}: {error}"]) from error
    added = tuple(loss for loss in LOSSES if loss not in before)
    if not added:
        raise SpaceError(f"loss file {name}", ["adds no loss: call trainables.losses.register_loss"])
    for loss in added:
        LOSSES[loss] = dataclasses.replace(LOSSES[loss], revision=found)
    return added
