"""The wider families against double loops and closed forms, and the parameters they refuse."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from search_spaces.losses import LOSSES
from trainables.losses import LossError, OneClassError, make_loss, pair_weight
from trainables.losses.registry import BUILDERS
from trainables.losses.selected_pairs import balanced_pairs, top_shares
from trainables.metrics import partial_auc

M = 0.5
ORDERED = ("aucm", "hand_till", "hypersimplex", "incomplete_pairs")
"""Losses whose gradient is not compared after a permutation: of other inputs, state, scale, or by design."""


def value(name: str, x: float) -> float:
    """A surrogate at margin M in plain floats."""
    return {
        "hinge": lambda: max(M - x, 0.0),
        "square": lambda: (M - x) ** 2,
        "squared_hinge": lambda: max(M - x, 0.0) ** 2,
        "logistic": lambda: math.log1p(math.exp(-x)),
        "exponential": lambda: math.exp(-x),
    }[name]()


def batch(seed: int, n: int = 40, ties: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    scores = torch.randn(n, dtype=torch.float64, generator=random)
    labels = (torch.arange(n) % 4 == 0).long()[torch.randperm(n, generator=random)]
    return ((scores * 2).round() / 2 if ties else scores), labels


BINARY = [name for name, card in LOSSES.items() if "binary" in card.kinds]


def margin_of(name: str) -> float | None:
    return M if LOSSES[name].has_margin else None


def test_every_card_has_a_builder_and_rules_for_its_parameters() -> None:
    assert set(BUILDERS) == set(LOSSES)
    for card in LOSSES.values():
        assert set(card.params) == set(card.rules)
        for name, default in card.params.items():
            assert card.rules[name].fault(default) is None
        assert make_loss(card.name, margin_of(card.name)).card is card
        assert all((card.title, card.formula, card.weight, card.source))


def test_every_binary_loss_gives_a_finite_gradient_in_every_precision() -> None:
    scores, labels = batch(0)
    for name, dtype in itertools.product(BINARY, (torch.float64, torch.float32, torch.float16, torch.bfloat16)):
        given = torch.sigmoid(scores).to(dtype).requires_grad_()
        loss = make_loss(name, margin_of(name))(given, labels)
        loss.backward()
        assert loss.shape == ()
        assert loss.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
        assert given.grad is not None
        assert given.grad.dtype == dtype
        assert bool(torch.isfinite(given.grad).all())


@pytest.mark.parametrize("name", [name for name in BINARY if name != "ce"])
def test_every_binary_loss_refuses_one_class_and_wrong_shapes(name: str) -> None:
    loss = make_loss(name, margin_of(name))
    with pytest.raises(OneClassError):
        loss(torch.randn(4), torch.ones(4))
    with pytest.raises(LossError):
        loss(torch.randn(4), torch.tensor([0, 1, 1]))
    with pytest.raises(LossError):
        loss(torch.randn(4), torch.tensor([0, 1, 2, 1]))


@pytest.mark.parametrize("name", [name for name in BINARY if name not in ORDERED])
@given(seed=st.integers(0, 500))
@settings(max_examples=15, deadline=None)
def test_losses_do_not_depend_on_the_order_of_the_batch(name: str, seed: int) -> None:
    scores, labels = batch(seed, 24, ties=True)
    order = torch.randperm(24, generator=torch.Generator().manual_seed(seed))
    loss = make_loss(name, margin_of(name))
    given, moved = scores.clone().requires_grad_(), scores[order].clone().requires_grad_()
    first, second = loss(given, labels), loss(moved, labels[order])
    first.backward()
    second.backward()
    assert second.item() == pytest.approx(first.item(), rel=1e-11)
    assert given.grad is not None
    assert moved.grad is not None
    assert torch.allclose(moved.grad, given.grad[order], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in BINARY if name not in ("ce", "aucm", "listwise")])
def test_ranking_losses_do_not_move_with_a_shift(name: str) -> None:
    scores, labels = batch(3)
    loss = make_loss(name, margin_of(name))
    assert loss(scores + 7, labels).item() == pytest.approx(loss(scores, labels).item(), rel=1e-9)


@pytest.mark.parametrize("surrogate", ["hinge", "squared_hinge", "square"])
@pytest.mark.parametrize(("max_fpr", "min_tpr"), [(0.3, 0.0), (0.5, 0.4), (1.0, 0.0), (0.01, 0.0)])
def test_partial_auc_is_the_mean_over_the_hard_block(surrogate: str, max_fpr: float, min_tpr: float) -> None:
    scores, labels = batch(1)  # 10 positives, 30 negatives
    loss = make_loss("partial_auc", M, surrogate=surrogate, max_fpr=max_fpr, min_tpr=min_tpr)
    positives, negatives = sorted(scores[labels == 1].tolist()), sorted(scores[labels == 0].tolist())
    hard = negatives[-max(1, round(max_fpr * 30)) :]
    low = positives[: max(1, round((1 - min_tpr) * 10))]
    expected = sum(value(surrogate, a - b) for a in low for b in hard) / (len(low) * len(hard))
    assert loss(scores, labels).item() == pytest.approx(expected, rel=1e-10)


@given(seed=st.integers(0, 2000), max_fpr=st.sampled_from([0.07, 0.25, 0.333, 0.9, 1.0]))
@settings(max_examples=80, deadline=None)
def test_partial_auc_shares_with_an_indicator_are_the_metric(seed: int, max_fpr: float) -> None:
    scores, labels = batch(seed, 20, ties=True)
    p, q = scores[labels == 1], scores[labels == 0]
    shares = top_shares(q, max_fpr * q.numel())
    wins = ((p[:, None] > q).double() + 0.5 * (p[:, None] == q)).mean(0)
    # at a tie between classes the ROC curve is a diagonal, of which the shares see the whole: leave those sets out
    boundary = q[shares > 0].min()
    if max_fpr < 1 and bool((p == boundary).any()):
        return
    assert (wins @ shares).item() == pytest.approx(partial_auc(scores, labels, max(max_fpr, 1 / q.numel())), rel=1e-9)


def test_ties_at_the_boundary_share_it_and_whole_masses_stay_whole() -> None:
    values = torch.tensor([3.0, 1.0, 1.0, 1.0, 0.0], dtype=torch.float64)
    assert top_shares(values, 2.0).tolist() == pytest.approx([1 / 2, 1 / 6, 1 / 6, 1 / 6, 0.0])
    assert top_shares(values, 0.2).tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert top_shares(torch.arange(10.0, dtype=torch.float64), 0.3 * 10).count_nonzero() == 3


@pytest.mark.parametrize("k", [1, 3, 1000])
def test_top_push_takes_the_k_hardest_negatives(k: int) -> None:
    scores, labels = batch(2)
    hard = sorted(scores[labels == 0].tolist())[-k:]
    positives = scores[labels == 1].tolist()
    expected = sum(value("hinge", a - b) for a in positives for b in hard) / (len(hard) * len(positives))
    assert make_loss("top_push", M, surrogate="hinge", k=k)(scores, labels).item() == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("surrogate", ["exponential", "logistic"])
@pytest.mark.parametrize("p", [1.0, 4.0, 64.0])
def test_p_norm_push(surrogate: str, p: float) -> None:
    scores, labels = batch(4)
    positives, negatives = scores[labels == 1].tolist(), scores[labels == 0].tolist()
    columns = [sum(value(surrogate, a - b) for a in positives) / len(positives) for b in negatives]
    expected = (sum(column**p for column in columns) / len(columns)) ** (1 / p)
    loss = make_loss("p_norm_push", surrogate=surrogate, p=p)
    given = scores.clone().requires_grad_()
    assert loss(given, labels).item() == pytest.approx(expected, rel=1e-10)
    assert torch.autograd.gradcheck(lambda s: loss(s, labels), (given,))
    if p == 1.0:
        assert loss(scores, labels).item() == pytest.approx(make_loss(surrogate)(scores, labels).item(), rel=1e-12)


def test_p_norm_push_survives_large_scores() -> None:
    scores = torch.tensor([-300.0, 300.0, 0.0], dtype=torch.float64, requires_grad=True)
    loss = make_loss("p_norm_push", p=8.0)(scores, torch.tensor([1, 0, 0]))
    loss.backward()
    assert loss.item() == pytest.approx(math.exp(600) * 0.5 ** (1 / 8), rel=1e-10)


@pytest.mark.parametrize("surrogate", ["exponential", "logistic"])
@pytest.mark.parametrize("p", [1.0, 2.0, 16.0, 64.0])
@pytest.mark.parametrize("gap", [400.0, 720.0, 740.0, 2e4])
def test_p_norm_push_of_separated_and_of_misranked_scores(surrogate: str, p: float, gap: float) -> None:
    loss = make_loss("p_norm_push", surrogate=surrogate, p=p)
    for sign in (1, -1):
        scores = torch.tensor([sign * gap, 0.0], dtype=torch.float64, requires_grad=True)
        found = loss(scores, torch.tensor([1, 0]))
        found.backward()
        # of one pair it is the surrogate itself, whatever p
        plain = torch.tensor([sign * gap, 0.0], dtype=torch.float64, requires_grad=True)
        expected = make_loss(surrogate)(plain, torch.tensor([1, 0]))
        expected.backward()
        assert found.item() == pytest.approx(expected.item(), rel=1e-12, abs=1e-300)
        assert scores.grad is not None
        assert plain.grad is not None
        assert scores.grad.tolist() == pytest.approx(plain.grad.tolist(), rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("weigh", [False, True])
@pytest.mark.parametrize(
    ("surrogate", "p"), [("exponential", 1.0), ("exponential", 1.5), ("exponential", 2.5), ("logistic", 3.0)]
)
def test_p_norm_push_has_second_derivatives(surrogate: str, p: float, weigh: bool) -> None:
    random = torch.Generator().manual_seed(4)
    scores = torch.randn(9, dtype=torch.float64, generator=random).requires_grad_()
    labels = torch.tensor([1, 0, 0, 1, 0, 1, 0, 0, 1])
    weights = torch.rand(9, dtype=torch.float64, generator=random) if weigh else None
    loss = make_loss("p_norm_push", surrogate=surrogate, p=p)
    assert torch.autograd.gradcheck(lambda s: loss(s, labels, weights), (scores,))
    assert torch.autograd.gradgradcheck(lambda s: loss(s, labels, weights), (scores,))


def test_second_derivatives_of_p_norm_push_where_a_negative_has_no_loss_at_all() -> None:
    """e^-x underflows for the second negative, so that the loss is that of the first: 2^(-1/p) mean of e^-x."""
    scores = torch.tensor([5.0, 4.0, 0.0, -1000.0], dtype=torch.float64, requires_grad=True)
    loss = make_loss("p_norm_push", p=1.5)(scores, torch.tensor([1, 1, 0, 0]))
    (slope,) = torch.autograd.grad(loss, scores, create_graph=True)
    product = torch.autograd.grad(slope @ torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64), scores)[0].tolist()
    first, second = (0.5 ** (1 / 1.5) * math.exp(-x) / 2 for x in (5, 4))
    expected = [first * (1 - 3), second * (2 - 3), first * (3 - 1) + second * (3 - 2), 0]
    assert product == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("tau", [0.1, 1.0])
def test_listwise_is_the_cross_entropy_of_the_top_one_distribution(tau: float) -> None:
    scores, labels = batch(5)
    given = scores.clone().requires_grad_()
    total = math.log(sum(math.exp(score / tau) for score in scores.tolist()))
    expected = sum(total - score / tau for score in scores[labels == 1].tolist()) / int(labels.sum())
    loss = make_loss("listwise", tau=tau)(given, labels)
    assert loss.item() == pytest.approx(expected, rel=1e-11)
    (gradient,) = torch.autograd.grad(loss, given)
    softmax = torch.softmax(scores / tau, 0)
    assert torch.allclose(gradient, (softmax - labels.double() / labels.sum()) / tau, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("k", [1.0, 25.0])
def test_smoothed_indicator_is_a_sigmoid_and_tends_to_one_minus_auc(k: float) -> None:
    scores, labels = batch(6)
    x = [a - b for a in scores[labels == 1].tolist() for b in scores[labels == 0].tolist()]
    loss = make_loss("smoothed_indicator", steepness=k)
    assert loss(scores, labels).item() == pytest.approx(sum(1 / (1 + math.exp(k * v)) for v in x) / len(x), rel=1e-10)
    steep = make_loss("smoothed_indicator", steepness=1e7)(scores, labels).item()
    assert steep == pytest.approx(sum(v < 0 for v in x) / len(x), abs=1e-9)
    points = torch.tensor([-0.3, 0.0, 0.2], dtype=torch.float64)
    slopes = [k * math.exp(-k * abs(v)) / (1 + math.exp(-k * abs(v))) ** 2 for v in points.tolist()]
    assert pair_weight("smoothed_indicator", points, steepness=k).tolist() == pytest.approx(slopes, rel=1e-10)


@pytest.mark.parametrize(
    ("name", "params", "match"),
    [
        ("partial_auc", {"max_fpr": 0}, "max_fpr of loss partial_auc must be a number > 0 and <= 1, got 0"),
        ("partial_auc", {"max_fpr": 1.5}, "<= 1"),
        ("partial_auc", {"min_tpr": 1.0}, "< 1"),
        ("partial_auc", {"min_tpr": float("nan")}, "min_tpr"),
        ("partial_auc", {"surrogate": "logistic"}, "valid word"),
        ("partial_auc", {"max_fprr": 0.1}, "did you mean max_fpr"),
        ("top_push", {"k": 0}, "whole number >= 1"),
        ("top_push", {"k": 1.5}, "whole number"),
        ("top_push", {"k": True}, "whole number"),
        ("p_norm_push", {"p": 0.5}, ">= 1"),
        ("listwise", {"tau": -1}, "> 0"),
        ("aucm", {"version": "v3"}, "v1, v2"),
        ("hypersimplex", {"share": 1.0}, "< 1"),
        ("ce", {"surrogate": "hinge"}, "it has none"),
    ],
)
def test_parameters_are_checked(name: str, params: dict[str, object], match: str) -> None:
    with pytest.raises(LossError, match=match):
        make_loss(name, margin_of(name), **params)


def test_all_problems_of_the_parameters_are_named_at_once() -> None:
    with pytest.raises(LossError, match=r"max_fpr.*min_tpr"):
        make_loss("partial_auc", M, max_fpr=2, min_tpr=-1)


@pytest.mark.parametrize(("n_pos", "n_neg"), [(1, 1), (3, 3), (4, 6), (8, 24), (5, 7), (1, 9)])
def test_balanced_pairs_give_every_example_its_turn_and_no_pair_twice(n_pos: int, n_neg: int) -> None:
    for budget in range(1, n_pos * n_neg + 3):
        first, second = balanced_pairs(n_pos, n_neg, budget)
        pairs = list(zip(first.tolist(), second.tolist(), strict=True))
        assert len(set(pairs)) == len(pairs) == min(budget, n_pos * n_neg)
        for positions, size in ((first, n_pos), (second, n_neg)):
            counts = torch.bincount(positions, minlength=size)
            assert int(counts.max() - counts.min()) <= 1 + len(pairs) // math.lcm(n_pos, n_neg)


@pytest.mark.parametrize("surrogate", ["hinge", "squared_hinge", "square"])
def test_incomplete_pairs(surrogate: str) -> None:
    scores, labels = batch(8)
    everything = make_loss("incomplete_pairs", M, surrogate=surrogate, per_example=1000)(scores, labels)
    assert everything.item() == pytest.approx(make_loss(surrogate, M)(scores, labels).item(), rel=1e-12)
    positives, negatives = scores[labels == 1].tolist(), scores[labels == 0].tolist()
    x = [positives[t % 10] - negatives[t % 30] for t in range(30)]
    found = make_loss("incomplete_pairs", M, surrogate=surrogate, per_example=1)(scores, labels)
    assert found.item() == pytest.approx(sum(value(surrogate, v) for v in x) / 30, rel=1e-12)


def test_semi_hard_pairs_are_right_but_inside_the_margin() -> None:
    scores, labels = batch(9)
    x = [a - b for a in scores[labels == 1].tolist() for b in scores[labels == 0].tolist()]
    chosen = [v for v in x if 0 < v < M]
    loss = make_loss("semi_hard", M, surrogate="hinge")
    assert loss(scores, labels).item() == pytest.approx(sum(M - v for v in chosen) / len(chosen), rel=1e-12)
    far = (10.0 * labels).double().requires_grad_()
    nothing = loss(far, labels)
    nothing.backward()
    assert nothing.item() == 0.0
    assert far.grad is not None
    assert not far.grad.any()


@pytest.mark.parametrize("name", LOSSES)
def test_a_nan_score_gives_a_nan_loss_so_that_the_trial_stops(name: str) -> None:
    for place in range(6):
        scores, labels = torch.linspace(0.1, 0.9, 6), torch.tensor([0, 1, 1, 0, 0, 0])
        scores[place] = float("nan")
        if name not in BINARY:
            scores = torch.stack((scores, -scores), 1)
        loss = make_loss(name, margin_of(name))(scores, labels)
        assert math.isnan(loss.item()), place


@pytest.mark.parametrize("x", [-0.4, 0.0, 0.2, 0.5, 0.9])
@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("partial_auc", {"max_fpr": 0.3}),
        ("top_push", {"k": 2, "surrogate": "square"}),
        ("incomplete_pairs", {"surrogate": "hinge"}),
        ("semi_hard", {}),
    ],
)
def test_the_weight_of_a_chosen_pair_is_the_slope_where_it_is_the_only_one(
    name: str, params: dict[str, Any], x: float
) -> None:
    scores = torch.tensor([0.25 + x, 0.25], dtype=torch.float64, requires_grad=True)
    make_loss(name, 0.5, **params)(scores, torch.tensor([1, 0])).backward()
    assert scores.grad is not None
    pair = scores[0].detach() - scores[1].detach()
    assert -scores.grad[0].item() == pair_weight(name, pair, 0.5, **params).item() == scores.grad[1].item()


def test_the_weight_of_a_pair_of_two_classes() -> None:
    """Of two classes there are two ordered pairs, so that each example's pair counts half."""
    scores = torch.tensor([[0.3, 0.1], [0.2, 0.4]], dtype=torch.float64, requires_grad=True)
    make_loss("hand_till", 0.5, surrogate="squared_hinge")(scores, torch.tensor([0, 1])).backward()
    expected = pair_weight("hand_till", torch.tensor([0.3 - 0.2, 0.4 - 0.1]), 0.5, surrogate="squared_hinge") / 2
    assert expected.tolist() == pytest.approx([0.4, 0.2])
    assert scores.grad is not None
    assert torch.stack((-scores.grad[0, 0], -scores.grad[1, 1])).tolist() == pytest.approx(expected.tolist())


@pytest.mark.parametrize(
    "name", ["ce", "p_norm_push", "listwise", "aucm", "aucm_closed", "hypersimplex", "softmax_mse"]
)
def test_losses_without_a_weight_per_pair_say_what_they_weigh(name: str) -> None:
    margin = 0.5 if LOSSES[name].has_margin else None
    with pytest.raises(LossError, match=re.escape(f"gives no weight to a single pair: {LOSSES[name].weight}")):
        pair_weight(name, torch.zeros(1), margin)
