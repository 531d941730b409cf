"""Tables have exactly their schema, whatever the rows bring."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from orchestrator.schema import (
    CELL_SCHEMA,
    FAILURE_SCHEMA,
    METRICS,
    RUN_SCHEMA,
    cell_table,
    config_columns,
    conform,
    run_table,
)
from tests.contracts.store_suite import cell, config, rows


def test_run_table_has_the_schema_and_the_values() -> None:
    trial = config(5)
    table = run_table(trial, rows(trial), {"hostname": "h"})
    assert table.schema.equals(RUN_SCHEMA)
    assert table.column("epoch").to_pylist() == [1, 2, 3]
    assert table.column("update").to_pylist() == [4, 8, 12]
    assert table.column("trial_id").to_pylist() == [trial.trial_id] * 3
    assert table.column("attempt").to_pylist() == [None] * 3


def test_every_metric_has_two_columns() -> None:
    for metric in METRICS:
        assert RUN_SCHEMA.field(f"val_{metric}").type == pa.float64()
        assert RUN_SCHEMA.field(f"test_{metric}").type == pa.float64()


def test_rows_device_wins_over_the_trials() -> None:
    trial = config()
    written = rows(trial)
    written[1]["device"] = None
    assert run_table(trial, written, {"device": "cuda:0"}).column("device").to_pylist() == ["cpu", "cuda:0", "cpu"]


def test_config_columns_agree_with_the_schema() -> None:
    columns = config_columns(config())
    assert set(columns) <= set(RUN_SCHEMA.names)
    assert json.loads(columns["config"]) == config().as_dict()


def test_schema_version_is_in_the_metadata() -> None:
    for schema in (RUN_SCHEMA, CELL_SCHEMA, FAILURE_SCHEMA):
        assert schema.metadata == {b"aucsweep.schema_version": b"1"}


def test_cell_table() -> None:
    first = cell(config(loss="logistic", margin=None), 0.1)
    (row,) = cell_table([first]).to_pylist()
    assert row == first.nominal() | {"cell_id": first.cell_id, "loss_params": "{}"}
    assert cell_table([]).schema.equals(CELL_SCHEMA)


def test_conform_fills_casts_orders_and_drops() -> None:
    table = pa.table({"epoch": pa.array([1], pa.int32()), "extra": ["x"], "trial_id": ["a"]})
    fitted = conform(table, RUN_SCHEMA)
    assert fitted.schema.equals(RUN_SCHEMA)
    assert fitted.column("epoch").to_pylist() == [1]
    assert fitted.column("val_auc").to_pylist() == [None]


def test_conform_refuses_what_cannot_be_a_run() -> None:
    with pytest.raises(KeyError):
        conform(pa.table({"epoch": [1]}), RUN_SCHEMA)
    with pytest.raises(pa.ArrowInvalid):
        conform(pa.table({"trial_id": ["a"], "epoch": ["first"]}), RUN_SCHEMA)
