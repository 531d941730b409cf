"""The columns of a store's tables and their schema version.

Every file of a table has all of the table's columns, so that ``pandas.read_parquet("STORE/runs")`` never loses one. A
column is never removed or redefined; adding one, or reading an older store, goes with a new ``SCHEMA_VERSION``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from search_spaces.identity import canonical_json
from search_spaces.trial import Cell, TrialConfig

SCHEMA_VERSION = 1

METRICS = (
    "loss",
    "accuracy",
    "average_precision",
    "partial_auc",
    "macro_ovo_auc",
    "macro_ovr_auc",
    "multilabel_macro_auc",
)
"""Metrics beyond the primary one with columns of their own, ``val_<name>`` and ``test_<name>``, null where unused."""

_STAMP = pa.timestamp("us", tz="UTC")


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()), metadata={"aucsweep.schema_version": str(SCHEMA_VERSION)})


RUN_SCHEMA = _schema(
    trial_id=pa.string(),
    task=pa.string(),
    model=pa.string(),
    init=pa.string(),
    loss=pa.string(),
    mode=pa.string(),
    warmup_updates=pa.int64(),
    margin=pa.float64(),
    seed=pa.int64(),
    epochs=pa.int64(),
    batch_size=pa.int64(),
    learning_rate=pa.float64(),
    epoch=pa.int64(),
    update=pa.int64(),
    train_loss=pa.float64(),
    train_auc=pa.float64(),
    val_auc=pa.float64(),
    test_auc=pa.float64(),
    learning_rate_now=pa.float64(),
    seconds=pa.float64(),
    gpu_seconds=pa.float64(),
    peak_memory_bytes=pa.int64(),
    prefix_id=pa.string(),
    hostname=pa.string(),
    device=pa.string(),
    finished_at=_STAMP,
    code_version=pa.string(),
    schema_version=pa.int64(),
    loss_params=pa.string(),
    task_revision=pa.string(),
    updates_per_epoch=pa.int64(),
    selected_epoch=pa.int64(),
    parameters=pa.int64(),
    trainable_parameters=pa.int64(),
    data_fingerprint=pa.string(),
    attempt=pa.int64(),
    **{f"{split}_{metric}": pa.float64() for metric in METRICS for split in ("val", "test")},
    more_metrics=pa.string(),
    config=pa.string(),
)
"""One row per trial and epoch. First the columns of design.md in its order, then ours.

``loss_params``, ``more_metrics`` (metrics without a column) and ``config`` (the whole effective configuration, whose
hash is ``trial_id``) are JSON texts. ``finished_at`` is when the trial finished, equal in all its rows. ``seconds``
and ``gpu_seconds`` count one epoch with its evaluation.
"""

CELL_SCHEMA = _schema(
    cell_id=pa.string(),
    trial_id=pa.string(),
    task=pa.string(),
    model=pa.string(),
    init=pa.string(),
    loss=pa.string(),
    mode=pa.string(),
    warmup_ratio=pa.float64(),
    margin=pa.float64(),
    seed=pa.int64(),
    regime=pa.string(),
    loss_params=pa.string(),
)
"""One row per cell; many cells can name one trial."""

FAILURE_SCHEMA = _schema(
    trial_id=pa.string(),
    kind=pa.string(),
    message=pa.string(),
    traceback=pa.string(),
    log=pa.string(),
    attempt=pa.int64(),
    failed_at=_STAMP,
    seconds=pa.float64(),
    task=pa.string(),
    model=pa.string(),
    init=pa.string(),
    loss=pa.string(),
    mode=pa.string(),
    warmup_updates=pa.int64(),
    margin=pa.float64(),
    seed=pa.int64(),
    hostname=pa.string(),
    device=pa.string(),
    code_version=pa.string(),
    schema_version=pa.int64(),
    config=pa.string(),
)
"""One row per failed attempt of a trial; the attempt that failed last says what is wrong with the trial."""

STAMP_KEYS = (
    "hostname",
    "finished_at",
    "code_version",
    "device",
    "selected_epoch",
    "parameters",
    "trainable_parameters",
    "data_fingerprint",
    "attempt",
)
"""What a writer may say about a trial as a whole, beside its configuration and rows."""

AUCS = ("train_auc", "val_auc", "test_auc")
"""The primary metric of each split; null in the epochs a run with ``selection: last`` does not evaluate."""

EPOCH_KEYS = (
    "epoch",
    "update",
    "train_loss",
    "train_auc",
    "val_auc",
    "test_auc",
    "learning_rate_now",
    "seconds",
    "gpu_seconds",
    "peak_memory_bytes",
    "device",
)
"""What one epoch's row brings itself, beside further metrics named ``train_*``, ``val_*`` or ``test_*``."""


def config_columns(config: TrialConfig) -> dict[str, Any]:
    """The configuration's own columns of ``runs`` and ``failures``, by name."""
    values = config.as_dict()
    shared = {name: values[name] for name in RUN_SCHEMA.names if name in values}
    return shared | {
        "trial_id": config.trial_id,
        "prefix_id": config.prefix_id,
        "loss_params": canonical_json(config.loss_params),
        "config": canonical_json(values),
    }


def run_table(config: TrialConfig, rows: Sequence[Mapping[str, Any]], stamp: Mapping[str, Any]) -> pa.Table:
    """The rows of one finished trial as a table of ``RUN_SCHEMA``, epochs in order.

    Raises ``ValueError`` unless ``rows`` are exactly the epochs 1 .. ``config.epochs``, each with its required values,
    and for a key that is neither known nor a metric.
    """
    if unknown := set(stamp) - set(STAMP_KEYS):
        raise ValueError(
            f"unknown facts about a trial: {', '.join(sorted(unknown))} (allowed: {', '.join(STAMP_KEYS)})"
        )
    epochs = [row.get("epoch") for row in rows]
    if epochs != list(range(1, config.epochs + 1)):
        raise ValueError(f"trial {config.trial_id} needs the epochs 1..{config.epochs} in order, got {epochs}")
    shared = config_columns(config) | dict(stamp) | {"schema_version": SCHEMA_VERSION}
    return pa.Table.from_pylist([shared | _epoch_values(config, row) for row in rows], schema=RUN_SCHEMA)


def _epoch_values(config: TrialConfig, row: Mapping[str, Any]) -> dict[str, Any]:
    where = f"trial {config.trial_id}, epoch {row['epoch']}"
    evaluated = config.selection == "best" or row["epoch"] == config.epochs
    if not evaluated:
        row = {name: value for name, value in row.items() if name not in AUCS}
    for name in ("update", "train_loss", *(AUCS if evaluated else ())):
        value = row.get(name)
        if value is None or not math.isfinite(value):
            raise ValueError(f"{where}: {name} must be a finite number, got {value!r}")
    values = {name: row[name] for name in EPOCH_KEYS if name in row}
    if values.get("device") is None:
        values.pop("device", None)
    further: dict[str, Any] = {}
    for name, value in row.items():
        if name in EPOCH_KEYS:
            continue
        if name.split("_", 1)[0] not in ("train", "val", "test"):
            raise ValueError(f"{where}: {name} is neither a column of runs nor a metric (train_*, val_*, test_*)")
        (values if name in RUN_SCHEMA.names else further)[name] = value
    return values | {"more_metrics": json.dumps(further, sort_keys=True) if further else None}


def cell_table(cells: Iterable[Cell]) -> pa.Table:
    """Cells as a table of ``CELL_SCHEMA``."""
    rows = [
        cell.nominal() | {"cell_id": cell.cell_id, "loss_params": canonical_json(cell.loss_params)} for cell in cells
    ]
    return pa.Table.from_pylist(rows, schema=CELL_SCHEMA)


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """``table`` with exactly the columns of ``schema``; a column it lacks is null.

    Raises ``pyarrow.ArrowInvalid`` for values that do not fit and ``KeyError`` when it has no ``trial_id``.
    """
    if table.schema.equals(schema):
        return table
    table.column("trial_id")
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in table.column_names
        else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
