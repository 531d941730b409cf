"""What a person sees while a sweep runs: one bar on a terminal, a line now and then elsewhere, on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Self, TextIO

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task
from rich.text import Text

from orchestrator.running import Event, Outcome, Started

LINE_SECONDS = 60.0
"""At least this long between two plain lines, unless 5 % of all trials have finished meanwhile."""

_SHARE, _SHARE_SECONDS = 0.05, 2.0
_FAILURES_SHOWN = 10


class Tally:
    """Counts, rate and best values, kept from a runner's events. ``clock`` is in seconds.

    ``names`` are the losses each trial is run for, as the space writes them: several when their cells are one trial.
    """

    def __init__(
        self,
        wanted: int,
        done: int,
        clock: Callable[[], float] = time.monotonic,
        names: Mapping[str, Iterable[str]] | None = None,
    ):
        self.wanted, self.done = wanted, done
        self.names = names or {}
        self.failed: dict[str, str] = {}
        self.running: set[str] = set()
        self.best: dict[str, float] = {}
        self._clock = clock
        self._ended = 0
        self._began: float | None = None

    def add(self, event: Event) -> None:
        """Count ``event``. A trial that failed and then succeeds within this launch is done."""
        if isinstance(event, Started):
            if self._began is None:
                self._began = self._clock()
            self.running.add(event.trial_id)
            return
        self.running.discard(event.trial_id)
        self._ended += 1
        self.failed.pop(event.trial_id, None)
        if event.status == "done":
            self.done += 1
            if event.best_val_auc is not None:
                self.reached(event.trial_id, event.best_val_auc, event.loss)
        else:
            self.failed[event.trial_id] = event.kind or "lost"

    def reached(self, trial_id: str, auc: float, loss: str = "") -> None:
        """Count the best validation AUC of a trial towards its losses; ``loss`` is its own, should it have no name."""
        for name in self.names.get(trial_id, (loss,)):
            self.best[name] = max(auc, self.best.get(name, 0.0))

    @property
    def finished(self) -> int:
        """Trials that are done or failed."""
        return self.done + len(self.failed)

    @property
    def per_minute(self) -> float | None:
        """Trials that ended in this launch per minute, None before the first."""
        if self._began is None or not self._ended:
            return None
        return self._ended / max(self._clock() - self._began, 1.0) * 60.0

    @property
    def eta_seconds(self) -> float | None:
        """Seconds until all wanted trials have ended at this rate, None before the first."""
        rate = self.per_minute
        return None if rate is None else max(self.wanted - self.finished, 0) / rate * 60.0

    def rate_text(self) -> str:
        """Such as ``12.3/min, 4 min left``."""
        rate, eta = self.per_minute, self.eta_seconds
        if rate is None or eta is None:
            return "no trial has ended yet"
        speed = f"{rate:.1f}/min" if rate >= 1 else f"{rate * 60:.1f}/h"
        return f"{speed}, {duration(eta)} left"

    def failed_text(self) -> str:
        """Such as ``3 failed``."""
        return f"{len(self.failed)} failed"

    def best_text(self) -> str:
        """The best validation AUC of each loss so far, the best first."""
        if not self.best:
            return ""
        ranked = sorted(self.best.items(), key=lambda item: (-item[1], item[0]))
        return "best val AUC: " + ", ".join(f"{loss} {auc:.4f}" for loss, auc in ranked)


class Silent:
    """Shows nothing; also what the others have in common."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def note(self, text: str) -> None:
        """Say one thing now."""

    def update(self, event: Event, tally: Tally) -> None:
        """Show where the sweep stands after ``event``."""


class _Shown(Silent):
    """Names the first failures, so that a mistake is seen before the sweep is through."""

    def __init__(self) -> None:
        self._failures = 0

    def update(self, event: Event, tally: Tally) -> None:
        if isinstance(event, Outcome) and event.status != "done":
            self._failures += 1
            if self._failures <= _FAILURES_SHOWN:
                first = event.message.splitlines()[0] if event.message else ""
                self.note(f"trial {event.trial_id} failed ({event.kind}): {first[:200]}")
            if self._failures == _FAILURES_SHOWN:
                self.note("further failures are counted only; `aucsweep status` lists them by kind")


class Lines(_Shown):
    """Plain lines, for logs and pipes."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic):
        super().__init__()
        self._stream, self._clock = stream, clock
        self._last_time, self._last_finished = clock(), 0

    def note(self, text: str) -> None:
        """Print a line."""
        print(text, file=self._stream, flush=True)

    def update(self, event: Event, tally: Tally) -> None:
        """Print a line when it is time for one."""
        super().update(event, tally)
        if isinstance(event, Started):
            return
        waited = self._clock() - self._last_time
        gained = tally.finished - self._last_finished
        ended = tally.finished >= tally.wanted
        if ended or waited >= LINE_SECONDS or (waited >= _SHARE_SECONDS and gained >= _SHARE * tally.wanted):
            self._last_time, self._last_finished = self._clock(), tally.finished
            parts = [f"{tally.finished}/{tally.wanted}", tally.rate_text(), tally.failed_text(), tally.best_text()]
            self.note("; ".join(part for part in parts if part))


class Bar(_Shown):
    """One bar: done of total, rate, time left, failures, best so far per loss."""

    def __init__(self, stream: TextIO):
        super().__init__()
        # The stream itself, not whatever sys.stderr is later: a local trial's output is redirected while it runs.
        console = Console(file=stream)
        self._progress = _TwoLines(
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            _Field("rate"),
            _Field("failed", "red"),
            console=console,
            redirect_stdout=False,
            redirect_stderr=False,
            refresh_per_second=4,
        )
        self._task = self._progress.add_task("", total=None, rate="", failed="", best="", visible=False)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def note(self, text: str) -> None:
        """Print a line above the bar."""
        self._progress.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def update(self, event: Event, tally: Tally) -> None:
        """Move the bar."""
        super().update(event, tally)
        self._progress.update(
            self._task,
            total=tally.wanted,
            completed=tally.finished,
            rate=tally.rate_text(),
            failed=tally.failed_text() if tally.failed else "",
            best=tally.best_text(),
            visible=True,
        )


class _TwoLines(Progress):
    """The bar, and below it the best values, which need a line of their own."""

    def get_renderables(self) -> Iterable[RenderableType]:
        shown = [task for task in self.tasks if task.visible]
        if shown:
            yield self.make_tasks_table(shown)
            yield Text(str(shown[0].fields["best"]), style="green", overflow="ellipsis", no_wrap=True)


class _Field(ProgressColumn):
    """A text of the task, cut to what the line has room for."""

    def __init__(self, name: str, style: str = ""):
        super().__init__()
        self._name, self._style = name, style

    def render(self, task: Task) -> Text:
        return Text(str(task.fields[self._name]), style=self._style, overflow="ellipsis", no_wrap=True)


def make_progress(show: bool = True, stream: TextIO | None = None) -> Silent:
    """The display that suits ``stream`` (stderr unless given): a bar on a terminal, lines elsewhere, or nothing."""
    stream = sys.stderr if stream is None else stream
    if not show:
        return Silent()
    return Bar(stream) if Console(file=stream).is_terminal else Lines(stream)


def duration(seconds: float) -> str:
    """Such as ``45 s``, ``12 min``, ``3.4 h`` or ``2.1 days``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days"
