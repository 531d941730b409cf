"""Compaction's own arithmetic; what it promises a reader is in the store's contract."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from orchestrator.store import open_store
from tests.contracts.store_suite import config, flip, rows


def test_merged_files_group_trials_of_one_task_and_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.compact.TRIALS_PER_FILE", 6)
    monkeypatch.setattr("orchestrator.compact.TRIALS_PER_GROUP", 3)
    store = open_store(tmp_path, create=True)
    for seed in range(6):
        for task in ("b-task", "a-task"):
            store.write_run(config(seed, task=task), rows(config(seed, task=task)), {})
    result = store.compact()
    assert (result.files_before, result.files_after, result.trials, result.rows) == (12, 2, 12, 36)
    found = []
    for name in store.files.names("runs"):
        file = pq.ParquetFile(tmp_path / "runs" / name)
        assert file.metadata.num_row_groups == 2
        assert [file.metadata.row_group(group).num_rows for group in range(2)] == [9, 9]
        found.append(set(file.read(["task"]).column("task").to_pylist()))
    assert sorted(found, key=sorted) == [{"a-task"}, {"b-task"}]


def test_small_compacted_files_are_merged_again(tmp_path: Path) -> None:
    store = open_store(tmp_path, create=True)
    for seed in range(5):
        store.write_run(config(seed), rows(config(seed)), {})
        store.compact()
    assert len(store.files.names("runs")) == 1
    assert len(store.scan().done) == 5


def test_a_copy_in_a_full_file_is_tidied_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The single file counts (it finished first), the full compacted file holds the later copy of another machine."""
    monkeypatch.setattr("orchestrator.compact.TRIALS_PER_FILE", 2)
    store = open_store(tmp_path, create=True)
    trials = [config(seed) for seed in range(2)]
    for trial in trials:
        store.write_run(trial, rows(trial), {})
    store.compact()
    early = pd.Timestamp("2020-01-01", tz="UTC").to_pydatetime()
    store.write_run(trials[0], rows(trials[0], base=0.2), {"finished_at": early})
    result = store.compact()
    assert len(result.set_aside) == 1
    assert store.scan().duplicates == ()
    assert store.scan().broken == ()
    frame, _ = store.read_runs([trials[0].trial_id])
    assert frame["val_auc"].tolist() == [row["val_auc"] for row in rows(trials[0], base=0.2)]
    assert len(pd.read_parquet(tmp_path / "runs")) == 6


def test_a_damaged_merged_file_is_replaced_from_the_single_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before the first removal, then a bit flips in the merged file: the next compact writes the same name."""
    store = open_store(tmp_path, create=True)
    for seed in range(3):
        store.write_run(config(seed), rows(config(seed)), {})
    singles = {name: store.files.read(f"runs/{name}") for name in store.files.names("runs")}
    store.compact()
    (merged,) = store.files.names("runs")
    data = store.files.read(f"runs/{merged}")
    for name, content in singles.items():
        store.files.write(f"runs/{name}", content)
    store.files.write(f"runs/{merged}", flip(data, 30))
    result = store.compact()
    assert len(result.set_aside) == 1
    assert store.files.names("runs") == [merged]
    assert store.files.read(f"runs/{merged}") == data


def test_foreign_files_are_set_aside_not_deleted(tmp_path: Path) -> None:
    store = open_store(tmp_path, create=True)
    store.write_run(config(1), rows(config(1)), {})
    (tmp_path / "runs" / "notes.txt").write_text("mine")
    result = store.compact()
    assert [store.files.read(name) for name in result.set_aside] == [b"mine"]
    assert len(pd.read_parquet(tmp_path / "runs")) == 3
