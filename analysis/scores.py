"""What stored scores tell beyond the AUC: intervals, paired tests, thresholds and calibration of binary trials.

A launch with ``--save-scores`` keeps the validation and test scores (raw logits) of every trial's selected epoch. Every
test here is paired on one test set. Seeds that draw their own test sets are never pooled: each seed has its own row.
The scores of a ranking loss are not probabilities; ``calibrate`` makes them so, on the validation split.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.errors import AnalysisError
from analysis.load import Source, load_runs, load_trials, open_for_reading
from analysis.selection import CONFIGURATION, results_of, run_results
from search_spaces.tasks import TASKS
from trainables.metrics import (
    AucComparison,
    Reliability,
    Threshold,
    choose_threshold,
    delong_interval,
    delong_test,
    fit_calibrator,
    reliability,
)

TEST_SET = ("task", "task_revision", "data_fingerprint")
"""What two trials must share, with the seed where the task's splits depend on it, to have one test set."""


@dataclass(frozen=True)
class Scores:
    """The scores (n,) and labels (n,) of one split of a trial, in the split's order."""

    scores: NDArray[np.float64]
    labels: NDArray[np.int64]


@dataclass(frozen=True)
class ThresholdResult:
    """A threshold chosen on the validation split and what it gives on the test split (fractions 0..1).

    ``precision`` is None when no test example is called positive.
    """

    threshold: Threshold
    true_positive_rate: float
    false_positive_rate: float
    accuracy: float
    precision: float | None


@dataclass(frozen=True)
class Calibration:
    """Test probabilities (n,) after calibration, and the reliability before and after.

    ``before`` reads the raw score as a logit, which is right for CE and wrong for a ranking loss.
    """

    method: str
    probabilities: NDArray[np.float64]
    before: Reliability
    after: Reliability


def load_scores(store: Source, trial_id: str) -> dict[str, Scores]:
    """The stored scores of a binary trial by split (``validation``, ``test``).

    Raises ``AnalysisError`` when there are none, or when the trial's task is not binary.
    """
    frame = open_for_reading(store).read_scores(trial_id)
    if frame is None:
        raise AnalysisError(f"no scores of trial {trial_id} are stored: launch with --save-scores keeps them")
    if frame["score"].dtype == object:
        raise AnalysisError(f"trial {trial_id} has several scores per example: this analysis is for binary tasks")
    ordered = frame.sort_values(["split", "index"])
    return {
        str(name): Scores(part["score"].to_numpy(np.float64), part["label"].to_numpy(np.int64))
        for name, part in ordered.groupby("split")
    }


def auc_intervals(
    store: Source, trials: Iterable[str] | None = None, *, level: float = 0.95, method: str = "wald"
) -> pd.DataFrame:
    """DeLong's interval for the test AUC of each trial: trial_id, auc, standard_error, low, high.

    ``trials`` defaults to every binary trial with stored scores. ``method`` is ``wald`` or ``logit``
    (``delong_interval``). The interval is about new test examples for this one trained model; what another seed would
    give is the standard deviation over seeds in the tables. Raises ``AnalysisError`` when no scores are stored.
    """
    opened = open_for_reading(store)
    rows = []
    for trial_id in _with_scores(opened) if trials is None else [trials] if isinstance(trials, str) else trials:
        test = load_scores(opened, trial_id)["test"]
        found = delong_interval(test.scores, test.labels, level=level, method=method)
        rows.append((trial_id, found.auc, found.standard_error, found.low, found.high))
    return pd.DataFrame(rows, columns=["trial_id", "auc", "standard_error", "low", "high"])


def compare_trials(store: Source, first: str, second: str) -> AucComparison:
    """DeLong's paired test that two trials have the same test AUC.

    Raises ``AnalysisError`` unless both were tested on the same examples: the same task and data, and the same seed
    where the splits depend on it (a task of one's own counts as such).
    """
    opened = open_for_reading(store)
    trials = load_trials(opened).drop_duplicates("trial_id").set_index("trial_id")
    return _compare(opened, trials, first, second)


def compare_configurations(
    store: Source, first: Mapping[Any, Any] | pd.Series[Any], second: Mapping[Any, Any] | pd.Series[Any]
) -> pd.DataFrame:
    """DeLong's paired test of two configurations, one row for each seed that both have run.

    ``first`` and ``second`` are rows of ``select`` or ``configurations``. Columns: seed, first_trial, second_trial,
    first, second (test AUCs), difference (first - second), standard_error, z, p_value. The p values are not combined:
    they answer for one pair of models each, and none for the choice of seeds.
    Raises ``AnalysisError`` for anything but one row each, for different tasks, for no common seed, and as
    ``compare_trials``.
    """
    for which, row in (("first", first), ("second", second)):
        _check_row(which, row)
    opened = open_for_reading(store)
    if first["task"] != second["task"]:
        raise AnalysisError(f"{first['task']} and {second['task']} have different test sets: nothing is paired")
    # Whoever names a configuration of an earlier definition of its loss wants that one.
    results = run_results(load_runs(opened).assign(superseded=False))
    one, other = (_by_seed(results, row) for row in (first, second))
    common = sorted(set(one) & set(other))
    if not common:
        raise AnalysisError(f"no seed in common: {sorted(one)} and {sorted(other)}")
    trials = load_trials(opened).drop_duplicates("trial_id").set_index("trial_id")
    rows = []
    for seed in common:
        found = _compare(opened, trials, one[seed], other[seed])
        rows.append({"seed": seed, "first_trial": one[seed], "second_trial": other[seed], **vars(found)})
    return pd.DataFrame(rows)


def apply_threshold(
    store: Source, trial_id: str, rule: str = "youden", *, max_fpr: float | None = None
) -> ThresholdResult:
    """Choose a threshold on the trial's validation scores by ``rule`` (``choose_threshold``) and apply it to its test.

    Raises ``AnalysisError`` as ``load_scores``, ``MetricError`` for an unknown rule.
    """
    found = load_scores(store, trial_id)
    chosen = choose_threshold(found["validation"].scores, found["validation"].labels, rule, max_fpr=max_fpr)
    called, truth = found["test"].scores >= chosen.value, found["test"].labels == 1
    return ThresholdResult(
        chosen,
        true_positive_rate=float(called[truth].mean()),
        false_positive_rate=float(called[~truth].mean()),
        accuracy=float((called == truth).mean()),
        precision=float(truth[called].mean()) if called.any() else None,
    )


def calibrate(store: Source, trial_id: str, method: str = "platt", *, bins: int = 10) -> Calibration:
    """Fit ``platt`` or ``isotonic`` on the trial's validation scores and apply it to its test scores.

    Draw it with ``analysis.figures.reliability_figure``. The validation split holds the share of positives of the
    task's construction; where that differs from the test split's, calibration cannot know. It also chose the epoch, so
    a small one is fitted a little too well. Raises ``AnalysisError`` as ``load_scores``, ``MetricError`` for an unknown
    method.
    """
    found = load_scores(store, trial_id)
    fitted = fit_calibrator(found["validation"].scores, found["validation"].labels, method)
    test = found["test"]
    probabilities = fitted(test.scores)
    return Calibration(
        method,
        probabilities,
        before=reliability(1 / (1 + np.exp(-np.clip(test.scores, -700, 700))), test.labels, bins),
        after=reliability(probabilities, test.labels, bins),
    )


def _with_scores(store: Any) -> list[str]:
    found = []
    for trial_id in load_trials(store)["trial_id"].unique():
        frame = store.read_scores(trial_id)
        if frame is not None and frame["score"].dtype != object:
            found.append(str(trial_id))
    if not found:
        raise AnalysisError(
            f"no scores of a binary trial are stored in {store.uri}: a launch with --save-scores keeps those of the "
            "trials that it trains"
        )
    return found


def _check_row(which: str, row: object) -> None:
    """Raise ``AnalysisError`` unless ``row`` is one row of ``select`` or ``configurations``."""
    hint = "pass one row of select(runs) or configurations(runs), such as select(runs).iloc[0]"
    if not isinstance(row, Mapping | pd.Series):
        rows = f" of {len(row)} rows" if isinstance(row, pd.DataFrame) else ""
        raise AnalysisError(f"{which} is a {type(row).__name__}{rows}, not a configuration: {hint}")
    missing = [key for key in CONFIGURATION if key not in row]
    if missing:
        raise AnalysisError(f"{which} lacks {', '.join(missing)}: {hint}")


def _by_seed(results: pd.DataFrame, row: Mapping[Any, Any] | pd.Series[Any]) -> dict[int, str]:
    wanted = pd.DataFrame([{key: row[key] for key in CONFIGURATION}]).astype({"margin": "float64"})
    found = results_of(results, wanted)
    return dict(zip(found["seed"].astype(int).tolist(), found["trial_id"].astype(str).tolist(), strict=True))


def _compare(store: Any, trials: pd.DataFrame, first: str, second: str) -> AucComparison:
    for trial_id in (first, second):
        if trial_id not in trials.index:
            raise AnalysisError(f"there is no finished trial {trial_id} in the store {store.uri}")
    one, other = trials.loc[first], trials.loc[second]
    known = TASKS.get(str(one["task"]))
    fixed = known is not None and not known.seeded
    names = TEST_SET if fixed else (*TEST_SET, "seed")
    differing = [name for name in names if not pd.isna(one[name]) and one[name] != other[name]]
    tests = [load_scores(store, trial_id)["test"] for trial_id in (first, second)]
    if not differing and not np.array_equal(tests[0].labels, tests[1].labels):
        differing = ["test labels"]
    if differing:
        raise AnalysisError(f"trials {first} and {second} have different test sets ({', '.join(differing)} differ)")
    return delong_test(tests[0].scores, tests[1].scores, tests[0].labels)
