"""The error tree of aucsweep: one root, and one class per thing a caller can act on.

A ``UsageError`` means the call is wrong and nothing was started (exit code 2). A ``TrialError`` means one trial
failed while the sweep goes on; its ``kind`` is what the store, ``status`` and ``retry --kind`` call it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import ClassVar

FAILURE_KINDS = ("oom", "nan", "data", "timeout", "lost", "error")


class AucsweepError(Exception):
    """Root of every error aucsweep raises on purpose."""


class UsageError(AucsweepError):
    """The call is wrong: a message for the user, nothing was started."""


class SpaceError(UsageError):
    """A space, task file or override that cannot be run. ``problems`` names every fault found, one line each."""

    def __init__(self, what: str, problems: Sequence[str]):
        self.what = what
        self.problems = tuple(problems)
        lines = "\n".join(f"  - {problem}" for problem in self.problems)
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        super().__init__(f"{what}: {count}\n{lines}")


class StoreError(UsageError):
    """A store that is missing, of another schema, or not writable."""


class LockedError(StoreError):
    """Another launcher holds the store."""


class TrialError(AucsweepError):
    """One trial cannot go on. ``kind`` is one of ``FAILURE_KINDS``."""

    kind: ClassVar[str] = "error"


class DataError(TrialError):
    """The data on disk are missing, unreadable, of one class, or not those of the task card."""

    kind = "data"


class NonFiniteError(TrialError):
    """A loss, gradient or score that is NaN or infinite."""

    kind = "nan"


class TrialTimeout(TrialError):
    """A trial that ran longer than it was allowed to."""

    kind = "timeout"


class WorkerLost(TrialError):
    """The process that ran the trial ended without a word (killed, node gone)."""

    kind = "lost"


def reason(error: OSError) -> str:
    """Why a file cannot be read or written, as a sentence without its path and the error's number."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, IsADirectoryError):
        return "is a folder, not a file"
    return error.strerror or type(error).__name__


def nearest(word: str, allowed: Iterable[str]) -> str:
    """``allowed`` as a sentence, led by the valid name nearest to ``word`` when there is one.

    >>> nearest("sqaure", ["square", "hinge"])
    'did you mean square? (allowed: hinge, square)'
    """
    names = sorted(allowed)
    lower = word.lower()
    close = difflib.get_close_matches(lower, names, n=1, cutoff=0.6) or [n for n in names if lower and lower in n]
    listed = ", ".join(names)
    return f"did you mean {close[0]}? (allowed: {listed})" if close else f"allowed: {listed}"
