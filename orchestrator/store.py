"""The store: the folder or bucket a sweep's results live in, and the only thing that says what is done.

Every method may be called while other processes write. Whole files appear or do not; nothing stored is overwritten by
something else, and a damaged file that has to make way for a new one is kept under ``quarantine/``.
"""

from __future__ import annotations

import contextlib
import io
import json
import secrets
import socket
import time
import urllib.parse
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from orchestrator import attempts, runs
from orchestrator.attempts import Failure
from orchestrator.environment import code_version
from orchestrator.files import Files
from orchestrator.integrity import BrokenFileError, check, serialise
from orchestrator.listing import Memory
from orchestrator.runs import BrokenFile, Scan
from orchestrator.schema import (
    CELL_SCHEMA,
    FAILURE_SCHEMA,
    SCHEMA_VERSION,
    cell_table,
    config_columns,
    conform,
    run_table,
)
from orchestrator.sweep_file import SWEEP, parse_sweep, saved_space
from search_spaces.errors import FAILURE_KINDS, DataError, StoreError
from search_spaces.trial import Cell, TrialConfig

if TYPE_CHECKING:
    from orchestrator.compact import CompactResult
    from orchestrator.verify import Finding
    from search_spaces.expand import Expansion
    from search_spaces.space import Space

__all__ = ["BrokenFile", "Failure", "Scan", "Store", "open_store", "store_exists"]

CELLS = "cells.parquet"
QUARANTINE = "quarantine"

FOLDERS = (runs.FOLDER, attempts.FOLDER, "logs")


def store_exists(uri: str | Path) -> bool:
    """Whether ``uri`` holds a store, of whatever schema version."""
    return Files(uri).exists(SWEEP)


def open_store(uri: str | Path, *, create: bool = False) -> Store:
    """The store at a path or fsspec URI; with ``create``, an empty one is made where there is none.

    Raises ``StoreError`` when there is none (and not ``create``), when it cannot be written or read, when its
    schema version is not ours, and when its ``sweep.json`` is not what we wrote.
    """
    files = Files(uri)
    try:
        if not files.exists(SWEEP):
            if not create:
                raise StoreError(f"no store at {files.uri} (it has no {SWEEP}); `aucsweep launch` makes one")
            for folder in FOLDERS:
                files.make_folder(folder)
            first = {"schema_version": SCHEMA_VERSION, "created_at": _now().isoformat(), "launches": []}
            with contextlib.suppress(FileExistsError):  # another process made it in this moment, which is as good
                files.create(SWEEP, _json_bytes(first))
    except OSError as error:
        raise StoreError(f"cannot {'make or ' if create else ''}open a store at {files.uri}: {error}") from error
    store = Store(files)
    store.read_sweep()
    return store


class Store:
    """A sweep's results. Made by ``open_store``; holds no open files and pickles by its ``uri``."""

    def __init__(self, files: Files):
        self.files = files
        self.uri = files.uri

    def __repr__(self) -> str:
        return f"Store({self.uri!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return open_store, (self.uri,)

    # The sweep and its cells

    def read_sweep(self) -> dict[str, Any]:
        """The content of ``sweep.json``, with the fingerprints recorded so far.

        Raises ``StoreError`` when the file is gone, unreadable or not what we wrote (``orchestrator.sweep_file``).
        """
        path = self.files.path(SWEEP)
        try:
            data = self.files.read(SWEEP)
        except FileNotFoundError:
            raise StoreError(f"no store at {self.uri}: {SWEEP} is gone") from None
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error.strerror or error}") from error
        return parse_sweep(data, path) | {"fingerprints": self.fingerprints()}

    def read_space(self) -> Space | None:
        """The space launched last, None before any launch; raises ``StoreError`` when it cannot be run any more."""
        return saved_space(self.read_sweep(), self.files.path(SWEEP))

    def write_sweep(self, sweep: Mapping[str, Any]) -> None:
        """Replace ``sweep.json``; the schema version and the fingerprints are filled in."""
        own = {"schema_version": SCHEMA_VERSION, "fingerprints": self.fingerprints()}
        self.files.write(SWEEP, _json_bytes({**sweep, **own}))

    def add_cells(self, cells: Iterable[Cell]) -> int:
        """Add the cells that are not there yet and return how many that were."""
        added = cell_table(cells)
        with self.files.mutex():
            try:
                old = self._cell_table()
            except BrokenFileError as error:
                warnings.warn(f"{self.files.path(CELLS)} is broken ({error}): moved to {QUARANTINE}/", stacklevel=2)
                self.set_aside(CELLS)
                old = CELL_SCHEMA.empty_table()
            known = set(old.column("cell_id").to_pylist())
            fresh = []
            for cell_id in added.column("cell_id").to_pylist():
                fresh.append(cell_id not in known)
                known.add(cell_id)
            if any(fresh):
                table = pa.concat_tables([old, added.filter(pa.array(fresh))])
                metadata = {"aucsweep.schema_version": str(SCHEMA_VERSION)}
                self.files.write(CELLS, serialise([(table, [])], CELL_SCHEMA, metadata=metadata, compact=True))
        return sum(fresh)

    def read_cells(self) -> pd.DataFrame:
        """One row per cell, columns of ``CELL_SCHEMA``; raises ``StoreError`` when the file is broken."""
        try:
            return _frame(self._cell_table())
        except BrokenFileError as error:
            raise StoreError(
                f"{self.files.path(CELLS)} is broken: {error}; launching a space on the store writes its cells again"
            ) from error

    # Runs

    def write_run(self, config: TrialConfig, rows: Sequence[Mapping[str, Any]], extra: Mapping[str, Any]) -> bool:
        """Store a finished trial, whole or not at all.

        ``rows`` are its epochs in order, ``extra`` any of ``schema.STAMP_KEYS``; host, time and code version are filled
        in where missing. Returns False, and changes nothing, when the trial is already there intact: the first
        result stays. A broken file of that name is moved to ``quarantine/``.
        """
        table = run_table(config, rows, self._stamp() | dict(extra))
        name = f"{runs.FOLDER}/{runs.run_name(config.trial_id)}"
        try:
            if all(group.intact for group in check(self.files.read(name))):
                return False
            self.set_aside(name)
        except FileNotFoundError:
            pass
        except (BrokenFileError, OSError):  # not ours, damaged, not readable, or a folder
            self.set_aside(name)
        self.files.write(name, runs.run_bytes([(table, [runs.summarise(table)])], compact=False))
        return True

    def scan(self, memory: Memory | None = None) -> Scan:
        """What is done and what is broken: every file of ``runs`` is read and its digest checked.

        With a ``memory`` (``{}`` at first) only those that are not in it unchanged; see ``orchestrator.listing``.
        """
        return runs.scan_runs(self.files, memory=memory)

    def read_runs(self, trial_ids: Collection[str] | None = None) -> tuple[pd.DataFrame, tuple[BrokenFile, ...]]:
        """The rows of all trials (or of ``trial_ids``), ordered by trial and epoch, and the broken files.

        Columns of ``RUN_SCHEMA``. A trial that is stored twice appears once; broken files contribute no rows.
        """
        rows, scan = runs.read_rows(self.files, None if trial_ids is None else frozenset(trial_ids))
        return _frame(rows), scan.broken

    # Failures, logs, scores

    def write_failure(
        self,
        config: TrialConfig,
        kind: str,
        message: str,
        traceback: str = "",
        log: str = "",
        attempt: int = 1,
        *,
        seconds: float | None = None,
        device: str | None = None,
        hostname: str | None = None,
        failed_at: datetime | None = None,
    ) -> None:
        """Record one failed attempt. ``kind`` is one of ``FAILURE_KINDS``, else ``ValueError``."""
        if kind not in FAILURE_KINDS:
            raise ValueError(f"unknown failure kind {kind!r} (allowed: {', '.join(FAILURE_KINDS)})")
        columns = {name: value for name, value in config_columns(config).items() if name in FAILURE_SCHEMA.names}
        stamp = self._stamp()
        row = columns | {
            "kind": kind,
            "message": message,
            "traceback": traceback,
            "log": log,
            "attempt": attempt,
            "failed_at": failed_at or stamp["finished_at"],
            "seconds": seconds,
            "device": device,
            "hostname": hostname or stamp["hostname"],
            "code_version": stamp["code_version"],
            "schema_version": SCHEMA_VERSION,
        }
        attempts.write_failure_row(self.files, row)

    def read_failures(self) -> pd.DataFrame:
        """One row per failed attempt, oldest first, columns of ``FAILURE_SCHEMA``; ``verify`` names broken files."""
        return _frame(attempts.failure_table(self.files)[0])

    def latest_failures(self, memory: Memory | None = None) -> dict[str, Failure]:
        """The last failed attempt of every trial that ever failed, done by now or not; ``memory`` as for ``scan``."""
        return attempts.latest_failures(self.files, memory)[0]

    def log_path(self, trial_id: str) -> str:
        """Where the log of a trial's last attempt is."""
        return self.files.path(_log_name(trial_id))

    def write_log(self, trial_id: str, text: str) -> None:
        """Replace the log of a trial."""
        self.files.write(_log_name(trial_id), text.encode(errors="backslashreplace"))

    def read_log(self, trial_id: str) -> str | None:
        """The log of a trial's last attempt, None when there is none."""
        try:
            return self.files.read(_log_name(trial_id)).decode(errors="backslashreplace")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"{self.log_path(trial_id)} cannot be read: {error.strerror or error}") from error

    def write_scores(self, trial_id: str, scores: pd.DataFrame) -> None:
        """Store the scores of a trial's selected epoch."""
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_pandas(scores, preserve_index=False), sink, compression="zstd")
        self.files.write(f"scores/{runs.run_name(trial_id)}", sink.getvalue())

    def read_scores(self, trial_id: str) -> pd.DataFrame | None:
        """The scores of a trial's selected epoch, None when none are stored; ``StoreError`` when not readable."""
        name = f"scores/{runs.run_name(trial_id)}"
        try:
            data = self.files.read(name)
            frame: pd.DataFrame = pq.read_table(pa.BufferReader(data)).to_pandas()
        except FileNotFoundError:
            return None
        except (OSError, pa.ArrowException) as error:
            raise StoreError(f"{self.files.path(name)} cannot be read: {error}") from error
        return frame

    # Data fingerprints: a file per task, so that workers on many nodes need no common lock

    def record_fingerprint(self, task: str, fingerprint: str) -> None:
        """Record the data a task was trained on; raises ``DataError`` when the store has other data for it."""
        name = _fingerprint_name(task)
        content = {"task": task, "fingerprint": fingerprint, "hostname": socket.gethostname()}
        try:
            recorded = _fingerprint_entry(name, self.files.read(name))
        except (FileNotFoundError, IsADirectoryError, BrokenFileError) as error:
            if not isinstance(error, FileNotFoundError):
                with contextlib.suppress(FileNotFoundError):  # another worker has moved it
                    self.set_aside(name)
            with contextlib.suppress(FileExistsError):  # another worker was first: what it wrote is read below
                self.files.create(name, _json_bytes(content))
            recorded = _fingerprint_entry(name, self.files.read(name))
        if recorded["fingerprint"] != fingerprint:
            raise DataError(
                f"the data of task {task} have fingerprint {fingerprint}, but this store's trials were trained on "
                f"{recorded['fingerprint']} (recorded on {recorded['hostname']}): use the same data, or another store"
            )

    def fingerprints(self) -> dict[str, str]:
        """The recorded data fingerprint of each task; broken files count as none, and ``verify`` names them."""
        return self.read_fingerprints()[0]

    def read_fingerprints(self) -> tuple[dict[str, str], tuple[BrokenFile, ...]]:
        """The recorded data fingerprint of each task, and the files that are broken."""
        names = self.files.names("fingerprints")
        entries: dict[str, str] = {}
        broken: list[BrokenFile] = []
        for name, data in self.files.read_many([f"fingerprints/{name}" for name in names]):
            if data is not None:
                try:
                    entry = _fingerprint_entry(name, data)
                    entries[entry["task"]] = entry["fingerprint"]
                except BrokenFileError as error:
                    broken.append(BrokenFile(name, str(error)))
        return entries, tuple(broken)

    # Upkeep

    def compact(self) -> CompactResult:
        """Merge single-trial files; see ``orchestrator.compact``."""
        from orchestrator.compact import compact_store

        return compact_store(self)

    def verify(self, expansion: Expansion | None = None) -> list[Finding]:
        """Check every file; see ``orchestrator.verify``."""
        from orchestrator.verify import verify_store

        return verify_store(self, expansion)

    def set_aside(self, name: str) -> str:
        """Move a file that must not stay where it is to ``quarantine/`` and return its new name there."""
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        target = f"{QUARANTINE}/{name.replace('/', '_')}.{stamp}-{secrets.token_hex(4)}"
        self.files.move(name, target)
        return target

    def _cell_table(self) -> pa.Table:
        try:
            data = self.files.read(CELLS)
        except FileNotFoundError:
            return CELL_SCHEMA.empty_table()
        except OSError as error:
            raise BrokenFileError(f"cannot be read: {error.strerror or error}") from error
        if not all(group.intact for group in check(data)):
            raise BrokenFileError("its rows' digest does not match: bytes have changed")
        return conform(pq.ParquetFile(pa.BufferReader(data)).read(), CELL_SCHEMA)

    @staticmethod
    def _stamp() -> dict[str, Any]:
        return {"hostname": socket.gethostname(), "finished_at": _now(), "code_version": code_version()}


def _fingerprint_name(task: str) -> str:
    return f"fingerprints/{urllib.parse.quote(task, safe='')}.json"


def _fingerprint_entry(name: str, data: bytes | OSError) -> dict[str, str]:
    """The content of the file ``name`` of ``fingerprints``: task, fingerprint, hostname."""
    if isinstance(data, OSError):
        raise BrokenFileError(f"cannot be read: {data.strerror}")
    try:
        entry = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BrokenFileError(f"names no data fingerprint: not readable JSON: {error}") from error
    if not isinstance(entry, dict):
        raise BrokenFileError("names no data fingerprint: expected a JSON object with task, fingerprint and hostname")
    for key in ("task", "fingerprint", "hostname"):
        if not isinstance(entry.get(key), str):
            raise BrokenFileError(f"names no data fingerprint: {key} should be a text, got {entry.get(key)!r}")
    if _fingerprint_name(entry["task"]) != name:
        raise BrokenFileError(f"misnamed: it is about the task {entry['task']}")
    return {key: entry[key] for key in ("task", "fingerprint", "hostname")}


def _log_name(trial_id: str) -> str:
    return f"logs/{trial_id}.log"


def _now() -> datetime:
    return datetime.now(UTC)


def _json_bytes(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n").encode()


def _frame(table: pa.Table) -> pd.DataFrame:
    frame: pd.DataFrame = table.to_pandas()
    return frame
