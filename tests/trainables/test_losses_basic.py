"""The six losses against double loops in Python floats, and what they refuse."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from search_spaces.errors import DataError, UsageError
from search_spaces.losses import LOSSES
from trainables.losses import LossError, OneClassError, make_loss, pair_weight

M = 0.5
VALUE = {
    "square": lambda x: (M - x) ** 2,
    "hinge": lambda x: max(M - x, 0.0),
    "squared_hinge": lambda x: max(M - x, 0.0) ** 2,
    "logistic": lambda x: math.log1p(math.exp(-x)) if x > 0 else -x + math.log1p(math.exp(x)),
    "exponential": lambda x: math.exp(-x),
}
WEIGHT = {
    "square": lambda x: 2 * (M - x),
    "hinge": lambda x: 1.0 if x < M else 0.0,
    "squared_hinge": lambda x: 2 * max(M - x, 0.0),
    "logistic": lambda x: 1 / (1 + math.exp(x)),
    "exponential": lambda x: math.exp(-x),
}
MARGINS = {name: M if LOSSES[name].has_margin else None for name in VALUE}


def test_every_name_of_the_design_is_a_loss() -> None:
    for name in ("ce", *VALUE):
        assert make_loss(name, M if LOSSES[name].has_margin else None).card is LOSSES[name]


@pytest.mark.parametrize("name", VALUE)
def test_value_and_gradient_equal_the_double_loop(name: str) -> None:
    scores = [0.25, -0.5, 1.0, 0.75, 0.25, 0.1]
    labels = [1, 0, 1, 0, 0, 1]
    tensor = torch.tensor(scores, dtype=torch.float64, requires_grad=True)
    loss = make_loss(name, MARGINS[name])(tensor, torch.tensor(labels))
    pairs = [(i, j) for i, j in itertools.product(range(6), range(6)) if labels[i] == 1 and labels[j] == 0]
    expected = sum(VALUE[name](scores[i] - scores[j]) for i, j in pairs) / len(pairs)
    gradient = [0.0] * 6
    for i, j in pairs:
        weight = WEIGHT[name](scores[i] - scores[j]) / len(pairs)
        gradient[i] -= weight
        gradient[j] += weight
    assert loss.item() == pytest.approx(expected, rel=1e-12)
    loss.backward()
    assert tensor.grad is not None
    assert tensor.grad.tolist() == pytest.approx(gradient, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("name", VALUE)
def test_pair_weight_is_the_table_of_the_paper(name: str) -> None:
    x = torch.tensor([-3.0, -0.25, 0.0, 0.5, 0.75, 4.0], dtype=torch.float64)
    weights = pair_weight(name, x, MARGINS[name])
    assert weights.tolist() == pytest.approx([WEIGHT[name](value) for value in x.tolist()], rel=1e-12)
    assert pair_weight(name, x.reshape(2, 3), MARGINS[name]).shape == (2, 3)


def test_hinge_has_weight_zero_at_the_margin() -> None:
    scores = torch.tensor([0.75, 0.25], requires_grad=True)
    loss = make_loss("hinge", margin=0.5)(scores, torch.tensor([1, 0]))
    loss.backward()
    assert loss.item() == 0.0
    assert scores.grad is not None
    assert scores.grad.tolist() == [0.0, 0.0]
    assert pair_weight("hinge", torch.tensor(0.5), margin=0.5).item() == 0.0


def test_cross_entropy_is_the_mean_log_loss_even_for_one_class_and_extreme_logits() -> None:
    logits = torch.tensor([2.0, -1.0, 1e4, -1e4], dtype=torch.float64)
    expected = (math.log1p(math.exp(-2.0)) + math.log1p(math.exp(-1.0)) + 1e4 + 1e4) / 4
    assert make_loss("ce")(logits, torch.tensor([1, 0, 0, 1])).item() == pytest.approx(expected, rel=1e-12)
    ones = torch.ones(2)
    assert make_loss("ce")(torch.zeros(2), ones).item() == pytest.approx(math.log(2))
    weighted = make_loss("ce")(logits[:2], torch.tensor([1, 0]), torch.tensor([3.0, 1.0]))
    assert weighted.item() == pytest.approx((3 * math.log1p(math.exp(-2.0)) + math.log1p(math.exp(-1.0))) / 4)


@pytest.mark.parametrize("name", VALUE)
def test_a_batch_of_one_class_names_the_missing_one(name: str) -> None:
    loss = make_loss(name, MARGINS[name])
    with pytest.raises(OneClassError, match="no positive"):
        loss(torch.randn(3), torch.zeros(3))
    with pytest.raises(OneClassError, match="no negative") as caught:
        loss(torch.randn(3), torch.ones(3))
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, DataError)
    assert caught.value.kind == "data"


@pytest.mark.parametrize(
    ("scores", "labels", "match"),
    [
        (torch.randn(3, 1), torch.tensor([[1], [0], [1]]), "shape"),
        (torch.randn(3), torch.tensor([1, 0]), "shape"),
        (torch.randn(3), torch.tensor([1, 0, 2]), "0 or 1"),
        (torch.randn(3), torch.tensor([1.0, -1.0, 1.0]), "0 or 1"),
        (torch.randn(3), torch.tensor([1.0, 0.0, float("nan")]), "0 or 1"),
        (torch.tensor([1, 2, 3]), torch.tensor([1, 0, 1]), "floating"),
    ],
)
@pytest.mark.parametrize("name", ["ce", "hinge"])
def test_wrong_batches_are_refused(name: str, scores: torch.Tensor, labels: torch.Tensor, match: str) -> None:
    with pytest.raises(LossError, match=match):
        make_loss(name, MARGINS.get(name))(scores, labels)


@pytest.mark.parametrize(
    ("name", "margin", "match"),
    [
        ("sqaure", None, "did you mean square"),
        ("hinge", None, "needs a margin"),
        ("hinge", 0.0, "positive"),
        ("hinge", -0.5, "positive"),
        ("hinge", float("nan"), "positive"),
        ("hinge", "wide", "positive"),
        ("hinge", True, "positive"),
        ("logistic", 0.5, "has no margin"),
        ("ce", 0.5, "has no margin"),
    ],
)
def test_wrong_names_and_margins_are_refused(name: str, margin: float | None, match: str) -> None:
    with pytest.raises(LossError, match=match) as caught:
        make_loss(name, margin)
    assert isinstance(caught.value, UsageError)
    assert isinstance(caught.value, ValueError)


def test_unknown_parameters_and_weightless_losses_are_refused() -> None:
    with pytest.raises(LossError, match="no parameter 'gamma'"):
        make_loss("hinge", 0.5, gamma=2)
    with pytest.raises(LossError, match="single pair"):
        pair_weight("ce", torch.zeros(1))
    with pytest.raises(LossError, match="weights"):
        make_loss("hinge", 0.5)(torch.randn(3), torch.tensor([1, 0, 1]), torch.tensor([1.0, -1.0, 1.0]))
