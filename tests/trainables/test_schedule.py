"""Learning rates: the text's own numbers, independent formulas, and the paper's regimes at full length."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from transformers import get_cosine_schedule_with_warmup

from search_spaces.batches import updates_per_epoch, warmup_updates
from search_spaces.errors import TrialError
from search_spaces.regimes import REGIMES
from search_spaces.tasks import TASKS
from search_spaces.trial import TrialConfig
from trainables.phases import make_phases
from trainables.sampling import make_sampler
from trainables.schedule import learning_rate

Make = Callable[..., TrialConfig]


def direct(config_of: Make, direct_fields: dict[str, Any], **changes: Any) -> TrialConfig:
    return config_of(**(direct_fields | changes))


@pytest.mark.parametrize(
    ("first", "epochs", "per_epoch", "update", "rate"), [(0.05, 20, 69, 690, 0.025), (1e-4, 10, 22, 110, 5e-5)]
)
def test_the_rates_the_text_states(
    config_of: Make,
    direct_fields: dict[str, Any],
    first: float,
    epochs: int,
    per_epoch: int,
    update: int,
    rate: float,
) -> None:
    config = direct(config_of, direct_fields, learning_rate=first, epochs=epochs, updates_per_epoch=per_epoch)
    assert learning_rate(config, update) == pytest.approx(rate, rel=1e-12)


def test_cosine_equals_torch_and_ends_at_zero(config_of: Make, direct_fields: dict[str, Any]) -> None:
    config = direct(config_of, direct_fields, epochs=10, updates_per_epoch=22, learning_rate=0.05)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.05)
    reference = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda u: (1 + math.cos(math.pi * u / 220)) / 2)
    for update in range(220):
        assert learning_rate(config, update) == pytest.approx(reference.get_last_lr()[0], rel=1e-9)
        optimizer.step()
        reference.step()
    assert learning_rate(config, 220) == 0.0


def test_ramp_then_cosine_equals_hugging_face(config_of: Make, direct_fields: dict[str, Any]) -> None:
    config = direct(config_of, direct_fields, epochs=4, updates_per_epoch=50, learning_rate=2e-4, lr_warmup_updates=10)
    optimizer = torch.optim.AdamW([torch.zeros(1, requires_grad=True)], lr=2e-4)
    reference = get_cosine_schedule_with_warmup(optimizer, 10, 200)
    for update in range(200):
        assert learning_rate(config, update) == pytest.approx(reference.get_last_lr()[0], rel=1e-9, abs=1e-20)
        optimizer.step()
        reference.step()
    assert [learning_rate(config, update) for update in (0, 5, 10)] == pytest.approx([0.0, 1e-4, 2e-4])


def test_constant_after_its_ramp(config_of: Make, direct_fields: dict[str, Any]) -> None:
    config = direct(config_of, direct_fields, lr_schedule="constant", learning_rate=0.3, lr_warmup_updates=3)
    assert [learning_rate(config, update) for update in range(5)] == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.3])


def test_only_a_warm_up_run_is_scaled_and_only_from_the_switch_on(
    config_of: Make, ce_fields: dict[str, Any], direct_fields: dict[str, Any]
) -> None:
    warmup = config_of(lr_schedule="constant")  # 7 CE updates, then half the rate
    assert [learning_rate(warmup, update) for update in (0, 6, 7, 14)] == pytest.approx([0.1, 0.1, 0.05, 0.05])
    for fields in (ce_fields, direct_fields):
        other = config_of(**(fields | {"lr_schedule": "constant"}))
        assert [learning_rate(other, update) for update in (0, 6, 7, 14)] == pytest.approx([0.1] * 4)
    assert learning_rate(config_of(switch_scale=1.0), 9) == pytest.approx(
        0.1 * 0.5 * (1 + math.cos(math.pi * 9 / 15)), rel=1e-12
    )


def test_a_switch_inside_the_ramp_scales_the_ramp(config_of: Make) -> None:
    config = config_of(lr_warmup_updates=10, warmup_updates=4, lr_schedule="constant")
    assert learning_rate(config, 3) == pytest.approx(0.03)
    assert learning_rate(config, 4) == pytest.approx(0.02)


@pytest.mark.parametrize("update", [-1, 16])
def test_an_update_outside_the_run_is_refused(config_of: Make, update: int) -> None:
    with pytest.raises(ValueError, match=r"outside 0\.\.15"):
        learning_rate(config_of(), update)


def test_an_unknown_schedule_is_refused(config_of: Make) -> None:
    with pytest.raises(TrialError, match=r"'linear'.*constant, cosine"):
        learning_rate(config_of(lr_schedule="linear"), 3)


IMAGES = ("dog-breeds", "crj700-crj900", "aptos", "deepweeds")
TEXTS = (
    *("goemotions-annoyance", "goemotions-fear", "anli-r1-en", "anli-r3-cn", "anli-r3-en"),
    *("snli-high-overlap", "wanli-cn", "wanli-en"),
)
PAPER = [
    ("cv-imagenet-lt", "imagenet-lt-dogs"),
    *(("cv-resnet50", task) for task in IMAGES),
    *(("cv-densenet121", task) for task in ("apple-disease", "rice-disease", "aptos", "ham10000")),
    *(("nlp-distilbert", task) for task in TEXTS),
    *(("nlp-qwen", task) for task in TEXTS),
]


@pytest.mark.parametrize(
    ("regime", "task", "per_epoch", "total"),
    [
        ("cv-imagenet-lt", "imagenet-lt-dogs", 69, 1380),  # the text: three epochs are 207 updates, epoch 10 is 690
        ("cv-resnet50", "aptos", 22, 220),  # the text: three epochs are 66 updates, epoch 5 is 110
        ("cv-densenet121", "apple-disease", 3, 30),  # 25 positives in steps of 12
        ("cv-densenet121", "ham10000", 131, 1310),  # 4,694 negatives in steps of 36
    ],
)
def test_updates_per_epoch_the_text_states_or_implies(regime: str, task: str, per_epoch: int, total: int) -> None:
    settings, card = REGIMES[regime].settings, TASKS[task]
    found = updates_per_epoch(card.counts["train"], settings.batch_size, settings.positive_fraction)
    assert (found, found * settings.epochs) == (per_epoch, total)


@pytest.mark.parametrize(("regime", "task"), PAPER)
def test_batches_schedule_and_switch_of_the_papers_runs_at_full_length(config_of: Make, regime: str, task: str) -> None:
    """Every update of the longest run against a computation by another route: drawing until both classes are seen."""
    settings, (negatives, positives) = REGIMES[regime].settings, TASKS[task].counts["train"]
    b_pos = int(0.25 * settings.batch_size + 0.5)
    b_neg = settings.batch_size - b_pos
    per_epoch = 0
    while per_epoch * b_neg < negatives or per_epoch * b_pos < positives:
        per_epoch += 1
    total = per_epoch * settings.epochs
    switch = math.floor(0.1 * total + 0.5)
    ramp = math.floor(settings.lr_warmup_fraction * total + 0.5)
    config = config_of(
        warmup_updates=warmup_updates(0.1, total),
        epochs=settings.epochs,
        updates_per_epoch=updates_per_epoch((negatives, positives), settings.batch_size, settings.positive_fraction),
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        lr_warmup_updates=warmup_updates(settings.lr_warmup_fraction, total),
        switch_scale=settings.switch_scale,
    )
    assert config.total_updates == total
    phases = make_phases(config)
    names = [phases.at(update)[0] for update in range(total)]
    assert names == ["ce"] * switch + ["squared_hinge"] * (total - switch)
    for update in range(total):
        rate = settings.learning_rate * (settings.switch_scale if update >= switch else 1.0)
        if update < ramp:
            rate *= update / ramp
        else:
            rate *= math.cos(0.5 * math.pi * (update - ramp) / (total - ramp)) ** 2  # (1 + cos 2a) / 2 = cos^2 a
        assert learning_rate(config, update) == pytest.approx(rate, rel=1e-9, abs=1e-20)

    labels = np.repeat([0, 1], [negatives, positives])
    sampler = make_sampler(
        labels,
        batch_size=settings.batch_size,
        positive_fraction=settings.positive_fraction,
        updates_per_epoch=per_epoch,
        seed=123,
    )
    seen = np.zeros(len(labels), dtype=int)
    for update in range(per_epoch, 2 * per_epoch):
        (batch,) = sampler.micro_batches(update)
        assert labels[batch.indices].tolist() == [0] * b_neg + [1] * b_pos
        np.add.at(seen, batch.indices, 1)
    assert seen.min() >= 1
    for label, share in ((0, b_neg), (1, b_pos)):  # no example is favoured by more than one visit
        counts = seen[labels == label]
        assert counts.sum() == per_epoch * share
        assert counts.max() - counts.min() <= 1
