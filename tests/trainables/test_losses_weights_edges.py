"""Example weights and chosen pairs at their edges: weights of 0, NaN scores, very small weights, parts of pairs."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from search_spaces.losses import LOSSES
from trainables.losses import LossError, make_loss
from trainables.losses.pairwise import PairwiseLoss
from trainables.losses.selected_pairs import PairSelection, SelectedPairs, balanced_pairs
from trainables.losses.surrogates import SURROGATES, Surrogate

M = 0.5
CHOICES = (
    PairSelection(negatives=2),
    PairSelection(max_fpr=0.5, min_tpr=0.5),
    PairSelection(budget=2),
    PairSelection(semi_hard=True),
    PairSelection(negatives=2, budget=1),
    PairSelection(negatives=2, semi_hard=True),
    PairSelection(negatives=1, budget=1, semi_hard=True),
)


def margin_of(name: str) -> float | None:
    return M if LOSSES[name].has_margin else None


def selected(name: str, selection: PairSelection) -> SelectedPairs:
    return SelectedPairs(LOSSES[name], Surrogate(name, margin_of(name)), selection)


def value_and_gradient(loss: Any, scores: Tensor, labels: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    given = scores.clone().requires_grad_()
    found = loss(given, labels, weights)
    (gradient,) = torch.autograd.grad(found, given)
    return found.detach(), gradient


@pytest.mark.parametrize("method", ["matrix", "fast"])
@pytest.mark.parametrize("name", SURROGATES)
def test_an_example_of_weight_zero_is_absent_even_where_its_loss_is_infinite(name: str, method: str) -> None:
    scores = torch.tensor([-1e4, 1.0, 0.0, 0.5, 1e4, 0.75], dtype=torch.float64)
    labels, weights = torch.tensor([1, 1, 0, 0, 0, 1]), torch.tensor([0.0, 1.0, 2.0, 0.5, 0.0, 3.0])
    loss = PairwiseLoss(LOSSES[name], Surrogate(name, margin_of(name)), method)
    there = weights > 0
    expected, slopes = value_and_gradient(loss, scores[there], labels[there], weights[there])
    found, gradient = value_and_gradient(loss, scores, labels, weights)
    assert found.item() == pytest.approx(expected.item(), rel=1e-12)
    torch.testing.assert_close(gradient[there], slopes, rtol=1e-12, atol=0)
    assert not gradient[~there].any()


@pytest.mark.parametrize("p", [1.0, 4.0, 64.0])
@pytest.mark.parametrize("surrogate", ["exponential", "logistic"])
def test_p_norm_push_does_not_know_a_top_negative_of_weight_zero(surrogate: str, p: float) -> None:
    scores, labels = torch.tensor([0.0, 1.0, 0.25, 200.0], dtype=torch.float64), torch.tensor([1, 1, 0, 0])
    loss = make_loss("p_norm_push", surrogate=surrogate, p=p)
    found, gradient = value_and_gradient(loss, scores, labels, torch.tensor([1.0, 1.0, 1.0, 0.0]))
    expected, slopes = value_and_gradient(loss, scores[:3], labels[:3], None)
    assert found.item() == pytest.approx(expected.item(), rel=1e-12)
    assert gradient.tolist() == pytest.approx([*slopes.tolist(), 0.0], rel=1e-12)


@pytest.mark.parametrize("selection", CHOICES)
@pytest.mark.parametrize("weigh", [False, True])
def test_a_nan_score_shows_whatever_is_chosen(selection: PairSelection, weigh: bool) -> None:
    labels = torch.tensor([1, 1, 0, 0, 0, 0])
    for place in range(6):
        scores = torch.tensor([0.1, 0.2, 0.15, 0.3, 0.4, 0.0])
        scores[place] = math.nan
        loss = selected("hinge", selection)(scores, labels, torch.full((6,), 2.0) if weigh else None)
        assert math.isnan(loss.item()), place


@pytest.mark.parametrize("name", ["hinge", "hand_till"])
def test_classes_of_very_small_weights_count_like_others(name: str) -> None:
    random = torch.Generator().manual_seed(0)
    scores = torch.randn(12, 4, dtype=torch.float64, generator=random)
    labels = torch.arange(12) % 3
    level = torch.tensor([1.0, 1e-200, 1e-200], dtype=torch.float64)[labels]
    loss = make_loss(name, M)
    found = loss(scores, labels, level)
    parts = []
    for c in range(3):
        others = [[k] for k in range(3) if k != c] if name == "hand_till" else [[k for k in range(3) if k != c]]
        for other in others:
            top = level[torch.isin(labels, torch.tensor(other))].max()
            x = [
                (float(level[j] / top), float(scores[i, c] - scores[j, c]))
                for i in range(12)
                for j in range(12)
                if labels[i] == c and int(labels[j]) in other
            ]
            power = 1 if name == "hinge" else 2  # hand_till is of the squared hinge
            parts.append(sum(w * max(M - v, 0.0) ** power for w, v in x) / sum(w for w, _ in x))
    assert found.item() == pytest.approx(sum(parts) / len(parts), rel=1e-10)


@pytest.mark.parametrize(
    "selection",
    [
        PairSelection(budget=3),
        PairSelection(budget=1000),
        PairSelection(budget=3, semi_hard=True),
        PairSelection(negatives=7, min_tpr=0.25, budget=2),
        PairSelection(max_fpr=0.4, semi_hard=True),
    ],
)
@pytest.mark.parametrize("weigh", [False, True])
def test_many_pairs_are_made_in_parts(monkeypatch: pytest.MonkeyPatch, selection: PairSelection, weigh: bool) -> None:
    random = torch.Generator().manual_seed(1)
    scores, labels = torch.randn(40, dtype=torch.float64, generator=random), (torch.arange(40) % 4 == 0).long()
    weights = torch.rand(40, dtype=torch.float64, generator=random).round(decimals=1) if weigh else None
    loss = selected("squared_hinge", selection)
    whole, gradient = value_and_gradient(loss, scores, labels, weights)
    monkeypatch.setattr("trainables.losses.selected_pairs.TILE_PAIRS", 17)
    parts, slopes = value_and_gradient(loss, scores, labels, weights)
    assert parts.item() == pytest.approx(whole.item(), rel=1e-13)
    torch.testing.assert_close(slopes, gradient, rtol=1e-12, atol=1e-15)
    assert torch.autograd.gradcheck(lambda s: loss(s, labels, weights), scores.requires_grad_())


def test_a_design_of_pairs_can_be_taken_in_parts() -> None:
    whole = balanced_pairs(4, 6, 20)
    parts = [balanced_pairs(4, 6, min(first + 7, 20), first=first) for first in range(0, 20, 7)]
    for index in (0, 1):
        assert torch.cat([part[index] for part in parts]).tolist() == whole[index].tolist()


@pytest.mark.parametrize("selection", CHOICES[:3])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_chosen_pairs_of_narrow_scores_are_widened(selection: PairSelection, dtype: torch.dtype) -> None:
    random = torch.Generator().manual_seed(2)
    scores, labels = torch.randn(20, generator=random).to(dtype), (torch.arange(20) % 4 == 0).long()
    weights = torch.rand(20, generator=random)
    loss = selected("squared_hinge", selection)
    found, gradient = value_and_gradient(loss, scores, labels, weights)
    expected, slopes = value_and_gradient(loss, scores.double(), labels, weights)
    assert (found.dtype, gradient.dtype) == (torch.float32, dtype)
    assert found.item() == pytest.approx(expected.item(), rel=1e-6)
    torch.testing.assert_close(gradient.double(), slopes, rtol=torch.finfo(dtype).eps, atol=1e-6)


def test_scores_without_a_dimension_are_refused() -> None:
    for name in ("hypersimplex", "hinge", "ce", "partial_auc"):
        with pytest.raises(LossError):
            make_loss(name, margin_of(name))(torch.tensor(0.3), torch.tensor(1))
