"""The table and the figure of the matched comparison."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.colors import to_hex

from analysis import matched_gain, matched_table
from analysis.errors import AnalysisError
from analysis.figures import matched_figure, new_figure, save_matched_figure
from analysis.names import LOSS_COLOURS

Frame = Callable[..., pd.DataFrame]


def setting(loss: str, **gains: tuple[float, float]) -> list[dict[str, Any]]:
    """Direct and warm-up runs of one setting: ``init=(direct, warmup)``, test AUCs at one seed."""
    rows = []
    for init, (direct, warmup) in gains.items():
        base = {"task": "photos", "loss": loss, "init": init, "val": 0.8}
        rows += [base | {"test": direct}, base | {"mode": "warmup", "warmup_ratio": 0.1, "test": warmup}]
    return rows


@pytest.fixture
def two(frame: Frame) -> pd.DataFrame:
    """Gains of 10 and 2 points (hinge), 20 and -4 points (squared hinge)."""
    squared = setting("squared_hinge", random=(0.50, 0.70), pretrained=(0.94, 0.90))
    return frame(*squared, *setting("hinge", random=(0.60, 0.70), pretrained=(0.90, 0.92)))


def test_markdown(two: pd.DataFrame) -> None:
    lines = matched_table(matched_gain(two)).splitlines()
    head, _, hinge, squared = ([cell.strip() for cell in line.split("|")[3:-1]] for line in lines[:4])
    assert head[0] == "Loss"
    assert head[1:3] == ["Direct, random (%)", "Direct, pretrained (%)"]
    assert head[3:] == ["Gain, random (pp)", "Gain, pretrained (pp)", "Difference (pp)"]
    assert hinge == ["Hinge", "60.00", "90.00", "+10.00", "+2.00", "-8.00"]
    assert squared == ["Sq.-hinge", "50.00", "94.00", "+20.00", "-4.00", "-24.00"]
    # Two values: quartiles a quarter of the way in from either end.
    assert "Random: mean gain +15.00 pp over 2 settings, median +15.00, quartiles +12.50 to +17.50." in lines
    assert "Pretrained: mean gain -1.00 pp over 2 settings, median -1.00, quartiles -2.50 to +0.50." in lines


def test_csv_has_names_and_signs(two: pd.DataFrame) -> None:
    rows = list(csv.DictReader(io.StringIO(matched_table(matched_gain(two), "csv"))))
    assert [(row["model"], row["task"], row["loss"]) for row in rows] == [
        ("plain-mlp", "photos", "hinge"),
        ("plain-mlp", "photos", "squared_hinge"),
    ]
    assert [float(row["difference_mean"]) for row in rows] == [-8.0, -24.0]
    assert [float(row["pretrained_direct_mean"]) for row in rows] == [90.0, 94.0]


@pytest.mark.parametrize(("format", "word"), [("latex", "\\toprule"), ("html", '<table class="results">')])
def test_other_formats(two: pd.DataFrame, format: str, word: str) -> None:
    assert word in matched_table(matched_gain(two), format)


def test_unknown_format(two: pd.DataFrame) -> None:
    with pytest.raises(AnalysisError, match="did you mean latex"):
        matched_table(matched_gain(two), "latx")


def test_left_out_and_incomplete_are_said(frame: Frame) -> None:
    rows = setting("hinge", random=(0.6, 0.7), pretrained=(0.9, 0.92))
    rows += setting("logistic", random=(0.6, 0.7)) + setting("logistic", pretrained=(0.9, 0.92))[:1]
    text = matched_table(matched_gain(frame(*({"seeds_planned": 2} | row for row in rows)), unmatched="exclude"))
    assert "Left out: photos, plain-mlp, Logistic: " in text
    assert "-8.00†" in text
    assert "† Seeds of the plan are missing" in text


def test_figure_joins_the_two_gains_of_a_setting(two: pd.DataFrame) -> None:
    _, (ax,) = new_figure(4, 3)
    matched_figure(matched_gain(two), ax)
    hinge, squared, random_bar, random_mean, pretrained_bar, pretrained_mean, _ = ax.get_lines()
    assert list(hinge.get_ydata()) == pytest.approx([10, 2])
    assert list(squared.get_ydata()) == pytest.approx([20, -4])
    assert to_hex(hinge.get_color()) == LOSS_COLOURS["hinge"]
    assert list(random_bar.get_ydata()) == pytest.approx([12.5, 17.5])
    assert list(pretrained_bar.get_ydata()) == pytest.approx([-2.5, 0.5])
    assert [random_mean.get_ydata()[0], pretrained_mean.get_ydata()[0]] == pytest.approx([15, -1])
    assert [label.get_text() for label in ax.get_xticklabels()] == ["random", "pretrained"]


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_save(tmp_path: Path, two: pd.DataFrame, ending: str) -> None:
    assert save_matched_figure(matched_gain(two), tmp_path / f"matched.{ending}").stat().st_size > 1000
