"""The large-batch study: its baselines, its model, its view of images, its preset, and trials on miniatures."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from search_spaces.errors import DataError
from search_spaces.expand import expand
from search_spaces.models import MODELS
from search_spaces.space import load_space
from search_spaces.tasks import TASKS
from trainables.context import TrialContext
from trainables.data import load_task, prepare_task
from trainables.data.augment import PADDING, cropped
from trainables.data.download import source_name
from trainables.data.fashion_mnist import read_idx
from trainables.losses import LossError, make_loss
from trainables.models import build_model
from trainables.run import run_trial

spec = importlib.util.spec_from_file_location("large_batch_miniatures", Path(__file__).with_name("miniatures.py"))
assert spec is not None
assert spec.loader is not None
miniatures: Any = importlib.util.module_from_spec(spec)
sys.modules["large_batch_miniatures"] = miniatures
spec.loader.exec_module(miniatures)

GENERATOR = torch.Generator().manual_seed(0)
SCORES = torch.randn(7, 4, dtype=torch.float64, generator=GENERATOR) * 2
CLASSES = torch.tensor([0, 3, 1, 1, 2, 0, 3])
WEIGHTS = torch.tensor([1.0, 0.0, 2.0, 0.5, 1.0, 3.0, 1.0])


def hinge_of(scores: list[float], label: int) -> float:
    return sum(max(0.0, 1 - scores[label] + s) for c, s in enumerate(scores) if c != label) / len(scores)


def error_of(scores: list[float], label: int) -> float:
    powers = np.exp(np.array(scores))
    return float(((powers / powers.sum() - np.eye(len(scores))[label]) ** 2).mean())


BASELINES: list[tuple[str, Callable[[list[float], int], float]]] = [
    ("multiclass_hinge", hinge_of),
    ("softmax_mse", error_of),
]


@pytest.mark.parametrize(("name", "naive"), BASELINES)
def test_baselines_equal_a_loop(name: str, naive: Callable[[list[float], int], float]) -> None:
    each = [naive(row, int(label)) for row, label in zip(SCORES.tolist(), CLASSES, strict=True)]
    loss = make_loss(name)
    assert loss(SCORES, CLASSES).item() == pytest.approx(np.mean(each), rel=1e-12)
    expected = np.average(each, weights=WEIGHTS.numpy())
    assert loss(SCORES, CLASSES, WEIGHTS).item() == pytest.approx(expected, rel=1e-12)
    assert torch.autograd.gradcheck(lambda scores: loss(scores, CLASSES), SCORES.clone().requires_grad_())
    if name == "multiclass_hinge":
        assert loss(SCORES, CLASSES).item() == pytest.approx(nn.MultiMarginLoss()(SCORES, CLASSES).item(), rel=1e-12)
    half = loss(SCORES.half(), CLASSES)
    assert half.dtype == torch.float32
    assert half.item() == pytest.approx(np.mean(each), rel=5e-3)


@pytest.mark.parametrize("name", ["multiclass_hinge", "softmax_mse"])
@pytest.mark.parametrize(
    ("scores", "labels", "message"),
    [
        (torch.zeros(4), torch.zeros(4), r"class scores \(n, C\)"),
        (torch.zeros(4, 3), torch.zeros(4, 3), r"class scores \(n, C\)"),
        (torch.zeros(2, 3), torch.tensor([0, 3]), "3"),
        (torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64), "at least one"),
    ],
)
def test_baselines_refuse_what_is_no_class_batch(
    name: str, scores: torch.Tensor, labels: torch.Tensor, message: str
) -> None:
    with pytest.raises(LossError, match=message):
        make_loss(name)(scores, labels)


def test_the_model_is_the_published_one() -> None:
    for task, channels, side in (("cifar-10", 3, 32), ("fashion-mnist", 1, 28)):
        torch.manual_seed(0)
        module = build_model("four-conv-cnn", "random", card=TASKS[task]).module
        convolutions = [m for m in module.modules() if isinstance(m, nn.Conv2d)]
        assert [(m.in_channels, m.out_channels, m.kernel_size) for m in convolutions] == [
            (channels, 64, (3, 3)),
            *[(64, 64, (3, 3))] * 3,
        ]
        counts = {kind: sum(isinstance(m, kind) for m in module.modules()) for kind in (nn.BatchNorm2d, nn.MaxPool2d)}
        assert counts == {nn.BatchNorm2d: 4, nn.MaxPool2d: 2}
        linear = [m for m in module.modules() if isinstance(m, nn.Linear)]
        assert [(m.in_features, m.out_features) for m in linear] == [(64 * (side // 4) ** 2, 512), (512, 10)]
        assert module(torch.zeros(2, channels, side, side, dtype=torch.uint8)).shape == (2, 10)
    card = dataclasses.replace(TASKS["cifar-10"], options={"image_size": 32, "outputs": 1})
    one = build_model("four-conv-cnn", "random", card=card).module
    assert sum(p.numel() for p in one.parameters()) == MODELS["four-conv-cnn"].parameters


def test_crops_are_shifts_by_up_to_four_pixels_that_follow_from_the_draw() -> None:
    batch = np.random.default_rng(0).integers(1, 256, (500, 9, 7, 2), dtype=np.uint8)
    draws = np.arange(500)
    found = cropped(batch, draws)
    shifts = []
    for before, after in zip(batch, found, strict=True):
        padded = np.pad(before, ((PADDING,) * 2, (PADDING,) * 2, (0, 0)))
        windows = {
            (top, left): padded[top : top + 9, left : left + 7]
            for top in range(2 * PADDING + 1)
            for left in range(2 * PADDING + 1)
        }
        (shift,) = [place for place, window in windows.items() if (window == after).all()]
        shifts.append(shift)
    assert len(set(shifts)) > 75  # of 81
    assert abs(np.mean(shifts) - PADDING) < 0.3
    assert (cropped(batch[:1], draws[:1]) == found[:1]).all()


def test_the_preset_is_the_published_protocol() -> None:
    trials = list(expand(load_space("large-batch")).trials.values())
    assert {trial.batch_size for trial in trials} == {128, 256, 512, 1024, 2048, 4096, 8192}
    assert len(trials) == 2 * 7 * 5 * 5
    losses = {(t.loss, t.loss_params.get("k"), t.loss_params.get("share"), t.loss_params.get("tau")) for t in trials}
    assert losses == {
        ("ce", None, None, None),
        ("multiclass_hinge", None, None, None),
        ("softmax_mse", None, None, None),
        ("hypersimplex", "share", 0.5, 1.5),
        ("hypersimplex", "expected", 0.5, 1.5),
    }
    common = {(t.epochs, t.optimizer, t.learning_rate, t.weight_decay, t.lr_schedule, t.sampling) for t in trials}
    assert common == {(600, "adamw", 1e-4, 0.0, "constant", "natural")}  # AdamW without weight decay is Adam
    assert {t.score_scale for t in trials if t.loss == "hypersimplex"} == {"identity"}
    assert {t.updates_per_epoch for t in trials if t.batch_size == 8192} == {6, 7}


@pytest.mark.parametrize("task", ["cifar-10", "fashion-mnist"])
def test_trials_on_a_miniature(task: str, tmp_path: Path) -> None:
    writers = {"cifar-10": miniatures.cifar_ten, "fashion-mnist": miniatures.fashion("")}
    card = dataclasses.replace(TASKS[task], counts=writers[task](tmp_path))
    prepare_task(card, tmp_path)
    overrides = [f"tasks=[{task}]", "seeds=[1]", "settings.epochs=1"]
    trials = list(expand(load_space("large-batch", overrides)).trials.values())
    for trial in (t for t in trials if t.batch_size == 128):
        config = dataclasses.replace(trial, updates_per_epoch=2, batch_size=40)
        (row,) = run_trial(config, TrialContext(data_root=tmp_path, cards={task: card})).rows
        assert 0 <= row["val_accuracy"] <= 1
        assert 0 <= row["test_accuracy"] <= 1
        assert ("test_accuracy_by_threshold" in row) == (trial.loss == "hypersimplex")


def test_accuracy_is_that_of_the_largest_score(tmp_path: Path) -> None:
    card = dataclasses.replace(TASKS["cifar-10"], counts=miniatures.cifar_ten(tmp_path))
    prepare_task(card, tmp_path)
    overrides = ["tasks=[cifar-10]", "seeds=[1]", "settings.epochs=1", "losses=[ce]", "warmup_ratios=[]"]
    trial = next(iter(expand(load_space("large-batch", overrides)).trials.values()))
    config = dataclasses.replace(trial, updates_per_epoch=2, batch_size=40)
    result = run_trial(config, TrialContext(data_root=tmp_path, cards={"cifar-10": card}))
    expected = (result.scores["test"].argmax(1) == result.scores["test_labels"]).mean()
    assert result.rows[0]["test_accuracy"] == expected


def test_labels_and_pixels_are_the_files(tmp_path: Path) -> None:
    card = dataclasses.replace(TASKS["fashion-mnist"], counts=miniatures.fashion(".gz")(tmp_path))
    prepare_task(card, tmp_path)
    raw = tmp_path / "sources/FashionMNIST/raw"
    images = read_idx(raw / "t10k-images-idx3-ubyte.gz")
    test = load_task(card, seed=0, data_root=tmp_path).test
    found = {
        (int(label), image.numpy().tobytes())
        for label, image in zip(test.labels, test.fetch(np.arange(20), None), strict=True)
    }
    assert found == {(row % 10, image.tobytes()) for row, image in enumerate(images)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:-1], "expected 20 values, got 19"),
        (lambda data: b"\0\0\x0d" + data[3:], "not an idx file of bytes"),
        (lambda data: b"", "not an idx file of bytes"),
    ],
)
def test_a_damaged_idx_file_is_named(tmp_path: Path, change: Callable[[bytes], bytes], message: str) -> None:
    miniatures.fashion("")(tmp_path)
    path = tmp_path / "sources/FashionMNIST/raw/t10k-labels-idx1-ubyte"
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(DataError, match=message) as caught:
        prepare_task(TASKS["fashion-mnist"], tmp_path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_gzip_or_not_cifar_is_named(tmp_path: Path) -> None:
    miniatures.fashion(".gz")(tmp_path)
    path = tmp_path / "sources/FashionMNIST/raw/train-images-idx3-ubyte.gz"
    path.write_bytes(b"<html>")
    with pytest.raises(DataError, match="cannot be decompressed"):
        prepare_task(TASKS["fashion-mnist"], tmp_path)
    miniatures.cifar_ten(tmp_path)
    (tmp_path / "sources/cifar-10-batches-py/test_batch").write_bytes(miniatures.pickle.dumps({b"labels": [1]}))
    with pytest.raises(DataError, match="not a file of cifar-10-batches-py"):
        prepare_task(TASKS["cifar-10"], tmp_path)


def test_torchvision_can_bring_both() -> None:
    assert source_name(TASKS["cifar-10"]) == "cifar-10-batches-py"
    assert source_name(TASKS["fashion-mnist"]) == "FashionMNIST"
