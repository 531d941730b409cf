"""The presets of the matched comparison, counted independently of ``expand``."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import pytest

from search_spaces.expand import expand
from search_spaces.space import load_space

# Training negatives and positives (the paper's Table 5), batch size and epochs (its Table 7), typed from the text.
SETTINGS = {
    ("imagenet-lt-dogs", "resnet50"): ((6586, 202), 128, 20),
    ("dog-breeds", "resnet50"): ((258, 259), 64, 10),
    ("crj700-crj900", "resnet50"): ((25, 25), 64, 10),
    ("aptos", "resnet50"): ((699, 342), 64, 10),
    ("deepweeds", "resnet50"): ((25, 25), 64, 10),
    ("apple-disease", "densenet121"): ((25, 25), 48, 10),
    ("rice-disease", "densenet121"): ((18, 18), 48, 10),
    ("aptos", "densenet121"): ((699, 342), 48, 10),
    ("ham10000", "densenet121"): ((4694, 779), 48, 10),
}
RATIOS = ("0", "0.01", "0.025", "0.03", "0.05", "0.075", "0.10", "0.15", "0.20", "0.25", "0.30")
MARGINS, SEEDS = 9, 5
MARGIN_LOSSES, FREE_LOSSES = ("square", "hinge", "squared_hinge"), ("logistic", "exponential")


@pytest.fixture(scope="module")
def matched():
    return expand(load_space("matched"))


def total_updates(counts, batch, epochs):
    positives = math.floor(Fraction(batch, 4) + Fraction(1, 2))
    return epochs * max(math.ceil(Fraction(counts[0], batch - positives)), math.ceil(Fraction(counts[1], positives)))


def test_matched_counts(matched):
    """Cells are the grid without margins for the losses that have none; trials merge ratios of one warm-up length."""
    per_seed = len(RATIOS) * (MARGINS * len(MARGIN_LOSSES) + len(FREE_LOSSES))
    assert matched.product == 9 * 2 * SEEDS * len(RATIOS) * MARGINS * 5
    assert len(matched.cells) == 9 * 2 * SEEDS * per_seed == 28_710
    lengths = {
        setting: {math.floor(Fraction(ratio) * total_updates(*facts) + Fraction(1, 2)) for ratio in RATIOS}
        for setting, facts in SETTINGS.items()
    }
    runs = MARGINS * len(MARGIN_LOSSES) + len(FREE_LOSSES)
    assert len(matched.trials) == sum(2 * SEEDS * len(found) * runs for found in lengths.values())
    for (task, model), found in lengths.items():
        trials = [trial for trial in matched.trials.values() if (trial.task, trial.model) == (task, model)]
        assert {trial.warmup_updates for trial in trials} == found
        assert {trial.total_updates for trial in trials} == {total_updates(*SETTINGS[task, model])}


def test_matched_is_45_settings_each_with_both_inits_and_modes(matched):
    arms = Counter((cell.task, cell.model, cell.loss, cell.init, cell.mode) for cell in matched.cells)
    assert {(task, model) for task, model, *_ in arms} == set(SETTINGS)
    assert len({arm[:3] for arm in arms}) == 45
    assert len(arms) == 45 * 2 * 2
    for (*_, loss, _, mode), count in arms.items():
        ratios = 1 if mode == "direct" else len(RATIOS) - 1
        assert count == SEEDS * ratios * (MARGINS if loss in MARGIN_LOSSES else 1)


@pytest.mark.parametrize("name", ["matched", "matched-offline"])
def test_pairs_differ_in_init_alone(name):
    trials = expand(load_space(name)).trials.values()
    twins = Counter(
        tuple((key, str(value)) for key, value in trial.as_dict().items() if key != "init") for trial in trials
    )
    assert set(twins.values()) == {2}
    assert {trial.init for trial in trials} == {"random", "pretrained"}


def test_pretrained_half_is_the_papers(matched):
    """The pretrained trials are those of the paper's own image presets but for CE."""
    names = ("cv-imagenet-lt", "cv-resnet50", "cv-densenet121")
    papers = {key: trial for name in names for key, trial in expand(load_space(name)).trials.items()}
    ours = {key for key, trial in matched.trials.items() if trial.init == "pretrained"}
    assert ours == {key for key, trial in papers.items() if trial.loss != "ce"}


def test_matched_offline_size():
    """Three pairs of model and loss, two inits, three seeds; direct and after a fifth of 75 updates."""
    trials = list(expand(load_space("matched-offline")).trials.values())
    assert len(trials) == 3 * 2 * 3 * 2
    assert {trial.total_updates for trial in trials} == {3 * max(600 // 24, math.ceil(60 / 8))} == {75}
    assert {trial.warmup_updates for trial in trials if trial.mode == "warmup"} == {15}
