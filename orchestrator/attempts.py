"""The files of ``STORE/failures``: one per failed attempt of a trial, none is ever rewritten."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from orchestrator.files import Files
from orchestrator.integrity import BrokenFileError, check, serialise
from orchestrator.listing import Memory, each_file
from orchestrator.runs import BrokenFile
from orchestrator.schema import FAILURE_SCHEMA, SCHEMA_VERSION, conform

FOLDER = "failures"


@dataclass(frozen=True)
class Failure:
    """The last failed attempt of a trial, as its file's index tells it. ``failed_at`` is in epoch seconds."""

    trial_id: str
    kind: str
    attempt: int
    failed_at: float


def write_failure_row(files: Files, row: dict[str, Any]) -> None:
    """Add one row of ``FAILURE_SCHEMA`` as a file of its own."""
    table = pa.Table.from_pylist([row], schema=FAILURE_SCHEMA)
    summary = {
        "trial_id": row["trial_id"],
        "kind": row["kind"],
        "attempt": row["attempt"],
        "failed_at": row["failed_at"].timestamp(),
    }
    metadata = {"aucsweep.schema_version": str(SCHEMA_VERSION)}
    data = serialise([(table, [summary])], FAILURE_SCHEMA, metadata=metadata, compact=False)
    # The random part keeps attempts apart that two launchers, or a lost worker and its successor, number alike.
    files.write(f"{FOLDER}/{row['trial_id']}-{row['attempt']:03d}-{secrets.token_hex(4)}.parquet", data)


def latest_failures(files: Files, memory: Memory | None = None) -> tuple[dict[str, Failure], tuple[BrokenFile, ...]]:
    """The failure that counts for each trial that ever failed, and the files that are broken.

    Files found in ``memory`` unchanged are not read again; see ``orchestrator.listing``.
    """
    latest: dict[str, Failure] = {}
    broken: list[BrokenFile] = []
    for _, found in each_file(files, FOLDER, _find, memory):
        if isinstance(found, BrokenFile):
            broken.append(found)
            continue
        for failure in found:
            other = latest.get(failure.trial_id)
            if other is None or (other.failed_at, other.attempt) < (failure.failed_at, failure.attempt):
                latest[failure.trial_id] = failure
    return latest, tuple(broken)


def _find(name: str, data: bytes | OSError) -> BrokenFile | list[Failure]:
    try:
        return [Failure(**summary) for summary in _intact(_bytes(data))]
    except BrokenFileError as error:
        return BrokenFile(f"{FOLDER}/{name}", str(error))


def failure_table(files: Files) -> tuple[pa.Table, tuple[BrokenFile, ...]]:
    """Every failed attempt, oldest first, and the files that are broken."""
    tables: list[pa.Table] = [FAILURE_SCHEMA.empty_table()]
    broken: list[BrokenFile] = []
    for _, found in each_file(files, FOLDER, _read):
        if isinstance(found, BrokenFile):
            broken.append(found)
        else:
            tables.append(found)
    table = pa.concat_tables(tables).sort_by([("failed_at", "ascending"), ("attempt", "ascending")])
    return table, tuple(broken)


def _read(name: str, data: bytes | OSError) -> pa.Table | BrokenFile:
    try:
        content = _bytes(data)
        _intact(content)
        return conform(pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False), FAILURE_SCHEMA)
    except (BrokenFileError, pa.ArrowException, OSError, KeyError) as error:
        return BrokenFile(f"{FOLDER}/{name}", str(error))


def _bytes(data: bytes | OSError) -> bytes:
    if isinstance(data, OSError):
        raise BrokenFileError(f"cannot be read: {data.strerror}")
    return data


def _intact(data: bytes) -> list[dict[str, Any]]:
    groups = check(data)
    if not all(group.intact for group in groups):
        raise BrokenFileError("its rows' digest does not match: bytes have changed")
    return [summary for group in groups for summary in group.trials]
