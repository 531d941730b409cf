"""The files of ``STORE/runs``: what is done, what is broken, and the rows.

A trial's rows are in ``<trial_id>.parquet`` or, after ``compact``, in a row group of ``compact-<hash>.parquet``. Every
reader checks every file's digest; a file (or row group) that does not match is named and its trials are not done.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from orchestrator.files import Files
from orchestrator.integrity import BrokenFileError, Group, Summary, check, serialise
from orchestrator.listing import Memory, each_file
from orchestrator.schema import RUN_SCHEMA, SCHEMA_VERSION, conform

FOLDER = "runs"
COMPACT = "compact-"

_BATCH = 512


@dataclass(frozen=True)
class BrokenFile:
    """A file of the store that is not what was written. ``path`` is relative to the store."""

    path: str
    reason: str


@dataclass(frozen=True)
class Record:
    """Where the rows of one finished trial are: a file of ``runs`` and a row group in it."""

    name: str
    group: int
    summary: Summary

    @property
    def trial_id(self) -> str:
        """The trial's id."""
        return str(self.summary["trial_id"])


@dataclass(frozen=True)
class Scan:
    """What ``runs`` holds.

    A trial found more than once counts once: ``records`` has the copy that finished first, ``duplicates`` the others (a
    kill during ``compact`` leaves them). ``files`` are the names of the intact files.
    """

    records: dict[str, Record] = field(default_factory=dict)
    broken: tuple[BrokenFile, ...] = ()
    duplicates: tuple[Record, ...] = ()
    files: tuple[str, ...] = ()

    @cached_property
    def done(self) -> frozenset[str]:
        """Ids of the trials whose rows are there and intact."""
        return frozenset(self.records)


def run_name(trial_id: str) -> str:
    """The file of ``runs`` one trial is written to."""
    return f"{trial_id}.parquet"


def is_compact(name: str) -> bool:
    """Whether a file of ``runs`` was made by ``compact``."""
    return name.startswith(COMPACT)


@dataclass(frozen=True)
class Content:
    """What one file of ``runs`` holds: the trials of its intact row groups, and what is wrong with it, if anything."""

    records: tuple[Record, ...]
    problem: str | None = None


def scan_runs(
    files: Files,
    visit: Callable[[str, bytes, tuple[Record, ...]], None] | None = None,
    memory: Memory | None = None,
) -> Scan:
    """Check every file of ``runs``; ``visit`` gets each file that holds at least one intact row group.

    Files found in ``memory`` unchanged are not read again (nor visited); see ``orchestrator.listing``.
    """
    records: dict[str, Record] = {}
    duplicates: list[Record] = []
    broken: list[BrokenFile] = []
    intact: list[str] = []

    def find(name: str, data: bytes | OSError) -> Content:
        content = _content(name, data)
        if visit is not None and isinstance(data, bytes) and content.records:
            visit(name, data, content.records)
        return content

    for name, content in each_file(files, FOLDER, find, memory):
        if content.problem is None:
            intact.append(name)
        else:
            broken.append(BrokenFile(f"{FOLDER}/{name}", content.problem))
        for record in content.records:
            other = records.setdefault(record.trial_id, record)
            if other is not record:
                first, second = sorted((other, record), key=_age)
                records[record.trial_id] = first
                duplicates.append(second)
    return Scan(records, tuple(broken), tuple(duplicates), tuple(intact))


def _content(name: str, data: bytes | OSError) -> Content:
    if isinstance(data, OSError):
        return Content((), f"cannot be read: {data.strerror}")
    try:
        groups = _groups(name, data)
    except BrokenFileError as error:
        return Content((), str(error))
    damaged = [group for group in groups if not group.intact]
    records = tuple(Record(name, group.number, trial) for group in groups if group.intact for trial in group.trials)
    return Content(records, _damage(groups, damaged) if damaged else None)


def read_rows(files: Files, wanted: Collection[str] | None = None) -> tuple[pa.Table, Scan]:
    """The rows of every intact trial (or of those in ``wanted``), by trial and epoch, and the scan behind them."""
    contents: dict[str, bytes] = {}

    def keep(name: str, data: bytes, records: tuple[Record, ...]) -> None:
        if wanted is None or any(record.trial_id in wanted for record in records):
            contents[name] = data

    scan = scan_runs(files, keep)
    chosen = [record for key, record in scan.records.items() if wanted is None or key in wanted]
    rows, unreadable = _rows(chosen, contents.items())
    if unreadable:
        names = {broken.path.removeprefix(f"{FOLDER}/") for broken in unreadable}
        records = {key: record for key, record in scan.records.items() if record.name not in names}
        scan = replace(scan, records=records, broken=scan.broken + unreadable)
    return rows, scan


def read_records(files: Files, records: Sequence[Record]) -> pa.Table:
    """The rows of exactly these copies, by trial and epoch. Raises ``BrokenFileError`` if one is gone by now."""
    names = dict.fromkeys(record.name for record in records)
    found = files.read_many([f"{FOLDER}/{name}" for name in names])
    contents = ((path.removeprefix(f"{FOLDER}/"), data if isinstance(data, bytes) else b"") for path, data in found)
    rows, unreadable = _rows(records, contents)
    if unreadable:
        raise BrokenFileError(f"{unreadable[0].path}: {unreadable[0].reason}")
    return rows


def _rows(records: Iterable[Record], contents: Iterable[tuple[str, bytes]]) -> tuple[pa.Table, tuple[BrokenFile, ...]]:
    """The rows of ``records`` from the bytes of their files, and the files that could not be read after all."""
    places: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        places[record.name][record.group].append(record.trial_id)
    tables: list[pa.Table] = [RUN_SCHEMA.empty_table()]
    unreadable: list[BrokenFile] = []
    for name, data in contents:
        try:
            parsed = _parse(data, places[name])
        except (BrokenFileError, pa.ArrowException, OSError, KeyError) as error:
            unreadable.append(BrokenFile(f"{FOLDER}/{name}", f"cannot be read: {error}"))
            continue
        tables += parsed
        if len(tables) >= _BATCH:  # thousands of tables of fifty columns each are what makes Arrow slow
            tables = [pa.concat_tables(tables).combine_chunks()]
    rows = pa.concat_tables(tables).combine_chunks()
    return rows.sort_by([("trial_id", "ascending"), ("epoch", "ascending")]), tuple(unreadable)


def _parse(data: bytes, wanted: Mapping[int, list[str]]) -> list[pa.Table]:
    groups = check(data)
    source = pq.ParquetFile(pa.BufferReader(data))
    tables = []
    for number, trial_ids in wanted.items():
        if not groups[number].intact:
            raise BrokenFileError("damaged while it was read")
        table = conform(source.read_row_group(number, use_threads=False), RUN_SCHEMA)
        if len(trial_ids) < len(groups[number].trials):
            table = table.filter(pc.is_in(table.column("trial_id"), value_set=pa.array(trial_ids, pa.string())))
        tables.append(table)
    return tables


def differing_copies(files: Files, scan: Scan) -> tuple[Record, ...]:
    """The duplicates of ``scan`` whose rows are not those of the copy that counts."""
    by_file: dict[str, list[Record]] = defaultdict(list)
    for copy in scan.duplicates:
        by_file[copy.name].append(copy)
    differing = []
    for copies in by_file.values():
        kept = read_records(files, [scan.records[copy.trial_id] for copy in copies])
        if not read_records(files, copies).equals(kept):
            for copy in copies:
                if not read_records(files, [copy]).equals(read_records(files, [scan.records[copy.trial_id]])):
                    differing.append(copy)
    return tuple(differing)


def run_bytes(groups: list[tuple[pa.Table, list[Summary]]], *, compact: bool) -> bytes:
    """A checkable file of ``runs`` with one row group per entry."""
    metadata = {"aucsweep.schema_version": str(SCHEMA_VERSION)}
    return serialise(groups, RUN_SCHEMA, metadata=metadata, compact=compact)


def summarise(table: pa.Table) -> Summary:
    """The index entry of one trial's rows."""
    first, last = table.slice(0, 1).to_pylist()[0], table.slice(len(table) - 1).to_pylist()[0]
    seconds = [value for value in table.column("seconds").to_pylist() if value is not None]
    return {
        "trial_id": first["trial_id"],
        "task": first["task"],
        "model": first["model"],
        "finished_at": first["finished_at"].timestamp(),
        "epochs": len(table),
        "updates": last["update"],
        "seconds": sum(seconds) if len(seconds) == len(table) else None,
        "best_val_auc": max(value for value in table.column("val_auc").to_pylist() if value is not None),
    }


def _groups(name: str, data: bytes) -> tuple[Group, ...]:
    groups = check(data)
    if not is_compact(name):
        trials = [str(trial["trial_id"]) for group in groups for trial in group.trials]
        if [run_name(trial) for trial in trials] != [name]:
            raise BrokenFileError(f"misnamed: it holds the trial {', '.join(trials)}")
        if not groups[0].intact:
            raise BrokenFileError("its rows' digest does not match: bytes have changed")
    return groups


def _damage(groups: tuple[Group, ...], damaged: list[Group]) -> str:
    lost = [str(trial["trial_id"]) for group in damaged for trial in group.trials]
    kept = sum(len(group.trials) for group in groups) - len(lost)
    shown = ", ".join(lost[:5]) + (f" and {len(lost) - 5} more" if len(lost) > 5 else "")
    return f"bytes have changed in {len(damaged)} of {len(groups)} row groups: lost {shown}; {kept} trials are intact"


def _age(record: Record) -> tuple[float, str]:
    return float(record.summary["finished_at"]), record.name
