"""Paper-style tables from selected configurations: the main table, warm-up gain, and matched initialisations."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any, Literal

import pandas as pd

from analysis.errors import AnalysisError
from analysis.load import Source, as_runs
from analysis.matched import INITS, MatchedGain
from analysis.names import MODE_TITLES, entry_title, loss_title, order_losses, order_settings
from analysis.notes import metric_notes
from analysis.rendering import DAGGER, FORMATS, Column, Entry, Mark, Table, Value, render
from analysis.selection import left_out, select, selection_rule
from search_spaces.errors import nearest

HEAD = (
    Column("", "Model", "block"),
    Column("model", "Model", "data"),
    Column("init", "Initialisation", "data"),
    Column("task", "Task", "group"),
)

Layout = Literal["rows", "columns"]
LAYOUTS: tuple[Layout, ...] = ("rows", "columns")

INCOMPLETE_NOTE = (
    f"{DAGGER} Seeds of the plan are missing (not run or failed). Such an entry is marked best or second only while "
    "its task has no complete one."
)


def main_table(
    source: pd.DataFrame | Source, format: str = "md", *, layout: Layout = "rows", allow_incomplete: bool = False
) -> str:
    """Selected test AUC (percent) per model, task and mode, one column per loss, as in the paper's Table 1.

    ``source`` is a store or a frame of ``load_runs``. ``format`` is md, csv, latex or html. ``layout="rows"`` has a row
    per mode; ``"columns"`` has one row per task and a column per loss and mode. The best entry of each task and model,
    over CE and all direct and warm-up entries, is bold and the second underlined; entries equal to the digits shown
    share a mark. Raises ``AnalysisError`` for an unknown format or layout.
    """
    # Checked first: a misspelt format must not wait for a large store to be read.
    if format not in FORMATS:
        raise AnalysisError(f"unknown table format {format!r}: {nearest(str(format), FORMATS)}")
    selected = select(as_runs(source), allow_incomplete=allow_incomplete)
    return render(build_main_table(selected, layout=layout), format)


def build_main_table(selected: pd.DataFrame, *, layout: Layout = "rows") -> Table:
    """The main table of a frame of ``select`` (task, model, init, loss, mode, test_mean, test_sd, n, incomplete)."""
    if layout not in LAYOUTS:
        raise AnalysisError(f"unknown table layout {layout!r}: {nearest(str(layout), LAYOUTS)}")
    columns, slots = _columns(selected, layout)
    values, count = _values(selected)
    rows: list[tuple[Entry, ...]] = []
    for model, init, task in _blocks(selected):
        # Keyed by (loss, mode): everything that competes for best and second.
        block = mark_best({key[3:]: value for key, value in values.items() if key[:3] == (model, init, task)})
        for mode, keys in slots:
            entries = [block.get(key) if key else None for key in keys]
            if any(entries):
                label = [mode, MODE_TITLES[mode]] if mode else []
                rows.append((f"{model} ({init})", model, init, task, *label, *entries))
    incomplete = (INCOMPLETE_NOTE,) if any(value.incomplete for value in values.values()) else ()
    notes = incomplete + metric_notes(selected["task"])
    head = f"Test AUC (%), {count} Bold: best, underlined: second best of the task (for this model)."
    rule = sentences(selection_rule(selected), left_out(selected))
    caption = f"{head} Selection: {rule}" if values else sentences("No finished trial yet.", left_out(selected))
    return Table(columns, tuple(rows), caption, notes, rule=rule)


def gain_table(gains: pd.DataFrame, format: str = "md") -> str:
    """The frame of ``warmup_gain`` as a table in percentage points. Raises ``AnalysisError`` for an unknown format."""
    return render(build_gain_table(gains), format)


def build_gain_table(gains: pd.DataFrame) -> Table:
    """Warm-up gain, the two selected test AUCs behind it, and the mean paired gain over seeds."""
    columns = (
        *HEAD,
        Column("loss", "Loss", "data"),
        Column("", "Loss", "text"),
        Column("gain", "Gain (pp)", "value"),
        Column("direct", "Direct (%)", "value"),
        Column("warmup", "Warm-up (%)", "value"),
        Column("paired", "Per-seed gain (pp)", "value"),
    )
    rank = {loss: index for index, loss in enumerate(order_losses(gains["loss"]))}
    rows: list[tuple[Entry, ...]] = []
    for model, init, task in _blocks(gains):
        block = gains[(gains["model"] == model) & (gains["init"] == init) & (gains["task"] == task)]
        for record in sorted(block.to_dict("records"), key=lambda record: rank[record["loss"]]):
            lacking = bool(record["incomplete"])
            gain = _percent(record["gain"], math.nan, record["n_pairs"], signed=True, incomplete=lacking)
            arms = [
                _percent(record[f"{arm}_mean"], record[f"{arm}_sd"], record[f"{arm}_n"], counted=True)
                for arm in ("direct", "warmup")
            ]
            paired = _percent(record["paired_mean"], record["paired_sd"], record["n_pairs"], signed=True, counted=True)
            names = (f"{model} ({init})", model, init, task, record["loss"], loss_title(record["loss"]))
            rows.append((*names, gain, *arms, paired))
    caption = (
        "Warm-up gain: test AUC of the selected warm-up configuration minus that of the selected direct configuration, "
        "in percentage points. Other columns: mean ± sample standard deviation (number of seeds). "
        + selection_rule(gains)
    )
    caption = sentences(caption if rows else "No direct or warm-up run has finished yet.", left_out(gains))
    notes = (f"{DAGGER} Seeds of the plan are missing (not run or failed).",) if gains["incomplete"].any() else ()
    return Table(columns, tuple(rows), caption, notes + metric_notes(gains["task"]))


def matched_table(found: MatchedGain, format: str = "md") -> str:
    """``found`` as a table in percentage points. Raises ``AnalysisError`` for an unknown format."""
    return render(build_matched_table(found), format)


def build_matched_table(found: MatchedGain) -> Table:
    """Warm-up gain from random and from pretrained weights, and the test AUC of direct training it starts from.

    The notes hold mean and quartiles over the settings, and the settings left out.
    """
    columns = (
        Column("", "Model", "block"),
        Column("model", "Model", "data"),
        Column("task", "Task", "group"),
        Column("loss", "Loss", "data"),
        Column("", "Loss", "text"),
        *(Column(f"{init}_direct", f"Direct, {init} (%)", "value") for init in INITS),
        *(Column(init, f"Gain, {init} (pp)", "value") for init in INITS),
        Column("difference", "Difference (pp)", "value"),
    )
    pairs = found.pairs
    rank = {loss: index for index, loss in enumerate(order_losses(pairs["loss"]))}
    rows: list[tuple[Entry, ...]] = []
    for model, _, task in order_settings((str(row["model"]), "", str(row["task"])) for row in pairs.to_dict("records")):
        block = pairs[(pairs["model"] == model) & (pairs["task"] == task)]
        for record in sorted(block.to_dict("records"), key=lambda record: rank[record["loss"]]):
            levels = [Value(100 * record[f"{init}_direct"], math.nan, 1) for init in INITS]
            gains = [
                Value(100 * record[key], math.nan, 1, incomplete=bool(record["incomplete"]), signed=True)
                for key in (*INITS, "difference")
            ]
            rows.append((model, model, task, record["loss"], loss_title(record["loss"]), *levels, *gains))
    refused = [
        f"Left out: {row.task}, {row.model}, {loss_title(str(row.loss))}: {row.reason}."
        for row in found.refused.itertuples()
    ]
    if not rows:
        return Table(columns, (), sentences("No setting is matched.", *refused, left_out(pairs)))
    notes = [_spread(row) for row in found.summary.to_dict("records")] + refused
    notes += [f"{DAGGER} Seeds of the plan are missing (not run or failed)."] if pairs["incomplete"].any() else []
    caption = (
        "Warm-up gain by initialisation, all else equal: test AUC of the selected warm-up configuration minus that of "
        "the selected direct one, in percentage points; difference: pretrained minus random. Descriptive, not a test "
        f"of significance. {selection_rule(pairs)}"
    )
    return Table(columns, tuple(rows), sentences(caption, left_out(pairs)), tuple(notes))


def sentences(*parts: str) -> str:
    """``parts`` that are not empty, one after the other."""
    return " ".join(part for part in parts if part)


def _spread(row: Mapping[Hashable, Any]) -> str:
    """Mean and quartiles of one initialisation in a sentence."""
    mean, q1, median, q3 = (f"{100 * float(row[key]):+.2f}" for key in ("mean", "q1", "median", "q3"))
    settings = f"{row['settings']} setting{'' if row['settings'] == 1 else 's'}"
    name = str(row["init"]).capitalize()
    return f"{name}: mean gain {mean} pp over {settings}, median {median}, quartiles {q1} to {q3}."


def mark_best(block: dict[tuple[str, str], Value]) -> dict[tuple[str, str], Value]:
    """``block`` with its best and second-best values marked.

    Values are compared as shown (two decimals), so that equal-looking entries share a mark. Incomplete values compete
    only when there is no complete one. A value that has none to compete with is not marked.
    """
    complete = [value for value in block.values() if not value.incomplete]
    eligible = complete or list(block.values())
    ranks = sorted({float(value.mean_text) for value in eligible}, reverse=True)
    if len(eligible) < 2:
        return block
    marks: dict[float, Mark] = dict(zip(ranks, ("best", "second"), strict=False))
    competing = {id(value) for value in eligible}
    return {
        key: replace(value, mark=marks.get(float(value.mean_text), "") if id(value) in competing else "")
        for key, value in block.items()
    }


Slot = tuple[str, list[tuple[str, str] | None]]
"""A row of one task: its mode (empty in the layout without a mode column) and the (loss, mode) of each entry."""


def _columns(selected: pd.DataFrame, layout: Layout) -> tuple[tuple[Column, ...], list[Slot]]:
    """The columns of a layout, and its rows per task."""
    baselines = order_losses(selected.loc[selected["mode"] == "ce", "loss"])
    pairwise = order_losses(selected.loc[selected["mode"] != "ce", "loss"])
    if layout == "rows":
        values = [Column(loss, loss_title(loss), "value") for loss in (*baselines, *pairwise)]
        # As in the paper, CE stands in the first row of its task; alone, it is a row of its own.
        first: Slot = ("direct" if pairwise else "ce", [(loss, "ce") for loss in baselines])
        first[1].extend((loss, "direct") for loss in pairwise)
        second: Slot = ("warmup", [*(None for _ in baselines), *((loss, "warmup") for loss in pairwise)])
        return (*HEAD, Column("mode", "Mode", "data"), Column("", "Mode", "text"), *values), [first, second]
    there = set(selected["mode"])
    columns = [Column(loss, loss_title(loss), "value") for loss in baselines]
    keys: list[tuple[str, str] | None] = [(loss, "ce") for loss in baselines]
    for loss in pairwise:
        for mode in [mode for mode in ("direct", "warmup") if mode in there]:
            columns.append(Column(f"{loss}_{mode}", entry_title(loss, mode), "value"))
            keys.append((loss, mode))
    return (*HEAD, *columns), [("", keys)]


def _values(selected: pd.DataFrame) -> tuple[dict[tuple[str, str, str, str, str], Value], str]:
    """Every value by (model, init, task, loss, mode), and the sentence of the caption that says what n is."""
    records = selected.to_dict("records")
    planned = {(int(record["n"]), int(record.get("n_planned", record["n"]))) for record in records}
    values = {}
    for record in records:
        n, plan = int(record["n"]), int(record.get("n_planned", record["n"]))
        count = "" if len(planned) == 1 else str(n) if n == plan else f"{n}/{plan}"
        value = Value(
            100 * float(record["test_mean"]), 100 * float(record["test_sd"]), n, "", bool(record["incomplete"]), count
        )
        values[record["model"], record["init"], record["task"], record["loss"], record["mode"]] = value
    if len(planned) != 1:
        return values, "mean ± sample standard deviation, in brackets the number of seeds (of those planned)."
    n, plan = next(iter(planned))
    seeds = f"n = {n} {'seed' if n == 1 else 'seeds'}" + ("" if n == plan else f" of {plan} planned")
    return values, f"{seeds}." if n == 1 else f"mean ± sample standard deviation over {seeds}."


def _blocks(frame: pd.DataFrame) -> list[tuple[str, str, str]]:
    return order_settings(frame[["model", "init", "task"]].itertuples(index=False, name=None))


def _percent(
    mean: float, sd: float, n: object, *, signed: bool = False, counted: bool = False, incomplete: bool = False
) -> Value | None:
    if pd.isna(mean):
        return None
    number = int(str(n))
    return Value(
        100 * float(mean), 100 * float(sd), number, "", incomplete, count=str(number) if counted else "", signed=signed
    )
