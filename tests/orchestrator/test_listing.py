"""Looking again at a store: only what is new or changed is read, and what is said is what a fresh look says."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.files import Files
from orchestrator.listing import Memory, each_file
from orchestrator.status import store_status
from orchestrator.store import Store, open_store
from search_spaces.expand import expand
from search_spaces.space import load_space
from search_spaces.trial import TrialConfig
from tests.contracts.store_suite import rows

NOW = 2_000_000_000.0


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr("orchestrator.lock._SETTLE_SECONDS", 0.0)
    store = open_store(
        tmp_path / "store" if request.param == "folder" else f"memory://listing-{uuid.uuid4().hex}/store", create=True
    )
    space = load_space("smoke")
    store.write_sweep({"space": {"given": dict(space.given), "resolved": space.to_dict()}})
    store.add_cells(expand(space).cells)
    return store


@pytest.fixture
def trials() -> list[TrialConfig]:
    return list(expand(load_space("smoke")).trials.values())


@pytest.fixture
def of_three(tmp_path: Path, trials: list[TrialConfig]) -> Store:
    """A folder with the runs of the first three trials, a file each."""
    store = open_store(tmp_path, create=True)
    for trial in trials[:3]:
        store.write_run(trial, rows(trial), {})
    return store


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """The files of ``runs`` and ``failures`` read since it was asked last."""
    names: list[str] = []
    read_many = Files.read_many

    def spy(self: Files, wanted: Iterable[str]) -> Iterator[tuple[str, bytes | OSError | None]]:
        listed = list(wanted)
        names.extend(name for name in listed if name.startswith(("runs/", "failures/")))
        return read_many(self, listed)

    monkeypatch.setattr(Files, "read_many", spy)

    def since() -> list[str]:
        found = sorted(names)
        names.clear()
        return found

    return since


def run_file(trial: TrialConfig) -> str:
    return f"runs/{trial.trial_id}.parquet"


def test_only_new_and_changed_files_are_read(
    store: Store, trials: list[TrialConfig], read: Callable[[], list[str]]
) -> None:
    memory: Memory = {}

    def look() -> tuple[list[str], tuple[int, int, int]]:
        seen = store_status(store, now=NOW, memory=memory)
        files = read()
        assert seen == store_status(store, now=NOW)  # a look without a memory reads all
        read()
        return files, (seen.done, seen.failed, len(seen.broken))

    assert look() == ([], (0, 0, 0))
    for trial in trials[:3]:
        store.write_run(trial, rows(trial), {})
    assert look() == (sorted(map(run_file, trials[:3])), (3, 0, 0))
    assert look() == ([], (3, 0, 0))

    store.write_run(trials[3], rows(trials[3]), {})
    store.write_failure(trials[4], "nan", "")
    (failure,) = store.files.names("failures")
    assert look() == ([f"failures/{failure}", run_file(trials[3])], (4, 1, 0))

    whole = store.files.read(run_file(trials[0]))
    damaged = bytes([whole[10] ^ 1]).join([whole[:10], whole[11:]])  # of the same size
    store.files.write(run_file(trials[0]), damaged)
    assert look() == ([run_file(trials[0])], (3, 1, 1))
    assert look() == ([], (3, 1, 1))
    store.files.write(run_file(trials[0]), whole)
    assert look() == ([run_file(trials[0])], (4, 1, 0))

    store.files.remove(run_file(trials[1]))
    assert look() == ([], (3, 1, 0))
    store.write_run(trials[1], rows(trials[1]), {})
    assert look() == ([run_file(trials[1])], (4, 1, 0))

    store.compact()
    read()
    (merged,) = store.files.names("runs")
    assert look() == ([f"runs/{merged}"], (4, 1, 0))
    store.write_failure(trials[4], "oom", "", attempt=2)
    files, counts = look()
    assert (len(files), counts) == (1, (4, 1, 0))
    assert store_status(store, memory=memory).failures == {"oom": 1}


def test_a_memory_serves_one_store(store: Store, trials: list[TrialConfig]) -> None:
    """The memory is the caller's: without one nothing is remembered between two looks."""
    store.write_run(trials[0], rows(trials[0]), {})
    assert store.scan().done == {trials[0].trial_id}
    store.files.write(run_file(trials[0]), b"PAR1")
    assert store.scan().done == frozenset()
    assert len(store.scan().broken) == 1


def test_a_file_written_in_place_at_the_same_time_to_the_same_size_is_another_one(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    path = tmp_path / "runs" / "a"
    path.write_bytes(b"one")
    stamp = path.stat().st_mtime_ns
    files, memory = Files(tmp_path), Memory()

    def look() -> dict[str, Any]:
        return dict(each_file(files, "runs", lambda _, data: data, memory))

    assert look() == {"a": b"one"}
    files.write("runs/a", b"two")  # renamed into place: another inode
    os.utime(path, ns=(stamp, stamp))
    assert look() == {"a": b"two"}


def test_a_file_that_changes_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    files, memory = Files(tmp_path), Memory()
    files.write("runs/a", b"one")

    def find(name: str, data: bytes | OSError) -> Any:
        if data == b"one":
            files.write("runs/a", b"second")
        return data

    assert dict(each_file(files, "runs", find, memory)) == {"a": b"one"}
    assert dict(each_file(files, "runs", find, memory)) == {"a": b"second"}


def test_an_unreadable_file_is_tried_again(tmp_path: Path) -> None:
    (tmp_path / "runs" / "a.parquet").mkdir(parents=True)
    files, memory = Files(tmp_path), Memory()
    for _ in range(2):
        ((name, error),) = each_file(files, "runs", lambda _, data: data, memory)
        assert name == "a.parquet"
        assert isinstance(error, IsADirectoryError)
    assert memory == {"runs": {}}


def test_a_file_merged_while_it_is_listed_is_seen_in_the_merged_one(
    of_three: Store, trials: list[TrialConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, memory = of_three, Memory()
    stamps = Files.stamps

    def merge_after(self: Files, folder: str) -> dict[str, Any]:
        found = stamps(self, folder)
        if folder == "runs" and len(found) == 3:
            store.compact()
        return found

    monkeypatch.setattr(Files, "stamps", merge_after)
    for _ in range(2):
        scan = store.scan(memory)
        assert scan.done == {trial.trial_id for trial in trials[:3]}
    assert store.scan(memory) == store.scan()


def test_a_file_merged_between_its_listing_and_its_stamp(
    of_three: Store, trials: list[TrialConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, memory = of_three, Memory()
    names = Files.names

    def merge_after(self: Files, folder: str, hidden: bool = False) -> list[str]:
        found = names(self, folder, hidden)
        if folder == "runs" and len(found) == 3 and not hidden:
            with monkeypatch.context() as patched:
                patched.setattr(Files, "names", names)
                store.compact()
        return found

    monkeypatch.setattr(Files, "names", merge_after)
    assert store.scan(memory).done == {trial.trial_id for trial in trials[:3]}
    assert len(memory["runs"]) == 1
