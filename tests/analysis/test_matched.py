"""Random against pretrained: only equal grids are compared, and the summary is exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from analysis import PAPER_SETTINGS, matched_gain
from analysis.errors import AnalysisError, UnmatchedError
from analysis.paper import published_binary

Frame = Callable[..., pd.DataFrame]


def arm(task: str, init: str, direct: float, warmup: float, loss: str = "hinge", **other: Any) -> list[dict[str, Any]]:
    base = {"task": task, "init": init, "loss": loss, "val": 0.8} | other
    return [
        base | {"test": direct},
        base | {"mode": "warmup", "warmup_ratio": other.get("warmup_ratio", 0.1), "test": warmup},
    ]


def test_pairs_and_summary(frame: Frame) -> None:
    rows = []
    for number, (random, pretrained) in enumerate([(0.1, 0.01), (0.2, 0.02), (0.3, 0.03), (0.4, 0.06)]):
        rows += arm(f"t{number}", "random", 0.5, 0.5 + random) + arm(f"t{number}", "pretrained", 0.9, 0.9 + pretrained)
    found = matched_gain(frame(*rows))
    assert found.pairs["random"].tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert found.pairs["pretrained"].tolist() == pytest.approx([0.01, 0.02, 0.03, 0.06])
    assert found.pairs["difference"].tolist() == pytest.approx([-0.09, -0.18, -0.27, -0.34])
    random, pretrained = (found.summary.set_index("init").loc[init] for init in ("random", "pretrained"))
    # Linear interpolation at positions 0.75 and 2.25 of four sorted values.
    assert (random["settings"], random["mean"], random["q1"], random["q3"]) == pytest.approx((4, 0.25, 0.175, 0.325))
    assert random["iqr"] == pytest.approx(0.15)
    assert (pretrained["mean"], pretrained["q1"], pretrained["q3"]) == pytest.approx((0.03, 0.0175, 0.0375))
    assert found.refused.empty
    assert found.missing == ()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"margin": 0.1}, "margin 0.5 only with random; margin 0.1 only with pretrained"),
        ({"seed": 2}, "seed 1 only with random; seed 2 only with pretrained"),
        ({"epochs": 7}, "epochs 1 only with random; epochs 7 only with pretrained"),
        ({"batch_size": 8}, "batch_size"),
        ({"learning_rate": 0.5}, "learning_rate"),
        ({"settings": "other"}, "settings"),
        ({"loss_params": '{"tau": 1}'}, "loss_params"),
    ],
)
def test_unequal_settings_are_refused(frame: Frame, change: dict[str, Any], reason: str) -> None:
    same = arm("same", "random", 0.5, 0.6) + arm("same", "pretrained", 0.7, 0.8)
    differ = arm("differ", "random", 0.5, 0.6) + arm("differ", "pretrained", 0.7, 0.9, **change)
    runs = frame(*({"settings": ""} | row for row in same + differ))
    with pytest.raises(UnmatchedError, match="1 of 2 settings are not matched") as caught:
        matched_gain(runs)
    assert f"differ, plain-mlp, hinge: {reason}" in str(caught.value)
    found = matched_gain(runs, unmatched="exclude")
    assert found.pairs["task"].tolist() == ["same"]
    assert found.refused["task"].tolist() == ["differ"]
    assert found.summary["settings"].tolist() == [1, 1]


def test_missing_run_of_one_init_is_refused(frame: Frame) -> None:
    rows = arm("t", "random", 0.5, 0.6) + arm("t", "random", 0.5, 0.6, seed=2) + arm("t", "pretrained", 0.7, 0.8)
    rows += arm("t", "pretrained", 0.7, 0.8, seed=2)[:1]
    with pytest.raises(UnmatchedError, match="1 runs only with random"):
        matched_gain(frame(*rows))


def test_setting_without_direct_runs_is_refused(frame: Frame) -> None:
    rows = arm("t", "random", 0.5, 0.6)[1:] + arm("t", "pretrained", 0.7, 0.8)[1:]
    with pytest.raises(UnmatchedError, match="no direct runs"):
        matched_gain(frame(*rows))


def test_settings_of_one_init_are_not_pairs(frame: Frame) -> None:
    rows = arm("t", "random", 0.5, 0.6) + arm("t", "pretrained", 0.7, 0.8) + arm("alone", "random", 0.5, 0.6)
    assert matched_gain(frame(*rows)).pairs["task"].tolist() == ["t"]


def test_one_init_only_is_an_error(frame: Frame) -> None:
    with pytest.raises(AnalysisError, match=r"no setting ran with both.*found: random"):
        matched_gain(frame(*arm("t", "random", 0.5, 0.6)))


def test_expected_settings_are_checked(frame: Frame) -> None:
    rows = arm("aptos", "random", 0.5, 0.6, model="resnet50") + arm("aptos", "pretrained", 0.7, 0.8, model="resnet50")
    found = matched_gain(frame(*rows), expected=PAPER_SETTINGS)
    assert len(found.missing) == 44
    assert ("aptos", "resnet50", "hinge") not in found.missing
    assert ("aptos", "densenet121", "hinge") in found.missing


def test_paper_settings_are_the_image_settings_of_its_tables() -> None:
    published = published_binary()
    image = published[published["model"].isin(["resnet50", "densenet121"]) & (published["mode"] == "direct")]
    assert set(image[["task", "model", "loss"]].itertuples(index=False, name=None)) == PAPER_SETTINGS
    assert len(PAPER_SETTINGS) == 45


def test_misspelt_argument(frame: Frame) -> None:
    with pytest.raises(AnalysisError, match="did you mean exclude"):
        matched_gain(frame(*arm("t", "random", 0.5, 0.6)), unmatched="exclud")  # type: ignore[arg-type]
