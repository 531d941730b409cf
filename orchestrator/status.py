"""How a sweep stands, while it runs or not, from the store alone."""

from __future__ import annotations

import functools
import json
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.listing import Memory
from orchestrator.lock import Holder, describe, is_alive, read_lock
from orchestrator.sweep_file import SWEEP, saved_space
from search_spaces.expand import expand

if TYPE_CHECKING:
    from orchestrator.store import Scan, Store


@dataclass(frozen=True)
class TaskStatus:
    """One task's trials: ``wanted = done + running + failed + pending``."""

    task: str
    done: int
    running: int
    failed: int
    pending: int


@dataclass(frozen=True)
class Status:
    """A store's state, for the space launched last.

    ``wanted = done + running + failed + pending``. ``failures`` counts failed trials by the kind of their last attempt;
    a trial whose worker was lost is among them here although ``resume`` runs it again. ``rate_per_hour`` counts the
    trials that finished since the running launch began (None when nothing runs or none has finished) and
    ``eta_seconds`` is what is left at that rate. ``others`` are finished trials of other spaces. ``holder`` says who
    runs the sweep.
    """

    wanted: int
    done: int
    running: int
    failed: int
    pending: int
    failures: dict[str, int]
    rate_per_hour: float | None
    eta_seconds: float | None
    tasks: tuple[TaskStatus, ...]
    others: int
    broken: tuple[str, ...]
    holder: str | None

    def to_json(self) -> dict[str, Any]:
        """The status, ready for ``json.dumps``."""
        return {
            "wanted": self.wanted,
            "done": self.done,
            "running": self.running,
            "failed": self.failed,
            "pending": self.pending,
            "failures": self.failures,
            "rate_per_hour": self.rate_per_hour,
            "eta_seconds": self.eta_seconds,
            "tasks": [vars(task) for task in self.tasks],
            "others": self.others,
            "broken": list(self.broken),
            "holder": self.holder,
        }


def store_status(store: Store, *, now: float | None = None, memory: Memory | None = None) -> Status:
    """Count the trials of the space launched last; ``now`` is in epoch seconds. Trains and writes nothing.

    Who asks again and again passes the same ``memory`` (``{}`` at first): only what is new is read then.
    """
    now = time.time() if now is None else now
    tasks = _wanted(store)
    scan = store.scan(memory)
    latest = store.latest_failures(memory)
    holder = read_lock(store)
    if holder is not None and not is_alive(holder, now):
        holder = None

    done = {trial for trial in tasks if trial in scan.done}
    running = {trial for trial in ((holder or {}).get("running") or ()) if trial in tasks and trial not in done}
    failed = {trial for trial in tasks if trial in latest and trial not in done and trial not in running}
    states = Counter(
        (task, "done" if key in done else "running" if key in running else "failed" if key in failed else "pending")
        for key, task in tasks.items()
    )
    kinds = Counter(latest[trial].kind for trial in failed)
    left = len(tasks) - len(done) - len(failed)
    rate = _rate(scan, tasks, holder, now)
    return Status(
        wanted=len(tasks),
        done=len(done),
        running=len(running),
        failed=len(failed),
        pending=left - len(running),
        failures=dict(sorted(kinds.items())),
        rate_per_hour=rate,
        eta_seconds=left / rate * 3600.0 if rate else None,
        tasks=tuple(
            TaskStatus(task, *(states[task, state] for state in ("done", "running", "failed", "pending")))
            for task in dict.fromkeys(tasks.values())
        ),
        others=len(scan.done) - len(done),
        broken=tuple(f"{file.path}: {file.reason}" for file in scan.broken),
        holder=None if holder is None else describe(holder),
    )


def _wanted(store: Store) -> dict[str, str]:
    """The task of each wanted trial: of the space launched last or, before any launch, of every cell in the store."""
    space = store.read_sweep().get("space")
    if space:
        return _expanded(json.dumps(space, sort_keys=True), store.files.path(SWEEP))
    cells = store.read_cells()
    return dict(zip(cells["trial_id"], cells["task"], strict=True))


@functools.lru_cache(maxsize=4)
def _expanded(space: str, path: str) -> dict[str, str]:
    # ``status --watch`` asks every few seconds; expanding the paper's grid takes about one of them.
    saved = saved_space({"space": json.loads(space)}, path)
    assert saved is not None
    return {key: trial.task for key, trial in expand(saved).trials.items()}


def _rate(scan: Scan, tasks: dict[str, str], holder: Holder | None, now: float) -> float | None:
    started = None if holder is None else holder.get("started_at")
    if started is None:
        return None
    times = [record.summary["finished_at"] for key, record in scan.records.items() if key in tasks]
    finished = sum(1 for at in times if at >= started)
    return finished / max(now - started, 1.0) * 3600.0 if finished else None
