"""launch, resume and retry: lock the store, plan, check the machines, run what is pending, say how it ended."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from orchestrator.files import Files
from orchestrator.lock import StoreLock
from orchestrator.options import Options, complete, make_runner
from orchestrator.progress import Tally, duration, make_progress
from orchestrator.recording import Record, nothing_left
from orchestrator.running import Halt, Runner
from orchestrator.stopping import Stop
from orchestrator.store import Store, open_store
from orchestrator.sweep_file import SWEEP
from orchestrator.sweeping import Sweep, Todo, survey
from search_spaces.errors import FAILURE_KINDS, AucsweepError, StoreError, UsageError, nearest
from search_spaces.space import Space, load_space

__all__ = ["LaunchResult", "Options", "launch", "resume", "retry"]

_PATIENCE_SECONDS = 1.0
"""Planning a large store takes longer: machines are then claimed meanwhile, since starting Ray is mostly waiting."""


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

    Raises ``UsageError`` (``SpaceError``, ``StoreError``, ``LockedError``) before anything was started, and leaves no
    trace then.
    """
    settings = complete(options)
    if not isinstance(space, Space):
        space = load_space(space)
    if settings["data_root"] is None:
        raise UsageError("launch needs data_root, the folder where prepared data and weights lie")
    command = f"launch {space.name}"
    if isinstance(store, Store):
        return _carry_out(space, store, settings, command)
    with nothing_left(Files(store)) as new:
        return _carry_out(space, open_store(store, create=True), settings, command, new=new)


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


def _carry_out(
    space: Space, store: Store, settings: Options, command: str, *, kinds: Sequence[str] = (), new: bool = False
) -> LaunchResult:
    """Run the pending trials or, given ``kinds``, the failed ones of these kinds. ``new``: made for this launch."""
    began = time.monotonic()
    stop = Stop(settings["time_budget"])
    shown = make_progress(settings["progress"])
    lock = StoreLock(store, command, on_lost=lambda: stop.now("another launcher has taken the store over"))
    with shown, stop, lock, ExitStack() as machines:
        if lock.taken_over is not None:
            shown.note(lock.taken_over)
        record = Record(store, space, settings, command, lock=lock, new=new)
        record.announce()
        try:
            runner = make_runner(settings)
            todo, claimed = _prepare(space, store, kinds, machines, runner, stop)
            for file in todo.plan.broken:
                shown.note(f"broken file {file.path}: {file.reason}; its trials count as not done")
            sweep = Sweep(space, store, settings, todo, lock, stop, shown)
            fingerprints = sweep.check_nodes(runner) if claimed else {}
        except Exception:
            record.take_back()
            raise
        # From here on trials run, and no error means that nothing was started: what is stored stays, the rest is left.
        try:
            record.complete(todo, runner.slots if claimed else None)
            if claimed:
                sweep.run(runner, fingerprints)
        except (AucsweepError, OSError) as error:  # a full disk, a file system or all machines gone, an edited store
            stop.now(f"stopped: {error}")
        machines.close()
        result = _result(todo.tally, stop, store, time.monotonic() - began)
        shown.note(result.message)
    return result


def _prepare(
    space: Space, store: Store, kinds: Sequence[str], machines: ExitStack, runner: Runner, stop: Stop
) -> tuple[Todo, bool]:
    """What is to be done, and whether the machines for it were claimed."""
    with ThreadPoolExecutor(1) as pool:
        planning = pool.submit(survey, space, store, kinds)
        wait([planning], _PATIENCE_SECONDS)
        early = not planning.done() and _claim(machines, runner, stop)
        todo = planning.result()
    if not todo.trials or stop() is not Halt.NO:
        return todo, False
    return todo, early or _claim(machines, runner, stop)


def _claim(machines: ExitStack, runner: Runner, stop: Stop) -> bool:
    """Enter ``runner``; False when a signal came in between."""
    try:
        machines.enter_context(runner)
    except KeyboardInterrupt:
        stop.now("interrupted")
    return stop() is Halt.NO


def _result(tally: Tally, stop: Stop, store: Store, seconds: float) -> LaunchResult:
    failed, pending = len(tally.failed), tally.wanted - tally.finished
    kinds = sorted(tally.failed.values())
    failures = {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
    exit_code = 3 if pending and stop.early else 1 if failed else 3 if pending else 0
    place = shlex.quote(store.uri)
    parts = [f"{stop.reason}: " if stop.reason and pending else ""]
    parts.append(f"{tally.done} of {tally.wanted} trials done")
    if failed:
        parts.append(f", {failed} failed ({', '.join(f'{kind} {count}' for kind, count in failures.items())})")
    if pending:
        parts.append(f", {pending} left")
    parts.append(f", in {duration(seconds)}")
    if pending or set(failures) & {"lost"}:
        parts.append(f"\ngo on with: aucsweep resume --store {place}")
    if set(failures) - {"lost"}:
        parts.append(f"\nfailed trials: aucsweep status --store {place}; again: aucsweep retry --store {place}")
    return LaunchResult(exit_code, tally.wanted, tally.done, failed, pending, failures, seconds, "".join(parts))


def _saved(store: Store | str | Path, options: Options) -> tuple[Store, Space, Options]:
    """The store, the space it was launched with last, and the options completed by that launch's."""
    settings = complete(options)
    opened = store if isinstance(store, Store) else open_store(store)
    space = opened.read_space()
    if space is None:
        raise UsageError(f"nothing was launched on the store {opened.uri} yet: use aucsweep launch SPACE --store ...")
    last = (opened.read_sweep().get("launches") or [{}])[-1]
    if settings["data_root"] is None:
        if last.get("data_root") is None:
            raise StoreError(
                f"{opened.files.path(SWEEP)}: the last of launches should name its data_root, and does not: give "
                "--data-root"
            )
        settings["data_root"] = Path(last["data_root"])
    if settings["save_scores"] is None:
        settings["save_scores"] = bool(last.get("save_scores"))
    if settings["channels_last"] is None:
        settings["channels_last"] = bool(last.get("channels_last"))
    if settings["compiled"] is None:
        settings["compiled"] = bool(last.get("compiled"))
    return opened, space, settings
