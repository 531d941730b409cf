"""Warm-up gain, also seed by seed, and what happens while one side is lacking."""

from __future__ import annotations

import math
from collections.abc import Callable

import pandas as pd
import pytest

from analysis import select, warmup_gain

Frame = Callable[..., pd.DataFrame]


def test_golden_gain(golden_runs: pd.DataFrame) -> None:
    gains = warmup_gain(golden_runs).set_index("loss")
    hinge = gains.loc["hinge"]
    assert hinge["gain"] == pytest.approx(0.105)
    assert (hinge["direct_mean"], hinge["warmup_mean"]) == pytest.approx((0.71, 0.815))
    assert [hinge["gain_seed_1"], hinge["gain_seed_2"]] == pytest.approx([0.11, 0.10])
    assert (hinge["n_pairs"], hinge["paired_mean"], hinge["paired_sd"]) == pytest.approx((2, 0.105, 0.01 / 2**0.5))
    assert (hinge["direct_margin"], hinge["warmup_margin"], hinge["warmup_ratio"]) == (0.3, 0.1, 0.2)
    assert not hinge["incomplete"]
    logistic = gains.loc["logistic"]
    assert math.isnan(logistic["gain"])
    assert logistic["incomplete"]
    assert (logistic["n_pairs"], logistic["direct_n"]) == (0, 1)
    assert pd.isna(logistic["warmup_n"])
    assert "ce" not in gains.index


def test_pairs_are_by_seed_when_sides_have_different_seeds(frame: Frame) -> None:
    warm = {"mode": "warmup", "warmup_ratio": 0.1}
    gains = warmup_gain(
        frame(
            {"seed": 1, "val": 0.8, "test": 0.60},
            {"seed": 2, "val": 0.8, "test": 0.70},
            warm | {"seed": 2, "val": 0.8, "test": 0.75},
            warm | {"seed": 3, "val": 0.8, "test": 0.95},
        )
    ).iloc[0]
    assert gains["gain"] == pytest.approx(0.85 - 0.65)
    assert gains["n_pairs"] == 1
    assert gains["gain_seed_2"] == pytest.approx(0.05)
    assert math.isnan(gains["gain_seed_1"])
    assert math.isnan(gains["gain_seed_3"])
    assert math.isnan(gains["paired_sd"])
    assert gains["incomplete"]


def test_gain_is_the_difference_of_what_select_reports(fill_store: Callable[..., object]) -> None:
    store = fill_store("smoke")
    chosen = select(store).set_index(["loss", "mode"])["test_mean"]  # type: ignore[arg-type]
    gains = warmup_gain(store).set_index("loss")["gain"]  # type: ignore[arg-type]
    assert len(gains) == 2
    for loss, gain in gains.items():
        assert gain == pytest.approx(chosen[loss, "warmup"] - chosen[loss, "direct"], abs=1e-15)
        # With the same seeds on both sides, the mean of the paired gains is the gain.
    paired = warmup_gain(store).set_index("loss")["paired_mean"]  # type: ignore[arg-type]
    assert paired.to_numpy() == pytest.approx(gains.to_numpy(), abs=1e-12)


def test_only_ce_or_nothing_gives_no_rows(frame: Frame) -> None:
    ce = frame({"loss": "ce", "mode": "ce", "margin": float("nan"), "val": 0.8, "test": 0.7})
    for runs in (ce, ce.iloc[:0]):
        assert warmup_gain(runs).empty
        assert {"gain", "n_pairs", "paired_mean"} <= set(warmup_gain(runs).columns)


def test_only_warmup(frame: Frame) -> None:
    gains = warmup_gain(frame({"mode": "warmup", "warmup_ratio": 0.1, "val": 0.8, "test": 0.7}))
    assert gains["gain"].isna().all()
    assert gains["warmup_mean"].tolist() == [0.7]
