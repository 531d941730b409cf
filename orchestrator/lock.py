"""The lock that keeps two launchers off one store.

``lock.json`` names the holder and shows it alive: a thread rewrites it every ten seconds, with what is running. A lock
is stale, and taken over, when its process is gone (same host) or when it has shown no life for two minutes (another
host, where the process cannot be looked up; the taker then watches once more, in case that host's clock is wrong).

Locally and on NFS taking the lock is exclusive. On an object store it is best effort: write, wait, read back.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import secrets
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from search_spaces.errors import LockedError, StoreError

if TYPE_CHECKING:
    from orchestrator.store import Store

LOCK = "lock.json"
HEARTBEAT_SECONDS = 10.0
STALE_SECONDS = 120.0

_TICK_SECONDS = 2.0
_SETTLE_SECONDS = 2.0
_YEAR_9999 = 253_370_764_800
"""In epoch seconds; what lies beyond is no date to Python."""

Holder = dict[str, Any]
"""The content of ``lock.json``: token, host, namespace, pid, pid_started, user, command, started_at and heartbeat_at
(epoch seconds), running (trial ids), progress (counters)."""


def read_lock(store: Store) -> Holder | None:
    """Who holds the store now, stale or not; None when nobody does.

    A file that is not what we write names nobody, and is taken over as stale. Raises ``StoreError`` when it is there
    and cannot be read, for then nobody can tell whether a launcher is at work.
    """
    for _ in range(5):
        try:
            holder = json.loads(store.files.read(LOCK))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(
                f"{store.files.path(LOCK)} cannot be read: {error.strerror or error}; it should be a file that a "
                "launcher writes: remove it if none is at work"
            ) from error
        except (ValueError, RecursionError):
            time.sleep(0.05)  # an object store may show a put in progress; locally a lock is never seen half written
            continue
        if isinstance(holder, dict) and _is_readable(holder):
            return holder
    return {"token": None, "command": "unknown (lock.json is not readable)", "heartbeat_at": 0.0}


def _is_readable(holder: Holder) -> bool:
    times = [holder.get(name) or 0.0 for name in ("heartbeat_at", "started_at")]
    running = holder.get("running") or []
    return (
        all(isinstance(at, int | float) and 0 <= at < _YEAR_9999 for at in times)
        and isinstance(running, list)
        and all(isinstance(trial_id, str) for trial_id in running)
    )


def is_alive(holder: Holder, now: float | None = None) -> bool:
    """Whether the holder's process is running, as far as this host can tell."""
    if _is_here(holder):
        return process_started(holder["pid"]) == holder.get("pid_started")
    age = (time.time() if now is None else now) - float(holder.get("heartbeat_at") or 0.0)
    return age < STALE_SECONDS


def describe(holder: Holder) -> str:
    """The holder in words: `launch paper` by ann@gpu1 (process 4711) since 12:00:00 UTC, last seen 3 s ago."""
    seen = max(0.0, time.time() - float(holder.get("heartbeat_at") or 0.0))
    started = float(holder.get("started_at") or 0.0)
    since = datetime.fromtimestamp(started, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    who = f"{holder.get('user', 'unknown user')}@{holder.get('host', 'unknown host')}"
    command, process = holder.get("command", "unknown"), holder.get("pid", "unknown")
    return f"`{command}` by {who} (process {process}) since {since}, last seen {seen:.0f} s ago"


class StoreLock:
    """Holds the store for one command; a context manager.

    Entering raises ``LockedError`` naming the holder when a live one has it, and ``StoreError`` where nothing can be
    written. ``taken_over`` is a sentence about the stale lock this one replaced, else None. ``lost`` turns True, and
    ``on_lost`` is called once, when somebody else took the store away (this process was suspended, or cut off from the
    file system, for over two minutes).
    """

    def __init__(
        self,
        store: Store,
        command: str,
        *,
        on_lost: Callable[[], None] | None = None,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
    ):
        self._store = store
        self._on_lost = on_lost
        self._heartbeat_seconds = heartbeat_seconds
        self._holder: Holder = {
            "token": secrets.token_hex(16),
            **_machine(),
            "pid": os.getpid(),
            "pid_started": process_started(os.getpid()),
            "user": _user(),
            "command": command,
            "running": [],
            "progress": {},
        }
        self._changed = threading.Event()
        self._stop = threading.Event()
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self.taken_over: str | None = None
        self.lost = False

    def __enter__(self) -> StoreLock:
        try:
            self._acquire()
        except OSError as error:
            raise StoreError(f"cannot lock the store {self._store.uri}: {error}") from error
        self._thread = threading.Thread(target=self._beat, name="store-lock", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        with contextlib.suppress(OSError, StoreError), self._store.files.mutex():
            if not self.lost and (read_lock(self._store) or {}).get("token") == self._holder["token"]:
                self._store.files.remove(LOCK)

    def report(self, *, running: Collection[str] | None = None, **progress: Any) -> None:
        """Show which trials run now and any counters; seen by others within two seconds."""
        with self._guard:
            if running is not None:
                self._holder["running"] = sorted(running)
            self._holder["progress"] = self._holder["progress"] | progress
        self._changed.set()

    def _acquire(self) -> None:
        files = self._store.files
        now = time.time()
        self._holder |= {"started_at": now, "heartbeat_at": now}
        other = read_lock(self._store)
        if other is not None:
            self._refuse_if_alive(other)
        with files.mutex():
            current = read_lock(self._store)
            if current is not None:
                if other is None or current.get("token") != other.get("token"):
                    raise LockedError(self._refusal(current))  # somebody was quicker
                files.remove(LOCK)
            try:
                files.create(LOCK, self._bytes())
            except FileExistsError:
                raise LockedError(self._refusal(read_lock(self._store) or {})) from None
        if files.local is None:
            time.sleep(_SETTLE_SECONDS)
            winner = read_lock(self._store)
            if winner is None or winner.get("token") != self._holder["token"]:
                raise LockedError(self._refusal(winner or {}))
        if other is not None:
            self.taken_over = f"took over the stale lock of {describe(other)}"

    def _refuse_if_alive(self, other: Holder) -> None:
        if not is_alive(other):
            if _is_here(other) or other.get("token") is None:
                return
            # Another host's clock may be behind ours: a heartbeat that changes while we watch is a live one.
            time.sleep(2 * self._heartbeat_seconds)
            again = read_lock(self._store)
            if again is None or again.get("heartbeat_at") == other.get("heartbeat_at"):
                return
        raise LockedError(self._refusal(other))

    def _refusal(self, holder: Holder) -> str:
        return f"the store {self._store.uri} is in use: {describe(holder)}; wait for it to end, or stop it"

    def _beat(self) -> None:
        last = time.monotonic()
        tick = min(_TICK_SECONDS, self._heartbeat_seconds)
        while not self._stop.wait(tick):
            if self._changed.is_set() or time.monotonic() - last >= self._heartbeat_seconds:
                self._changed.clear()
                last = time.monotonic()
                with contextlib.suppress(
                    OSError, StoreError
                ):  # a file system that is away for a moment must not end a sweep
                    self._write_heartbeat()
                if self.lost:
                    if self._on_lost is not None:
                        self._on_lost()
                    return

    def _write_heartbeat(self) -> None:
        with self._store.files.mutex():
            current = read_lock(self._store)
            if current is not None and current.get("token") != self._holder["token"]:
                self.lost = True
                return
            with self._guard:
                self._holder["heartbeat_at"] = time.time()
                data = self._bytes()
            self._store.files.write(LOCK, data)

    def _bytes(self) -> bytes:
        return (json.dumps(self._holder, indent=2) + "\n").encode()


def process_started(pid: int) -> str | None:
    """A text that tells this process from a later one of the same number; None when no such process runs.

    A zombie (killed, not yet waited for) counts as gone.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return None if fields[0] in "ZX" else f"{boot}:{fields[19]}"
    except (FileNotFoundError, ProcessLookupError):
        if Path("/proc/self/stat").exists():
            return None
    shown = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, started = shown.stdout.strip().partition(" ")
    return started.strip() if started and not state.startswith("Z") else None


def _machine() -> dict[str, str | None]:
    # Containers can share a host name but not its processes: the namespace keeps their process numbers apart.
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = None
    return {"host": socket.gethostname(), "namespace": namespace}


def _is_here(holder: Holder) -> bool:
    return isinstance(holder.get("pid"), int) and all(holder.get(key) == value for key, value in _machine().items())


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return str(os.getuid())
