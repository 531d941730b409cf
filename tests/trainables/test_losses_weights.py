"""Example weights and chosen pairs, for every loss, against plain loops over examples and pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from search_spaces.losses import LOSSES
from trainables.losses import LossError, OneClassError, make_loss
from trainables.losses.selected_pairs import PairSelection, SelectedPairs
from trainables.losses.surrogates import Surrogate

M = 0.5
PAIRWISE = ("square", "hinge", "squared_hinge", "logistic", "exponential", "smoothed_indicator")
WEIGHTED = [name for name, card in LOSSES.items() if card.weighted]


def loss_of(name: str, **params: Any) -> Any:
    return make_loss(name, M if LOSSES[name].has_margin else None, **params)


def surrogate(name: str, x: float) -> float:
    return {
        "square": lambda: (M - x) ** 2,
        "hinge": lambda: max(M - x, 0.0),
        "squared_hinge": lambda: max(M - x, 0.0) ** 2,
        "logistic": lambda: float(np.logaddexp(0.0, -x)),
        "exponential": lambda: math.exp(-x),
        "smoothed_indicator": lambda: 1 / (1 + math.exp(min(10.0 * x, 700.0))),
    }[name]()


Pairs = Sequence[tuple[float, float]]
"""(weight, x) of each pair."""


def average(name: str, pairs: Pairs) -> float:
    total = math.fsum(weight for weight, _ in pairs)
    return math.fsum(weight * surrogate(name, x) for weight, x in pairs) / total


def pairs_of(s: Sequence[float], y: Sequence[int], w: Sequence[float]) -> list[tuple[float, float]]:
    every = range(len(s))
    return [(w[i] * w[j], s[i] - s[j]) for i in every for j in every if y[i] == 1 and y[j] == 0]


def mean(values: Sequence[float], w: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(values, w, strict=True)) / math.fsum(w)


def of_class(values: Sequence[float], y: Sequence[int], label: int) -> list[float]:
    return [value for value, found in zip(values, y, strict=True) if found == label]


def naive_partial(s: list[float], y: list[int], w: list[float]) -> float:
    """max_fpr 0.3 of 20 distinct negatives: the 6 largest."""
    hardest = set(sorted(of_class(s, y, 0), reverse=True)[:6])
    return average("squared_hinge", pairs_of(s, y, [v if a == 1 or b in hardest else 0.0 for v, a, b in zip(w, y, s)]))  # noqa: B905


def naive_top_push(s: list[float], y: list[int], w: list[float]) -> float:
    top = max(of_class(s, y, 0))
    return average("squared_hinge", pairs_of(s, y, [v if a == 1 or b == top else 0.0 for v, a, b in zip(w, y, s)]))  # noqa: B905


def naive_p_norm_push(s: list[float], y: list[int], w: list[float]) -> float:
    up, of_up = of_class(s, y, 1), of_class(w, y, 1)
    each = [mean([math.exp(-(a - b)) for a in up], of_up) ** 4 for b in of_class(s, y, 0)]
    return mean(each, of_class(w, y, 0)) ** 0.25


def naive_incomplete(s: list[float], y: list[int], w: list[float]) -> float:
    """One pair for each example of the larger class with a weight: (t mod n+, (t + t div lcm) mod n-)."""
    up, down = ([(v, a) for v, found, a in zip(s, y, w, strict=True) if found == label and a] for label in (1, 0))
    lcm = math.lcm(len(up), len(down))
    pairs = [(up[t % len(up)], down[(t + t // lcm) % len(down)]) for t in range(max(len(up), len(down)))]
    return average("squared_hinge", [(p[1] * q[1], p[0] - q[0]) for p, q in pairs])


def naive_semi_hard(s: list[float], y: list[int], w: list[float]) -> float:
    return average("squared_hinge", [(weight, x) for weight, x in pairs_of(s, y, w) if 0 < x < M])


def naive_listwise(s: list[float], y: list[int], w: list[float]) -> float:
    return math.log(math.fsum(math.exp(v) for v in s)) - mean(of_class(s, y, 1), of_class(w, y, 1))


def naive_aucm_closed(s: list[float], y: list[int], w: list[float]) -> float:
    total, means = 0.0, []
    for label in (1, 0):
        values, of_values = of_class(s, y, label), of_class(w, y, label)
        means.append(mean(values, of_values))
        total += mean([(v - means[-1]) ** 2 for v in values], of_values)
    return total + max(M - means[0] + means[1], 0.0) ** 2


def naive_projection(z: list[float], k: float) -> list[float]:
    low, high = min(z) - 1, max(z)
    for _ in range(200):
        level = (low + high) / 2
        low, high = (level, high) if sum(min(max(v - level, 0.0), 1.0) for v in z) > k else (low, level)
    return [min(max(v - low, 0.0), 1.0) for v in z]


def naive_hypersimplex(s: list[float], y: list[int], w: list[float]) -> float:
    found = naive_projection([v / 1.5 for v in s], sum(y))
    return mean([(a - b) ** 2 for a, b in zip(found, y, strict=True)], w) * len(s) / 2


def naive_ce(s: list[float], y: list[int], w: list[float]) -> float:
    return mean([float(np.logaddexp(0.0, -v if label else v)) for v, label in zip(s, y, strict=True)], w)


NAIVE: dict[str, Callable[[list[float], list[int], list[float]], float]] = {
    "ce": naive_ce,
    **{name: lambda s, y, w, name=name: average(name, pairs_of(s, y, w)) for name in PAIRWISE},  # type: ignore[misc]
    "partial_auc": naive_partial,
    "top_push": naive_top_push,
    "p_norm_push": naive_p_norm_push,
    "incomplete_pairs": naive_incomplete,
    "semi_hard": naive_semi_hard,
    "listwise": naive_listwise,
    "aucm_closed": naive_aucm_closed,
    "hypersimplex": naive_hypersimplex,
}


def batch(seed: int, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    """28 distinct scores, 8 of positives, and weights of which a fifth are 0."""
    random = torch.Generator().manual_seed(seed)
    labels = (torch.arange(28) < 8).long()[torch.randperm(28, generator=random)]
    weights = torch.rand(28, dtype=torch.float64, generator=random)
    weights = torch.where(torch.rand(28, generator=random) < 0.2, 0.0, weights)
    scores = scale * torch.randn(28, dtype=torch.float64, generator=random)
    top = scores.masked_fill(labels == 1, -math.inf).argmax()
    weights[top] = weights[top] + 0.5  # top_push with k = 1 has this negative alone
    return scores, labels, weights


def test_every_weighted_loss_is_here() -> None:
    assert set(WEIGHTED) == {*NAIVE, "hand_till", "multiclass_hinge", "softmax_mse"}
    assert set(LOSSES) - set(WEIGHTED) == {"aucm"}


@pytest.mark.parametrize("name", NAIVE)
@pytest.mark.parametrize("seed", range(4))
def test_weighted_losses_are_weighted_means(name: str, seed: int) -> None:
    scores, labels, weights = batch(seed)
    expected = NAIVE[name](scores.tolist(), labels.tolist(), weights.tolist())
    assert loss_of(name)(scores, labels, weights).item() == pytest.approx(expected, rel=1e-10)
    single = loss_of(name)(scores.float(), labels, weights.float())
    assert single.dtype == torch.float32
    assert single.item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("name", [name for name in NAIVE if name not in ("exponential", "p_norm_push")])
def test_weights_at_extreme_scores(name: str) -> None:
    scores, labels, weights = batch(7, scale=1e4)
    if name == "semi_hard":  # no pair is inside the margin
        assert loss_of(name)(scores, labels, weights).item() == 0.0
        return
    shift = scores.max() if name == "listwise" else 0.0  # the plain loop overflows; the loss does not change with it
    expected = NAIVE[name]((scores - shift).tolist(), labels.tolist(), weights.tolist())
    assert loss_of(name)(scores, labels, weights).item() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", NAIVE)
def test_weighted_gradients_are_those_of_the_value(name: str) -> None:
    scores, labels, weights = batch(11)
    loss = loss_of(name)
    given = scores.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda s: loss(s, labels, weights), given, atol=1e-6)
    (gradient,) = torch.autograd.grad(loss(given, labels, weights), given)
    if name not in ("hypersimplex", "listwise"):  # whose scores compete with each other
        assert not gradient[weights == 0].any()


@pytest.mark.parametrize("name", NAIVE)
def test_equal_weights_are_no_weights(name: str) -> None:
    scores, labels, _ = batch(3)
    plain = loss_of(name)(scores, labels)
    for level in (1.0, 0.37, 1e-200, 1e300):
        weights = torch.full((28,), level, dtype=torch.float64)
        assert loss_of(name)(scores, labels, weights).item() == pytest.approx(plain.item(), rel=1e-12)


@pytest.mark.parametrize("name", [*PAIRWISE, "ce", "p_norm_push", "aucm_closed", "semi_hard"])
def test_whole_weights_are_copies(name: str) -> None:
    scores, labels, _ = batch(5)
    times = torch.arange(28) % 3
    copies = torch.arange(28).repeat_interleave(times)
    expected = loss_of(name)(scores[copies], labels[copies])
    assert loss_of(name)(scores, labels, times.double()).item() == pytest.approx(expected.item(), rel=1e-10)


def class_batch(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """24 examples of 5 classes out of 9; class 8 has weight 0 throughout."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.tensor([0, 2, 3, 7, 8])[torch.randint(5, (24,), generator=random)]
    weights = torch.rand(24, dtype=torch.float64, generator=random)
    weights = torch.where((torch.rand(24, generator=random) < 0.2) | (labels == 8), 0.0, weights)
    return torch.randn(24, 9, dtype=torch.float64, generator=random), labels, weights


@pytest.mark.parametrize("name", [*PAIRWISE, "hand_till"])
@pytest.mark.parametrize("seed", range(3))
def test_macro_losses_weigh_the_pairs_of_each_class(name: str, seed: int) -> None:
    scores, labels, weights = class_batch(seed)
    s, y, w = scores.tolist(), labels.tolist(), weights.tolist()
    present = sorted({label for label, weight in zip(y, w, strict=True) if weight})
    assert 8 not in present
    base = "squared_hinge" if name == "hand_till" else name
    groups = (
        [[(c, (k,)) for c in present for k in present if k != c]]
        if name == "hand_till"
        else [[(c, tuple(k for k in present if k != c)) for c in present]]
    )[0]
    every = range(len(y))
    terms = [
        average(base, [(w[i] * w[j], s[i][c] - s[j][c]) for i in every for j in every if y[i] == c and y[j] in others])
        for c, others in groups
    ]
    expected = math.fsum(terms) / len(terms)
    given = scores.clone().requires_grad_()
    loss = loss_of(name)
    assert loss(given, labels, weights).item() == pytest.approx(expected, rel=1e-10)
    assert torch.autograd.gradcheck(lambda x: loss(x, labels, weights), given, atol=1e-6)
    even = torch.full((24,), 0.7, dtype=torch.float64)
    assert loss(scores, labels, even).item() == pytest.approx(loss(scores, labels).item(), rel=1e-12)


@pytest.mark.parametrize("name", PAIRWISE)
def test_multilabel_losses_weigh_the_pairs_of_each_label(name: str) -> None:
    random = torch.Generator().manual_seed(2)
    scores = torch.randn(14, 6, dtype=torch.float64, generator=random)
    labels = (torch.rand(14, 6, generator=random) < 0.3).long()
    labels[:, 4], labels[:, 5] = 0, torch.arange(14) == 3  # one label without positives, one whose only one weighs 0
    weights = torch.rand(14, dtype=torch.float64, generator=random)
    weights[3] = 0.0
    terms = []
    for label in range(4):
        s, y = scores[:, label].tolist(), labels[:, label].tolist()
        terms.append(average(name, pairs_of(s, y, weights.tolist())))
    loss = loss_of(name)
    assert loss(scores, labels, weights).item() == pytest.approx(math.fsum(terms) / 4, rel=1e-10)
    given = scores.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: loss(x, labels, weights), given, atol=1e-6)


def test_class_and_label_losses_weigh_examples() -> None:
    scores, labels, weights = class_batch(1)
    each = torch.nn.functional.cross_entropy(scores, labels, reduction="none")
    assert loss_of("ce")(scores, labels, weights).item() == pytest.approx(np.average(each, weights=weights), rel=1e-12)
    several = (scores > 0.5).long()
    by_label = torch.nn.functional.binary_cross_entropy_with_logits(scores, several.double(), reduction="none")
    expected = np.average(by_label.mean(1), weights=weights)
    assert loss_of("ce")(scores, several, weights).item() == pytest.approx(expected, rel=1e-12)
    for name in ("multiclass_hinge", "softmax_mse"):
        alone = [loss_of(name)(scores[i : i + 1], labels[i : i + 1]).item() for i in range(24)]
        assert loss_of(name)(scores, labels, weights).item() == pytest.approx(np.average(alone, weights=weights))
    columns = [
        naive_hypersimplex(scores[:, c].tolist(), (labels == c).long().tolist(), weights.tolist()) for c in range(9)
    ]
    assert loss_of("hypersimplex")(scores, labels, weights).item() == pytest.approx(math.fsum(columns), rel=1e-9)


BAD = [
    (torch.ones(27), r"weights must have shape \(28,\), one an example, got \(27,\)"),
    (torch.ones(28, 1), r"weights must have shape \(28,\)"),
    (torch.full((28,), -1.0), "weights must be finite and not negative"),
    (torch.full((28,), math.nan), "weights must be finite"),
    (torch.full((28,), math.inf), "weights must be finite"),
]


@pytest.mark.parametrize("name", WEIGHTED)
@pytest.mark.parametrize(("weights", "message"), BAD)
def test_wrong_weights_are_refused(name: str, weights: Tensor, message: str) -> None:
    scores, labels, _ = batch(0)
    if "binary" not in LOSSES[name].kinds:
        scores = torch.stack((scores, -scores), 1)
    with pytest.raises(LossError, match=message):
        loss_of(name)(scores, labels, weights)


def test_a_batch_or_a_class_without_weight_is_as_if_it_were_absent() -> None:
    """Natural sampling skips such a batch, as it does one that lacks a class."""
    scores, labels, _ = batch(0)
    for name in WEIGHTED:
        given = scores if "binary" in LOSSES[name].kinds else torch.stack((scores, -scores), 1)
        with pytest.raises(OneClassError, match="all 28 examples of a batch have weight 0"):
            loss_of(name)(given, labels, torch.zeros(28))
    for name in ("hinge", "partial_auc", "p_norm_push", "aucm_closed", "semi_hard", "incomplete_pairs", "listwise"):
        with pytest.raises(OneClassError, match="have weight 0: no pair can be formed"):
            loss_of(name)(scores, labels, (labels == 0).double())
    of_classes, classes, _ = class_batch(0)
    with pytest.raises(OneClassError):
        loss_of("hinge")(of_classes, classes, (classes == 2).double())
    with pytest.raises(OneClassError):
        loss_of("hinge")(of_classes, (of_classes > 0).long(), torch.arange(24) == 3)


def test_a_loss_that_takes_no_weights_says_so() -> None:
    scores, labels, weights = batch(0)
    with pytest.raises(LossError, match="loss aucm takes no example weights"):
        loss_of("aucm")(scores, labels, weights)


def test_no_gradient_flows_into_weights() -> None:
    scores, labels, weights = batch(0)
    weights.requires_grad_()
    for name in NAIVE:
        given = scores.clone().requires_grad_()
        loss_of(name)(given, labels, weights).backward()
        assert weights.grad is None, name


def naive_selection(chosen: PairSelection, s: list[float], y: list[int], w: list[float]) -> list[tuple[float, float]]:
    """(weight, x) of each chosen pair, for scores without ties and shares that are whole numbers of examples."""
    kept = dict.fromkeys((1, 0), math.inf)
    if chosen.negatives is not None:
        kept[0] = chosen.negatives
    elif chosen.max_fpr is not None:
        kept[0] = round(chosen.max_fpr * y.count(0))
    if chosen.min_tpr is not None:
        kept[1] = round((1 - chosen.min_tpr) * y.count(1))
    places = {}
    for label, sign in ((1, 1), (0, -1)):
        ranked = sorted((i for i in range(len(y)) if y[i] == label), key=lambda i: sign * s[i])
        hard = ranked[: int(min(kept[label], len(ranked)))]
        places[label] = [i for i in sorted(hard) if w[i] > 0]
    up, down = places[1], places[0]
    pairs = [(i, j) for i in up for j in down]
    if chosen.budget is not None:
        size = min(chosen.budget * max(len(up), len(down)), len(pairs))
        lcm = math.lcm(len(up), len(down))
        pairs = [(up[t % len(up)], down[(t + t // lcm) % len(down)]) for t in range(size)]
    found = [(w[i] * w[j], s[i] - s[j]) for i, j in pairs]
    return [(weight, x) for weight, x in found if 0 < x < M] if chosen.semi_hard else found


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    negatives=st.none() | st.integers(1, 25),
    max_fpr=st.none() | st.sampled_from([0.05, 0.25, 0.5, 1.0]),
    min_tpr=st.none() | st.sampled_from([0.0, 0.25, 0.5, 0.875]),
    budget=st.none() | st.integers(1, 9),
    semi_hard=st.booleans(),
    name=st.sampled_from(["hinge", "squared_hinge", "square"]),
    weigh=st.booleans(),
)
def test_parts_of_a_selection_compose(
    seed: int,
    negatives: int | None,
    max_fpr: float | None,
    min_tpr: float | None,
    budget: int | None,
    semi_hard: bool,
    name: str,
    weigh: bool,
) -> None:
    scores, labels, weights = batch(seed)
    weights = weights + 0.01 if seed % 2 else torch.where(labels == 1, weights + 0.01, weights)
    chosen = PairSelection(negatives, max_fpr, min_tpr, budget, semi_hard)
    loss = SelectedPairs(LOSSES[name], Surrogate(name, M), chosen)
    w = weights.tolist() if weigh else [1.0] * 28
    pairs = naive_selection(chosen, scores.tolist(), labels.tolist(), w)
    expected = average(name, pairs) if pairs else 0.0
    found = loss(scores, labels, weights if weigh else None)
    assert found.item() == pytest.approx(expected, rel=1e-10, abs=1e-15)


@pytest.mark.parametrize("weigh", [False, True])
def test_semi_hard_pairs_of_large_batches_are_made_in_tiles(monkeypatch: pytest.MonkeyPatch, weigh: bool) -> None:
    scores, labels, weights = batch(4)
    of_examples = weights if weigh else None
    loss = loss_of("semi_hard", surrogate="square")
    given = scores.clone().requires_grad_()
    whole = loss(given, labels, of_examples)
    (gradient,) = torch.autograd.grad(whole, given)
    monkeypatch.setattr("trainables.losses.selected_pairs.TILE_PAIRS", 50)  # 2 of the 8 rows at a time
    again = scores.clone().requires_grad_()
    tiled = loss(again, labels, of_examples)
    assert tiled.item() == pytest.approx(whole.item(), rel=1e-13)
    (of_tiles,) = torch.autograd.grad(tiled, again)
    torch.testing.assert_close(of_tiles, gradient, rtol=1e-12, atol=1e-15)
