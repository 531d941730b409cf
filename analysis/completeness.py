"""Planned cells against present trials: what is missing, by name, and which configurations lack seeds."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from analysis.load import NOMINAL, Source, current, load_cells, load_trials, open_for_reading


@dataclass(frozen=True)
class Completeness:
    """How much of the plan is there.

    ``planned`` and ``present`` count cells; ``trials_planned`` and ``trials_present`` the trials behind them.
    ``missing`` has one row per missing cell: the cell's columns and ``reason`` (``not run`` or ``failed: <kind>``).
    ``lacking`` has one row per nominal configuration with missing seeds: its columns, ``seeds_present`` and
    ``seeds_missing`` (text, comma-separated), ``n_present`` and ``n_planned``.
    """

    planned: int
    present: int
    trials_planned: int
    trials_present: int
    missing: pd.DataFrame
    lacking: pd.DataFrame

    @property
    def complete(self) -> bool:
        """Whether every planned cell is present."""
        return self.present == self.planned

    def lines(self, limit: int = 20) -> list[str]:
        """The state as text: one line of counts, then the missing cells by name (at most ``limit``)."""
        text = [
            f"{self.present} of {self.planned} cells present "
            f"({self.trials_present} of {self.trials_planned} trials), {len(self.lacking)} configurations lack seeds"
        ]
        text += [f"missing: {cell_name(row)} ({row['reason']})" for _, row in self.missing.head(limit).iterrows()]
        if len(self.missing) > limit:
            text.append(f"and {len(self.missing) - limit} more missing cells")
        return text


def check_completeness(store: Source) -> Completeness:
    """Compare the cells of ``store`` with its finished trials. Raises ``StoreError`` when there is no store."""
    opened = open_for_reading(store)
    failures = opened.read_failures() if hasattr(opened, "read_failures") else pd.DataFrame()
    present = frozenset(load_trials(opened)["trial_id"].unique())
    return completeness(load_cells(opened), present, failures)


def completeness(
    cells: pd.DataFrame, present: frozenset[str] | set[str], failures: pd.DataFrame | None = None
) -> Completeness:
    """Compare planned ``cells`` (``load_cells``) with the ids of ``present`` trials.

    ``failures`` (``Store.read_failures``: one row per attempt, oldest first) says why a cell is missing: by its trial's
    last attempt. ``superseded`` cells are no part of the plan any more: nothing would run them.
    """
    cells = current(cells)
    has_run = cells["trial_id"].isin(present)
    missing = cells[~has_run].copy()
    kinds = _latest_kinds(failures)
    missing["reason"] = [f"failed: {kinds[trial]}" if trial in kinds else "not run" for trial in missing["trial_id"]]
    order = [*NOMINAL, "seed"]
    return Completeness(
        planned=len(cells),
        present=int(has_run.sum()),
        trials_planned=int(cells["trial_id"].nunique()),
        trials_present=int(cells.loc[has_run, "trial_id"].nunique()),
        missing=missing.sort_values(order, ignore_index=True),
        lacking=_lacking(cells, has_run),
    )


def cell_name(cell: pd.Series) -> str:
    """A cell in words, e.g. ``aptos, resnet50 (pretrained), hinge warmup 0.05, margin 0.3, seed 123``."""
    mode = f"warmup {cell['warmup_ratio']:g}" if cell["mode"] == "warmup" else str(cell["mode"])
    loss = mode if cell["loss"] == mode else f"{cell['loss']} {mode}"
    margin = "" if pd.isna(cell["margin"]) else f", margin {cell['margin']:g}"
    params = "" if cell.get("loss_params", "{}") == "{}" else f", {cell['loss_params']}"
    seed = "" if "seed" not in cell else f", seed {cell['seed']}"
    return f"{cell['task']}, {cell['model']} ({cell['init']}), {loss}{margin}{params}{seed}"


def _lacking(cells: pd.DataFrame, has_run: pd.Series) -> pd.DataFrame:
    rows = []
    for key, group in cells.groupby(list(NOMINAL), dropna=False, sort=True):
        planned = set(group["seed"])
        # A seed counts as missing while any of its cells is: two regimes may plan the same nominal configuration.
        absent = set(group.loc[~has_run.loc[group.index], "seed"])
        if absent:
            row = dict(zip(NOMINAL, key, strict=True))
            row |= {"n_present": len(planned - absent), "n_planned": len(planned)}
            row |= {"seeds_present": _listed(planned - absent), "seeds_missing": _listed(absent)}
            rows.append(row)
    return pd.DataFrame(rows, columns=[*NOMINAL, "n_present", "n_planned", "seeds_present", "seeds_missing"])


def _listed(seeds: set[int]) -> str:
    return ", ".join(str(seed) for seed in sorted(seeds))


def _latest_kinds(failures: pd.DataFrame | None) -> dict[str, str]:
    if failures is None or failures.empty:
        return {}
    latest = failures.drop_duplicates("trial_id", keep="last")
    return dict(zip(latest["trial_id"], latest["kind"], strict=True))
