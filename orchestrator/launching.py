"""launch, resume and retry: plan, lock the store, check the machines, run what is pending, say how it ended."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict, Unpack

from orchestrator.environment import capture
from orchestrator.failures import settle_lost
from orchestrator.lock import StoreLock
from orchestrator.plan import Plan, make_plan
from orchestrator.progress import Silent, Tally, duration, make_progress
from orchestrator.resources import Slots, check_request
from orchestrator.running import TRAINING, Event, Halt, Job, Outcome, Runner
from orchestrator.stopping import Stop
from orchestrator.store import Store, open_store, store_exists
from search_spaces.cards import TaskCard
from search_spaces.errors import FAILURE_KINDS, StoreError, UsageError, nearest
from search_spaces.expand import expand
from search_spaces.space import Space, load_space
from search_spaces.tasks import task_card
from search_spaces.trial import TrialConfig

RUNNERS = ("ray", "local")


class Options(TypedDict, total=False):
    """How to run, for ``launch``, ``resume`` and ``retry``; none of it changes a trial's numbers.

    data_root: where prepared data and weights lie; ``resume`` and ``retry`` default to that of the last launch.
    runner: ``ray`` (default), ``local`` (in this process, one trial at a time), or a ``Runner`` of your own.
    address: a Ray cluster to run on, ``host:port`` or ``auto``; default: a Ray of its own on this machine.
    gpus_per_trial: may be a fraction; default 1 where there is a GPU, else 0.  cpus_per_trial: default 1.
    max_concurrent: at most this many trials at once.
    time_budget: start no trial after so many seconds; running ones finish.
    trial_timeout: fail a trial (kind ``timeout``) after so many seconds.
    fail_fast: leave everything at the first failed trial.
    retries: run a trial again up to so many times within this launch when its worker is lost.
    progress: show progress on stderr, default True.
    body: the function that trains a trial, ``module:name``, for benchmarks and tests; data are then not checked.
    """

    data_root: Path | str | None
    runner: str | Runner
    address: str | None
    gpus_per_trial: float | None
    cpus_per_trial: float
    max_concurrent: int | None
    time_budget: float | None
    trial_timeout: float | None
    fail_fast: bool
    retries: int
    progress: bool
    body: str


_DEFAULTS: Options = {
    "data_root": None,
    "runner": "ray",
    "address": None,
    "gpus_per_trial": None,
    "cpus_per_trial": 1,
    "max_concurrent": None,
    "time_budget": None,
    "trial_timeout": None,
    "fail_fast": False,
    "retries": 0,
    "progress": True,
    "body": TRAINING,
}


@dataclass(frozen=True)
class LaunchResult:
    """How a launch ended: ``wanted = done + failed + pending``, ``failures`` counts the failed by kind.

    ``exit_code`` is 0 when all wanted work is done, 1 when some trials failed, 3 when it stopped early.
    """

    exit_code: int
    wanted: int
    done: int
    failed: int
    pending: int
    failures: Mapping[str, int]
    seconds: float
    message: str


def launch(space: Space | str | Path, store: Store | str | Path, **options: Unpack[Options]) -> LaunchResult:
    """Run every trial of ``space`` that ``store`` lacks; the store is made where there is none.

    Raises ``UsageError`` (``SpaceError``, ``StoreError``, ``LockedError``) before anything was started.
    """
    settings = _settings(options)
    if not isinstance(space, Space):
        space = load_space(space)
    if settings["data_root"] is None:
        raise UsageError("launch needs data_root, the folder where prepared data and weights lie")
    if isinstance(store, str | Path):
        if not store_exists(store):
            expand(space)  # a space that cannot be run must not leave an empty store behind
        store = open_store(store, create=True)
    return _carry_out(space, store, settings, f"launch {space.name}")


def resume(store: Store | str | Path, **options: Unpack[Options]) -> LaunchResult:
    """Run what ``store`` still lacks of the space it was launched with last; raises as ``launch``."""
    opened, space, settings = _saved(store, options)
    return _carry_out(space, opened, settings, f"resume {space.name}")


def retry(store: Store | str | Path, *, kind: str | None = None, **options: Unpack[Options]) -> LaunchResult:
    """Run the failed trials of the space launched last again, all or those of ``kind``; failure rows are kept.

    Raises as ``launch``, and ``UsageError`` for an unknown kind. The result counts these trials only.
    """
    if kind is not None and kind not in FAILURE_KINDS:
        raise UsageError(f"unknown failure kind {kind!r}: {nearest(kind, FAILURE_KINDS)}")
    opened, space, settings = _saved(store, options)
    return _carry_out(space, opened, settings, f"retry {space.name}", kinds=FAILURE_KINDS if kind is None else (kind,))


def check_node(
    store_uri: str, sweep_digest: str, cards: Sequence[TaskCard], data_root: Path
) -> tuple[list[str], dict[str, str]]:
    """Whether trials can run on this machine: the problems found, and the fingerprint of each task's data.

    Called once on every machine of the cluster, in a worker process, since it imports torch to read the data.
    """
    problems: list[str] = []
    fingerprints: dict[str, str] = {}
    try:
        if _sweep_digest(open_store(store_uri)) != sweep_digest:
            problems.append(f"{store_uri} is another folder there than here: the store must be shared by all nodes")
    except (StoreError, OSError) as error:
        problems.append(f"the store is not to be seen there: {error}")
    for card in cards:
        from trainables.data import check_task

        check = check_task(card, data_root)
        if not check.ok:
            problems.append(f"task {card.name} cannot be trained:\n    " + "\n    ".join(check.lines))
        if check.fingerprint is not None:
            fingerprints[card.name] = check.fingerprint
    return problems, fingerprints


def _carry_out(space: Space, store: Store, settings: Options, command: str, kinds: Sequence[str] = ()) -> LaunchResult:
    """Run the pending trials or, given ``kinds``, the failed ones of these kinds."""
    began = time.monotonic()
    stop = Stop(settings["time_budget"])
    shown = make_progress(settings["progress"])
    lock = StoreLock(store, command, on_lost=lambda: stop.now("another launcher has taken the store over"))
    with shown, stop, lock:
        if lock.taken_over is not None:
            shown.note(lock.taken_over)
        plan = make_plan(space, store)
        for file in plan.broken:
            shown.note(f"broken file {file.path}: {file.reason}; its trials count as not done")
        attempts = {trial_id: (failure.kind, failure.attempt) for trial_id, failure in store.latest_failures().items()}
        if kinds:
            again = {key for key, (kind, _) in attempts.items() if kind in kinds}
            todo = [trial for key, trial in plan.expansion.trials.items() if key in again and key not in plan.done]
            tally = Tally(len(todo), 0)
        else:
            todo = list(plan.pending)
            tally = Tally(len(plan.expansion.trials), len(plan.done))
            tally.failed.update(plan.failed)
        if todo and stop() is Halt.NO:
            sweep = _Sweep(space, store, settings, plan, todo, attempts, tally, lock, stop, shown)
            sweep.run(command)
        else:
            _record(store, space, plan, settings, command, None, len(todo))
        result = _result(tally, stop, store, time.monotonic() - began)
        shown.note(result.message)
    return result


@dataclass
class _Sweep:
    """One launch at work."""

    space: Space
    store: Store
    settings: Options
    plan: Plan
    todo: Sequence[TrialConfig]
    attempts: Mapping[str, tuple[str, int]]
    tally: Tally
    lock: StoreLock
    stop: Stop
    shown: Silent

    def run(self, command: str) -> None:
        """Claim the machines, check them, record the launch, and run the trials."""
        runner = _runner(self.settings)
        try:
            with runner:
                fingerprints = self._check_nodes(runner)
                _record(self.store, self.space, self.plan, self.settings, command, runner.slots, len(self.todo))
                left = len(self.todo)
                self.shown.note(f"{left} trial{'' if left == 1 else 's'} to run, {runner.slots.describe()}")
                jobs = {job.trial_id: job for job in self._jobs(runner.slots, fingerprints)}
                for _ in range(1 + self.settings["retries"]):
                    self._run(runner, jobs)
                    jobs = {
                        key: dataclasses.replace(job, attempt=job.attempt + 1)
                        for key, job in jobs.items()
                        if self.tally.failed.get(key) == "lost"
                    }
                    if not jobs or self.stop() is not Halt.NO:
                        break
        except KeyboardInterrupt:
            self.stop.now("interrupted")

    def _run(self, runner: Runner, jobs: Mapping[str, Job]) -> None:
        def on_event(event: Event) -> None:
            if isinstance(event, Outcome) and event.status == "lost":
                event = settle_lost(event, jobs[event.trial_id], self.store)
            self.tally.add(event)
            self.shown.update(event, self.tally)
            self.lock.report(
                running=self.tally.running,
                wanted=self.tally.wanted,
                done=self.tally.done,
                failed=len(self.tally.failed),
            )
            if isinstance(event, Outcome) and event.status != "done" and self.settings["fail_fast"]:
                self.stop.now(f"stopped at the first failure (trial {event.trial_id}, {event.kind})", early=False)

        runner.run(jobs.values(), on_event=on_event, should_stop=self.stop)

    def _jobs(self, slots: Slots, fingerprints: Mapping[str, str]) -> Iterator[Job]:
        for config in self.todo:
            yield Job(
                config=config,
                store_uri=self.store.uri,
                data_root=_data_root(self.settings),
                device=slots.device,
                threads=slots.threads,
                eval_batch_size=self.plan.expansion.eval_batch_sizes[config.trial_id],
                timeout=self.settings["trial_timeout"],
                attempt=self.attempts.get(config.trial_id, ("", 0))[1] + 1,
                cards=self.space.cards,
                fingerprints=fingerprints,
                body=self.settings["body"],
            )

    def _check_nodes(self, runner: Runner) -> dict[str, str]:
        """The fingerprint of each task's data, where known. Raises ``UsageError`` naming the problems of every node."""
        names = dict.fromkeys(trial.task for trial in self.todo)
        cards = [task_card(name, self.space.cards) for name in names] if self.settings["body"] == TRAINING else []
        recorded = self.store.fingerprints()
        if not runner.remote and not cards:
            return recorded
        probe = functools.partial(
            check_node, self.store.uri, _sweep_digest(self.store), cards, _data_root(self.settings)
        )
        problems: list[str] = []
        for node, (found, fingerprints) in runner.on_every_node(probe).items():
            problems += [f"{node}: {problem}" for problem in found]
            for task, fingerprint in fingerprints.items():
                if recorded.setdefault(task, fingerprint) != fingerprint:
                    problems.append(
                        f"{node}: the data of task {task} have fingerprint {fingerprint}, not {recorded[task]} as in "
                        "this store or on another node: use the same data, or another store"
                    )
        if problems:
            raise UsageError("nothing was started:\n" + "\n".join(f"  - {problem}" for problem in problems))
        return recorded


def _record(
    store: Store, space: Space, plan: Plan, settings: Options, command: str, slots: Slots | None, pending: int
) -> None:
    """Write the cells and ``sweep.json``: the space, what it ran on, and one more entry of ``launches``."""
    environment = capture()
    sweep = store.read_sweep()
    entry = {
        "command": command,
        "at": datetime.now(UTC).isoformat(),
        "hostname": environment["hostname"],
        "code": environment["code"],
        "data_root": str(_data_root(settings)),
        "address": settings["address"],
        "slots": None if slots is None else dataclasses.asdict(slots),
        "pending": pending,
        "plan_hash": plan.expansion.plan_hash,
    }
    resolved = space.to_dict()
    store.add_cells(plan.expansion.cells)
    store.write_sweep(
        {
            **sweep,
            "space": {"given": resolved.pop("given"), "resolved": {**resolved, "given": {}}},
            "plan_hash": plan.expansion.plan_hash,
            "environment": environment,
            "launches": [*sweep.get("launches", ()), entry],
        }
    )


def _result(tally: Tally, stop: Stop, store: Store, seconds: float) -> LaunchResult:
    failed, pending = len(tally.failed), tally.wanted - tally.finished
    kinds = sorted(tally.failed.values())
    failures = {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
    exit_code = 3 if pending and stop.early else 1 if failed else 3 if pending else 0
    parts = [f"{stop.reason}: " if stop.reason and pending else ""]
    parts.append(f"{tally.done} of {tally.wanted} trials done")
    if failed:
        parts.append(f", {failed} failed ({', '.join(f'{kind} {count}' for kind, count in failures.items())})")
    if pending:
        parts.append(f", {pending} left")
    parts.append(f", in {duration(seconds)}")
    if pending or set(failures) & {"lost"}:
        parts.append(f"\ngo on with: aucsweep resume --store {store.uri}")
    if set(failures) - {"lost"}:
        parts.append(f"\nfailed trials: aucsweep status --store {store.uri}; again: aucsweep retry --store {store.uri}")
    return LaunchResult(exit_code, tally.wanted, tally.done, failed, pending, failures, seconds, "".join(parts))


def _saved(store: Store | str | Path, options: Options) -> tuple[Store, Space, Options]:
    """The store, the space it was launched with last, and the options with that launch's data root."""
    settings = _settings(options)
    opened = store if isinstance(store, Store) else open_store(store)
    sweep = opened.read_sweep()
    resolved = (sweep.get("space") or {}).get("resolved")
    if resolved is None:
        raise UsageError(f"nothing was launched on the store {opened.uri} yet: use aucsweep launch SPACE --store ...")
    if settings["data_root"] is None:
        settings["data_root"] = Path(sweep["launches"][-1]["data_root"])
    return opened, Space.from_dict({**resolved, "given": sweep["space"]["given"]}), settings


def _settings(options: Options) -> Options:
    """``options`` with the defaults; raises ``UsageError`` for what no launch could do."""
    for name in options:
        if name not in _DEFAULTS:
            raise TypeError(f"unknown option {name!r}: {nearest(name, _DEFAULTS)}")
    settings: Options = {**_DEFAULTS, **options}
    check_request(settings["gpus_per_trial"], settings["cpus_per_trial"], settings["max_concurrent"])
    for name, seconds in (("time_budget", settings["time_budget"]), ("trial_timeout", settings["trial_timeout"])):
        if seconds is not None and not (math.isfinite(seconds) and seconds > 0):
            raise UsageError(f"{name} must be a positive number of seconds, got {seconds}")
    if settings["retries"] < 0:
        raise UsageError(f"retries must be 0 or more, got {settings['retries']}")
    chosen = settings["runner"]
    if isinstance(chosen, str) and chosen not in RUNNERS:
        raise UsageError(f"unknown runner {chosen!r}: {nearest(chosen, RUNNERS)}")
    if chosen == "local" and settings["address"] is not None:
        raise UsageError("the local runner runs in this process: give no address, or the ray runner")
    return settings


def _runner(settings: Options) -> Runner:
    chosen = settings["runner"]
    if not isinstance(chosen, str):
        return chosen
    gpus, cpus, most = settings["gpus_per_trial"], settings["cpus_per_trial"], settings["max_concurrent"]
    if chosen == "local":
        from orchestrator.local import LocalRunner

        return LocalRunner(gpus_per_trial=gpus, cpus_per_trial=cpus)
    from orchestrator.runner import RayRunner

    return RayRunner(address=settings["address"], gpus_per_trial=gpus, cpus_per_trial=cpus, max_concurrent=most)


def _data_root(settings: Options) -> Path:
    root = settings["data_root"]
    assert root is not None
    return Path(root).expanduser().absolute()


def _sweep_digest(store: Store) -> str:
    return hashlib.sha256(store.files.read("sweep.json")).hexdigest()
