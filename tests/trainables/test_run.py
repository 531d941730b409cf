"""The training loop against a reimplementation by hand, and each way a trial can fail."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from search_spaces.batches import updates_per_epoch
from search_spaces.errors import DataError, NonFiniteError, SpaceError, TrialError, TrialTimeout
from search_spaces.tasks import task_card
from search_spaces.trial import TrialConfig
from trainables import run as run_module
from trainables.checkpoint import TrainState
from trainables.context import EpochRow, TrialContext
from trainables.data import Split
from trainables.device import execution
from trainables.phases import Phase, Phases, Step
from trainables.run import advance, prepare_run, run_trial
from trainables.seeding import permutation, stream_seed

Make = Callable[..., TrialConfig]


def sigmoid(z: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1 / (1 + np.exp(-z))


def naive_batch(labels: NDArray[np.int64], shares: tuple[int, int], per_epoch: int, update: int) -> list[int]:
    """Indices of one batch: each class's reshuffled passes written out one after another."""
    epoch, step = divmod(update, per_epoch)
    batch: list[int] = []
    for label, share in enumerate(shares):
        members = [index for index, value in enumerate(labels) if value == label]
        stream: list[int] = []
        while len(stream) < (step + 1) * share:
            order = permutation(len(members), "order", 123, label, epoch, len(stream) // len(members))
            stream += [members[place] for place in order]
        batch += stream[step * share : (step + 1) * share]
    return batch


def naive_linear_run(toy: Any, weight: NDArray[np.float64], bias: float, switch: int) -> list[dict[str, float]]:
    """Two epochs of 5 updates of SGD on a linear model, gradients written out: CE, then squared hinge on sigmoids."""
    lr, momentum, decay, margin = 0.1, 0.9, 1e-3, 0.5
    scale = 0.5 if switch else 1.0  # a direct run is not scaled
    train = toy.data.train
    velocity_w, velocity_b = np.zeros_like(weight), 0.0
    losses, rows = [], []
    for update in range(10):
        indices = naive_batch(train.labels, (12, 4), 5, update)
        x, y = train.features[indices].astype(float), train.labels[indices]
        z = x @ weight + bias
        s = sigmoid(z)
        if update < switch:
            loss = float(np.mean([-math.log(p if label else 1 - p) for p, label in zip(s, y, strict=True)]))
            dz = (s - y) / len(y)
        else:
            loss, ds = 0.0, np.zeros_like(s)
            pairs = [(i, j) for i in np.flatnonzero(y == 1) for j in np.flatnonzero(y == 0)]
            for i, j in pairs:
                gap = max(0.0, margin - (s[i] - s[j]))
                loss += gap**2 / len(pairs)
                ds[i] -= 2 * gap / len(pairs)
                ds[j] += 2 * gap / len(pairs)
            dz = ds * s * (1 - s)
        losses.append(loss)
        rate = lr * (1 + math.cos(math.pi * update / 10)) / 2 * (scale if update >= switch else 1)
        velocity_w = momentum * velocity_w + (x.T @ dz + decay * weight)
        velocity_b = momentum * velocity_b + (dz.sum() + decay * bias)
        weight, bias = weight - rate * velocity_w, bias - rate * velocity_b
        if update % 5 == 4:
            row = {"train_loss": sum(losses[-5:]) / 5}
            for column, split in (("train", toy.data.train), ("val", toy.data.validation), ("test", toy.data.test)):
                row[f"{column}_auc"] = roc_auc_score(split.labels, split.features.astype(float) @ weight + bias)
            rows.append(row)
    return rows


@pytest.mark.parametrize("switch", [0, 3, 5, 7], ids=["direct", "mid-epoch", "epoch-end", "second-epoch"])
def test_two_epochs_of_a_linear_model_equal_a_reimplementation_by_hand(
    config_of: Make, direct_fields: dict[str, Any], toy: Any, tmp_path: Path, switch: int
) -> None:
    toy.module = lambda: nn.Sequential(nn.Linear(6, 1), nn.Flatten(0)).double()
    toy.encode = lambda raw: raw.double()
    config = config_of(**({"warmup_updates": switch} if switch else direct_fields), epochs=2)
    outcome = run_trial(config, toy.context(tmp_path))

    torch.manual_seed(stream_seed("init", 123))
    start = nn.Linear(6, 1).double()
    weight, bias = start.weight.detach().numpy()[0].copy(), start.bias.item()
    expected = naive_linear_run(toy, weight, bias, switch)
    for row, wanted in zip(outcome.rows, expected, strict=True):
        for column, value in wanted.items():
            assert row[column] == pytest.approx(value, rel=1e-10), (column, row["epoch"])


def test_rows_have_the_agreed_columns_and_are_announced_as_they_come(config_of: Make, toy: Any, tmp_path: Path) -> None:
    announced: list[EpochRow] = []
    outcome = run_trial(config_of(), toy.context(tmp_path, on_epoch=announced.append))
    assert announced == outcome.rows
    assert [(row["epoch"], row["update"]) for row in outcome.rows] == [(1, 5), (2, 10), (3, 15)]
    columns = "epoch update train_loss train_auc val_auc test_auc learning_rate_now seconds gpu_seconds"
    more = {f"{split}_{name}" for split in ("val", "test") for name in ("average_precision", "partial_auc")}
    assert set(outcome.rows[0]) == {*columns.split(), "peak_memory_bytes", "device"} | more
    # Cosine over 15 updates from 0.1, halved from the eighth on, at the fifth, tenth and fifteenth update.
    cosine = [0.1 * (1 + math.cos(math.pi * update / 15)) / 2 for update in (4, 9, 14)]
    rates = [row["learning_rate_now"] for row in outcome.rows]
    assert rates == pytest.approx([cosine[0], cosine[1] / 2, cosine[2] / 2], rel=1e-12)
    for row in outcome.rows:
        assert row["device"] == "cpu"
        assert row["gpu_seconds"] == 0.0
        assert row["seconds"] > 0
        assert row["peak_memory_bytes"] > 10_000_000  # bytes, not KiB: torch alone takes more
    assert outcome.data_fingerprint == "f" * 64
    assert (outcome.parameters, outcome.trainable_parameters) == (7, 7)


def test_scores_are_those_of_the_selected_epoch(config_of: Make, toy: Any, tmp_path: Path) -> None:
    outcome = run_trial(config_of(learning_rate=1.0, epochs=6), toy.context(tmp_path))
    best = outcome.rows[outcome.selected_epoch - 1]
    assert best["val_auc"] == max(row["val_auc"] for row in outcome.rows)
    for split, column in (("validation", "val_auc"), ("test", "test_auc")):
        labels = outcome.scores[f"{split}_labels"]
        assert labels.tolist() == getattr(toy.data, split).labels.tolist()
        assert best[column] == pytest.approx(roc_auc_score(labels, outcome.scores[split]), abs=1e-15)


def test_of_epochs_that_tie_the_first_ones_scores_are_kept(config_of: Make, toy: Any, tmp_path: Path) -> None:
    torch.manual_seed(stream_seed("init", 123))
    direction = nn.Linear(6, 1).weight.detach().numpy()[0]
    toy.data.validation.features += 50 * toy.data.validation.labels[:, None] * direction  # told apart from the start
    config, context = config_of(learning_rate=1e-3), toy.context(tmp_path)
    outcome = run_trial(config, context)
    assert [row["val_auc"] for row in outcome.rows] == [1.0] * 3
    assert outcome.selected_epoch == 1
    with execution(torch.device("cpu"), 1):
        run = prepare_run(config, context)
        advance(run, 5)
        first = run.progress.scores["test"].numpy().copy()
        advance(run, 15)
    assert np.array_equal(outcome.scores["test"], first)


def numbers(rows: list[EpochRow]) -> list[tuple[float, ...]]:
    return [(row["train_loss"], row["train_auc"], row["val_auc"], row["test_auc"]) for row in rows]


def test_a_trial_repeats_to_the_last_bit_whatever_the_global_generators_hold(
    config_of: Make, toy: Any, tmp_path: Path
) -> None:
    toy.make_deep()
    first = run_trial(config_of(), toy.context(tmp_path))
    torch.manual_seed(77)
    np.random.seed(77)
    again = run_trial(config_of(), toy.context(tmp_path))
    assert numbers(again.rows) == numbers(first.rows)


@pytest.mark.parametrize("accumulation", [1, 2])
def test_worker_processes_and_evaluation_batches_change_nothing(
    config_of: Make, toy: Any, tmp_path: Path, accumulation: int
) -> None:
    toy.make_deep()
    config = config_of(accumulation=accumulation)
    first = run_trial(config, toy.context(tmp_path))
    assert numbers(run_trial(config, toy.context(tmp_path, workers=2)).rows) == numbers(first.rows)
    other = run_trial(config, toy.context(tmp_path, eval_batch_size=7))
    assert np.array(numbers(other.rows)) == pytest.approx(np.array(numbers(first.rows)), abs=2e-3)


def test_arms_that_share_a_seed_share_weights_batches_augmentations_and_dropout_masks(
    config_of: Make, ce_fields: dict[str, Any], direct_fields: dict[str, Any], toy: Any, tmp_path: Path
) -> None:
    toy.make_deep()
    build = toy.module
    trace: list[Tensor] = []

    def watched() -> nn.Module:
        module = build()
        trace.append(module[0].weight.detach().clone())
        module.register_forward_pre_hook(note)
        module[3].register_forward_hook(lambda layer, args, out: note(layer, ((out != 0) | (args[0] == 0),)))
        return module

    def note(layer: nn.Module, values: tuple[Tensor, ...]) -> None:
        if layer.training:
            trace.append(values[0].clone())

    toy.module = watched

    def traced(**changes: Any) -> list[Tensor]:
        trace.clear()
        run_trial(config_of(learning_rate=0.0, **changes), toy.context(tmp_path))
        return list(trace)

    reference = traced(**ce_fields)
    assert len(reference) == 1 + 2 * 15
    for changes in (direct_fields, {}, {"loss": "logistic", "margin": None}, {"margin": 0.1, "warmup_updates": 2}):
        assert all(torch.equal(one, other) for one, other in zip(traced(**changes), reference, strict=True))
    assert not torch.equal(traced(seed=124)[0], reference[0])


def test_accumulation_keeps_ce_and_averages_the_parts_pair_means(
    config_of: Make, ce_fields: dict[str, Any], direct_fields: dict[str, Any], toy: Any, tmp_path: Path
) -> None:
    context, one_update = toy.context(tmp_path), {"epochs": 1, "updates_per_epoch": 1}
    whole, parts = (
        run_trial(config_of(**ce_fields, **one_update, accumulation=count), context).rows[0] for count in (1, 3)
    )  # 12 and 4 in three parts: 5, 5 and 6 examples
    assert parts["train_loss"] == pytest.approx(whole["train_loss"], rel=1e-6)
    row = run_trial(config_of(**direct_fields, **one_update, accumulation=2), context).rows[0]
    torch.manual_seed(stream_seed("init", 123))
    model = nn.Linear(6, 1)
    batch = naive_batch(toy.data.train.labels, (12, 4), 1, 0)
    scores = torch.sigmoid(model(torch.from_numpy(toy.data.train.features[batch])))[:, 0].tolist()
    means = []
    for part in range(2):
        down, up = scores[part * 6 : part * 6 + 6], scores[12 + part * 2 : 14 + part * 2]
        means.append(np.mean([max(0.0, 0.5 - (i - j)) ** 2 for i in up for j in down]))
    assert row["train_loss"] == pytest.approx(np.mean(means), rel=1e-6)


def test_gradients_are_clipped_to_the_given_norm(
    config_of: Make, direct_fields: dict[str, Any], toy: Any, tmp_path: Path
) -> None:
    moved = []
    build = toy.module

    def watched() -> nn.Module:
        module = build()
        moved.append((module, nn.utils.parameters_to_vector(module.parameters()).detach().clone()))
        return module

    toy.module = watched
    plain = {"epochs": 1, "updates_per_epoch": 1, "weight_decay": 0.0, "learning_rate": 1.0}
    run_trial(config_of(**direct_fields, **plain, max_grad_norm=1e-3), toy.context(tmp_path))
    module, start = moved[0]
    step = nn.utils.parameters_to_vector(module.parameters()).detach() - start
    assert step.norm().item() == pytest.approx(1e-3, rel=1e-3)


def test_bfloat16_models_train_with_losses_in_float32(config_of: Make, toy: Any, tmp_path: Path) -> None:
    toy.module = lambda: nn.Sequential(nn.Linear(6, 1), nn.Flatten(0)).to(torch.bfloat16)
    toy.encode = lambda raw: raw.to(torch.bfloat16)
    outcome = run_trial(config_of(precision="bfloat16", max_grad_norm=1.0), toy.context(tmp_path))
    reference = outcome.scores["test"]
    assert np.array_equal(reference, torch.from_numpy(reference).to(torch.bfloat16).double().numpy())
    assert outcome.rows[-1]["train_loss"] != round(outcome.rows[-1]["train_loss"], 2)


def test_global_settings_are_put_back(config_of: Make, toy: Any, tmp_path: Path) -> None:
    assert not torch.are_deterministic_algorithms_enabled()
    seen: list[bool] = []
    context = toy.context(tmp_path, on_epoch=lambda _: seen.append(torch.are_deterministic_algorithms_enabled()))
    run_trial(config_of(), context)
    assert seen == [True] * 3
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize("label", ["negative", "positive"])
def test_counts_other_than_the_cards_name_split_class_and_both_counts(
    config_of: Make, toy: Any, tmp_path: Path, label: str
) -> None:
    counts = (41, 20) if label == "negative" else (40, 19)
    toy.counts = toy.counts | {"test": counts}
    found, wanted, number = (40, 41, 0) if label == "negative" else (20, 19, 1)
    with pytest.raises(DataError, match=rf"'toy', test split, class {number}: {found} examples .* card says {wanted}"):
        run_trial(config_of(), toy.context(tmp_path))


def test_labels_outside_the_card_are_refused(config_of: Make, toy: Any, tmp_path: Path) -> None:
    toy.data.train.labels = np.append(toy.data.train.labels, 2)
    with pytest.raises(DataError, match=r"train split: labels \[2\] are not classes"):
        run_trial(config_of(), toy.context(tmp_path))


def test_a_one_class_evaluation_set_is_refused_before_training(config_of: Make, toy: Any, tmp_path: Path) -> None:
    toy.counts = toy.counts | {"validation": (30, 0)}
    keep = toy.data.validation.labels == 0
    toy.data.validation.labels = toy.data.validation.labels[keep]
    with pytest.raises(DataError, match=r"validation split holds one class only \(30 negatives, 0 positives\)"):
        run_trial(config_of(), toy.context(tmp_path))


def test_other_data_than_the_stores_or_the_cards_are_refused(config_of: Make, toy: Any, tmp_path: Path) -> None:
    run_trial(config_of(), toy.context(tmp_path, fingerprints={"toy": "f" * 64, "other": "e" * 64}))
    with pytest.raises(DataError, match="recorded in this store"):
        run_trial(config_of(), toy.context(tmp_path, fingerprints={"toy": "e" * 64}))
    context = toy.context(tmp_path)
    context.cards["toy"] = dataclasses.replace(context.cards["toy"], fingerprint="d" * 64)
    with pytest.raises(DataError, match="recorded in its task card"):
        run_trial(config_of(), context)


def test_a_divergent_run_names_loss_and_update(
    config_of: Make, ce_fields: dict[str, Any], toy: Any, tmp_path: Path
) -> None:
    toy.make_deep()
    with pytest.raises(NonFiniteError, match=r"ce loss is (nan|inf) at update \d+ of 15"):
        run_trial(config_of(**(ce_fields | {"learning_rate": 1e38})), toy.context(tmp_path))


def own_becomes(monkeypatch: pytest.MonkeyPatch, objective: Any) -> None:
    """Put ``objective`` in the place of the run's own loss, after the warm-up."""
    make = run_module.make_phases

    def changed(config: TrialConfig, shares: Any) -> Phases:
        warm_up, own = make(config, shares).phases
        return Phases((warm_up, Phase(own.last, lambda _: Step(config.loss, objective, False))))

    monkeypatch.setattr(run_module, "make_phases", changed)


def test_a_nan_loss_is_reported_at_its_update_and_stops_before_the_step(
    config_of: Make, toy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_becomes(monkeypatch, lambda logits, labels, weights: logits.mean() * float("nan"))
    rows: list[EpochRow] = []
    with pytest.raises(NonFiniteError, match=r"the squared_hinge loss is nan at update 8 of 15") as caught:
        run_trial(config_of(), toy.context(tmp_path, on_epoch=rows.append))
    assert caught.value.kind == "nan"
    assert [row["epoch"] for row in rows] == [1]


def test_a_gradient_that_is_not_finite_is_reported_though_the_loss_is(
    config_of: Make, direct_fields: dict[str, Any], toy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # sqrt has value 0 and slope infinity at 0
    own_becomes(monkeypatch, lambda logits, labels, weights: (logits * 0).sqrt().sum())
    with pytest.raises(NonFiniteError, match=r"gradient norm of the squared_hinge loss is nan at update 1 of 15"):
        run_trial(config_of(**direct_fields), toy.context(tmp_path))


def test_a_nan_score_names_split_and_epoch(config_of: Make, toy: Any, tmp_path: Path) -> None:
    toy.data.validation.features[3] = float("nan")
    with pytest.raises(NonFiniteError, match=r"1 of 42 validation scores .* epoch 1 \(first: example 3"):
        run_trial(config_of(), toy.context(tmp_path))


def test_a_passed_deadline_is_a_timeout_that_says_how_far_the_trial_came(
    config_of: Make, toy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TrialTimeout, match="out of time after 0 of 15 updates"):
        run_trial(config_of(), toy.context(tmp_path, deadline=time.monotonic() - 1))
    clock = iter(range(1000))
    monkeypatch.setattr(run_module.time, "monotonic", lambda: next(clock))
    # 5 updates and 3 one-batch evaluations ask the clock 8 times an epoch: at 13 the second epoch's last update begins.
    with pytest.raises(TrialTimeout, match=r"after 9 of 15 updates \(1 epochs evaluated\)"):
        run_trial(config_of(), toy.context(tmp_path, deadline=11.5))


def test_one_class_batches_are_refused(config_of: Make, toy: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="0 positives"):
        run_trial(config_of(positive_fraction=0.01), toy.context(tmp_path))


def test_logits_of_the_wrong_shape_are_refused(config_of: Make, toy: Any, tmp_path: Path) -> None:
    toy.module = lambda: nn.Linear(6, 2)
    with pytest.raises(TrialError, match=r"'toy-model' gave logits of shape \(16, 2\), not \(16,\)"):
        run_trial(config_of(), toy.context(tmp_path))


def test_an_unknown_task_names_the_nearest(config_of: Make, toy: Any, tmp_path: Path) -> None:
    with pytest.raises(SpaceError, match="did you mean toy"):
        run_trial(config_of(task="toi"), toy.context(tmp_path))


def test_an_unknown_optimizer_is_refused(config_of: Make, toy: Any, tmp_path: Path) -> None:
    with pytest.raises(TrialError, match=r"'adam'.*adamw, pesg, sgd"):
        run_trial(config_of(optimizer="adam"), toy.context(tmp_path))


def test_a_loaders_error_crosses_worker_processes_with_its_class(config_of: Make, toy: Any, tmp_path: Path) -> None:
    class Broken:
        def __init__(self, split: Split):
            self.labels, self.split = split.labels, split

        def fetch(self, indices: NDArray[np.int64], draws: NDArray[np.int64] | None = None) -> Tensor:
            raise DataError("image 12.png is truncated")

    toy.data.train = Broken(toy.data.train)
    for workers in (0, 1):
        with pytest.raises(DataError, match=r"12\.png is truncated"):
            run_trial(config_of(), toy.context(tmp_path, workers=workers))


REAL = [
    # 2,250 negatives in steps of 384 are 6 updates; 784-128x6-1 has these many weights and biases.
    ("mnist-8-low-shot", "plain-mlp", 512, 6, 784 * 128 + 5 * 128 * 128 + 6 * 128 + 129),
    # 129 positives in steps of 16 are 9 updates; a model with dropout that reads tensors by name.
    ("drug-reviews", "small-transformer", 64, 9, None),
]


@pytest.mark.parametrize(("task", "model", "batch_size", "updates", "parameters"), REAL)
def test_a_built_in_task_trains_and_a_cut_run_is_bit_equal(
    config_of: Make, tmp_path: Path, task: str, model: str, batch_size: int, updates: int, parameters: int | None
) -> None:
    card = task_card(task)
    config = config_of(
        task=task,
        task_revision=card.revision,
        model=model,
        batch_size=batch_size,
        epochs=1,
        updates_per_epoch=updates_per_epoch(card.counts["train"], batch_size, 0.25),
        warmup_updates=updates // 2,
        optimizer="adamw",
        momentum=0.0,
        learning_rate=1e-3,
        max_length=16 if card.modality == "text" else None,
    )
    assert config.updates_per_epoch == updates
    context = TrialContext(data_root=tmp_path)
    outcome = run_trial(config, context)
    if parameters is not None:
        assert outcome.parameters == outcome.trainable_parameters == parameters
    labels = outcome.scores["test_labels"]
    assert np.bincount(labels).tolist() == list(card.counts["test"])
    assert outcome.rows[0]["test_auc"] == pytest.approx(roc_auc_score(labels, outcome.scores["test"]), abs=1e-15)
    with execution(torch.device("cpu"), 1):
        run = prepare_run(config, context)
        advance(run, updates // 2 + 1)
        state = TrainState.from_bytes(run.state().to_bytes())
    assert numbers(run_trial(config, context, state).rows) == numbers(outcome.rows)
