"""Why a sweep stops early: a signal, a spent time budget, a first failure, a store that was taken away."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType
from typing import Any, Self

from orchestrator.running import Halt

_WATCHED = ("SIGINT", "SIGTERM", "SIGHUP")


class Stop:
    """A context manager that turns the first SIGINT, SIGTERM or SIGHUP into ``Halt.NOW``.

    A second signal does what it did before, as does the first one outside the ``with``: handlers are put back. A
    signal that was ignored (``nohup``) stays ignored. Outside the main thread no handlers are set.
    ``reason`` says in words why the sweep stops, None while it does not.
    """

    def __init__(self, time_budget: float | None = None):
        self.reason: str | None = None
        self.early = False
        self._halt = Halt.NO
        self._budget = time_budget
        self._deadline = None if time_budget is None else time.monotonic() + time_budget
        self._before: dict[signal.Signals, Any] = {}

    def now(self, reason: str, *, early: bool = True) -> None:
        """Stop at once. ``early`` says whether what is left was given up before its time (exit code 3)."""
        if self._halt is not Halt.NOW:
            self._halt, self.reason, self.early = Halt.NOW, reason, early

    def __call__(self) -> Halt:
        """What runners ask for."""
        if self._halt is Halt.NO and self._deadline is not None and time.monotonic() >= self._deadline:
            self._halt, self.early = Halt.DRAIN, True
            self.reason = f"the time budget of {self._budget:g} s is spent"
        return self._halt

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for name in _WATCHED:
                number = getattr(signal, name, None)
                if number is not None and signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._before[number] = signal.signal(number, self._received)
        return self

    def __exit__(self, *error: object) -> None:
        self._put_back()

    def _received(self, number: int, frame: FrameType | None) -> None:
        self._put_back()
        self.now(f"stopped by {signal.Signals(number).name}")

    def _put_back(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()
