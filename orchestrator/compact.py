"""Merging the single-trial files of ``runs`` into a few large ones: files are removed, rows never.

The merged files are written first and the old ones removed after; a kill in between leaves trials in two files, which
every reader of ours counts once and the next ``compact`` tidies.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from orchestrator import runs
from orchestrator.integrity import Summary
from orchestrator.lock import StoreLock
from orchestrator.runs import Record, Scan

if TYPE_CHECKING:
    from orchestrator.store import Store

TRIALS_PER_FILE = 1000
TRIALS_PER_GROUP = 50
"""The trials that one damaged byte costs at most; smaller groups make the footer larger than the rows."""

_OLD_SECONDS = 3600.0


@dataclass(frozen=True)
class CompactResult:
    """What ``compact`` did: files of ``runs`` and rows before and after, and the files moved to ``quarantine/``.

    ``rows`` counts each trial once. ``set_aside`` names damaged files (their intact trials are in the merged file), and
    copies of a trial whose rows differ from the copy that was kept.
    """

    files_before: int
    files_after: int
    rows: int
    trials: int
    set_aside: tuple[str, ...]


def compact_store(store: Store) -> CompactResult:
    """Merge the single-trial files, under the store's lock; raises ``LockedError`` while a launcher works.

    Compacted files that are full stay as they are. Damaged files are moved to ``quarantine/`` after what is intact in
    them was merged, so that ``pandas.read_parquet(STORE/runs)`` works again.
    """
    with StoreLock(store, "compact"):
        return _compact(store)


def _compact(store: Store) -> CompactResult:
    files = store.files
    files.remove_old_temporaries(runs.FOLDER, _OLD_SECONDS)
    scan = store.scan()
    damaged = {broken.path.removeprefix(f"{runs.FOLDER}/") for broken in scan.broken}
    before = sorted(damaged.union(scan.files))
    keep = _full_files(scan)
    aside = damaged | {copy.name for copy in runs.differing_copies(files, scan)}
    moved: list[str] = []

    written: set[str] = set()
    for data in _merged(store, [record for record in scan.records.values() if record.name not in keep]):
        name = f"{runs.COMPACT}{hashlib.sha256(data).hexdigest()[:16]}.parquet"
        if name in damaged:
            moved.append(store.set_aside(f"{runs.FOLDER}/{name}"))
        if name not in scan.files:
            files.write(f"{runs.FOLDER}/{name}", data)
        written.add(name)

    for name in before:
        if name in keep or name in written:
            continue
        if name in aside:
            moved.append(store.set_aside(f"{runs.FOLDER}/{name}"))
        else:
            files.remove(f"{runs.FOLDER}/{name}")
    rows = sum(int(record.summary["epochs"]) for record in scan.records.values())
    return CompactResult(len(before), len(files.names(runs.FOLDER)), rows, len(scan.records), tuple(moved))


def _full_files(scan: Scan) -> set[str]:
    """Compacted files to leave alone: intact, at least half full, and without a copy that another file supersedes."""
    held = Counter(record.name for record in scan.records.values())
    superseded = {copy.name for copy in scan.duplicates}
    return {
        name
        for name in scan.files
        if runs.is_compact(name) and held[name] >= TRIALS_PER_FILE // 2 and name not in superseded
    }


def _merged(store: Store, records: Sequence[Record]) -> Iterator[bytes]:
    """The bytes of the merged files, trials of one task and model next to each other."""
    ordered = sorted(records, key=lambda record: (record.summary["task"], record.summary["model"], record.trial_id))
    for start in range(0, len(ordered), TRIALS_PER_FILE):
        chunk = ordered[start : start + TRIALS_PER_FILE]
        groups: list[tuple[pa.Table, list[Summary]]] = []
        for first in range(0, len(chunk), TRIALS_PER_GROUP):
            part = chunk[first : first + TRIALS_PER_GROUP]
            groups.append((runs.read_records(store.files, part), [record.summary for record in part]))
        yield runs.run_bytes(groups, compact=True)
