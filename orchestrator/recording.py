"""The record of a launch in ``sweep.json``, and how a launch that is refused leaves no trace of it.

The space is recorded as soon as the store is locked, before anything is planned or a machine is claimed, so that
``resume`` knows it even after a kill while Ray starts. A refusal (exit code 2) takes that back.
"""

from __future__ import annotations

import contextlib
import dataclasses
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from orchestrator.definitions import add_definitions
from orchestrator.environment import capture, code_state
from orchestrator.files import Files
from orchestrator.lock import StoreLock
from orchestrator.options import Options, data_root
from orchestrator.resources import Slots
from orchestrator.store import FOLDERS, Store
from orchestrator.sweep_file import SWEEP, parse_sweep
from search_spaces.errors import LockedError, StoreError
from search_spaces.space import Space

if TYPE_CHECKING:
    from orchestrator.sweeping import Todo


@contextlib.contextmanager
def nothing_left(files: Files) -> Iterator[bool]:
    """Around making a store and launching on it: an error before anything was launched leaves no part of a new store.

    Yields whether the store is new. Folders that were there before stay, and so does whatever lies in them.
    """
    try:
        new = not files.exists(SWEEP)
        absent = files.absent(FOLDERS) if new else ()
    except OSError as error:
        raise StoreError(f"cannot open a store at {files.uri}: {error}") from error
    try:
        yield new
    except Exception as error:
        if new:
            # A lock that cannot be written: then nobody has recorded anything. One that is held is somebody's store.
            if isinstance(error, StoreError) and not isinstance(error, LockedError):
                _remove_unused(files)
            if not files.exists(SWEEP):
                files.remove_empty(absent)
        raise


def _remove_unused(files: Files) -> None:
    with contextlib.suppress(OSError, StoreError):
        if not parse_sweep(files.read(SWEEP), files.path(SWEEP)).get("launches"):
            files.remove(SWEEP)


class Record:
    """One launch's entry in ``sweep.json``, written twice; made and used while ``lock`` is held.

    ``new`` says that the store was made for this launch.
    """

    def __init__(self, store: Store, space: Space, settings: Options, command: str, *, lock: StoreLock, new: bool):
        self._store, self._space, self._lock, self._new = store, space, lock, new
        self._before: bytes | None = None
        self._entry: dict[str, Any] = {
            "command": command,
            "at": datetime.now(UTC).isoformat(),
            "hostname": socket.gethostname(),
            "code": code_state(),
            "data_root": str(data_root(settings)),
            "address": settings["address"],
            "save_scores": bool(settings["save_scores"]),
            "channels_last": bool(settings["channels_last"]),
            "compiled": bool(settings["compiled"]),
            "slots": None,
            "pending": None,
            "plan_hash": None,
        }

    def announce(self) -> None:
        """Write the space and the entry, whose ``slots``, ``pending`` and ``plan_hash`` are not known yet."""
        try:
            before = self._store.files.read(SWEEP)
            sweep = self._store.read_sweep()
            self._write(sweep, [*(sweep.get("launches") or ()), self._entry])
        except OSError as error:
            raise StoreError(f"cannot record the launch in {self._store.files.path(SWEEP)}: {error}") from error
        self._before = before

    def complete(self, todo: Todo, slots: Slots | None) -> None:
        """Add the cells, fill the entry in, and say what the sweep runs on and what its losses are."""
        expansion = todo.plan.expansion
        self._entry |= {
            "slots": None if slots is None else dataclasses.asdict(slots),
            "pending": len(todo.trials),
            "plan_hash": expansion.plan_hash,
        }
        self._store.add_cells(expansion.cells)
        sweep = self._store.read_sweep()
        more = {
            "plan_hash": expansion.plan_hash,
            "environment": capture(),
            "definitions": add_definitions(sweep.get("definitions") or (), self._space, expansion.cells),
        }
        self._write({**sweep, **more}, [*sweep["launches"][:-1], self._entry])

    def take_back(self) -> None:
        """Put ``sweep.json`` back as it was before; a new store is none any more."""
        if self._before is None or self._lock.lost:
            return
        if self._new:
            self._store.files.remove(SWEEP)
        else:
            self._store.files.write(SWEEP, self._before)

    def _write(self, sweep: dict[str, Any], launches: list[dict[str, Any]]) -> None:
        resolved = self._space.to_dict()
        space = {"given": resolved.pop("given"), "resolved": {**resolved, "given": {}}}
        self._store.write_sweep({**sweep, "space": space, "launches": launches})
