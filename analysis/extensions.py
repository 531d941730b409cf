"""Tables of the paper's extensions: several classes, several labels, thousands of classes, and Deep-AUC (11 to 14)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd

from analysis.errors import AnalysisError
from analysis.load import Source, as_runs
from analysis.names import entry_title, loss_title, order_losses, order_settings, order_tasks
from analysis.rendering import FORMATS, Column, Entry, Table, Value, render
from analysis.selection import REPORTED, left_out, results_of, run_results, select
from analysis.tables import HEAD, build_main_table, mark_best, sentences
from search_spaces.cards import TaskCard
from search_spaces.errors import nearest
from search_spaces.tasks import TASKS

LARGE = 1000
"""Classes from which on a task belongs to the table ``large``."""

METRICS = {
    "multiclass": {"test_auc": "Macro-OVO-AUC", "test_average_precision": "Macro AP"},
    "multilabel": {"test_auc": "Macro AUC", "test_average_precision": "Macro AP"},
    "large": {"test_auc": "Macro-OVO-AUC", "test_macro_ovr_auc": "Macro-OVR-AUC"},
}
"""The columns of ``runs`` each table shows, the primary metric first."""

_DEEP = ("aucm", "aucm_closed")


def table_of(task: TaskCard) -> str:
    """The table a task belongs to: ``main`` (binary), ``multiclass``, ``multilabel`` or ``large``."""
    if task.kind == "binary":
        return "main"
    return "large" if task.kind == "multiclass" and task.outputs >= LARGE else task.kind


def extension_table(name: str, source: pd.DataFrame | Source, format: str = "md") -> str:
    """The table ``name`` (multiclass, multilabel, large): a row per task and metric, a column per loss and mode.

    Configurations are selected by the primary validation metric; the further metrics are those of the same runs at the
    same epochs. Test metrics in percent. ``source`` and ``format`` as for ``main_table``, and so are the marks.
    Raises ``AnalysisError`` for an unknown name or format.
    """
    if name not in METRICS:
        raise AnalysisError(f"unknown extension table {name!r}: {nearest(str(name), METRICS)}")
    _check_format(format)
    runs = as_runs(source)
    tables = {task: table_of(TASKS[task]) if task in TASKS else "main" for task in order_tasks(runs["task"])}
    shown = runs[runs["task"].isin([task for task, table in tables.items() if table == name])]
    built = build_extension_table(shown, METRICS[name])
    if shown.empty and tables:
        built = replace(built, caption=f"No finished trial of a task of this table. {_elsewhere(tables)}")
    return render(built, format)


def _elsewhere(tables: Mapping[str, str]) -> str:
    """Which tables show the tasks there are (task to table), in a sentence."""
    tasks = {table: ", ".join(task for task in tables if tables[task] == table) for table in tables.values()}
    return f"Finished: {'; '.join(f'{names} (`aucsweep table {table}`)' for table, names in tasks.items())}."


def build_extension_table(runs: pd.DataFrame, metrics: Mapping[str, str]) -> Table:
    """The table of ``runs`` (a frame of ``load_runs``) with ``metrics`` (column to title), the primary one first."""
    selected = select(runs)
    frames = {title: _by_metric(runs, selected, column) for column, title in metrics.items()}
    built = {title: build_main_table(frame, layout="columns") for title, frame in frames.items() if frame is not None}
    first = next(iter(built.values()))
    at = len(HEAD)
    columns = (*HEAD, Column("metric", "Metric", "text"), *first.columns[at:])
    rows = [
        (*table.rows[index][:at], title, *table.rows[index][at:])
        for index in range(len(first.rows))
        for title, table in built.items()
    ]
    caption = first.caption.replace("Test AUC (%)", "Test metrics (%)").replace("validation AUC", "validation metric")
    return replace(first, columns=columns, rows=tuple(rows), caption=caption, notes=first.notes)


def _by_metric(runs: pd.DataFrame, selected: pd.DataFrame, column: str) -> pd.DataFrame | None:
    """``selected`` with mean and deviation of another test metric; None where some selected run does not have it."""
    if column == "test_auc" or selected.empty:
        return selected
    if column not in runs.columns:
        return None
    values = runs[["trial_id", "epoch", column]].drop_duplicates(["trial_id", "epoch"])
    results = results_of(run_results(runs), selected).merge(values, on=["trial_id", "epoch"], how="left")
    if results[column].isna().any():
        return None
    keys = list(REPORTED)
    spread = results.groupby(keys)[column].agg(test_mean="mean", test_sd="std").reset_index()
    return selected.drop(columns=["test_mean", "test_sd"]).merge(spread, on=keys, how="left")


def deep_auc_table(source: pd.DataFrame | Source, format: str = "md") -> str:
    """Deep-AUC against the best of CE and the pairwise losses, a row per setting, as in the paper's Table 14.

    A column for each form of the objective (``aucm`` and its variants); beside them the entry of all others, direct and
    warm-up, with the largest mean validation AUC, by its test AUC, and which that is.
    Raises ``AnalysisError`` for an unknown format.
    """
    _check_format(format)
    return render(build_deep_auc_table(select(as_runs(source))), format)


def build_deep_auc_table(selected: pd.DataFrame) -> Table:
    """The Deep-AUC table of a frame of ``select``. Settings without a Deep-AUC run are left out."""
    deep = selected[selected["loss"].map(_is_deep).astype(bool)]
    losses = order_losses(deep["loss"])
    columns = (
        *HEAD,
        *(Column(loss, loss_title(loss), "value") for loss in losses),
        Column("other", "Best other", "value"),
        Column("other_entry", "which", "data"),
        Column("", "which", "text"),
    )
    rows: list[tuple[Entry, ...]] = []
    for model, init, task in order_settings(deep[["model", "init", "task"]].itertuples(index=False, name=None)):
        block = selected[(selected["model"] == model) & (selected["init"] == init) & (selected["task"] == task)]
        is_deep = block["loss"].map(_is_deep).astype(bool)
        values = {(loss, ""): _best(block[block["loss"] == loss]) for loss in losses}
        other = block[~is_deep]
        values["other", ""] = _best(other)
        marked = mark_best({key: value for key, value in values.items() if value is not None})
        entries = [marked.get((key, "")) for key in (*losses, "other")]
        rows.append((f"{model} ({init})", model, init, task, *entries, *_entry_names(other)))
    caption = (
        "Test AUC (%), mean ± sample standard deviation over seeds (their number in brackets). Best other: the entry "
        "of CE and the pairwise losses, direct or after warm-up, with the largest mean validation AUC. Bold: best, "
        "underlined: second best."
    )
    caption = sentences(caption if rows else "No Deep-AUC run has finished yet.", left_out(selected))
    return Table(columns, tuple(rows), caption)


def _is_deep(loss: str) -> bool:
    return loss.partition("(")[0] in _DEEP


def _top(entries: pd.DataFrame) -> pd.DataFrame:
    """The entry with the largest mean validation AUC, complete ones first."""
    return entries.sort_values(["incomplete", "val_mean"], ascending=[True, False], kind="stable").head(1)


def _best(entries: pd.DataFrame) -> Value | None:
    for record in _top(entries).to_dict("records"):
        mean, sd, n = 100 * float(record["test_mean"]), 100 * float(record["test_sd"]), int(record["n"])
        return Value(mean, sd, n, "", bool(record["incomplete"]), str(n))
    return None


def _entry_names(entries: pd.DataFrame) -> tuple[str, str]:
    """The name of the top entry for programs and for readers."""
    for record in _top(entries).to_dict("records"):
        loss, mode = str(record["loss"]), str(record["mode"])
        return loss if mode == "ce" else f"{loss} {mode}", entry_title(loss, mode)
    return "", ""


def _check_format(format: str) -> None:
    # Before a large store is read.
    if format not in FORMATS:
        raise AnalysisError(f"unknown table format {format!r}: {nearest(str(format), FORMATS)}")
