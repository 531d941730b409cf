"""Random against pretrained initialisation, all else equal: the warm-up gain of matched pairs.

A setting is a (task, model, loss). It is matched when both initialisations ran the same configurations (mode, warm-up
ratio, margin, loss parameters, epochs, batch size, learning rate, other settings) with the same seeds; anything else is
refused, because the difference could then come from the grid instead of the initialisation. It is descriptive.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from analysis.errors import AnalysisError, UnmatchedError
from analysis.gain import warmup_gain
from analysis.load import Source, as_runs
from analysis.selection import CONFIGURATION, run_results
from analysis.stats import mean, quartiles
from search_spaces.errors import nearest

INITS = ("random", "pretrained")

Setting = tuple[str, str, str]

_MODELS_AND_TASKS = {
    "resnet50": ("imagenet-lt-dogs", "dog-breeds", "crj700-crj900", "aptos", "deepweeds"),
    "densenet121": ("apple-disease", "rice-disease", "aptos", "ham10000"),
}
_LOSSES = ("square", "hinge", "exponential", "logistic", "squared_hinge")

PAPER_SETTINGS: frozenset[Setting] = frozenset(
    (task, model, loss) for model, tasks in _MODELS_AND_TASKS.items() for task in tasks for loss in _LOSSES
)
"""The 45 settings of the paper's matched control: nine image task-model pairs times five losses."""


@dataclass(frozen=True)
class MatchedGain:
    """Matched comparison of warm-up gain (fractions 0..1).

    ``pairs``: one row per matched setting: task, model, loss, random, pretrained (the gains), difference (pretrained
    minus random), incomplete, and the selected test AUCs behind the gains as ``<init>_direct`` and ``<init>_warmup``.
    ``summary``: one row per initialisation: init, settings, mean, q1, median, q3, iqr.
    Its ``attrs`` is that of ``select``.
    ``refused``: one row per setting left out although both initialisations ran: task, model, loss, reason.
    ``missing``: expected settings that are not among ``pairs``, sorted.
    """

    pairs: pd.DataFrame
    summary: pd.DataFrame
    refused: pd.DataFrame
    missing: tuple[Setting, ...]


def matched_gain(
    source: pd.DataFrame | Source,
    *,
    unmatched: Literal["raise", "exclude"] = "raise",
    expected: Collection[Setting] = (),
) -> MatchedGain:
    """Warm-up gain of random and pretrained initialisation over matched settings.

    Settings that ran with one initialisation only are not pairs and are ignored. A setting that ran with both but
    differently raises ``UnmatchedError`` naming every one and what differs; ``unmatched="exclude"`` lists them in
    ``refused`` and summarises the rest. ``expected`` (e.g. ``PAPER_SETTINGS``) is checked against the pairs.
    Raises ``AnalysisError`` when no setting ran with both initialisations.
    """
    if unmatched not in ("raise", "exclude"):
        raise AnalysisError(f"unmatched={unmatched!r}: {nearest(str(unmatched), ('raise', 'exclude'))}")
    runs = as_runs(source)
    results = run_results(runs)
    pairwise = results[results["mode"] != "ce"]
    reasons: dict[Setting, str] = {}
    for (task, model, loss), group in pairwise.groupby(["task", "model", "loss"], sort=True):
        if set(INITS) <= set(group["init"]):
            reasons[str(task), str(model), str(loss)] = _difference(group)
    if not reasons:
        ran = ", ".join(sorted(set(pairwise["init"]))) or "nothing"
        raise AnalysisError(f"no setting ran with both random and pretrained initialisation (found: {ran})")
    gains = warmup_gain(runs)
    pairs = _pairs(gains, reasons)
    refused = pd.DataFrame(
        [(*setting, reason) for setting, reason in reasons.items() if reason],
        columns=["task", "model", "loss", "reason"],
    )
    if len(refused) and unmatched == "raise":
        listed = "\n".join(f"  - {row.task}, {row.model}, {row.loss}: {row.reason}" for row in refused.itertuples())
        raise UnmatchedError(f"{len(refused)} of {len(reasons)} settings are not matched:\n{listed}")
    there = set(pairs[["task", "model", "loss"]].itertuples(index=False, name=None))
    return MatchedGain(pairs, _summary(pairs), refused, tuple(sorted(set(expected) - there)))


def _difference(group: pd.DataFrame) -> str:
    """What is not equal between the two initialisations of one setting; empty when they match."""
    keys = [key for key in CONFIGURATION if key not in ("task", "model", "init", "loss")] + ["seed"]
    comparable = group[keys].astype("object").where(group[keys].notna(), None)
    grids = {init: set(comparable[group["init"] == init].itertuples(index=False, name=None)) for init in INITS}
    modes = {row[0] for grid in grids.values() for row in grid}
    if modes != {"direct", "warmup"}:
        return f"no {'warm-up' if modes == {'direct'} else 'direct'} runs"
    if grids["random"] == grids["pretrained"]:
        return ""
    parts = []
    for index, key in enumerate(keys):
        values = {init: {row[index] for row in grids[init]} for init in INITS}
        only = {init: sorted(map(str, values[init] - values[other])) for init, other in (INITS, INITS[::-1])}
        parts += [f"{key} {', '.join(names)} only with {init}" for init, names in only.items() if names]
    if not parts:
        extra = {init: len(grids[init] - grids[other]) for init, other in (INITS, INITS[::-1])}
        parts = [f"{count} runs only with {init}" for init, count in extra.items() if count]
    return "; ".join(parts)


def _pairs(gains: pd.DataFrame, reasons: dict[Setting, str]) -> pd.DataFrame:
    matched = [setting for setting, reason in reasons.items() if not reason]
    by_setting = {(row["task"], row["model"], row["loss"], row["init"]): row for row in gains.to_dict("records")}
    rows = []
    for setting in matched:
        arms = [by_setting[(*setting, init)] for init in INITS]
        random, pretrained = (float(arm["gain"]) for arm in arms)
        levels = [float(arm[f"{mode}_mean"]) for arm in arms for mode in ("direct", "warmup")]
        incomplete = any(bool(arm["incomplete"]) for arm in arms)
        rows.append((*setting, random, pretrained, pretrained - random, incomplete, *levels))
    columns = ["task", "model", "loss", "random", "pretrained", "difference", "incomplete"]
    columns += [f"{init}_{mode}" for init in INITS for mode in ("direct", "warmup")]
    pairs = pd.DataFrame(rows, columns=columns)
    pairs.attrs = gains.attrs
    return pairs


def _summary(pairs: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for init in INITS:
        spread = quartiles(pairs[init])
        rows.append((init, len(pairs), mean(pairs[init]), spread.q1, spread.median, spread.q3, spread.iqr))
    return pd.DataFrame(rows, columns=["init", "settings", "mean", "q1", "median", "q3", "iqr"])
