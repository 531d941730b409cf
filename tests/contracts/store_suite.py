"""What every store keeps, wherever it lives: inherit ``StoreContract`` and give it a fixture ``uri`` (a new place).

Run for a folder and for fsspec's memory file system in ``tests/orchestrator/test_store.py``.
"""

from __future__ import annotations

import dataclasses
import io
import json
import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

from orchestrator.integrity import check
from orchestrator.schema import CELL_SCHEMA, FAILURE_SCHEMA, RUN_SCHEMA
from orchestrator.store import Store, open_store, store_exists
from search_spaces.errors import DataError, LockedError, StoreError
from search_spaces.trial import Cell, TrialConfig

CONFIG = TrialConfig(
    task="toy",
    task_revision="1",
    model="plain-mlp",
    init="random",
    loss="hinge",
    mode="direct",
    margin=0.3,
    loss_params={},
    warmup_updates=0,
    seed=123,
    epochs=3,
    updates_per_epoch=4,
    batch_size=8,
    positive_fraction=0.25,
    accumulation=1,
    optimizer="sgd",
    learning_rate=0.05,
    momentum=0.9,
    weight_decay=0.0001,
    lr_schedule="cosine",
    lr_warmup_updates=0,
    switch_scale=None,
    max_grad_norm=None,
    score_scale="sigmoid",
    precision="float32",
    max_length=None,
    augmentation="none",
)


def config(seed: int = 123, **changes: Any) -> TrialConfig:
    return dataclasses.replace(CONFIG, seed=seed, **changes)


def rows(trial: TrialConfig, base: float = 0.5) -> list[dict[str, Any]]:
    """Epoch rows with values that have no short decimal form, so that equality means equality of every bit."""
    return [
        {
            "epoch": epoch,
            "update": epoch * trial.updates_per_epoch,
            "train_loss": 1.0 / (epoch + 2 + trial.seed % 7),
            "train_auc": base + epoch / 30.0,
            "val_auc": base + epoch / 31.0,
            "test_auc": base + epoch / 37.0,
            "learning_rate_now": 0.05 / epoch,
            "seconds": 0.25 * epoch,
            "gpu_seconds": 0.0,
            "peak_memory_bytes": 2**33 + epoch,
            "device": "cpu",
        }
        for epoch in range(1, trial.epochs + 1)
    ]


def cell(trial: TrialConfig, warmup_ratio: float = 0.0) -> Cell:
    mode = "warmup" if warmup_ratio else trial.mode
    return Cell(
        trial.trial_id, trial.task, trial.model, trial.init, trial.loss, mode, warmup_ratio, trial.margin,
        trial.loss_params, trial.seed, "smoke",
    )  # fmt: skip


def flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]


def _no_digest(_: bytes) -> bytes:
    sink = io.BytesIO()
    pq.write_table(RUN_SCHEMA.empty_table(), sink)
    return sink.getvalue()


DAMAGE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda data: b"", "empty"),
    "truncated": (lambda data: data[: len(data) // 2], "truncated"),
    "last byte gone": (lambda data: data[:-1], "truncated"),
    "garbage": (lambda data: b"\x00\xff" * 400, "not a Parquet file"),
    "bit in the rows": (lambda data: flip(data, 300), "digest"),
    "bit in the footer": (lambda data: flip(data, len(data) - 200), "digest"),
    "bytes appended": (lambda data: data + b"more", "truncated"),
    "foreign parquet": (_no_digest, "no digest"),
    "middle cut out": (lambda data: data[:200] + data[260:], "missing|digest"),
}


class StoreContract:
    """The promises of ``orchestrator.store``; each test gets an empty place ``uri``."""

    @pytest.fixture
    def store(self, uri: str) -> Store:
        return open_store(uri, create=True)

    def put(self, store: Store, *seeds: int) -> list[TrialConfig]:
        trials = [config(seed) for seed in seeds]
        for trial in trials:
            assert store.write_run(trial, rows(trial), {"selected_epoch": 2})
        return trials

    def run_file(self, trial: TrialConfig) -> str:
        return f"runs/{trial.trial_id}.parquet"

    # Opening

    def test_a_missing_store_is_an_error_unless_made(self, uri: str) -> None:
        assert not store_exists(uri)
        with pytest.raises(StoreError, match="no store at"):
            open_store(uri)
        made = open_store(uri, create=True)
        assert store_exists(uri)
        assert made.read_sweep()["schema_version"] == 1
        assert open_store(uri, create=True).read_sweep() == made.read_sweep()

    @pytest.mark.parametrize("version", [0, 2, None, "1"])
    def test_another_schema_version_is_refused_naming_both(self, store: Store, version: object) -> None:
        store.files.write("sweep.json", json.dumps({"schema_version": version}).encode())
        with pytest.raises(StoreError, match=rf"schema version {version}.*version 1"):
            open_store(store.uri)

    @pytest.mark.parametrize("text", ["", "{", "[]", "nonsense"])
    def test_a_torn_sweep_file_is_named(self, store: Store, text: str) -> None:
        store.files.write("sweep.json", text.encode())
        with pytest.raises(StoreError, match=r"sweep\.json"):
            open_store(store.uri)

    def test_sweep_round_trip(self, store: Store) -> None:
        space = {"given": {"source": "smoke"}, "resolved": {"parts": [1, 2.5, None]}}
        store.write_sweep({"space": space, "plan_hash": "abc", "launches": [{"at": "now"}]})
        again = open_store(store.uri).read_sweep()
        assert again["space"] == space
        assert again["plan_hash"] == "abc"
        assert again["schema_version"] == 1

    def test_a_store_pickles_by_its_uri(self, store: Store) -> None:
        (trial,) = self.put(store, 1)
        assert pickle.loads(pickle.dumps(store)).scan().done == {trial.trial_id}

    # Runs

    def test_an_empty_store_reads_as_empty(self, store: Store) -> None:
        assert store.scan().done == frozenset()
        frame, broken = store.read_runs()
        assert list(frame.columns) == RUN_SCHEMA.names
        assert len(frame) == 0
        assert broken == ()
        assert list(store.read_cells().columns) == CELL_SCHEMA.names
        assert list(store.read_failures().columns) == FAILURE_SCHEMA.names
        assert store.verify() == []

    def test_a_run_comes_back_to_the_last_bit(self, store: Store) -> None:
        trial = config(7, loss_params={"temperature": 0.1})
        written = rows(trial)
        finished = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
        extra = {
            "selected_epoch": 3,
            "parameters": 10,
            "trainable_parameters": 5,
            "data_fingerprint": "f1",
            "attempt": 2,
            "hostname": "node7",
            "code_version": "9.9",
            "finished_at": finished,
        }
        assert store.write_run(trial, written, extra) is True
        frame, broken = store.read_runs()
        assert broken == ()
        assert list(frame.columns) == RUN_SCHEMA.names
        assert len(frame) == 3
        for index, row in enumerate(written):
            for name, value in row.items():
                assert frame[name].iloc[index] == value, name
        first = frame.iloc[0]
        for name in (
            "task",
            "model",
            "init",
            "loss",
            "mode",
            "margin",
            "seed",
            "epochs",
            "batch_size",
            "learning_rate",
        ):
            assert first[name] == getattr(trial, name)
        assert first["trial_id"] == trial.trial_id
        assert first["prefix_id"] == trial.prefix_id
        assert first["warmup_updates"] == 0
        assert json.loads(first["loss_params"]) == {"temperature": 0.1}
        assert TrialConfig.from_dict(json.loads(first["config"])) == trial
        assert first["finished_at"] == finished
        assert first["schema_version"] == 1
        assert {name: first[name] for name in ("selected_epoch", "parameters", "attempt", "hostname")} == {
            "selected_epoch": 3, "parameters": 10, "attempt": 2, "hostname": "node7",
        }  # fmt: skip

    def test_host_time_and_code_are_filled_in(self, store: Store) -> None:
        before = datetime.now(UTC)
        self.put(store, 1)
        frame, _ = store.read_runs()
        assert before <= frame["finished_at"].iloc[0] <= datetime.now(UTC)
        assert frame["hostname"].iloc[0]
        assert frame["code_version"].iloc[0]

    def test_a_loss_without_margin_has_a_null_margin(self, store: Store) -> None:
        trial = config(1, loss="logistic", margin=None)
        store.write_run(trial, rows(trial), {})
        assert pd.isna(store.read_runs()[0]["margin"]).all()

    def test_further_metrics_have_columns_or_json(self, store: Store) -> None:
        trial = config(1)
        written = [row | {"val_average_precision": 0.25, "test_hits_at_10": 0.125} for row in rows(trial)]
        store.write_run(trial, written, {})
        frame, _ = store.read_runs()
        assert frame["val_average_precision"].tolist() == [0.25] * 3
        assert frame["test_average_precision"].isna().all()
        assert json.loads(frame["more_metrics"].iloc[2]) == {"test_hits_at_10": 0.125}

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda rows: rows[:-1], r"epochs 1\.\.3"),
            (lambda rows: rows[::-1], r"epochs 1\.\.3"),
            (lambda rows: [*rows, rows[-1]], r"epochs 1\.\.3"),
            (lambda rows: [], r"epochs 1\.\.3"),
            (lambda rows: [row | {"val_auc": float("nan")} for row in rows], "val_auc must be a finite number"),
            (lambda rows: [row | {"train_loss": None} for row in rows], "train_loss must be a finite number"),
            (lambda rows: [row | {"colour": 1} for row in rows], "colour is neither"),
        ],
    )
    def test_incomplete_rows_are_refused(self, store: Store, change: Callable[[Any], Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            store.write_run(config(), change(rows(config())), {})
        assert store.scan().done == frozenset()

    def test_an_unknown_fact_is_refused(self, store: Store) -> None:
        with pytest.raises(ValueError, match="fingerprnt"):
            store.write_run(config(), rows(config()), {"fingerprnt": "x"})

    def test_the_first_result_stays(self, store: Store) -> None:
        (trial,) = self.put(store, 1)
        before = store.files.read(self.run_file(trial))
        assert store.write_run(trial, rows(trial, base=0.1), {}) is False
        assert store.files.read(self.run_file(trial)) == before

    def test_reading_some_trials(self, store: Store) -> None:
        trials = self.put(store, *range(5))
        wanted = {trials[1].trial_id, trials[3].trial_id}
        frame, _ = store.read_runs([*wanted, "0" * 16])
        assert set(frame["trial_id"]) == wanted
        store.compact()
        frame, _ = store.read_runs(wanted)
        assert set(frame["trial_id"]) == wanted
        assert len(frame) == 6

    # Damage

    @pytest.mark.parametrize("damage", DAMAGE)
    def test_a_damaged_file_is_named_not_done_and_alone(self, store: Store, damage: str) -> None:
        first, second = self.put(store, 1, 2)
        change, reason = DAMAGE[damage]
        name = self.run_file(first)
        damaged = change(store.files.read(name))
        store.files.write(name, damaged)

        scan = store.scan()
        assert scan.done == {second.trial_id}
        (broken,) = scan.broken
        assert broken.path == name
        assert pd.Series([broken.reason]).str.contains(reason).all()
        frame, reported = store.read_runs()
        assert set(frame["trial_id"]) == {second.trial_id}
        assert reported == scan.broken
        assert [(finding.where, finding.is_fault) for finding in store.verify() if finding.is_fault] == [(name, True)]

        assert store.write_run(first, rows(first), {}) is True
        assert store.scan().broken == ()
        assert store.scan().done == {first.trial_id, second.trial_id}
        (kept,) = store.files.names("quarantine")
        assert store.files.read(f"quarantine/{kept}") == damaged

    def test_a_file_under_another_trials_name_is_broken(self, store: Store) -> None:
        (first,) = self.put(store, 1)
        other = config(2)
        store.files.write(self.run_file(other), store.files.read(self.run_file(first)))
        scan = store.scan()
        assert scan.done == {first.trial_id}
        assert [file.path for file in scan.broken] == [self.run_file(other)]
        assert "misnamed" in scan.broken[0].reason

    def test_a_flip_of_any_byte_is_noticed(self, store: Store) -> None:
        (trial,) = self.put(store, 1)
        data = store.files.read(self.run_file(trial))
        for at in range(0, len(data), 97):
            store.files.write(self.run_file(trial), flip(data, at))
            assert store.scan().done == frozenset(), at

    # Compaction

    def test_compact_keeps_every_row(self, store: Store) -> None:
        self.put(store, *range(12))
        before, _ = store.read_runs()
        result = store.compact()
        after, broken = store.read_runs()
        assert broken == ()
        pd.testing.assert_frame_equal(before, after)
        assert (result.files_before, result.files_after, result.rows, result.trials) == (12, 1, 36, 12)
        assert len(store.files.names("runs")) == 1

        self.put(store, 50, 51)
        assert len(store.scan().done) == 14
        assert store.compact().files_before == 3
        assert len(store.files.names("runs")) == 1
        assert len(store.read_runs()[0]) == 42

    def test_compact_again_changes_nothing(self, store: Store) -> None:
        self.put(store, *range(3))
        store.compact()
        (name,) = store.files.names("runs")
        data = store.files.read(f"runs/{name}")
        result = store.compact()
        assert (result.files_before, result.files_after, result.set_aside) == (1, 1, ())
        assert store.files.names("runs") == [name]
        assert store.files.read(f"runs/{name}") == data

    def test_compact_of_nothing(self, store: Store) -> None:
        result = store.compact()
        assert (result.files_before, result.files_after, result.rows) == (0, 0, 0)

    def test_a_bit_in_a_compacted_file_costs_one_group(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("orchestrator.compact.TRIALS_PER_GROUP", 4)
        self.put(store, *range(12))
        store.compact()
        (name,) = store.files.names("runs")
        data = store.files.read(f"runs/{name}")
        groups = check(data)
        assert [len(group.trials) for group in groups] == [4, 4, 4]
        store.files.write(f"runs/{name}", flip(data, 20))
        lost = {trial["trial_id"] for trial in groups[0].trials}

        scan = store.scan()
        assert len(scan.done) == 8
        assert scan.done.isdisjoint(lost)
        assert scan.broken[0].path == f"runs/{name}"
        assert next(iter(sorted(lost))) in scan.broken[0].reason
        frame, broken = store.read_runs()
        assert set(frame["trial_id"]) == scan.done
        assert broken == scan.broken

        result = store.compact()
        assert len(result.set_aside) == 1
        assert store.files.read(result.set_aside[0]) == flip(data, 20)
        assert store.scan().broken == ()
        assert store.scan().done == scan.done

    def test_compact_keeps_apart_two_results_of_one_trial(self, store: Store) -> None:
        (trial,) = self.put(store, 1)
        store.compact()
        late = datetime.now(UTC) + timedelta(hours=1)
        assert store.write_run(trial, rows(trial, base=0.1), {"finished_at": late})
        assert len(store.read_runs()[0]) == 3
        assert any("another result" in finding.message for finding in store.verify() if finding.is_fault)
        result = store.compact()
        assert len(result.set_aside) == 1
        frame, _ = store.read_runs()
        assert frame["val_auc"].tolist() == [row["val_auc"] for row in rows(trial)]
        assert trial.trial_id in result.set_aside[0]

    @pytest.mark.parametrize("kill_after_removals", [0, 1, 3])
    def test_a_kill_during_compact_loses_and_doubles_nothing(
        self, store: Store, monkeypatch: pytest.MonkeyPatch, kill_after_removals: int
    ) -> None:
        self.put(store, *range(5))
        before, _ = store.read_runs()
        remove = store.files.remove
        removed: list[str] = []

        def killed(name: str) -> None:
            if name.startswith("runs/"):
                if len(removed) == kill_after_removals:
                    raise KeyboardInterrupt
                removed.append(name)
            remove(name)

        with monkeypatch.context() as patch:
            patch.setattr(store.files, "remove", killed)
            with pytest.raises(KeyboardInterrupt):
                store.compact()
        scan = store.scan()
        assert len(scan.done) == 5
        assert len(scan.duplicates) == 5 - kill_after_removals
        pd.testing.assert_frame_equal(store.read_runs()[0], before)
        assert not any(finding.is_fault for finding in store.verify())

        result = store.compact()
        assert result.set_aside == ()
        assert len(store.files.names("runs")) == 1
        assert store.scan().duplicates == ()
        pd.testing.assert_frame_equal(store.read_runs()[0], before)

    def test_full_compacted_files_are_left_alone(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("orchestrator.compact.TRIALS_PER_FILE", 4)
        self.put(store, *range(10))
        store.compact()
        names = store.files.names("runs")
        assert sorted(len(trials) for trials in self._by_file(store).values()) == [2, 4, 4]
        self.put(store, 20, 21)
        store.compact()
        assert set(names) <= set(store.files.names("runs"))
        assert len(store.scan().done) == 12

    def _by_file(self, store: Store) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for record in store.scan().records.values():
            found.setdefault(record.name, []).append(record.trial_id)
        return found

    def test_compact_leaves_failures_cells_and_mechanism_alone(self, store: Store) -> None:
        (trial,) = self.put(store, 1)
        store.write_failure(config(2), "nan", "NaN")
        store.add_cells([cell(trial)])
        store.files.write("mechanism/x.parquet", b"anything")
        store.compact()
        assert len(store.read_failures()) == 1
        assert len(store.read_cells()) == 1
        assert store.files.read("mechanism/x.parquet") == b"anything"

    def test_compact_refuses_a_store_in_use(self, store: Store) -> None:
        from orchestrator.lock import StoreLock

        self.put(store, 1, 2)
        with StoreLock(store, "launch smoke"), pytest.raises(LockedError, match="launch smoke"):
            store.compact()
        assert len(store.files.names("runs")) == 2

    # Cells

    def test_cells_accumulate(self, store: Store) -> None:
        trials = [config(seed) for seed in range(3)]
        assert store.add_cells([cell(trials[0]), cell(trials[1])]) == 2
        assert store.add_cells([cell(trials[1]), cell(trials[1], 0.01), cell(trials[2])]) == 2
        assert store.add_cells([cell(trials[0])]) == 0
        frame = store.read_cells()
        assert list(frame.columns) == CELL_SCHEMA.names
        assert frame["trial_id"].tolist() == [trials[index].trial_id for index in (0, 1, 1, 2)]
        assert frame["mode"].tolist() == ["direct", "direct", "warmup", "direct"]
        assert frame["cell_id"].tolist()[2] == cell(trials[1], 0.01).cell_id
        assert frame["warmup_ratio"].tolist() == [0.0, 0.0, 0.01, 0.0]

    def test_broken_cells_are_named_and_replaced(self, store: Store) -> None:
        store.add_cells([cell(config(1))])
        store.files.write("cells.parquet", b"garbage")
        with pytest.raises(StoreError, match=r"cells\.parquet is broken"):
            store.read_cells()
        assert any(finding.where == "cells.parquet" and finding.is_fault for finding in store.verify())
        with pytest.warns(UserWarning, match=r"cells\.parquet"):
            assert store.add_cells([cell(config(1))]) == 1
        assert len(store.read_cells()) == 1
        assert len(store.files.names("quarantine")) == 1

    # Failures, logs, scores, fingerprints

    def test_failures_accumulate_and_the_latest_decides(self, store: Store) -> None:
        start = datetime(2026, 1, 1, tzinfo=UTC)
        trial, other = config(1), config(2)
        store.write_failure(trial, "oom", "out of memory", "Traceback ...", "log text", attempt=1, failed_at=start)
        store.write_failure(trial, "nan", "loss is NaN", attempt=2, failed_at=start + timedelta(hours=1))
        store.write_failure(other, "lost", "worker died", failed_at=start + timedelta(minutes=1))
        frame = store.read_failures()
        assert list(frame.columns) == FAILURE_SCHEMA.names
        assert frame["kind"].tolist() == ["oom", "lost", "nan"]
        assert frame["attempt"].tolist() == [1, 1, 2]
        assert frame.iloc[0][["message", "traceback", "log"]].tolist() == ["out of memory", "Traceback ...", "log text"]
        assert {key: failure.kind for key, failure in store.latest_failures().items()} == {
            trial.trial_id: "nan",
            other.trial_id: "lost",
        }

    def test_the_same_attempt_number_twice_keeps_both(self, store: Store) -> None:
        for _ in range(2):
            store.write_failure(config(1), "lost", "gone", attempt=1)
        assert len(store.read_failures()) == 2

    def test_an_unknown_failure_kind_is_refused(self, store: Store) -> None:
        with pytest.raises(ValueError, match="exploded"):
            store.write_failure(config(1), "exploded", "")

    def test_a_broken_failure_file_is_named(self, store: Store) -> None:
        store.write_failure(config(1), "oom", "x")
        store.write_failure(config(2), "oom", "x")
        name = store.files.names("failures")[0]
        store.files.write(f"failures/{name}", b"PAR1")
        assert len(store.read_failures()) == 1
        assert len(store.latest_failures()) == 1
        assert [finding.where for finding in store.verify() if finding.is_fault] == [f"failures/{name}"]

    def test_logs(self, store: Store) -> None:
        assert store.read_log("abc") is None
        store.write_log("abc", "first")
        store.write_log("abc", "second \udcff é")
        assert store.read_log("abc") == "second \\udcff é"
        assert store.log_path("abc").endswith("logs/abc.log")

    def test_scores(self, store: Store) -> None:
        scores = pd.DataFrame({"split": ["val", "test"], "score": [0.1, 1 / 3], "label": [0, 1]})
        assert store.read_scores("abc") is None
        store.write_scores("abc", scores)
        pd.testing.assert_frame_equal(store.read_scores("abc"), scores)

    def test_other_data_are_refused(self, store: Store) -> None:
        store.record_fingerprint("toy", "aaa")
        store.record_fingerprint("toy", "aaa")
        store.record_fingerprint("own/task ä", "bbb")
        with pytest.raises(DataError, match=r"task toy.*bbb.*aaa"):
            store.record_fingerprint("toy", "bbb")
        assert open_store(store.uri).fingerprints() == {"toy": "aaa", "own/task ä": "bbb"}
        assert store.read_sweep()["fingerprints"] == {"toy": "aaa", "own/task ä": "bbb"}
