"""Thresholds saved from training scores, and the accuracy that follows from them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from search_spaces.tasks import TASKS
from trainables.context import TrialContext
from trainables.run import run_trial
from trainables.thresholds import SAVED_AT_MOST, threshold_metrics, training_thresholds

BINARY = TASKS["mnist-8-low-shot"]
TEN = TASKS["cifar-10"]
RNG = np.random.default_rng(0)


def test_as_many_training_examples_are_called_positive_as_there_are() -> None:
    scores, labels = RNG.standard_normal(50), np.arange(50) % 3 == 0
    (level,) = training_thresholds(scores, labels.astype(np.int64))
    assert (scores >= level).sum() == labels.sum()
    matrix, classes = RNG.standard_normal((60, 4)), np.arange(60) % 4
    levels = training_thresholds(matrix, classes)
    assert ((matrix >= levels).sum(0) == 15).all()
    many = (RNG.random((60, 4)) < 0.3).astype(np.int64)
    assert ((matrix >= training_thresholds(matrix, many)).sum(0) == many.sum(0)).all()


def test_a_class_without_training_examples_is_never_decided_for() -> None:
    card = dataclasses.replace(TEN, options={"outputs": 3})
    scores = {"train": RNG.standard_normal((20, 3)), "test": RNG.standard_normal((20, 3))}
    labels = {"train": np.arange(20) % 2, "test": np.full(20, 2)}
    found = threshold_metrics(card, scores, labels)
    assert set(found) == {"train_threshold_0", "train_threshold_1", "test_accuracy_by_threshold"}
    assert found["test_accuracy_by_threshold"] == 0.0


def test_thresholds_undo_what_the_loss_leaves_open() -> None:
    """A constant added to one class's scores ruins the largest score's accuracy, not that by thresholds."""
    labels = np.arange(200) % 10
    scores = np.eye(10)[labels] * 3 + RNG.standard_normal((200, 10)) * 0.3
    shift = np.zeros(10)
    shift[4] = 50.0
    split = {"train": scores + shift, "validation": scores + shift, "test": scores + shift}
    found = threshold_metrics(TEN, split, dict.fromkeys(split, labels))
    assert ((scores + shift).argmax(1) == labels).mean() == 0.1
    assert found["test_accuracy_by_threshold"] == found["val_accuracy_by_threshold"] == 1.0


def test_tasks_of_very_many_classes_have_none() -> None:
    card = dataclasses.replace(TEN, options={"outputs": SAVED_AT_MOST + 1})
    assert threshold_metrics(card, {}, {}) == {}


@pytest.mark.parametrize("loss", ["hypersimplex", "logistic"])
def test_a_hypersimplex_run_saves_its_threshold(config_of: Any, loss: str, tmp_path: Any) -> None:
    params = {"tau": 1.5, "k": "labels", "share": 0.5, "reduction": "mean"} if loss == "hypersimplex" else {}
    fields = {
        "task": "mnist-8-low-shot-12",
        "task_revision": "1",
        "model": "plain-mlp",
        "mode": "direct",
        "loss": loss,
        "margin": None,
        "loss_params": params,
        "epochs": 1,
        "updates_per_epoch": 2,
        "batch_size": 32,
        "warmup_updates": 0,
        "switch_scale": None,
    }
    result = run_trial(config_of(**fields), TrialContext(data_root=tmp_path))
    (row,) = result.rows
    assert ("train_threshold" in row) == (loss == "hypersimplex")
    if loss == "hypersimplex":
        called = result.scores["test"] >= row["train_threshold"]
        assert row["test_accuracy"] == (called == (result.scores["test_labels"] == 1)).mean()
