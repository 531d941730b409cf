"""Every kind of contradiction a store can hold is named; damaged bytes are in the store's contract."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from orchestrator import runs
from orchestrator.integrity import serialise
from orchestrator.schema import CELL_SCHEMA, cell_table, run_table
from orchestrator.store import Store, open_store
from orchestrator.verify import Finding
from search_spaces.expand import expand
from search_spaces.space import load_space
from tests.contracts.store_suite import cell, config, rows

TRIAL = config(1)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    found = open_store(tmp_path, create=True)
    found.add_cells([cell(TRIAL), cell(TRIAL, 0.01)])
    return found


def write_table(store: Store, change: Any) -> None:
    """Store the trial's rows after ``change``, with digests that fit: what a faulty writer would leave."""
    table = run_table(
        TRIAL, rows(TRIAL), {"hostname": "h", "finished_at": pa.scalar(0, pa.timestamp("us", "UTC")).as_py()}
    )
    summary = runs.summarise(table)
    data = runs.run_bytes([(change(table), [summary])], compact=False)
    store.files.write(f"runs/{TRIAL.trial_id}.parquet", data)


def column(name: str, values: list[Any]) -> Any:
    def change(table: pa.Table) -> pa.Table:
        index = table.schema.get_field_index(name)
        return table.set_column(index, table.schema.field(name), pa.array(values, table.schema.field(name).type))

    return change


def faults(store: Store) -> list[Finding]:
    return [finding for finding in store.verify() if finding.is_fault]


def test_a_sound_store_has_no_findings(store: Store) -> None:
    write_table(store, lambda table: table)
    assert store.verify() == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.slice(0, 2), r"has the epochs \[1, 2\], expected 1\.\.3"),
        (column("epoch", [1, 2, 2]), r"has the epochs \[1, 2, 2\]"),
        (column("update", [4, 8, 13]), "counts the updates"),
        (column("val_auc", [0.5, 1.0001, 0.5]), r"val_auc is outside 0\.\.1"),
        (column("test_auc", [0.5, -0.1, 0.5]), r"test_auc is outside 0\.\.1"),
        (column("train_auc", [0.5, None, 0.5]), r"train_auc is outside 0\.\.1"),
        (column("train_loss", [0.5, float("inf"), 0.5]), "train_loss is not finite"),
        (column("schema_version", [2, 2, 2]), "schema version 2"),
        (
            column("margin", [0.3, 0.3, 0.4]),
            r"margin is 0\.4 in its rows and 0\.3 in its configuration",
        ),
        (column("learning_rate", [0.1, 0.1, 0.1]), "learning_rate is"),
        (
            column("config", [run_table(config(2), rows(config(2)), {}).column("config")[0].as_py()] * 3),
            "that of trial",
        ),
        (column("config", ["{}", "{}", "[]"]), "that of trial"),
        (column("loss", ["hinge", None, "hinge"]), "loss is"),
    ],
)
def test_rows_that_contradict_themselves(store: Store, change: Any, message: str) -> None:
    write_table(store, change)
    found = faults(store)
    assert any(pa.compute.match_substring_regex(str(fault), message).as_py() for fault in found), found
    assert all(TRIAL.trial_id in str(fault) for fault in found)


def test_a_cell_that_contradicts_its_trials_rows(store: Store) -> None:
    wrong = cell(config(2))
    table = cell_table([wrong])
    index = table.schema.get_field_index("trial_id")
    table = table.set_column(index, "trial_id", pa.array([TRIAL.trial_id]))
    data = serialise([(table, [])], CELL_SCHEMA, metadata={}, compact=True)
    store.files.write("cells.parquet", data)
    write_table(store, lambda table: table)
    messages = [str(fault) for fault in faults(store)]
    assert any("its columns are those of another cell" in message for message in messages)
    assert any(f"trial {TRIAL.trial_id}: seed is 1 in its rows and 2 in cell" in message for message in messages)


def test_a_trial_that_no_cell_names_is_a_note(store: Store) -> None:
    store.write_run(TRIAL, rows(TRIAL), {})
    store.write_run(config(5), rows(config(5)), {})
    (note,) = store.verify()
    assert not note.is_fault
    assert str(note) == f"note: trial {config(5).trial_id}: stored, but no cell of this store names it"


def test_missing_trials_are_counted(store: Store) -> None:
    (note,) = store.verify()
    assert str(note) == "note: runs: 1 of 1 planned trials are not done"


def test_against_a_given_plan(store: Store) -> None:
    expansion = expand(load_space("smoke"))
    store.write_run(TRIAL, rows(TRIAL), {})
    done = next(iter(expansion.trials.values()))
    store.write_run(done, rows(done), {})
    messages = [str(finding) for finding in store.verify(expansion)]
    assert messages == [
        f"note: trial {TRIAL.trial_id}: stored, but no cell of this space names it",
        "note: runs: 9 of 10 planned trials are not done",
    ]


def test_data_other_than_the_recorded(store: Store) -> None:
    store.record_fingerprint("toy", "aaa")
    store.write_run(TRIAL, rows(TRIAL), {"data_fingerprint": "bbb"})
    (fault,) = faults(store)
    assert str(fault) == "fault: task toy: 1 trials were trained on data bbb, not on aaa"


def test_data_that_were_never_recorded_are_a_note(store: Store) -> None:
    store.write_run(TRIAL, rows(TRIAL), {"data_fingerprint": "bbb"})
    (note,) = store.verify()
    assert not note.is_fault
    assert note.where == "task toy"


def test_quarantine_is_a_note_and_faults_come_first(store: Store) -> None:
    store.write_run(TRIAL, rows(TRIAL), {})
    store.files.write(f"runs/{TRIAL.trial_id}.parquet", b"x")
    store.write_run(TRIAL, rows(TRIAL), {})
    store.files.write("runs/zzz.parquet", b"y")
    findings = store.verify()
    assert [finding.is_fault for finding in findings] == [True, False]
    assert findings[0].where == "runs/zzz.parquet"
    assert findings[1].where.startswith("quarantine/")
