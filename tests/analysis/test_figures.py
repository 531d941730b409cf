"""Figures: what is drawn where, in which colour."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.colors import to_hex

from analysis import load_runs, select, warmup_gain
from analysis.figures import (
    curves_sheet,
    gain_figure,
    gain_sheet,
    learning_curves,
    mean_curves,
    new_figure,
    save_gain_figure,
)
from analysis.names import LOSS_COLOURS, loss_colours
from analysis.report.svg import inline_svg

Frame = Callable[..., pd.DataFrame]


def test_gain_dots_are_at_the_gains(golden_runs: pd.DataFrame) -> None:
    _, (ax,) = new_figure(4, 3)
    gain_figure(warmup_gain(golden_runs), ax)
    small, large, *_ = ax.get_lines()
    assert list(small.get_xdata()) == pytest.approx([11.0, 10.0])
    assert list(large.get_xdata()) == pytest.approx([10.5])
    assert to_hex(large.get_color()) == LOSS_COLOURS["hinge"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["toy-task"]
    assert "percentage points" in ax.get_xlabel()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["Hinge"]


def test_incomplete_gain_is_hollow(frame: Frame) -> None:
    rows = [{"val": 0.8, "test": 0.6}, {"mode": "warmup", "warmup_ratio": 0.1, "val": 0.8, "test": 0.7}]
    _, (ax,) = new_figure(4, 3)
    gain_figure(warmup_gain(frame(*({"seeds_planned": 2} | row for row in rows))), ax)
    assert ax.get_lines()[1].get_markerfacecolor() == "none"


def test_no_gain_yet_draws_an_empty_figure(golden_runs: pd.DataFrame) -> None:
    assert gain_sheet(warmup_gain(golden_runs[golden_runs["mode"] == "ce"])).axes


def test_mean_curves_are_means_over_seeds(golden_runs: pd.DataFrame) -> None:
    curves = mean_curves(golden_runs)
    hinge = curves[(curves["loss"] == "hinge") & (curves["mode"] == "direct")]
    # The selected margin 0.3: seeds 0.60, 0.84 and 0.60, 0.82.
    assert hinge["mean"].tolist() == pytest.approx([0.60, 0.83])
    assert hinge["sd"].tolist() == pytest.approx([0.0, 0.02 / 2**0.5])
    assert hinge["n"].tolist() == [2, 2]
    warm = curves[curves["mode"] == "warmup"]
    assert warm["switch"].unique().tolist() == pytest.approx([0.4])
    alone = curves[curves["loss"] == "logistic"]
    assert alone["n"].tolist() == [1, 1]
    assert all(math.isnan(sd) for sd in alone["sd"])


def test_learning_curves_draw_ce_direct_warmup_and_the_switch(golden_runs: pd.DataFrame) -> None:
    _, (ax,) = new_figure(4, 3)
    learning_curves(mean_curves(golden_runs), "hinge", ax)
    ce, direct, warmup, switch = ax.get_lines()
    assert list(ce.get_ydata()) == pytest.approx([72.5, 77.5])
    assert list(direct.get_ydata()) == pytest.approx([60, 83])
    assert list(warmup.get_ydata()) == pytest.approx([90, 80])
    assert switch.get_xdata()[0] == pytest.approx(0.4)
    assert direct.is_dashed()
    assert not warmup.is_dashed()


def test_curves_of_a_store_and_of_its_frame_agree(fill_store: Callable[..., object]) -> None:
    store = fill_store("smoke")
    runs = load_runs(store)  # type: ignore[arg-type]
    pd.testing.assert_frame_equal(mean_curves(store), mean_curves(runs, select(runs)))  # type: ignore[arg-type]


@pytest.mark.parametrize("losses", [("ce",), ("ce", "hinge"), ("ce", "hinge", "logistic")])
def test_curves_sheet_has_a_panel_per_pairwise_loss(golden_runs: pd.DataFrame, losses: tuple[str, ...]) -> None:
    figure = curves_sheet(mean_curves(golden_runs[golden_runs["loss"].isin(losses)]))
    shown = [ax for ax in figure.axes if ax.get_visible()]
    assert len(shown) == max(1, len(losses) - 1)


def test_colours_are_fixed_per_loss() -> None:
    assert loss_colours(["hinge", "new-loss"])["hinge"] == loss_colours(["square", "hinge"])["hinge"]
    many = loss_colours(["square", "hinge", "exponential", "logistic", "squared_hinge", "a", "b"])
    assert len(set(many.values())) == 7


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_save_gain_figure(tmp_path: Path, golden_runs: pd.DataFrame, ending: str) -> None:
    path = save_gain_figure(warmup_gain(golden_runs), tmp_path / f"gain.{ending}")
    assert path.stat().st_size > 1000


def test_inline_svg_is_self_contained_and_repeatable(golden_runs: pd.DataFrame) -> None:
    gains = warmup_gain(golden_runs)
    svg = inline_svg(gain_sheet(gains), "one", 'a "label"')
    assert svg.startswith("<svg")
    assert svg.endswith("</svg>")
    assert "http" not in svg
    assert "currentColor" in svg
    assert "&quot;label&quot;" in svg
    assert 'id="one-' in svg
    assert svg == inline_svg(gain_sheet(gains), "one", 'a "label"')
