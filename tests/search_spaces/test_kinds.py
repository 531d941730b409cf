"""Spaces of multiclass and multilabel tasks: sizes of the presets, and what does not fit."""

import pytest

from search_spaces.batches import balanced_updates, natural_updates
from search_spaces.errors import SpaceError
from search_spaces.expand import expand
from search_spaces.space import load_space


@pytest.mark.parametrize(
    ("preset", "trials", "totals"),
    [  # CE per seed, and two losses x warm-up ratios x margins x seeds, per task; T = epochs x ceil(n / batch)
        ("multiclass", 3 * 5 * (1 + 2 * 5 * 5), dict.fromkeys(("airbus-6-lt", "cifar-mammals-5-lt"), 240)),
        ("multilabel", 3 * 5 * (1 + 2 * 5 * 5), {"chexpert-competition-5": 8 * 188}),
        ("large", (1 + 2 * 2) + (1 + 2 * 3 * 2), {"inaturalist-2018": 3 * 3419, "imagenet-lt": 4 * 906}),
        ("extensions-offline", 4 * 3 * (1 + 2 * 2), {"mnist-lt": 192, "reuters-r52": 96, "kaomoji-16": 6 * 68}),
    ],
)
def test_presets(preset, trials, totals):
    expansion = expand(load_space(preset))
    assert len(expansion.trials) == len(expansion.cells) == trials
    found = {trial.task: trial.total_updates for trial in expansion.trials.values()}
    assert {task: found[task] for task in totals} == totals


def test_settings_of_section_b6():
    one = {trial.task: trial for name in ("multiclass", "multilabel", "large") for trial in
           expand(load_space(name)).trials.values()}  # fmt: skip
    airbus, chest = one["airbus-6-lt"], one["chexpert-competition-5"]
    assert (airbus.model, airbus.init, airbus.epochs, airbus.updates_per_epoch) == ("resnet18", "random", 10, 24)
    assert (airbus.learning_rate, airbus.weight_decay, airbus.score_scale) == (0.002, 1e-4, "identity")
    assert (chest.model, chest.init, chest.epochs, chest.batch_size) == ("densenet121", "pretrained", 8, 64)
    assert (chest.learning_rate, chest.weight_decay, chest.sampling) == (1e-4, 1e-4, "natural")
    species, images = one["inaturalist-2018"], one["imagenet-lt"]
    assert (species.model, species.epochs, species.batch_size, species.selection) == ("resnet50", 3, 128, "last")
    assert (images.model, images.epochs, images.batch_size) == ("resnet50-places365", 4, 128)
    assert {trial.positive_fraction for trial in one.values()} == {None}


def test_updates_of_a_pass():
    assert natural_updates(12000, 64) == 188
    assert [natural_updates(n, 128) for n in (1, 128, 129)] == [1, 1, 2]
    assert balanced_updates((200, 20), 60) == 7  # 30 of the larger class a batch
    assert balanced_updates((10,), 5) == 2


@pytest.mark.parametrize(
    ("preset", "overrides", "expected"),
    [
        ("multiclass", ["settings.sampling=stratified"],
         "settings.sampling: stratified, but airbus-6-lt is multiclass: balanced or natural"),
        ("multilabel", ["settings.sampling=balanced"],
         "settings.sampling: balanced, but chexpert-competition-5 is multilabel: natural"),
        ("multilabel", ["settings.score_scale=log_softmax"],
         "settings.score_scale: log_softmax, but chexpert-competition-5 is multilabel: sigmoid or identity"),
        ("multilabel", ["settings.updates_per_epoch=24"],
         "settings.updates_per_epoch: an epoch of natural sampling is one pass, leave it out"),
        ("large", ["parts.0.settings.selection=best"],
         "parts.0.settings.selection: inaturalist-2018 has no validation split to find a best epoch by; use last"),
        ("large", ["parts.0.settings.sampling=balanced"],
         "parts.0.settings.updates_per_epoch: needed, the card of inaturalist-2018 does not count its training"),
        ("multiclass", ["losses=ce,listwise", "margins=[]"],
         "losses: listwise is for binary tasks, airbus-6-lt is multiclass"),
        ("smoke", ["losses=hand_till"], "losses: hand_till is for multiclass tasks, mnist-8-low-shot is binary"),
        ("smoke", ["settings.score_scale=log_softmax"], "settings.score_scale: log_softmax, but mnist-8-low-shot is"),
        ("multiclass", ["settings.accumulation=31"], "settings.accumulation: a batch of 60 has at most 30"),
        ("multiclass", ["settings.sampling=even"], "settings.sampling: "),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(preset, overrides, expected):
    with pytest.raises(SpaceError) as error:
        load_space(preset, overrides)
    assert any(problem.startswith(expected) for problem in error.value.problems), error.value.problems


def test_what_fits_several_kinds():
    assert expand(load_space("multiclass", ["losses=ce,hand_till", "seeds=1", "margins=0.5"])).trials
    smoke = load_space("smoke", ["settings.sampling=natural", "seeds=1", "losses=ce", "margins=[]"])
    natural = expand(smoke).trials.values()
    assert {(trial.updates_per_epoch, trial.positive_fraction) for trial in natural} == {(-(-2295 // 512), None)}
