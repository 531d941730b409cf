"""Which configuration a table reports: chosen by validation AUC, reported by test AUC.

The rule is that of the paper (section "Evaluation and selection" of the protocol notes), in four steps:

1. A run's result is its test AUC at the first epoch with the largest validation AUC.
2. Runs that differ in nothing but the seed form a configuration (``CONFIGURATION``); mean and sample standard deviation
   (ddof 1) are taken over its seeds.
3. Per (task, model, init, loss, mode) the configuration with the largest mean validation AUC is selected.
4. Ties go to the smaller standard deviation of the test AUC, then to the smaller warm-up ratio, margin, epochs,
   batch size and learning rate.

Where a space defines a loss (a loss file, a named list of phases), only the runs of its definition launched last count.
A configuration that lacks seeds the plan has is ``incomplete``. It is not eligible while a complete one exists; while
none does, the ones with the most seeds are.
"""

from __future__ import annotations

import pandas as pd

from analysis.errors import AnalysisError
from analysis.load import Source, as_runs, current, params_as_text
from analysis.stats import TIE_DECIMALS

REPORTED = ("task", "model", "init", "loss", "mode")
"""One selected configuration for each combination of these."""

HYPERPARAMETERS = ("warmup_ratio", "margin", "epochs", "batch_size", "learning_rate", "loss_params", "settings")
"""What is selected over. ``settings`` stands for every setting without a column (``load_runs``), so that trials which
differ in, say, weight decay are never averaged."""

CONFIGURATION = REPORTED + HYPERPARAMETERS

_RULE = (
    "Per run: test AUC at the first epoch with the largest validation AUC. Per task, model, initialisation, loss and "
    "mode: the configuration ({over}) with the largest mean validation AUC over seeds; ties go to the smaller standard "
    "deviation of the test AUC."
)
_ALWAYS = ("warm-up ratio", "margin", "epochs", "batch size", "learning rate")

RESULT_COLUMNS = (*CONFIGURATION, "seed", "trial_id", "epoch", "val_auc", "test_auc", "seeds_planned")
CONFIGURATION_COLUMNS = (
    *CONFIGURATION,
    *("n", "n_planned", "incomplete", "val_mean", "val_sd", "test_mean", "test_sd"),
)


def run_results(source: pd.DataFrame | Source) -> pd.DataFrame:
    """One row per configuration and seed: the selected epoch with its validation and test AUC (fractions 0..1).

    ``source`` is a store or a frame like ``load_runs`` gives; its ``superseded`` rows are left out. Without
    ``seeds_planned`` in the frame, the plan is taken to be the seeds that occur for the same task, model and
    initialisation.
    Raises ``AnalysisError`` when columns are missing, when a run has no validation AUC at all, or when a
    configuration holds two different trials for one seed.
    """
    runs = _checked(as_runs(source))
    if runs.empty:
        return pd.DataFrame({column: pd.Series(dtype="object") for column in RESULT_COLUMNS})
    keys = [*CONFIGURATION, "seed", "trial_id"]
    # Cells of two regimes may name one trial with equal nominal values: that is one run, not two.
    runs = runs.drop_duplicates([*keys, "epoch"]).sort_values([*keys, "epoch"], ignore_index=True, na_position="first")
    group = runs.groupby(keys, dropna=False, sort=False).ngroup()
    best = runs.groupby(group)["val_auc"].transform("max")
    without = runs.loc[best.isna(), "trial_id"].unique()
    if len(without):
        raise AnalysisError(f"no validation AUC in trial(s) {', '.join(map(str, without))}: nothing can be selected")
    at_best = runs[runs["val_auc"] == best]
    results = at_best.groupby(group, sort=True).head(1).reset_index(drop=True)
    _refuse_two_trials(results)
    return results[list(RESULT_COLUMNS)]


def configurations(source: pd.DataFrame | Source) -> pd.DataFrame:
    """One row per configuration: mean and sample standard deviation over its seeds, and whether seeds are lacking.

    Columns: ``CONFIGURATION``, n, n_planned, incomplete, val_mean, val_sd, test_mean, test_sd. The deviations are NaN
    for n = 1.
    """
    results = run_results(source)
    if results.empty:
        return pd.DataFrame({column: pd.Series(dtype="object") for column in CONFIGURATION_COLUMNS})
    grouped = results.groupby(list(CONFIGURATION), dropna=False, sort=False)
    frame = grouped.agg(
        n=("seed", "nunique"),
        n_planned=("seeds_planned", "max"),
        val_mean=("val_auc", "mean"),
        val_sd=("val_auc", "std"),
        test_mean=("test_auc", "mean"),
        test_sd=("test_auc", "std"),
    ).reset_index()
    frame["incomplete"] = frame["n"] < frame["n_planned"]
    return frame[list(CONFIGURATION_COLUMNS)]


def select(source: pd.DataFrame | Source, *, allow_incomplete: bool = False) -> pd.DataFrame:
    """The selected configuration of each (task, model, init, loss, mode), one row each, sorted by these.

    Columns: those of ``configurations``, and ``candidates``, the number of configurations it was selected from.
    ``allow_incomplete=True`` lets configurations that lack seeds compete with complete ones; they stay marked.
    ``attrs`` holds what the captions say of the selection (``selection_rule``, ``left_out``).
    """
    runs = as_runs(source)
    candidates = configurations(runs)
    chosen = _chosen(candidates, allow_incomplete)
    chosen.attrs = {"varying": _varying(candidates), "left_out": _left_out(runs)}
    return chosen


def _chosen(candidates: pd.DataFrame, allow_incomplete: bool) -> pd.DataFrame:
    if candidates.empty:
        return candidates.assign(candidates=pd.Series(dtype="int64"))
    reported = list(REPORTED)
    candidates["candidates"] = candidates.groupby(reported)["n"].transform("size")
    order: list[str] = [*reported]
    if not allow_incomplete:
        # Complete ones first; among incomplete ones, those with the most seeds.
        candidates["_seeds"] = candidates["n"].where(candidates["incomplete"], other=float("inf"))
        order.append("_seeds")
    candidates["_val"] = candidates["val_mean"].round(TIE_DECIMALS)
    candidates["_sd"] = candidates["test_sd"].fillna(float("inf")).round(TIE_DECIMALS)
    candidates["_margin"] = candidates["margin"].fillna(-1.0)
    order += ["_val", "_sd", "warmup_ratio", "_margin", "epochs", "batch_size", "learning_rate"]
    order += ["loss_params", "settings"]
    descending = {"_seeds", "_val"}
    ranked = candidates.sort_values(order, ascending=[column not in descending for column in order], kind="stable")
    chosen = ranked.groupby(reported, sort=False).head(1)
    return chosen[[*CONFIGURATION_COLUMNS, "candidates"]].reset_index(drop=True)


def selection_rule(selected: pd.DataFrame) -> str:
    """The rule by which ``selected`` (of ``select``) was selected, in sentences; names what was selected over."""
    return _RULE.format(over=", ".join([*_ALWAYS, *selected.attrs.get("varying", ())]))


def left_out(selected: pd.DataFrame) -> str:
    """Which losses have runs of earlier definitions that did not take part in ``selected``; ``""`` where none has."""
    runs: dict[str, int] = selected.attrs.get("left_out", {})
    if not runs:
        return ""
    count = sum(runs.values())
    losses = f"loss{'es' if len(runs) > 1 else ''} {', '.join(runs)}"
    return (
        f"Left out: {count} run{'s' if count > 1 else ''} of earlier definitions of the {losses}; only the definition "
        "launched last counts."
    )


def _varying(candidates: pd.DataFrame) -> list[str]:
    """What besides ``_ALWAYS`` tells configurations apart that compete with one another."""
    if candidates.empty:
        return []
    found = []
    if (candidates.groupby(list(REPORTED))["loss_params"].nunique() > 1).any():
        found.append("loss parameters")
    # ``settings`` is an id of every setting, those with columns too: it counts where all of these agree.
    if candidates.duplicated([key for key in CONFIGURATION if key != "settings"]).any():
        found.append("other settings")
    return found


def _left_out(runs: pd.DataFrame) -> dict[str, int]:
    """The number of runs by loss that only ``superseded`` rows name."""
    if "superseded" not in runs.columns:
        return {}
    trials = {
        str(loss): len(set(rows["trial_id"]) - set(current(rows)["trial_id"]))
        for loss, rows in runs.groupby("loss", sort=True)
    }
    return {loss: count for loss, count in trials.items() if count}


def results_of(results: pd.DataFrame, selected: pd.DataFrame) -> pd.DataFrame:
    """The rows of ``run_results`` that belong to the configurations in ``selected``."""
    keys = list(CONFIGURATION)
    return results.merge(selected[keys], on=keys, how="inner")


def _checked(runs: pd.DataFrame) -> pd.DataFrame:
    always = [key for key in CONFIGURATION if key not in ("loss_params", "settings")]
    needed = [*always, "seed", "trial_id", "epoch", "val_auc", "test_auc"]
    missing = [column for column in needed if column not in runs.columns]
    if missing:
        raise AnalysisError(
            f"column(s) {', '.join(missing)} missing: pass a store or the frame of load_runs(store), which has one row "
            "per cell and epoch"
        )
    runs = current(runs)
    runs = runs.assign(loss_params=params_as_text(runs), margin=runs["margin"].astype("float64"))
    if "settings" not in runs.columns:
        runs["settings"] = ""
    if "seeds_planned" not in runs.columns:
        runs["seeds_planned"] = runs.groupby(["task", "model", "init"])["seed"].transform("nunique")
    return runs


def _refuse_two_trials(results: pd.DataFrame) -> None:
    doubled = results[results.duplicated([*CONFIGURATION, "seed"], keep=False)]
    if doubled.empty:
        return
    _, trials = next(iter(doubled.groupby([*CONFIGURATION, "seed"], dropna=False)))
    first = trials.iloc[0]
    names = ", ".join(sorted(map(str, trials["trial_id"])))
    what = f"{first['task']}, {first['model']}, {first['loss']} {first['mode']}, seed {first['seed']}"
    raise AnalysisError(
        f"{what}: trials {names} agree in every column a configuration is made of but are not the same run; averaging "
        "them would mix experiments. Keep one of them"
    )
