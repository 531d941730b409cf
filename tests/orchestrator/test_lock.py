"""One launcher per store: races, crashes, other hosts, and a launcher that lost its lock."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from orchestrator import lock as lock_module
from orchestrator.lock import StoreLock, describe, is_alive, process_started, read_lock
from orchestrator.store import Store, open_store
from search_spaces.errors import LockedError, StoreError

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(lock_module, "_SETTLE_SECONDS", 0.0)
    uri = str(tmp_path) if request.param == "folder" else f"memory://lock-{uuid.uuid4().hex}/store"
    return open_store(uri, create=True)


def plant(store: Store, **changes: Any) -> dict[str, Any]:
    """A lock somebody else left: of a process of this host that is gone, unless changed."""
    with StoreLock(store, "launch paper"):
        holder = read_lock(store)
    assert holder is not None
    holder |= {"token": "other", "pid": 2**22 + 1, "user": "ann"} | changes
    store.files.write("lock.json", json.dumps(holder).encode())
    return holder


def until(condition: Any, seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return False


def test_a_lock_file_without_times_is_one_nobody_holds(store: Store) -> None:
    store.files.write("lock.json", b'{"pid": "x", "heartbeat_at": "soon"}')
    holder = read_lock(store)
    assert holder is not None
    assert not is_alive(holder)
    with StoreLock(store, "launch smoke") as held:
        assert held.taken_over is not None


def test_a_store_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path, create=True)

    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(store.files, "create", refuse)
    with pytest.raises(StoreError, match="Read-only file system"), StoreLock(store, "launch smoke"):
        raise AssertionError("it must not be entered")


def test_a_lock_names_its_holder_and_goes_away(store: Store) -> None:
    assert read_lock(store) is None
    with StoreLock(store, "launch smoke") as held:
        holder = read_lock(store)
        assert holder is not None
        assert (holder["pid"], holder["command"], holder["running"]) == (os.getpid(), "launch smoke", [])
        assert is_alive(holder)
        assert held.taken_over is None
        assert not held.lost
    assert read_lock(store) is None


def test_a_second_launcher_is_told_who_has_the_store(store: Store) -> None:
    with StoreLock(store, "launch smoke"):
        with pytest.raises(LockedError, match=rf"in use: `launch smoke` by .*process {os.getpid()}"):
            StoreLock(store, "resume").__enter__()
        assert read_lock(store) is not None
    with StoreLock(store, "resume") as again:
        assert again.taken_over is None


def test_the_lock_goes_away_on_an_error(store: Store) -> None:
    with contextlib.suppress(RuntimeError), StoreLock(store, "launch"):
        raise RuntimeError
    assert read_lock(store) is None


def test_the_lock_of_a_process_that_is_gone_is_taken_over(store: Store) -> None:
    plant(store)
    with StoreLock(store, "resume") as held:
        assert held.taken_over is not None
        assert "stale lock of `launch paper` by ann@" in held.taken_over
    assert read_lock(store) is None


def test_a_reused_process_number_is_not_the_holder(store: Store) -> None:
    plant(store, pid=os.getpid(), pid_started="another boot:1")
    with StoreLock(store, "resume") as held:
        assert held.taken_over is not None


def test_a_killed_launchers_lock_is_stale_even_before_its_parent_noticed(tmp_path: Path) -> None:
    store = open_store(tmp_path, create=True)
    code = (
        "import sys, time\nfrom orchestrator.store import open_store\nfrom orchestrator.lock import StoreLock\n"
        "with StoreLock(open_store(sys.argv[1]), 'launch paper'):\n    print('held', flush=True)\n    time.sleep(600)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"held\n"
    with pytest.raises(LockedError, match=f"process {child.pid}"):
        StoreLock(store, "resume").__enter__()
    child.kill()
    holder = read_lock(store)
    assert holder is not None
    assert until(lambda: not is_alive(holder)), "a zombie must not count as alive"
    with StoreLock(store, "resume") as held:
        assert str(child.pid) in (held.taken_over or "")
    child.wait()
    child.stdout.close()


class TestOtherHost:
    def test_a_fresh_heartbeat_holds(self, store: Store) -> None:
        plant(store, host="gpu7")
        with pytest.raises(LockedError, match="ann@gpu7"):
            StoreLock(store, "resume").__enter__()

    def test_an_old_heartbeat_is_stale(self, store: Store) -> None:
        plant(store, host="gpu7", heartbeat_at=time.time() - 121.0)
        with StoreLock(store, "resume", heartbeat_seconds=0.01) as held:
            assert "ann@gpu7" in (held.taken_over or "")

    def test_another_containers_process_numbers_mean_nothing(self, store: Store) -> None:
        plant(store, namespace="pid:[1]")
        with pytest.raises(LockedError):
            StoreLock(store, "resume").__enter__()

    def test_a_slow_clock_is_not_a_stale_lock(self, store: Store) -> None:
        holder = plant(store, host="gpu7", heartbeat_at=time.time() - 4000.0)
        stop = threading.Event()

        def beat() -> None:
            while not stop.wait(0.02):
                holder["heartbeat_at"] += 0.02
                store.files.write("lock.json", json.dumps(holder).encode())

        thread = threading.Thread(target=beat)
        thread.start()
        try:
            with pytest.raises(LockedError, match="ann@gpu7"):
                StoreLock(store, "resume", heartbeat_seconds=0.2).__enter__()
        finally:
            stop.set()
            thread.join()


def test_an_unreadable_lock_is_taken_over(store: Store) -> None:
    store.files.write("lock.json", b"{ torn")
    with StoreLock(store, "resume") as held:
        assert held.taken_over is not None


def test_reports_are_seen_by_others(store: Store) -> None:
    with StoreLock(store, "launch", heartbeat_seconds=0.02) as held:
        first = read_lock(store)
        assert first is not None
        held.report(running=["b", "a"], done=3)
        held.report(failed=1)
        assert until(lambda: (read_lock(store) or {}).get("progress") == {"done": 3, "failed": 1})
        holder = read_lock(store)
        assert holder is not None
        assert holder["running"] == ["a", "b"]
        assert until(lambda: (read_lock(store) or {})["heartbeat_at"] > holder["heartbeat_at"])


def test_a_launcher_notices_that_it_lost_the_store(store: Store) -> None:
    called = threading.Event()
    with StoreLock(store, "launch", heartbeat_seconds=0.02, on_lost=called.set) as held:
        plant_by_hand = (read_lock(store) or {}) | {"token": "somebody else"}
        # Again and again: a heartbeat that is just being written may replace what was planted.
        assert until(lambda: store.files.write("lock.json", json.dumps(plant_by_hand).encode()) or called.wait(0.05))
        assert held.lost
    assert (read_lock(store) or {})["token"] == "somebody else", "it must not remove a lock that is not its own"


_RACER = """
import sys, time
from orchestrator.lock import StoreLock
from orchestrator.store import open_store
from search_spaces.errors import LockedError
store = open_store(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
try:
    with StoreLock(store, "racer"):
        print("won", flush=True)
        sys.stdin.readline()
except LockedError:
    print("lost", flush=True)
"""


@pytest.mark.parametrize("stale", [False, True])
def test_of_racing_launchers_exactly_one_wins(tmp_path: Path, stale: bool) -> None:
    store = open_store(tmp_path, create=True)
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", _RACER, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            text=True,
        )
        for _ in range(3)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    if stale:
        plant(store)
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("\n")
        racer.stdin.flush()
    results = [racer.stdout.readline().strip() for racer in racers if racer.stdout]
    assert sorted(results) == ["lost", "lost", "won"]
    for racer in racers:
        racer.communicate("\n")
        assert racer.returncode == 0
    assert read_lock(store) is None


def test_threads_race_for_a_stale_lock(tmp_path: Path) -> None:
    """Many rounds, in one process: the window between seeing a stale lock and replacing it is small."""
    store = open_store(tmp_path, create=True)
    for _ in range(15):
        plant(store)
        barrier, entered, leave = threading.Barrier(4), [], threading.Event()

        def enter(barrier: threading.Barrier, entered: list[int], leave: threading.Event) -> None:
            barrier.wait()
            with contextlib.suppress(LockedError), StoreLock(store, "racer"):
                entered.append(1)
                leave.wait(20)

        threads = [threading.Thread(target=enter, args=(barrier, entered, leave)) for _ in range(4)]
        for thread in threads:
            thread.start()
        assert until(lambda: sum(thread.is_alive() for thread in threads) == 1)  # noqa: B023
        leave.set()
        for thread in threads:
            thread.join()
        assert entered == [1]


def test_process_started() -> None:
    mine = process_started(os.getpid())
    assert mine is not None
    assert mine == process_started(os.getpid())
    assert process_started(2**22 + 1) is None


def test_describe_copes_with_anything() -> None:
    assert "unknown" in describe({})
