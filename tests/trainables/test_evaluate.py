"""Scores and AUC of a split, and the selected epoch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import Tensor, nn

from search_spaces.errors import DataError, NonFiniteError
from search_spaces.tasks import TASKS
from trainables.evaluate import auc, metrics_of, score_split, selected_epoch
from trainables.models import BuiltModel


class Rows:
    """A split whose one feature is given; ``fetch`` records what it was asked for."""

    def __init__(self, values: list[float], labels: list[int]):
        self.values = torch.tensor(values)
        self.labels = np.array(labels)
        self.asked: list[tuple[list[int], Any]] = []

    def fetch(self, indices: NDArray[np.int64], draws: NDArray[np.int64] | None = None) -> Tensor:
        self.asked.append((indices.tolist(), draws))
        return self.values[indices]


class Scale(nn.Module):
    """Logit = 2 x, with a dropout that must be off."""

    def __init__(self, dtype: torch.dtype = torch.float32):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(2.0, dtype=dtype))
        self.dropout = nn.Dropout(0.9)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.dropout(inputs.to(self.weight.dtype) * self.weight)


def score(split: Rows, module: nn.Module | None = None, **changes: Any) -> NDArray[np.float64]:
    options = {"name": "test", "epoch": 4, "batch_size": 2, "device": torch.device("cpu")} | changes
    return score_split(BuiltModel(module or Scale(), lambda raw: raw), split, **options)


VALUES, LABELS = [0.1, -3.0, 0.7, 0.1, 2.0], [0, 0, 1, 1, 0]


@pytest.mark.parametrize("batch_size", [1, 2, 5, 100])
def test_scores_are_the_raw_logits_of_the_whole_split_in_order(batch_size: int) -> None:
    scores = score(Rows(VALUES, LABELS), batch_size=batch_size)
    assert scores.dtype == np.float64
    assert scores.tolist() == (2 * torch.tensor(VALUES)).double().tolist()


@pytest.mark.parametrize("workers", [0, 2])
def test_the_evaluation_view_is_fetched_and_no_random_number_is_used(workers: int) -> None:
    split, before = Rows(VALUES, LABELS), torch.get_rng_state()
    expected = score(Rows(VALUES, LABELS))
    assert np.array_equal(score(split, workers=workers), expected)
    assert torch.equal(torch.get_rng_state(), before)
    if workers == 0:
        assert split.asked == [([0, 1], None), ([2, 3], None), ([4], None)]


def test_half_precision_logits_are_compared_exactly_with_ties_counting_half() -> None:
    # 1.001 and 1.002 are one bfloat16 value: a tie between a positive and a negative.
    scores = score(Rows([1.001, 1.002, 3.0], [0, 1, 0]), Scale(torch.bfloat16))
    assert auc(scores, np.array([0, 1, 0]), "test") == 0.25


def test_auc_equals_scikit_learn() -> None:
    random = np.random.RandomState(3)
    scores, labels = random.randn(200).round(1), random.randint(0, 2, 200)
    assert auc(scores, labels, "train") == pytest.approx(roc_auc_score(labels, scores), abs=1e-15)


@pytest.mark.parametrize(("value", "shown"), [(float("nan"), "nan"), (float("inf"), "inf")])
def test_a_score_that_is_not_finite_names_split_epoch_and_example(value: float, shown: str) -> None:
    with pytest.raises(NonFiniteError, match=rf"1 of 5 test scores.*epoch 4 \(first: example 2, {shown}\)"):
        score(Rows([*VALUES[:2], value, *VALUES[3:]], LABELS))


@pytest.mark.parametrize("label", [0, 1])
def test_a_split_of_one_class_is_a_data_error(label: int) -> None:
    with pytest.raises(DataError, match=r"validation split holds one class only"):
        auc(np.array([0.1, 0.2]), np.array([label, label]), "validation")


def test_before_batch_may_stop_the_evaluation() -> None:
    calls: list[int] = []

    def stop() -> None:
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        score(Rows(VALUES, LABELS), before_batch=stop)
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("values", "selected"), [([0.7], 1), ([0.5, 0.9, 0.8], 2), ([0.5, 0.9, 0.9], 2), ([0.9, 0.9, 0.2], 1)]
)
def test_the_first_epoch_with_the_largest_validation_auc_is_selected(values: list[float], selected: int) -> None:
    rows = [{"epoch": number, "val_auc": value, "test_auc": 1 - value} for number, value in enumerate(values, 1)]
    assert selected_epoch(rows) == selected


@pytest.mark.parametrize("positives", [3, 40])
def test_metrics_of_a_binary_split(positives: int) -> None:
    random = np.random.RandomState(positives)
    labels = (np.arange(positives + 50) < positives).astype(np.int64)
    scores = random.randn(len(labels)) + labels
    found = metrics_of(TASKS["aptos"], scores, labels, "test")
    hardest = np.sort(scores[labels == 0])[-5:]  # a tenth of 50
    right = [score > other for score in scores[labels == 1] for other in hardest]
    assert list(found) == ["auc", "average_precision", "partial_auc"]
    assert found["auc"] == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)
    assert found["average_precision"] == pytest.approx(average_precision_score(labels, scores), abs=1e-12)
    assert found["partial_auc"] == pytest.approx(np.mean(right), abs=1e-12)
    assert metrics_of(TASKS["aptos"], scores, labels, "train", primary=True) == {"auc": found["auc"]}
