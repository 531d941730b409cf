"""What the report says, gathered from a store: plain values for the template, no HTML but the tables' and figures'."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pandas as pd
import yaml

from analysis.completeness import Completeness, cell_name, completeness
from analysis.errors import AnalysisError
from analysis.figures import curves_sheet, gain_sheet, matched_sheet, mean_curves
from analysis.gain import warmup_gain
from analysis.load import current, load_cells, load_runs
from analysis.matched import INITS, MatchedGain, matched_gain
from analysis.names import MODE_TITLES, entry_title, loss_title, order_losses, order_settings, order_tasks
from analysis.rendering import ABSENT, Table, render
from analysis.report.svg import inline_svg
from analysis.selection import left_out, select
from analysis.tables import build_gain_table, build_main_table, build_matched_table

MOST_LISTED = 200
"""Missing cells and incomplete configurations listed by name."""

MOST_HEADLINES = 4
"""Settings whose best entry is named at the top; with more, the entries are counted."""

MOST_FAILURES = 50
"""Failures shown with their tracebacks."""

Facts = list[tuple[str, str]]


@dataclass(frozen=True)
class Tile:
    """One number at the top of the page; ``state`` is empty, good or warn."""

    value: str
    label: str
    state: str = ""


@dataclass(frozen=True)
class HtmlTable:
    """A table's ``<table>`` element and the caption below it, so that only the table scrolls sideways."""

    table: str
    caption: str


@dataclass(frozen=True)
class CurveSheet:
    """The learning curves of one (task, model, init)."""

    title: str
    svg: str


@dataclass(frozen=True)
class FailureItem:
    """The last failed attempt of a trial that is still not done."""

    kind: str
    name: str
    message: str
    traceback: str
    trial_id: str
    attempt: int
    where: str


@dataclass(frozen=True)
class Report:
    """Everything the template shows."""

    title: str
    uri: str
    read_at: str
    tiles: list[Tile]
    axes: Facts
    space: str
    commands: list[str]
    resume_text: str
    runs_path: str
    quoted_uri: str
    failure_summary: str
    notices: list[str] = field(default_factory=list)
    headlines: list[str] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)
    lacking_count: int = 0
    missing: list[str] = field(default_factory=list)
    missing_count: int = 0
    main_table: HtmlTable | None = None
    selected_header: list[str] = field(default_factory=list)
    selected_rows: list[list[str]] = field(default_factory=list)
    gain_figure: str = ""
    gain_table: HtmlTable | None = None
    matched_figure: str = ""
    matched_table: HtmlTable | None = None
    curves: list[CurveSheet] = field(default_factory=list)
    failures: list[FailureItem] = field(default_factory=list)
    failures_left_out: int = 0
    environment: Facts = field(default_factory=list)


def gather(store: Any) -> Report:
    """The content of the report of an open ``orchestrator.store.Store``, finished or not."""
    sweep = store.read_sweep()
    every_cell, runs = load_cells(store), load_runs(store)
    cells = current(every_cell)
    failures = store.read_failures()
    # Those of definitions that are superseded are over: nothing runs them again.
    failures = failures[~failures["trial_id"].isin(set(every_cell["trial_id"]) - set(cells["trial_id"]))]
    state = completeness(cells, set(runs["trial_id"]), failures)
    selected, gains = select(runs), warmup_gain(runs)
    matched = _matched(runs)
    failed = _failed(failures, set(runs["trial_id"]))
    space = (sweep.get("space") or {}).get("given") or {}
    uri, quoted = str(store.uri), shlex.quote(str(store.uri))
    return Report(
        title=f"aucsweep report: {_space_name(sweep) or uri.rstrip('/').rsplit('/', 1)[-1]}",
        uri=uri,
        read_at=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        tiles=_tiles(state, cells, len(failed)),
        axes=_axes(cells),
        space=yaml.safe_dump(space, sort_keys=False, allow_unicode=True, default_flow_style=None) if space else "",
        commands=_commands(quoted, state, len(failed)),
        resume_text=_resume_text(state, len(failed)),
        runs_path=json.dumps(f"{uri.rstrip('/')}/runs"),
        quoted_uri=quoted,
        failure_summary=_failure_summary(failures, failed),
        notices=[sentence for sentence in [left_out(selected)] if sentence],
        headlines=_headlines(selected, gains),
        lacking=[
            f"{cell_name(row)}: has {row['seeds_present'] or 'none'}, lacks {row['seeds_missing']}"
            for _, row in state.lacking.head(MOST_LISTED).iterrows()
        ],
        lacking_count=len(state.lacking),
        missing=[f"{cell_name(row)} ({row['reason']})" for _, row in state.missing.head(MOST_LISTED).iterrows()],
        missing_count=len(state.missing),
        main_table=_html(build_main_table(selected)) if len(selected) else None,
        selected_header=list(_SELECTED),
        selected_rows=_selected_rows(selected),
        gain_figure=_gain_svg(gains),
        gain_table=_html(build_gain_table(gains)) if len(gains) else None,
        matched_figure=_matched_svg(matched),
        matched_table=_html(build_matched_table(matched)) if matched is not None else None,
        curves=_curves(runs, selected),
        failures=[_failure_item(row) for row in failed.head(MOST_FAILURES).to_dict("records")],
        failures_left_out=max(0, len(failed) - MOST_FAILURES),
        environment=_environment(sweep),
    )


def _tiles(state: Completeness, cells: pd.DataFrame, failed: int) -> list[Tile]:
    done = "good" if state.complete and state.planned else "warn"
    return [
        Tile(f"{state.present:,} / {state.planned:,}", "cells present", done),
        Tile(f"{state.trials_present:,} / {state.trials_planned:,}", "trials finished", done),
        Tile(str(len(state.lacking)), "configurations lacking seeds", "warn" if len(state.lacking) else "good"),
        Tile(str(failed), "trials failed", "warn" if failed else "good"),
        Tile(str(cells["seed"].nunique()), "seeds"),
    ]


def _axes(cells: pd.DataFrame) -> Facts:
    if cells.empty:
        return [("cells", "none planned yet")]
    settings = order_settings(cells[["model", "init", "task"]].itertuples(index=False, name=None))
    ratios = sorted(cells.loc[cells["mode"] == "warmup", "warmup_ratio"].unique())
    axes = {
        "tasks": order_tasks(cells["task"]),
        "models": list(dict.fromkeys(f"{model} ({init})" for model, init, _ in settings)),
        "losses": order_losses(cells["loss"]),
        "modes": [mode for mode in MODE_TITLES if mode in set(cells["mode"])],
        "warm-up ratios": [f"{ratio:g}" for ratio in ratios],
        "margins": [f"{margin:g}" for margin in sorted(cells["margin"].dropna().unique())],
        "seeds": [str(seed) for seed in sorted(cells["seed"].unique())],
        "regimes": sorted(cells["regime"].dropna().unique()),
    }
    return [(name, ", ".join(values)) for name, values in axes.items() if values]


def _headlines(selected: pd.DataFrame, gains: pd.DataFrame) -> list[str]:
    """Which entry is best, task by task or counted when there are many, and how often warm-up helped."""
    lines, best_names = [], []
    for model, init, task in order_settings(selected[["model", "init", "task"]].itertuples(index=False, name=None)):
        block = selected[(selected["model"] == model) & (selected["init"] == init) & (selected["task"] == task)]
        complete = block[~block["incomplete"].astype(bool)]
        best = (complete if len(complete) else block).sort_values("test_mean", kind="stable").iloc[-1]
        ce = block[block["mode"] == "ce"]
        name = entry_title(best["loss"], best["mode"])
        best_names.append(name)
        text = f"{task}, {model} ({init}): best is {name} with {_mean_sd(best)} test AUC"
        if len(ce) and best["mode"] != "ce":
            text += f"; CE has {_mean_sd(ce.iloc[0])}"
        lines.append(text + (" (seeds are lacking)." if best["incomplete"] else "."))
    if len(lines) > MOST_HEADLINES:
        counts = ", ".join(f"{name} in {count}" for name, count in Counter(best_names).most_common())
        lines = [f"Best entry over {len(best_names)} settings (task, model, initialisation): {counts}."]
    known = gains[gains["gain"].notna()]
    if len(known):
        better = int((known["gain"] > 0).sum())
        lines.append(
            f"CE warm-up has the higher selected test AUC in {better} of {len(known)} settings (task, model, loss), by "
            f"{100 * known['gain'].mean():+.2f} percentage points on average. Descriptive, not a test of significance."
        )
    return lines


def _mean_sd(row: pd.Series) -> str:
    spread = f" ± {100 * row['test_sd']:.2f}" if pd.notna(row["test_sd"]) else ""
    return f"{100 * row['test_mean']:.2f}{spread}\u00a0%"


_SELECTED = {
    "Task": "task",
    "Model": "model",
    "Init": "init",
    "Loss": "loss",
    "Mode": "mode",
    "Warm-up ratio": "warmup_ratio",
    "Margin": "margin",
    "Epochs": "epochs",
    "Batch": "batch_size",
    "Learning rate": "learning_rate",
    "Seeds": "n",
    "of": "n_planned",
    "Val. AUC": "val_mean",
    "Test AUC": "test_mean",
    "Test sd": "test_sd",
    "Candidates": "candidates",
}


def _selected_rows(selected: pd.DataFrame) -> list[list[str]]:
    rows = [
        {**row, "loss": loss_title(row["loss"]), "mode": MODE_TITLES[row["mode"]]}
        for row in selected.to_dict("records")
    ]
    return [[_cell_text(row[column]) for column in _SELECTED.values()] for row in rows]


def _cell_text(value: Any) -> str:
    if pd.isna(value):
        return ABSENT
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _gain_svg(gains: pd.DataFrame) -> str:
    if not gains["gain"].notna().any():
        return ""
    return inline_svg(gain_sheet(gains), "gain", "Warm-up gain by task and loss, in percentage points")


def _matched(runs: pd.DataFrame) -> MatchedGain | None:
    """The matched comparison, or None while no setting ran with both initialisations."""
    if not set(INITS) <= set(runs["init"]):
        return None
    try:
        return matched_gain(runs, unmatched="exclude")
    except AnalysisError:
        return None


def _matched_svg(matched: MatchedGain | None) -> str:
    if matched is None or matched.pairs.empty:
        return ""
    return inline_svg(matched_sheet(matched), "matched", "Warm-up gain from random and from pretrained weights")


def _curves(runs: pd.DataFrame, selected: pd.DataFrame) -> list[CurveSheet]:
    curves = mean_curves(runs, selected)
    sheets = []
    settings = order_settings(curves[["model", "init", "task"]].itertuples(index=False, name=None))
    for number, (model, init, task) in enumerate(settings):
        one = curves[(curves["model"] == model) & (curves["init"] == init) & (curves["task"] == task)]
        title = f"{task}, {model} ({init})"
        svg = inline_svg(curves_sheet(one), f"curves{number}", f"Validation AUC by epoch: {title}")
        sheets.append(CurveSheet(title, svg))
    return sheets


def _failed(failures: pd.DataFrame, done: set[str]) -> pd.DataFrame:
    """The last failed attempt of every trial that is not done."""
    if failures.empty:
        return failures
    latest = failures.drop_duplicates("trial_id", keep="last")
    return latest[~latest["trial_id"].isin(done)].sort_values(["kind", "task", "trial_id"], ignore_index=True)


def _failure_summary(failures: pd.DataFrame, failed: pd.DataFrame) -> str:
    if failures.empty:
        return "No trial has failed."
    recovered = failures["trial_id"].nunique() - len(failed)
    trials = "1 trial" if recovered == 1 else f"{recovered} trials"
    text = f"{trials} failed first and finished later. " if recovered else ""
    if failed.empty:
        return text + "No trial is failed now."
    kinds = ", ".join(f"{count} {kind}" for kind, count in failed["kind"].value_counts().sort_index().items())
    return text + f"{len(failed)} {'trial is' if len(failed) == 1 else 'trials are'} failed now: {kinds}."


def _failure_item(row: dict[Any, Any]) -> FailureItem:
    mode = str(row["mode"]) if row["mode"] == row["loss"] else f"{row['loss']} {row['mode']}"
    margin = "" if pd.isna(row["margin"]) else f", margin {row['margin']:g}"
    where = ", ".join(str(row[key]) for key in ("hostname", "device", "failed_at") if pd.notna(row.get(key)))
    return FailureItem(
        kind=str(row["kind"]),
        name=f"{row['task']}, {row['model']} ({row['init']}), {mode}{margin}, seed {row['seed']}",
        message=str(row["message"] or ""),
        traceback=str(row["traceback"] or ""),
        trial_id=str(row["trial_id"]),
        attempt=int(row["attempt"]),
        where=where,
    )


def _environment(sweep: dict[str, Any]) -> Facts:
    found = sweep.get("environment") or {}
    if not found:
        return []
    code, gpus = found.get("code") or {}, found.get("gpus") or []
    commit = code.get("git_commit")
    memory, fingerprints = found.get("memory_bytes"), sweep.get("fingerprints") or {}
    facts = {
        "machine": found.get("hostname"),
        "platform": found.get("platform"),
        "CPUs": found.get("cpus"),
        "memory": f"{memory / 2**30:.1f} GiB" if memory else None,
        "GPUs": ", ".join(str(gpu.get("name")) for gpu in gpus) or "none",
        "driver": found.get("driver"),
        "Python": found.get("python"),
        "aucsweep": code.get("version"),
        "git": f"{commit}{' with uncommitted changes' if code.get('git_dirty') else ''}" if commit else None,
        "packages": ", ".join(f"{name} {version}" for name, version in sorted((found.get("packages") or {}).items())),
        "plan": sweep.get("plan_hash"),
        "launches": len(sweep.get("launches") or []) or None,
        "data fingerprints": ", ".join(f"{task} {fingerprint}" for task, fingerprint in sorted(fingerprints.items())),
    }
    return [(name, str(value)) for name, value in facts.items() if value]


def _space_name(sweep: dict[str, Any]) -> str:
    return str(((sweep.get("space") or {}).get("resolved") or {}).get("name") or "")


def _resume_text(state: Completeness, failed: int) -> str:
    if state.complete and state.planned:
        return "Everything planned is there. Launching a larger space on this store trains only what is missing."
    text = "Finished trials are never trained again; resume runs what is missing."
    return text + (" Failed trials wait for retry." if failed else "")


def _commands(quoted: str, state: Completeness, failed: int) -> list[str]:
    lines = [] if state.complete else [f"aucsweep resume --store {quoted}"]
    lines += [f"aucsweep retry --store {quoted}"] if failed else []
    return [*lines, f"aucsweep status --store {quoted}", f"aucsweep table main --store {quoted} --format latex"]


def _html(table: Table) -> HtmlTable:
    text = render(table, "html")
    end = text.index("</table>") + len("</table>")
    return HtmlTable(text[:end], text[end:])
