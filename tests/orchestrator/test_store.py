"""The store's contract on a folder and on an object store, and what only a folder can show: processes and pandas."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import uuid
from pathlib import Path

import fsspec
import pandas as pd
import pytest
from fsspec.implementations.arrow import ArrowFSWrapper
from pyarrow.fs import _MockFileSystem

from orchestrator.files import Files
from orchestrator.schema import RUN_SCHEMA
from orchestrator.store import open_store
from search_spaces.errors import StoreError
from tests.contracts.store_suite import StoreContract, cell, config, rows

ROOT = Path(__file__).parents[2]


class TestLocalStore(StoreContract):
    @pytest.fixture
    def uri(self, tmp_path: Path) -> str:
        return str(tmp_path / "new" / "store")


class TestMemoryStore(StoreContract):
    """An object store as fsspec sees one: no rename, no exclusive create, no folders."""

    @pytest.fixture
    def uri(self, monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.setattr("orchestrator.lock._SETTLE_SECONDS", 0.0)
        return f"memory://bucket-{uuid.uuid4().hex}/sweeps/one"


class TestFsspecLocalStore(StoreContract):
    """A folder through fsspec's own local file system, as a stand-in for any other of its file systems."""

    @pytest.fixture
    def uri(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.setattr("orchestrator.lock._SETTLE_SECONDS", 0.0)
        local = fsspec.get_filesystem_class("file")(auto_mkdir=True, skip_instance_cache=True)
        monkeypatch.setattr("orchestrator.files._remote", lambda uri: (local, str(tmp_path / "through-fsspec")))
        return "through-fsspec://store"


class TestArrowStore(StoreContract):
    """pyarrow's file systems, which stand in where a scheme's fsspec package is missing; here its in-memory one."""

    @pytest.fixture
    def uri(self, monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.setattr("orchestrator.lock._SETTLE_SECONDS", 0.0)
        memory = ArrowFSWrapper(_MockFileSystem())
        monkeypatch.setattr("orchestrator.files._remote", lambda uri: (memory, "bucket/one"))
        return "arrow://bucket/one"


def test_file_uris_relative_paths_and_home_mean_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for uri in ("some/store", f"file://{tmp_path}/some/store", "~/some/store", Path("some/store")):
        assert open_store(uri, create=True).uri == str(tmp_path / "some" / "store")
    monkeypatch.chdir("/")
    assert (tmp_path / "some" / "store" / "sweep.json").exists()


@pytest.mark.parametrize("uri", ["", "  ", "nonsense://a/b"])
def test_a_uri_nobody_can_open_is_named(uri: str) -> None:
    with pytest.raises(StoreError):
        open_store(uri, create=True)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="cannot make or open"):
        open_store(tmp_path / "file" / "store", create=True)


def test_pyarrow_stands_in_for_a_missing_fsspec_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(uri: str) -> None:
        raise ImportError("Please install s3fs")

    monkeypatch.setattr(fsspec.core, "url_to_fs", missing)
    with pytest.raises(StoreError, match="s3fs"):
        Files("unheard://bucket/x")
    files = Files("mock:///")
    assert files.names("runs") == []


def test_pandas_reads_runs_as_they_are(tmp_path: Path) -> None:
    store = open_store(tmp_path, create=True)
    assert len(pd.read_parquet(tmp_path / "runs")) == 0
    for seed in range(4):
        store.write_run(config(seed), rows(config(seed)), {})
    (tmp_path / "runs" / ".0123.parquet.77-ab.tmp").write_bytes(b"half a fi")
    during = pd.read_parquet(tmp_path / "runs")
    assert list(during.columns) == RUN_SCHEMA.names
    assert len(during) == 12
    store.compact()
    store.write_run(config(9), rows(config(9)), {})
    after = pd.read_parquet(tmp_path / "runs")
    assert len(after) == 15
    ours, _ = store.read_runs()
    pd.testing.assert_frame_equal(
        after.sort_values(["trial_id", "epoch"], ignore_index=True), ours, check_dtype=False, check_exact=True
    )
    assert len(pd.read_parquet(tmp_path / "runs", filters=[("seed", "==", 9)])) == 3


def test_columns_are_those_of_the_design(tmp_path: Path) -> None:
    expected = [
        "trial_id", "task", "model", "init", "loss", "mode", "warmup_updates", "margin", "seed", "epochs",
        "batch_size", "learning_rate", "epoch", "update", "train_loss", "train_auc", "val_auc", "test_auc",
        "learning_rate_now", "seconds", "gpu_seconds", "peak_memory_bytes", "prefix_id", "hostname", "device",
        "finished_at", "code_version", "schema_version",
    ]  # fmt: skip
    assert RUN_SCHEMA.names[: len(expected)] == expected
    store = open_store(tmp_path, create=True)
    cells = ["cell_id", "trial_id", "task", "model", "init", "loss", "mode", "warmup_ratio", "margin", "seed", "regime"]
    assert list(store.read_cells().columns)[: len(cells)] == cells


@pytest.mark.parametrize("damage", ["folder", "unreadable"])
def test_a_run_file_that_cannot_be_read_is_named_and_makes_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    store = open_store(tmp_path, create=True)
    for seed in range(2):
        store.write_run(config(seed), rows(config(seed)), {})
    name = f"runs/{config(0).trial_id}.parquet"
    if damage == "folder":
        (tmp_path / name).unlink()
        (tmp_path / name).mkdir()
    else:  # what EACCES or EIO do; the user who runs the tests may be root, who may read anything
        bad = (tmp_path / name).stat().st_ino
        read = os.read

        def refuse(handle: int, size: int) -> bytes:
            if os.fstat(handle).st_ino == bad:
                raise PermissionError(13, "Permission denied")
            return read(handle, size)

        monkeypatch.setattr("orchestrator.files.os.read", refuse)
    assert store.scan().done == {config(1).trial_id}
    assert [broken.path for broken in store.scan().broken] == [name]
    assert [finding.where for finding in store.verify() if finding.is_fault] == [name]
    assert store.write_run(config(0), rows(config(0)), {})
    assert store.scan().done == {config(seed).trial_id for seed in range(2)}
    assert store.scan().broken == ()
    assert len(os.listdir(tmp_path / "quarantine")) == 1


@pytest.mark.parametrize("content", ["{", "[]", '{"task": "toy"}'])
def test_a_broken_fingerprint_file_is_named_and_harms_nothing_else(tmp_path: Path, content: str) -> None:
    store = open_store(tmp_path, create=True)
    store.record_fingerprint("toy", "abc")
    store.record_fingerprint("other", "def")
    (tmp_path / "fingerprints" / "toy.json").write_text(content)
    assert open_store(tmp_path).fingerprints() == {"other": "def"}
    assert [finding.where for finding in store.verify() if finding.is_fault] == ["fingerprints/toy.json"]
    store.record_fingerprint("toy", "abc")
    assert store.fingerprints() == {"other": "def", "toy": "abc"}
    assert len(os.listdir(tmp_path / "quarantine")) == 1


_WRITER = """
import sys
from orchestrator.store import open_store
from tests.contracts.store_suite import cell, config, rows
store = open_store(sys.argv[1], create=True)
start = int(sys.argv[2])
for seed in range(start, start + 30):
    store.add_cells([cell(config(seed))])
    store.write_run(config(seed), rows(config(seed)), {})
    store.record_fingerprint("toy", "same")
"""


def _python(code: str, *arguments: str) -> subprocess.Popen[bytes]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen([sys.executable, "-c", code, *arguments], cwd=ROOT, env=environment)


def test_two_processes_write_at_once_while_a_third_reads(tmp_path: Path) -> None:
    # Seeds 0..29 and 20..49: ten trials are written by both.
    writers = [_python(_WRITER, str(tmp_path / "s"), start) for start in ("0", "20")]
    seen = 0
    while any(writer.poll() is None for writer in writers):
        if (tmp_path / "s" / "runs").exists():
            frame = pd.read_parquet(tmp_path / "s" / "runs")
            assert len(frame) % 3 == 0
            assert len(frame) >= seen
            seen = len(frame)
    assert [writer.wait() for writer in writers] == [0, 0]
    store = open_store(tmp_path / "s")
    assert store.scan().done == {config(seed).trial_id for seed in range(50)}
    assert store.scan().broken == ()
    assert sorted(store.read_cells()["seed"]) == list(range(50))


_CUT = """
import os, sys
from orchestrator.store import open_store
from tests.contracts.store_suite import config, rows
store = open_store(sys.argv[1])
os.replace = lambda *_: os.kill(os.getpid(), 9)
store.write_run(config(1), rows(config(1)), {})
"""


def test_a_writer_killed_before_the_rename_leaves_no_run(tmp_path: Path) -> None:
    store = open_store(tmp_path, create=True)
    assert _python(_CUT, str(tmp_path)).wait() == -9
    assert store.scan().done == frozenset()
    assert store.scan().broken == ()
    assert store.files.names("runs") == []
    (left,) = store.files.names("runs", hidden=True)
    assert len(pd.read_parquet(tmp_path / "runs")) == 0
    assert [finding.is_fault for finding in store.verify()] == [False]
    store.compact()
    assert store.files.names("runs", hidden=True) == [left], "it may still be being written"
    os.utime(tmp_path / "runs" / left, (0, 0))
    store.compact()
    assert store.files.names("runs", hidden=True) == []


def test_a_reader_survives_a_compact_in_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path, create=True)
    for seed in range(6):
        store.write_run(config(seed), rows(config(seed)), {})
    reader = open_store(tmp_path)
    list_names = reader.files.names
    calls = []

    def names(folder: str, hidden: bool = False) -> list[str]:
        found = list_names(folder, hidden)
        if not calls:
            calls.append(folder)
            store.compact()  # every listed file is gone before the reader opens it
        return found

    monkeypatch.setattr(reader.files, "names", names)
    frame, broken = reader.read_runs()
    assert broken == ()
    assert len(frame) == 18


def _record(uri: str, value: str, gate: multiprocessing.synchronize.Event, results: multiprocessing.Queue) -> None:
    from search_spaces.errors import DataError

    store = open_store(uri)
    gate.wait()
    try:
        store.record_fingerprint("toy", value)
        results.put(value)
    except DataError:
        results.put(None)


def test_racing_workers_agree_on_one_fingerprint(tmp_path: Path) -> None:
    open_store(tmp_path, create=True)
    context = multiprocessing.get_context("fork")
    gate, results = context.Event(), context.Queue()
    workers = [context.Process(target=_record, args=(str(tmp_path), f"f{i}", gate, results)) for i in range(6)]
    for worker in workers:
        worker.start()
    gate.set()
    values = [results.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join()
    winners = [value for value in values if value is not None]
    assert winners == [open_store(tmp_path).fingerprints()["toy"]]


def test_the_frozen_store_of_schema_version_1_reads(tmp_path: Path) -> None:
    frozen = open_store(ROOT / "tests" / "legacy" / "store_v1")
    expected = json.loads((ROOT / "tests" / "legacy" / "store_v1_expected.json").read_text())
    frame, broken = frozen.read_runs()
    assert broken == ()
    assert frozen.scan().done == set(expected["runs"])
    found = {
        str(key): {"val_auc": trial["val_auc"].tolist(), "seed": int(trial["seed"].iloc[0])}
        for key, trial in frame.groupby("trial_id")
    }
    assert found == expected["runs"]
    assert sorted(frozen.read_cells()["cell_id"]) == expected["cells"]
    assert frozen.read_failures()[["trial_id", "kind"]].values.tolist() == expected["failures"]
    assert not any(finding.is_fault for finding in frozen.verify())


def test_cells_of_the_suite_name_their_trials() -> None:
    assert cell(config(1)).trial_id == config(1).trial_id
