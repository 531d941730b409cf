"""From a store to data frames. Reads neither torch nor Ray; works while a sweep is running."""

from __future__ import annotations

import dataclasses
import functools
import json
import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pandas as pd

from analysis.definitions import definition_of, superseded
from analysis.errors import AnalysisError, BrokenRunWarning
from search_spaces.errors import nearest
from search_spaces.identity import canonical_json, content_id
from search_spaces.trial import TrialConfig

NOMINAL = ("task", "model", "init", "loss", "mode", "warmup_ratio", "margin", "loss_params")
"""What a cell names besides its seed: cells that agree in these are planned repetitions of one another."""


_FIELDS: dict[str, Any] = {
    field.name: None if field.default is dataclasses.MISSING else field.default
    for field in dataclasses.fields(TrialConfig)
}
"""What a trial's effective configuration is made of, with the defaults."""


@runtime_checkable
class ReadableStore(Protocol):
    """What the analysis needs of ``orchestrator.store.Store``."""

    uri: str

    def read_runs(self) -> tuple[pd.DataFrame, tuple[Any, ...]]:
        """All rows of whole run files, and the broken files (``.path``, ``.reason``)."""

    def read_cells(self) -> pd.DataFrame:
        """One row per cell."""


Source = str | Path | ReadableStore


def open_for_reading(source: Source) -> Any:
    """``source`` as an open store; raises ``StoreError`` when there is none."""
    if isinstance(source, str | Path):
        from orchestrator.store import open_store

        return open_store(source)
    if isinstance(source, ReadableStore):
        return source
    raise AnalysisError(f"expected a store (path, URI or open store), got {type(source).__name__}")


def load_trials(store: Source) -> pd.DataFrame:
    """One row per trial and epoch (the columns of ``runs``), sorted by trial and epoch.

    Broken files and trials without all of their epochs are named in a ``BrokenRunWarning`` and left out.
    Raises ``StoreError`` when there is no store.
    """
    runs: pd.DataFrame
    runs, broken = open_for_reading(store).read_runs()
    problems = [f"{Path(str(item.path)).name} ({item.reason})" for item in broken]
    # Two files may hold the same trial for a moment while `compact` replaces the small ones.
    runs = runs.drop_duplicates(["trial_id", "epoch"]).sort_values(["trial_id", "epoch"], ignore_index=True)
    if len(runs):
        grouped = runs.groupby("trial_id", sort=True)
        shape = grouped.agg(rows=("epoch", "size"), last=("epoch", "max"), planned=("epochs", "max"))
        partial = shape[(shape["rows"] != shape["planned"]) | (shape["last"] != shape["planned"])]
        problems += [f"trial {row.Index} has {row.rows} of {row.planned} epochs" for row in partial.itertuples()]
        runs = runs[~runs["trial_id"].isin(partial.index)].reset_index(drop=True)
    if problems:
        listed = "; ".join(problems[:20]) + (f"; and {len(problems) - 20} more" if len(problems) > 20 else "")
        warnings.warn(f"treated as absent: {listed}", BrokenRunWarning, stacklevel=2)
    return runs


def load_cells(store: Source) -> pd.DataFrame:
    """One row per planned cell, with ``loss_params`` as JSON text, ``superseded`` and ``seeds_planned``.

    ``superseded`` is True where the cell's loss is defined by a space (a loss file, a named list of phases) and
    another definition of that name was launched later on the cell's task. ``seeds_planned`` is the number of seeds
    planned for the cell's nominal configuration (``NOMINAL``) with that definition, over every space launched on the
    store.
    """
    opened = open_for_reading(store)
    cells: pd.DataFrame = opened.read_cells().copy()
    cells["loss_params"] = params_as_text(cells)
    if cells.empty:
        return cells.assign(superseded=pd.Series(dtype="bool"), seeds_planned=pd.Series(dtype="int64"))
    definition = definition_of(cells, opened.read_sweep() if hasattr(opened, "read_sweep") else {})
    cells["superseded"] = superseded(cells, definition)
    alike = cells.assign(definition=definition).groupby([*NOMINAL, "definition"], dropna=False)
    cells["seeds_planned"] = alike["seed"].transform("nunique").astype("int64")
    return cells


def load_runs(store: Source, cells: bool = True, *, settings: Collection[str] = ()) -> pd.DataFrame:
    """One row per cell and epoch: the cell's columns joined with those of the trial it names.

    Cells share trials (a warm-up ratio that rounds to no update names the direct trial), so a trial's rows appear
    once for every cell that names it; ``mode``, ``margin`` and ``warmup_ratio`` are the cell's. ``superseded`` and
    ``seeds_planned`` are those of ``load_cells``: whether a later definition of the loss was launched, and how many
    seeds the plan has for the cell's configuration. ``settings`` is equal for trials whose effective configurations
    differ in nothing but task, model, init and seed; the text it is made of, ``config``, is left out (``load_trials``
    has it). The argument ``settings`` names fields of that configuration which become columns, such as
    ``weight_decay`` or ``example_weights``; one that is a column anyway stays as it is. Cells without a finished trial
    have no rows (``analysis.completeness`` names them). ``cells=False`` gives ``load_trials``.
    Raises ``AnalysisError`` for an unknown setting and ``StoreError`` when there is no store.
    """
    names = [settings] if isinstance(settings, str) else settings
    for name in names:
        if name not in _FIELDS:
            raise AnalysisError(f"unknown setting {name!r}: {nearest(str(name), _FIELDS)}")
    opened = open_for_reading(store)
    trials = load_trials(opened)
    for name in names:
        if name not in trials.columns:
            # A field added later is left out of the configurations that have its default.
            values = {text: json.loads(text).get(name, _FIELDS[name]) for text in trials["config"].dropna().unique()}
            trials[name] = trials["config"].map(values)
    if not cells:
        return trials
    planned = load_cells(opened)
    shared = [column for column in trials.columns if column in planned.columns and column != "trial_id"]
    trials = trials.drop(columns=shared).assign(settings=_settings(trials)).drop(columns="config", errors="ignore")
    joined = planned.merge(trials, on="trial_id", how="inner", validate="many_to_many")
    return joined.sort_values([*NOMINAL, "seed", "cell_id", "epoch"], ignore_index=True, na_position="first")


def current(frame: pd.DataFrame) -> pd.DataFrame:
    """``frame`` (of ``load_cells`` or ``load_runs``) without its ``superseded`` rows."""
    return frame[~frame["superseded"].astype(bool)] if "superseded" in frame.columns else frame


def as_runs(source: pd.DataFrame | Source) -> pd.DataFrame:
    """``source`` itself when it is a frame, else ``load_runs(source)``."""
    return source if isinstance(source, pd.DataFrame) else load_runs(source)


def params_as_text(frame: pd.DataFrame) -> pd.Series[Any]:
    """The ``loss_params`` of each row as JSON with sorted keys; ``{}`` where there are none or the column is absent."""
    if "loss_params" not in frame.columns:
        return pd.Series("{}", index=frame.index, dtype="object")
    return frame["loss_params"].map(_params_text).astype("object")


def _params_text(value: Any) -> str:
    if isinstance(value, str):
        return _same_text(value)
    return canonical_json(value) if isinstance(value, Mapping) else "{}"


@functools.cache
def _same_text(text: str) -> str:
    # A store has few different texts and many rows.
    return canonical_json(json.loads(text)) if text else "{}"


def _settings(trials: pd.DataFrame) -> pd.Series[Any]:
    """A short id per row of the effective configuration without what names the experiment (``_NAMING``)."""
    if "config" not in trials.columns:
        return pd.Series("", index=trials.index, dtype="object")
    texts = trials["config"].dropna().unique()
    return trials["config"].map({text: _settings_id(text) for text in texts}).fillna("").astype("object")


_NAMING = ("task", "task_revision", "model", "init", "seed", "updates_per_epoch")


def _settings_id(config: str) -> str:
    return content_id({key: value for key, value in json.loads(config).items() if key not in _NAMING})
