"""The selection rule against hand-made cases and a naive re-implementation in plain loops and exact fractions."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis import configurations, run_results, select
from analysis.errors import AnalysisError
from analysis.stats import mean, quartiles, sample_sd

Frame = Callable[..., pd.DataFrame]


def only(selected: pd.DataFrame) -> Any:
    assert len(selected) == 1
    return selected.iloc[0]


def test_run_takes_first_epoch_with_largest_validation_auc(frame: Frame) -> None:
    results = run_results(frame({"val": [0.7, 0.9, 0.9], "test": [0.1, 0.2, 0.3]}))
    assert results[["epoch", "val_auc", "test_auc"]].to_numpy().tolist() == [[2, 0.9, 0.2]]


def test_order_of_rows_does_not_matter(golden_runs: pd.DataFrame) -> None:
    shuffled = golden_runs.sample(frac=1, random_state=3)
    pd.testing.assert_frame_equal(select(golden_runs), select(shuffled))


def test_golden_selection(golden_runs: pd.DataFrame) -> None:
    chosen = select(golden_runs).set_index(["loss", "mode"])
    assert list(chosen.index) == [("ce", "ce"), ("hinge", "direct"), ("hinge", "warmup"), ("logistic", "direct")]
    assert chosen["n"].tolist() == [2, 2, 2, 1]
    assert chosen["incomplete"].tolist() == [False, False, False, True]
    assert chosen["candidates"].tolist() == [1, 2, 3, 1]
    assert chosen["test_mean"].tolist() == pytest.approx([0.685, 0.71, 0.815, 0.65])
    assert chosen["val_mean"].tolist() == pytest.approx([0.775, 0.83, 0.90, 0.70])
    assert chosen["test_sd"].tolist() == pytest.approx(
        [0.05 / 2**0.5, 0.02 / 2**0.5, 0.01 / 2**0.5, math.nan], nan_ok=True
    )
    assert chosen.loc[("hinge", "direct"), "margin"] == 0.3
    assert chosen.loc[("hinge", "warmup"), "warmup_ratio"] == 0.2


def test_allow_incomplete_lets_a_lone_seed_win(golden_runs: pd.DataFrame) -> None:
    chosen = select(golden_runs, allow_incomplete=True).set_index(["loss", "mode"])
    assert chosen.loc[("hinge", "warmup"), "test_mean"] == 0.99
    assert bool(chosen.loc[("hinge", "warmup"), "incomplete"])


def test_among_incomplete_ones_those_with_most_seeds_are_eligible(frame: Frame) -> None:
    runs = frame(
        {"margin": 0.1, "seed": 1, "val": 0.99, "test": 0.1, "seeds_planned": 3},
        {"margin": 0.3, "seed": 1, "val": 0.80, "test": 0.2, "seeds_planned": 3},
        {"margin": 0.3, "seed": 2, "val": 0.80, "test": 0.2, "seeds_planned": 3},
    )
    assert only(select(runs))["margin"] == 0.3
    assert only(select(runs, allow_incomplete=True))["margin"] == 0.1


def test_without_a_plan_the_seeds_of_the_same_setting_are_the_plan(frame: Frame) -> None:
    runs = frame(
        {"margin": 0.1, "seed": 1, "val": 0.99, "test": 0.1},
        {"margin": 0.3, "seed": 1, "val": 0.80, "test": 0.2},
        {"margin": 0.3, "seed": 2, "val": 0.80, "test": 0.2},
    )
    assert configurations(runs).set_index("margin")["incomplete"].to_dict() == {0.1: True, 0.3: False}


def test_full_tie_is_broken_deterministically(frame: Frame) -> None:
    rows = [
        {"mode": "warmup", "warmup_ratio": ratio, "margin": margin, "val": 0.8, "test": 0.7}
        for ratio in (0.2, 0.1)
        for margin in (0.5, 0.3)
    ]
    chosen = only(select(frame(*rows)))
    assert (chosen["warmup_ratio"], chosen["margin"]) == (0.1, 0.3)


def test_rounding_noise_does_not_break_a_tie(frame: Frame) -> None:
    # (0.1 + 0.2) / 2 and (0.15 + 0.15) / 2 are equal as numbers and differ as floats.
    assert (0.1 + 0.2) / 2 != 0.15
    runs = frame(
        {"margin": 0.1, "seed": 1, "val": 0.1, "test": 0.5},
        {"margin": 0.1, "seed": 2, "val": 0.2, "test": 0.7},
        {"margin": 0.3, "seed": 1, "val": 0.15, "test": 0.5},
        {"margin": 0.3, "seed": 2, "val": 0.15, "test": 0.6},
    )
    assert only(select(runs))["margin"] == 0.3


def test_everything_a_configuration_is_made_of_separates(frame: Frame) -> None:
    base = {"seed": 1, "val": 0.8, "test": 0.7}
    changes: list[dict[str, Any]] = [{}, {"margin": 0.1}, {"warmup_ratio": 0.1, "mode": "warmup"}, {"epochs": 9}]
    changes += [{"batch_size": 32}, {"learning_rate": 0.2}, {"loss_params": '{"tau": 2}'}, {"init": "pretrained"}]
    changes += [{"task": "other"}, {"model": "small-cnn"}, {"loss": "square"}, {"settings": "weight decay 1"}]
    assert len(configurations(frame(*({"settings": ""} | base | change for change in changes)))) == len(changes)


def test_cells_of_two_regimes_with_one_trial_count_once(frame: Frame) -> None:
    row = {"val": 0.8, "test": 0.7, "trial_id": "same"}
    assert only(configurations(frame(row | {"regime": "a"}, row | {"regime": "b"})))["n"] == 1


def test_two_trials_for_one_seed_are_refused(frame: Frame) -> None:
    row = {"val": 0.8, "test": 0.7}
    with pytest.raises(AnalysisError, match="trial000, trial001 agree in every column"):
        select(frame(row, row))


def test_loss_params_written_differently_are_equal(frame: Frame) -> None:
    row = {"val": 0.8, "test": 0.7}
    runs = frame(row | {"loss_params": '{"b":1,"a":2}'}, row | {"loss_params": '{"a": 2, "b": 1.0}', "seed": 2})
    assert only(configurations(runs))["n"] == 2


def test_missing_columns_are_named(frame: Frame) -> None:
    runs = frame({"val": 0.8, "test": 0.7}).drop(columns=["warmup_ratio", "margin"])
    with pytest.raises(AnalysisError, match=r"column\(s\) warmup_ratio, margin missing.*load_runs"):
        select(runs)


def test_run_without_validation_auc_is_named(frame: Frame) -> None:
    with pytest.raises(AnalysisError, match="no validation AUC in trial"):
        select(frame({"val": float("nan"), "test": 0.7}))


def test_epochs_without_validation_auc_are_passed_over(frame: Frame) -> None:
    results = run_results(frame({"val": [float("nan"), 0.6], "test": [0.9, 0.7]}))
    assert results["test_auc"].tolist() == [0.7]


def test_no_runs_give_an_empty_selection(frame: Frame) -> None:
    empty = frame({"val": 0.8, "test": 0.7}).iloc[:0]
    assert select(empty).empty
    assert set(select(empty).columns) >= {"task", "test_mean", "test_sd", "n", "incomplete", "candidates"}


def test_wrong_source_is_named() -> None:
    with pytest.raises(AnalysisError, match="expected a store"):
        select(17)  # type: ignore[arg-type]


def test_stats_conventions() -> None:
    assert mean([]) != mean([])
    assert sample_sd([0.5]) != sample_sd([0.5])
    assert sample_sd([1.0, 2.0, 4.0]) == pytest.approx(21**0.5 / 3)  # mean 7/3; (16 + 1 + 25) / 9 / 2
    spread = quartiles([1, 2, 3, 4])
    assert (spread.q1, spread.median, spread.q3, spread.iqr) == (1.75, 2.5, 3.25, 1.5)


Epochs = list[tuple[int, int]]
KEYS = st.tuples(
    st.sampled_from(["task-a", "task-b"]),
    st.sampled_from(["hinge", "logistic"]),
    st.sampled_from([0.0, 0.1, 0.2]),
    st.sampled_from([0.1, 0.5]),
    st.sampled_from([16, 32]),
)
CURVE = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=2)
GRIDS = st.dictionaries(KEYS, st.dictionaries(st.sampled_from([1, 2, 3]), CURVE, min_size=1), min_size=1, max_size=10)


def naive_selection(
    grid: dict[Any, dict[int, Epochs]], planned: int
) -> dict[Any, tuple[Any, Fraction, Fraction | None]]:
    """(task, loss, mode) -> (configuration, mean test AUC, variance), all in exact arithmetic and plain loops."""
    groups: dict[Any, list[Any]] = defaultdict(list)
    for (task, loss, ratio, margin, batch), by_seed in grid.items():
        vals, tests = [], []
        for epochs in by_seed.values():
            best = 0
            for index in range(len(epochs)):
                if epochs[index][0] > epochs[best][0]:
                    best = index
            vals.append(Fraction(epochs[best][0], 7))
            tests.append(Fraction(epochs[best][1], 7))
        n = len(vals)
        average = sum(tests) / n
        variance = sum((test - average) ** 2 for test in tests) / (n - 1) if n > 1 else None
        tie = (-sum(vals) / n, variance is None, variance or Fraction(0), ratio, margin, batch)
        groups[task, loss, "warmup" if ratio else "direct"].append((n, tie, (ratio, margin, batch), average, variance))
    chosen = {}
    for key, candidates in groups.items():
        most = max(candidate[0] for candidate in candidates)
        assert most <= planned
        best_one = min((c for c in candidates if c[0] == most), key=lambda c: c[1])
        chosen[key] = best_one[2:]
    return chosen


@settings(max_examples=40, deadline=None)
@given(grid=GRIDS)
def test_selection_equals_naive_loops(frame: Frame, grid: dict[Any, dict[int, Epochs]]) -> None:
    rows = [
        {
            "task": task,
            "loss": loss,
            "mode": "warmup" if ratio else "direct",
            "warmup_ratio": ratio,
            "margin": margin,
            "batch_size": batch,
            "seed": seed,
            "seeds_planned": 3,
            "val": [val / 7 for val, _ in epochs],
            "test": [test / 7 for _, test in epochs],
        }
        for (task, loss, ratio, margin, batch), by_seed in grid.items()
        for seed, epochs in by_seed.items()
    ]
    found = {(row["task"], row["loss"], row["mode"]): row for row in select(frame(*rows)).to_dict("records")}
    expected = naive_selection(grid, 3)
    assert set(found) == set(expected)
    for key, (configuration, average, variance) in expected.items():
        row = found[key]
        assert (row["warmup_ratio"], row["margin"], row["batch_size"]) == configuration
        assert row["test_mean"] == pytest.approx(float(average), abs=1e-12)
        if variance is None:
            assert math.isnan(row["test_sd"])
        else:
            assert row["test_sd"] == pytest.approx(float(variance) ** 0.5, abs=1e-12)
