"""Warm-up gain: what CE warm-up changes in the selected test AUC of a pairwise loss."""

from __future__ import annotations

import pandas as pd

from analysis.load import Source, as_runs
from analysis.selection import results_of, run_results, select
from analysis.stats import mean, sample_sd

SETTING = ("task", "model", "init", "loss")

_PER_ARM = {"test_mean": "mean", "test_sd": "sd", "n": "n", "incomplete": "incomplete", "margin": "margin"}

GAIN_COLUMNS = (
    *SETTING,
    *("gain", "direct_mean", "direct_sd", "direct_n", "warmup_mean", "warmup_sd", "warmup_n"),
    *("warmup_ratio", "direct_margin", "warmup_margin", "incomplete", "n_pairs", "paired_mean", "paired_sd"),
)


def warmup_gain(source: pd.DataFrame | Source, *, allow_incomplete: bool = False) -> pd.DataFrame:
    """Warm-up gain per (task, model, init, loss): selected warm-up test AUC minus selected direct test AUC.

    One row per setting with runs in either mode, sorted by setting; AUCs are fractions (0.01 is one percentage point).
    ``gain`` is NaN while one mode has no runs. ``incomplete`` is True when either selected configuration lacks seeds.
    ``gain_seed_<seed>`` is the difference of the two selected configurations at that seed (NaN where only one has it);
    ``n_pairs``, ``paired_mean`` and ``paired_sd`` (ddof 1) summarise these. The other columns describe the two selected
    configurations. ``attrs`` is that of ``select``.
    """
    runs = as_runs(source)
    selected = select(runs, allow_incomplete=allow_incomplete)
    arms = {mode: selected[selected["mode"] == mode] for mode in ("direct", "warmup")}
    if all(arm.empty for arm in arms.values()):
        nothing = pd.DataFrame(columns=list(GAIN_COLUMNS))
        nothing.attrs = selected.attrs
        return nothing
    setting = list(SETTING)
    sides = [
        arm[[*setting, *_PER_ARM, *(["warmup_ratio"] if mode == "warmup" else [])]].rename(
            columns={column: f"{mode}_{name}" for column, name in _PER_ARM.items()}
        )
        for mode, arm in arms.items()
    ]
    gains = sides[0].merge(sides[1], on=setting, how="outer").sort_values(setting, ignore_index=True)
    gains["gain"] = gains["warmup_mean"].astype("float64") - gains["direct_mean"].astype("float64")
    marks = [gains[f"{mode}_incomplete"].map(lambda value: value is True or value == 1) for mode in arms]
    gains["incomplete"] = marks[0] | marks[1]
    for mode in arms:
        gains[f"{mode}_n"] = gains[f"{mode}_n"].astype("Int64")
    results = run_results(runs)
    paired = _with_pairs(gains, results_of(results[results["mode"] != "ce"], selected))
    paired.attrs = selected.attrs
    return paired


def _with_pairs(gains: pd.DataFrame, results: pd.DataFrame) -> pd.DataFrame:
    """``gains`` with the differences at each seed of ``results``, the runs of the selected configurations."""
    keys = [*SETTING, "seed"]
    sides = [results.loc[results["mode"] == mode, [*keys, "test_auc"]] for mode in ("direct", "warmup")]
    paired = sides[0].merge(sides[1], on=keys, suffixes=("_direct", "_warmup"))
    paired["gain"] = paired["test_auc_warmup"] - paired["test_auc_direct"]
    by_setting = {key: group for key, group in paired.groupby(list(SETTING))}
    seeds = sorted(results["seed"].unique())
    rows = []
    for key in gains[list(SETTING)].itertuples(index=False, name=None):
        pairs = by_setting.get(key)
        values = {} if pairs is None else dict(zip(pairs["seed"], pairs["gain"], strict=True))
        row = {"n_pairs": len(values), "paired_mean": mean(values.values()), "paired_sd": sample_sd(values.values())}
        rows.append(row | {f"gain_seed_{seed}": values.get(seed, float("nan")) for seed in seeds})
    extra = pd.DataFrame(rows, index=gains.index)
    order = [*GAIN_COLUMNS, *(f"gain_seed_{seed}" for seed in seeds)]
    return pd.concat([gains, extra], axis=1)[order]
