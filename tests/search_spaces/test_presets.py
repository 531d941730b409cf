"""The presets: what they say and how large they are."""

from pathlib import Path

import pytest

import search_spaces
from search_spaces.expand import expand
from search_spaces.regimes import REGIMES
from search_spaces.space import load_space, preset_names

FOLDER = Path(search_spaces.__file__).parent / "presets"
PAPER_REGIMES = ("cv-imagenet-lt", "cv-resnet50", "cv-densenet121", "nlp-distilbert", "nlp-qwen")


@pytest.mark.parametrize("name", preset_names())
def test_preset_opens_with_its_command(name):
    lines = (FOLDER / f"{name}.yaml").read_text().splitlines()
    assert lines[0].startswith(f"# aucsweep launch {name} --store ")
    assert f"name: {name}" in lines
    assert load_space(name).description


def test_names():
    assert preset_names()[0] == "quickstart"
    assert set(preset_names()) >= {"quickstart", "paper", "smoke", *PAPER_REGIMES}


def points(cells):
    return {(cell.trial_id, cell.loss, cell.mode, cell.warmup_ratio, cell.margin, cell.regime) for cell in cells}


def test_paper_is_its_regimes(paper):
    parts = [expand(load_space(name)) for name in PAPER_REGIMES]
    assert set(paper.trials) == {trial for part in parts for trial in part.trials}
    assert points(paper.cells) == {point for part in parts for point in points(part.cells)}
    assert paper.product == sum(part.product for part in parts)


def test_quickstart_size():
    trials = expand(load_space("quickstart")).trials.values()
    assert len(trials) == 2 * 3 * (1 + 3 * 2 * 3 + 2 * 2)
    assert {trial.total_updates for trial in trials} == {188}
    assert len({trial.loss for trial in trials}) == 6
    assert {trial.mode for trial in trials} == {"ce", "direct", "warmup"}
    assert len({trial.seed for trial in trials}) == 3


def test_smoke_size():
    trials = expand(load_space("smoke")).trials.values()
    assert len(trials) == 10
    assert {trial.total_updates for trial in trials} == {12}


@pytest.mark.parametrize(
    ("regime", "expected"),
    [  # Table 7, typed from the text
        ("cv-imagenet-lt", (20, 128, 256, "sgd", 0.05, 0.9, 1e-4, 0.0, None, 1.0, None, "float32")),
        ("cv-resnet50", (10, 64, 128, "adamw", 1e-4, 0.0, 1e-4, 0.0, None, 0.5, None, "float32")),
        ("cv-densenet121", (10, 48, 128, "adamw", 1e-4, 0.0, 1e-4, 0.0, None, 0.5, None, "float32")),
        ("nlp-distilbert", (4, 32, 64, "adamw", 2e-4, 0.0, 0.01, 0.05, 1.0, 0.5, 128, "float32")),
        ("nlp-qwen", (4, 24, 48, "adamw", 8e-5, 0.0, 0.01, 0.05, 1.0, 0.5, 256, "bfloat16")),
    ],
)
def test_regimes_of_table_7(regime, expected):
    settings = REGIMES[regime].settings
    assert (
        settings.epochs,
        settings.batch_size,
        settings.eval_batch_size,
        settings.optimizer,
        settings.learning_rate,
        settings.momentum,
        settings.weight_decay,
        settings.lr_warmup_fraction,
        settings.max_grad_norm,
        settings.switch_scale,
        settings.max_length,
        settings.precision,
    ) == expected
    assert settings.positive_fraction == 0.25
    assert settings.lr_schedule == "cosine"
    assert settings.accumulation == 1
    assert settings.score_scale == "sigmoid"
    assert settings.augmentation == ("paper" if regime.startswith("cv") else "none")


def test_every_regime_is_keyed_by_its_name():
    assert all(name == regime.name and regime.title and regime.source for name, regime in REGIMES.items())
