"""RayRunner: Ray Tune as the engine of a sweep. The only module that imports Ray.

Each chunk of about a thousand jobs is one ``Tuner.fit`` whose workers are reused, so that importing torch and loading
weights is paid once per worker. Tune decides when and where a trial runs and nothing else: the worker writes the
result to the store before it reports a few numbers, and Tune's own state, loggers, checkpoints and restore are not
used (they rerun and lose trials, and grow with every trial; ``docs/clusters.md`` has the figures).
"""

from __future__ import annotations

import gc
import itertools
import logging
import math
import os
import re
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

# Ray reads these when it is imported. No loggers: they keep every trial alive and cost 450 MB. No periodic state files.
os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
os.environ.setdefault("TUNE_DISABLE_SIGINT_HANDLER", "1")
os.environ.setdefault("TUNE_GLOBAL_CHECKPOINT_S", "1000000000")
os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
# Ray's own default is 15: a sweep would crawl on a machine where anything else runs.
os.environ.setdefault("RAY_worker_niceness", "0")
os.environ.setdefault("RAY_CHDIR_TO_TRIAL_DIR", "0")

import ray
from ray import tune
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import ConcurrencyLimiter, Searcher
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from orchestrator.execution import execute, prepare_worker
from orchestrator.resources import Node, Slots, check_request, fit
from orchestrator.running import Event, Halt, Job, OnEvent, Outcome, ShouldStop, Started, Value
from orchestrator.store import Store, open_store
from search_spaces.errors import AucsweepError, UsageError

CHUNK = 1000
"""Jobs per ``Tuner.fit``: its fixed cost is some 2 s, and memory and state grow with every trial in it."""

_AUTH_MODE = "RAY_AUTH_MODE"
_OBJECT_STORE_BYTES = 128 * 2**20
_REFIT_SECONDS = 30.0
_ROUNDS_WITHOUT_PROGRESS = 3


class RayRunner:
    """Runs jobs on a Ray of its own on this machine or, given an ``address``, on a cluster that is there already.

    A cluster is joined and left, never shut down. ``address`` is ``host:port`` or ``auto`` (the cluster this machine is
    a node of).
    """

    name = "ray"

    def __init__(
        self,
        *,
        address: str | None = None,
        gpus_per_trial: float | None = None,
        cpus_per_trial: float = 1,
        max_concurrent: int | None = None,
        chunk: int = CHUNK,
    ):
        check_request(gpus_per_trial, cpus_per_trial, max_concurrent)
        if address is not None and "://" in address:
            raise UsageError(
                f"address {address!r} is a Ray Client address; give host:port of the head on a node of the cluster, "
                "or send the command there with `ray job submit`"
            )
        self._address = address
        self.remote = address is not None
        self._gpus, self._cpus, self._max_concurrent = gpus_per_trial, cpus_per_trial, max_concurrent
        self._chunk = chunk
        self._slots: Slots | None = None
        self._folder: Path | None = None
        self._quiet = ExitStack()

    @property
    def slots(self) -> Slots:
        """What one trial gets and how many run at once, by the nodes that were there when last asked."""
        if self._slots is None:
            raise RuntimeError("the runner has not been entered")
        return self._slots

    def __enter__(self) -> Self:
        if ray.is_initialized():
            raise UsageError("Ray is already running in this process: call ray.shutdown() first")
        remove_leftovers()
        self._quiet.enter_context(_auth_mode_kept())
        # Unix sockets lie in this folder and their paths may have 107 characters, so it must be short.
        self._folder = Path(f"/tmp/aucs-{os.getpid()}")
        try:
            with _own_signal_handlers():
                if self._address is None:
                    self._start_here()
                else:
                    self._join(self._address)
            self._quiet.enter_context(_silence())
            self._slots = self._fit()
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._leave()

    def on_every_node(self, probe: Callable[[], Value]) -> dict[str, Value]:
        """Call ``probe`` once on each node of the cluster."""

        @ray.remote(num_cpus=0, max_retries=1)
        def call_probe() -> Value:
            return probe()

        calls = {
            node["NodeManagerHostname"] + ":" + node["NodeID"][:6]: call_probe.options(
                scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            ).remote()
            for node in _alive_nodes()
        }
        answers: dict[str, Value] = {}
        for name, call in calls.items():
            try:
                answers[name] = ray.get(call)
            except ray.exceptions.TaskUnschedulableError:
                continue  # it left after we listed the nodes
            except ray.exceptions.RayError as error:
                raise UsageError(f"{name} cannot run aucsweep: {error}") from error
        return answers

    def run(self, jobs: Iterable[Job], *, on_event: OnEvent, should_stop: ShouldStop) -> None:
        """Run the jobs in chunks; see ``Runner.run``."""
        with _own_signal_handlers():
            self._run(iter(jobs), on_event, should_stop)

    def _run(self, jobs: Iterator[Job], on_event: OnEvent, should_stop: ShouldStop) -> None:
        while chunk := list(itertools.islice(jobs, self._chunk)):
            rounds = 0
            while chunk:
                if should_stop() is not Halt.NO:
                    return
                left, fault = self._run_chunk(chunk, on_event, should_stop)
                # Tune can give up on a chunk (a reused worker that dies between two trials confuses it): what it left
                # goes into another one.
                rounds = rounds + 1 if len(left) == len(chunk) else 0
                if rounds == _ROUNDS_WITHOUT_PROGRESS:
                    raise AucsweepError(f"Ray Tune did not start any of {len(left)} trials: {fault}") from fault
                chunk = left

    def _run_chunk(
        self, jobs: Sequence[Job], on_event: OnEvent, should_stop: ShouldStop
    ) -> tuple[list[Job], Exception | None]:
        """One ``Tuner.fit``. Returns the jobs without an outcome, and what Tune raised."""
        self._slots = self._fit()
        queue = _Queue(len(jobs), should_stop)
        # A second trial per slot waits in Tune's queue: with only as many as run, short trials leave slots idle.
        limiter = ConcurrencyLimiter(queue, max_concurrent=self._limit(self.slots))

        def grow() -> None:
            with suppress(UsageError):
                self._slots = self._fit()
                limiter.max_concurrent = self._limit(self.slots)

        watcher = _Watcher(jobs, on_event, should_stop, grow)
        resources = {"cpu": self.slots.cpus_per_trial, "gpu": self.slots.gpus_per_trial}
        trainable = tune.with_parameters(_Worker, jobs=list(jobs), slots=self.slots)
        storage = tempfile.mkdtemp(prefix="tune-", dir=self._folder)
        fault: Exception | None = None
        try:
            tune.Tuner(
                tune.with_resources(trainable, resources),
                tune_config=tune.TuneConfig(
                    search_alg=limiter, scheduler=_Scheduler(should_stop), num_samples=-1, reuse_actors=True
                ),
                run_config=tune.RunConfig(
                    name="chunk",
                    storage_path=storage,
                    verbose=0,
                    callbacks=[watcher],
                    checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
                ),
            ).fit()
        except _Left:
            self._leave()
        except Exception as error:
            fault = error
        finally:
            shutil.rmtree(storage, ignore_errors=True)
        if watcher.error is not None:
            raise watcher.error
        watcher.deliver()
        left = [job for index, job in enumerate(jobs) if index not in watcher.ended]
        gc.collect()  # Tune's trials refer to each other; without this a chunk's memory outlives it
        return left, fault

    def _limit(self, slots: Slots) -> int:
        if self._address is not None and self._max_concurrent is not None:
            return slots.concurrent  # exactly: a cluster would run the waiting ones too
        return 2 * slots.concurrent

    def _fit(self) -> Slots:
        nodes = [
            Node(
                node["NodeManagerHostname"],
                float(node["Resources"].get("CPU", 0)),
                float(node["Resources"].get("GPU", 0)),
            )
            for node in _alive_nodes()
        ]
        return fit(nodes, gpus_per_trial=self._gpus, cpus_per_trial=self._cpus, max_concurrent=self._max_concurrent)

    def _start_here(self) -> None:
        cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        if self._max_concurrent is not None:
            cpus = min(cpus, math.ceil(self._max_concurrent * self._cpus))
        ray.init(
            address="local",
            num_cpus=cpus,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.CRITICAL,
            object_store_memory=_OBJECT_STORE_BYTES,
            _temp_dir=str(self._folder),
        )

    def _join(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        try:
            if port.isdigit():
                # Ray itself tries for many minutes to reach a head that is not there.
                socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
            ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL)
        except (OSError, RuntimeError, ValueError) as error:
            advice = ""
            if os.environ.get(_AUTH_MODE) != "token" and "uthenticat" in f"{error} {error.__cause__}":
                advice = (
                    f" (the cluster asks for a token: set {_AUTH_MODE}=token where the cluster's owner gave you one)"
                )
            raise UsageError(f"cannot join the Ray cluster at {address}: {error}{advice}") from error
        assert self._folder is not None
        self._folder.mkdir(exist_ok=True)

    def _leave(self) -> None:
        """End our own Ray, or leave the cluster, whose workers of ours end with us."""
        if ray.is_initialized():
            ray.shutdown()
        self._quiet.close()
        self._slots = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


class _Worker(tune.Trainable):
    """A worker process: one ``step`` is one trial, a reset the next trial in the same process."""

    def setup(self, config: dict[str, Any], jobs: Sequence[Job] = (), slots: Slots | None = None) -> None:
        assert slots is not None  # given by tune.with_parameters
        prepare_worker(slots.threads, slots.gpus_per_trial)
        self._jobs = jobs
        self._stores: dict[str, Store] = {}
        self._index = config["job"]

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self._index = new_config["job"]
        return True

    def step(self) -> dict[str, Any]:
        job = self._jobs[self._index]
        if job.store_uri not in self._stores:
            self._stores[job.store_uri] = open_store(job.store_uri)
        outcome = execute(job, self._stores[job.store_uri])
        if outcome.unusable:
            os._exit(1)  # the driver finds the failure row; Tune starts another worker
        return {"done": True, "outcome": outcome.to_dict()}


class _NotSaved:
    """Tune pickles what it is given, for a restore that never comes: leave it nothing."""

    def __getstate__(self) -> dict[str, Any]:
        return {}


class _Queue(_NotSaved, Searcher):
    """Hands out the numbers of the jobs in order. Not a search: Tune's interface for an explicit list."""

    def __init__(self, count: int, should_stop: ShouldStop):
        super().__init__()
        self._count, self._should_stop, self._next = count, should_stop, 0

    def set_search_properties(self, *args: Any, **spec: Any) -> bool:
        return True

    def suggest(self, trial_id: str) -> dict[str, Any]:
        if self._next >= self._count or self._should_stop() is not Halt.NO:
            return Searcher.FINISHED  # type: ignore[return-value]
        self._next += 1
        return {"job": self._next - 1}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        pass

    def save(self, checkpoint_path: str) -> None:
        pass

    def restore(self, checkpoint_path: str) -> None:
        raise NotImplementedError("a sweep is resumed from its store, never from Tune's state")


class _Scheduler(_NotSaved, FIFOScheduler):
    """First in, first out; takes waiting trials back once no more may start.

    Plain FIFO would give a worker that has come free to the first waiting trial, and throw away the worker that Tune is
    just starting for it: with trials shorter than the start of a worker, some slots would never get one.
    """

    def __init__(self, should_stop: ShouldStop):
        super().__init__()  # type: ignore[no-untyped-call]
        self._should_stop = should_stop

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        waiting = [trial for trial in tune_controller.get_live_trials() if trial.status == Trial.PENDING]
        if waiting and self._should_stop() is not Halt.NO:
            for trial in waiting:
                tune_controller.stop_trial(trial)
            return None
        live = set(tune_controller._actor_manager.live_actors)
        without_worker = [trial for trial in waiting if tune_controller._trial_to_actor.get(trial) not in live]
        return min(without_worker, key=lambda trial: trial.config["job"], default=None)


class _Watcher(_NotSaved, tune.Callback):
    """Turns Tune's callbacks into events, and leaves the run when told to.

    Tune takes what a callback raises for the trial's failure, so events are kept and delivered between its steps.
    """

    def __init__(self, jobs: Sequence[Job], on_event: OnEvent, should_stop: ShouldStop, grow: Callable[[], None]):
        self._jobs, self._on_event, self._should_stop, self._grow = jobs, on_event, should_stop, grow
        self._events: list[Event] = []
        self._grown = time.monotonic()
        self.ended: set[int] = set()
        self.error: BaseException | None = None

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self._events.append(Started(self._jobs[trial.config["job"]].trial_id))

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        outcome = (trial.last_result or {}).get("outcome")
        if outcome is not None:  # else it was taken back before it started
            self._end(trial, Outcome(**outcome))

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        job = self._jobs[trial.config["job"]]
        text = _error_text(trial)
        kind = "oom" if "OutOfMemoryError" in text else "lost"
        self._end(trial, Outcome(job.trial_id, "lost", kind, text, job.attempt, loss=job.config.loss))

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        halt = self._should_stop()
        if halt is Halt.NOW:
            # What stops us may have hit our workers too (a closed terminal, a batch system's signal to every process):
            # that is nothing to hold against their trials.
            self._events = [event for event in self._events if isinstance(event, Started) or event.status != "lost"]
        try:
            self.deliver()
        except BaseException as error:
            self.error = error
            raise _Left from error
        if halt is Halt.NOW or self._should_stop() is Halt.NOW:
            raise _Left
        if time.monotonic() - self._grown > _REFIT_SECONDS:
            self._grown = time.monotonic()
            self._grow()

    def deliver(self) -> None:
        """Hand the kept events over."""
        while self._events:
            self._on_event(self._events.pop(0))

    def _end(self, trial: Trial, outcome: Outcome) -> None:
        index = trial.config["job"]
        if index not in self.ended:
            self.ended.add(index)
            self._events.append(outcome)


class _Left(BaseException):
    """Leaves ``Tuner.fit`` at once; no ``Exception``, since on those Tune first waits for its workers."""


def remove_leftovers() -> None:
    """Delete the folders that launchers which were killed have left in /tmp."""
    for folder in Path("/tmp").glob("aucs-*"):
        number = folder.name.removeprefix("aucs-")
        with suppress(OSError):
            if number.isdigit() and folder.stat().st_uid == os.getuid() and not Path(f"/proc/{number}").exists():
                shutil.rmtree(folder, ignore_errors=True)


def _alive_nodes() -> list[dict[str, Any]]:
    nodes = ray.nodes()  # type: ignore[no-untyped-call]
    return [node for node in nodes if node["Alive"] and node["Resources"].get("CPU", 0) > 0]


def _error_text(trial: Trial) -> str:
    """What Ray says about a worker that ended, without its general advice."""
    text = ""
    with suppress(OSError, TypeError):
        text = " ".join(Path(trial.error_file).read_text().split())
    detail = re.search(r"Worker exit detail: (.*?)(?= Some common causes|$)", text)
    text = detail[1] if detail else re.sub(r"^Failure # \d+ \(occurred at [^)]*\) ", "", text)
    return "the worker process ended: " + (text[:500] or "Ray gives no reason")


@contextmanager
def _silence() -> Iterator[None]:
    """Keep Ray's own messages off both streams; what became of a trial is ours to say."""
    loggers = [logging.getLogger(name) for name in ("ray", "ray.tune", "ray.train", "ray.air", "ray.data")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    # What the raylet reports, such as a worker's death, goes to stdout even with log_to_driver=False; the switch for it
    # has no public name.
    worker: Any = ray._private.worker
    before, worker._worker_logs_enabled = getattr(worker, "_worker_logs_enabled", True), False
    try:
        yield
    finally:
        worker._worker_logs_enabled = before
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def _auth_mode_kept() -> Iterator[None]:
    """Undo the variable by which a Ray of one's own asks its processes for a token, as it should, once it has ended."""
    before = os.environ.get(_AUTH_MODE)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_AUTH_MODE, None)
        else:
            os.environ[_AUTH_MODE] = before


@contextmanager
def _own_signal_handlers() -> Iterator[None]:
    """Undo the handlers Ray installs; one that fires while Ray starts becomes a ``KeyboardInterrupt``."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    watched = [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1]
    before = {number: signal.getsignal(number) for number in watched}
    try:
        yield
    except SystemExit as exit_of_ray:
        raise KeyboardInterrupt from exit_of_ray
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
