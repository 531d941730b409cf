"""Stored scores: intervals, paired tests, thresholds and calibration, against direct computation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.calibration import calibration_curve

from analysis import load_runs, select
from analysis.errors import AnalysisError
from analysis.figures import new_figure, reliability_figure
from analysis.scores import apply_threshold, auc_intervals, calibrate, compare_configurations, compare_trials
from orchestrator.store import Store
from search_spaces.tasks import TASKS
from trainables.metrics import MetricError, binary_auc, delong_interval, delong_test

Fill = Callable[..., Store]
OVERRIDES = ("losses=[ce,logistic]", "margins=[]", "warmup_ratios=[0]")


def write(store: Store, trial_id: str, seed: int, scale: float = 1.0, labels: NDArray[Any] | None = None) -> None:
    random = np.random.default_rng([seed, int(trial_id, 16) % 2**31])
    truth = (np.arange(400) + seed) % 4 == 0 if labels is None else labels
    scores = scale * (truth + random.standard_normal(400))
    split = np.repeat(["validation", "test"], 200)
    frame = pd.DataFrame(
        {"split": split, "index": np.tile(np.arange(200), 2), "label": truth.astype(int), "score": scores}
    )
    store.write_scores(trial_id, frame.sample(frac=1, random_state=0))  # the order of the rows carries nothing


@pytest.fixture
def store(fill_store: Fill) -> Store:
    """Two trials for each of two seeds, on splits that depend on the seed."""
    store = fill_store("smoke", OVERRIDES)
    assert TASKS["mnist-8-low-shot"].seeded
    for trial_id, seed in trials(store).set_index("trial_id")["seed"].items():
        write(store, str(trial_id), int(seed))
    return store


def trials(store: Store) -> pd.DataFrame:
    return store.read_runs()[0].drop_duplicates("trial_id").sort_values(["seed", "loss"], ignore_index=True)


def test_set(store: Store, trial_id: str) -> tuple[NDArray[Any], NDArray[Any]]:
    frame = store.read_scores(trial_id)
    assert frame is not None
    part = frame[frame["split"] == "test"].sort_values("index")
    return part["score"].to_numpy(), part["label"].to_numpy()


test_set.__test__ = False  # type: ignore[attr-defined]


def test_intervals_of_every_trial(store: Store) -> None:
    found = auc_intervals(store, level=0.9, method="logit").set_index("trial_id")
    assert set(found.index) == set(trials(store)["trial_id"])
    for trial_id, row in found.iterrows():
        scores, labels = test_set(store, str(trial_id))
        expected = delong_interval(scores, labels, level=0.9, method="logit")
        assert row["auc"] == pytest.approx(binary_auc(scores, labels), rel=1e-12)
        assert (row["standard_error"], row["low"], row["high"]) == (
            expected.standard_error,
            expected.low,
            expected.high,
        )


def test_two_trials_on_one_test_set(store: Store) -> None:
    first, second = trials(store)["trial_id"][:2]
    found = compare_trials(store, first, second)
    (one, labels), (other, _) = test_set(store, first), test_set(store, second)
    assert found == delong_test(one, other, labels)
    assert found.difference == pytest.approx(binary_auc(one, labels) - binary_auc(other, labels))


def test_two_configurations_have_a_test_for_each_seed(store: Store) -> None:
    chosen = select(load_runs(store)).set_index("loss", drop=False)
    found = compare_configurations(store, chosen.loc["logistic"], chosen.loc["ce"])
    known = trials(store).set_index(["loss", "seed"])["trial_id"]
    assert list(found["seed"]) == [123, 124]
    for row in found.itertuples():
        assert (row.first_trial, row.second_trial) == (known["logistic", row.seed], known["ce", row.seed])
        pair = compare_trials(store, row.first_trial, row.second_trial)
        assert (row.difference, row.p_value) == (pair.difference, pair.p_value)


class TestWhatIsNoConfiguration:
    @pytest.mark.parametrize(
        ("make", "sentence"),
        [
            (lambda chosen: chosen, r"second is a DataFrame of 2 rows, not a configuration: pass one row of select"),
            (lambda chosen: "logistic", r"second is a str, not a configuration: pass one row"),
            (
                lambda chosen: chosen.iloc[0].drop(["margin", "settings"]),
                r"second lacks margin, settings: pass one row",
            ),
            (lambda chosen: chosen["loss"], r"second lacks task, model, init, .*: pass one row"),
        ],
    )
    def test_is_named(self, store: Store, make: Callable[[pd.DataFrame], Any], sentence: str) -> None:
        chosen = select(load_runs(store))
        with pytest.raises(AnalysisError, match=sentence):
            compare_configurations(store, chosen.iloc[0], make(chosen))


class TestDifferentTestSets:
    def test_seeds_that_draw_their_own(self, store: Store) -> None:
        known = trials(store)["trial_id"]
        with pytest.raises(AnalysisError, match=r"different test sets \(seed differ\)"):
            compare_trials(store, known[0], known[2])

    def test_other_labels(self, store: Store) -> None:
        first, second = trials(store)["trial_id"][:2]
        write(store, second, 0, labels=np.arange(400) % 3 == 0)
        with pytest.raises(AnalysisError, match="test labels differ"):
            compare_trials(store, first, second)

    def test_other_tasks(self, store: Store) -> None:
        row = select(load_runs(store)).iloc[0]
        with pytest.raises(AnalysisError, match="nothing is paired"):
            compare_configurations(store, row, {**row, "task": "aptos"})

    def test_no_common_seed(self, fill_store: Fill) -> None:
        store = fill_store("smoke", OVERRIDES, keep=lambda config: config.seed == (123 if config.loss == "ce" else 124))
        one, other = (row for _, row in select(load_runs(store)).iterrows())
        with pytest.raises(AnalysisError, match=r"no seed in common: \[123\] and \[124\]"):
            compare_configurations(store, one, other)

    def test_fixed_splits_compare_over_seeds(self, fill_store: Fill) -> None:
        fixed = next(name for name, card in TASKS.items() if not card.seeded and card.modality == "image")
        store = fill_store("cv-resnet50", (f"tasks=[{fixed}]", *OVERRIDES, "inits=[random]", "seeds=[1,2]"))
        known = trials(store)["trial_id"]
        for trial_id in known:
            write(store, trial_id, 0)
        assert 0 < compare_trials(store, known[0], known[2]).p_value <= 1


def test_what_is_not_there_is_named(fill_store: Fill) -> None:
    store = fill_store("smoke", OVERRIDES)
    first, second = trials(store)["trial_id"][:2]
    with pytest.raises(AnalysisError, match=r"no scores of a binary trial are stored in .*: a launch with --save-sc"):
        auc_intervals(store)
    with pytest.raises(AnalysisError, match=f"no scores of trial {first} are stored: launch with --save-scores"):
        compare_trials(store, first, second)
    with pytest.raises(AnalysisError, match="no finished trial 0000"):
        compare_trials(store, "0000", second)


def test_scores_of_several_classes_are_refused_and_left_out(store: Store) -> None:
    first = trials(store)["trial_id"][0]
    frame = pd.DataFrame({"split": "test", "index": [0, 1], "label": [0, 1], "score": [[0.0, 1.0], [1.0, 0.0]]})
    store.write_scores(first, frame)
    assert first not in set(auc_intervals(store)["trial_id"])
    with pytest.raises(AnalysisError, match="binary"):
        calibrate(store, first)


def test_a_threshold_is_chosen_on_validation_and_applied_to_test(store: Store) -> None:
    trial_id = trials(store)["trial_id"][0]
    frame = store.read_scores(trial_id)
    assert frame is not None
    found = apply_threshold(store, trial_id, "max_fpr", max_fpr=0.1)
    negatives = np.sort(frame.query("split == 'validation' and label == 0")["score"])
    assert (negatives >= found.threshold.value).mean() <= 0.1
    test = frame[frame["split"] == "test"]
    called = test["score"] >= found.threshold.value
    counts = pd.crosstab(called, test["label"])
    assert found.true_positive_rate == counts.loc[True, 1] / counts[1].sum()
    assert found.false_positive_rate == counts.loc[True, 0] / counts[0].sum()
    assert found.precision == counts.loc[True, 1] / counts.loc[True].sum()
    assert found.accuracy == (called == (test["label"] == 1)).mean()
    with pytest.raises(MetricError, match="youden"):
        apply_threshold(store, trial_id, "best")


@pytest.mark.parametrize("method", ["platt", "isotonic"])
def test_calibration_makes_probabilities_of_scores(store: Store, method: str) -> None:
    trial_id = trials(store)["trial_id"][0]
    write(store, trial_id, 123, scale=40.0)  # a ranking loss leaves the scale free
    found = calibrate(store, trial_id, method, bins=5)
    scores, labels = test_set(store, trial_id)
    before, after = 1 / (1 + np.exp(-scores)), found.probabilities
    for shown, probabilities in ((found.before, before), (found.after, after)):
        observed, predicted = calibration_curve(labels, probabilities, n_bins=5)
        assert shown.observed == pytest.approx(observed)
        assert shown.predicted == pytest.approx(predicted)
    assert found.after.expected_error < 0.12 < 0.2 < found.before.expected_error
    assert np.all(np.diff(after[np.argsort(scores)]) >= 0)
    _, (ax,) = new_figure(3, 3)
    reliability_figure(found, ax)
    lines = ax.get_lines()
    assert list(lines[1].get_xdata()) == pytest.approx(found.before.predicted)
    assert list(lines[2].get_ydata()) == pytest.approx(found.after.observed)
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts[1].startswith(f"after ({method}), expected error ")
