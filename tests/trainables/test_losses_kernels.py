"""The fast kernel sums against plain Python double loops, the derivatives, and the invariances of a pairwise mean."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from search_spaces.losses import LOSSES
from trainables.losses import LossError
from trainables.losses.kernels import column_sums, row_sums, truncated
from trainables.losses.kernels.sums import FAST
from trainables.losses.pairwise import PairwiseLoss
from trainables.losses.surrogates import SURROGATES, Surrogate

MARGINS = {name: 0.5 if LOSSES[name].has_margin else None for name in SURROGATES}


def value_and_weight(name: str, x: float, m: float) -> tuple[float, float]:
    """Plain-float surrogate value and weight, written apart from the library."""
    if name == "square":
        return (m - x) ** 2, 2 * (m - x)
    if name == "hinge":
        return (m - x, 1.0) if x < m else (0.0, 0.0)
    if name == "squared_hinge":
        return ((m - x) ** 2, 2 * (m - x)) if x < m else (0.0, 0.0)
    if name == "smoothed_indicator":
        s = math.exp(-x) / (1 + math.exp(-x)) if x > 0 else 1 / (1 + math.exp(x))
        return s, math.exp(-abs(x)) / (1 + math.exp(-abs(x))) ** 2
    if name == "logistic":
        if x > 0:
            return math.log1p(math.exp(-x)), math.exp(-x) / (1 + math.exp(-x))
        return -x + math.log1p(math.exp(x)), 1 / (1 + math.exp(x))
    return (math.exp(-x), math.exp(-x)) if x > -700 else (math.inf, math.inf)


def double_loop(
    name: str, m: float, scores: list[float], labels: list[int], weights: list[float]
) -> tuple[float, list[float]]:
    pairs = [(i, j) for i, j in itertools.product(range(len(scores)), repeat=2) if labels[i] > labels[j]]
    total = math.fsum(weights[i] * weights[j] for i, j in pairs)
    terms: list[float] = []
    parts: list[list[float]] = [[] for _ in scores]
    for i, j in pairs:
        value, weight = value_and_weight(name, scores[i] - scores[j], m)
        share = weights[i] * weights[j] / total
        terms.append(share * value)
        parts[i].append(-share * weight)
        parts[j].append(share * weight)
    return math.fsum(terms), [math.fsum(part) for part in parts]


def ours(
    name: str, m: float | None, method: str, scores: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor | None
) -> tuple[float, list[float]]:
    scores = scores.clone().requires_grad_()
    loss = PairwiseLoss(LOSSES[name], Surrogate(name, m), method)(scores, labels, weights)
    loss.backward()
    assert scores.grad is not None
    return loss.item(), scores.grad.tolist()


@pytest.mark.parametrize("method", ["matrix", "fast"])
@pytest.mark.parametrize("name", SURROGATES)
@pytest.mark.parametrize("seed", range(12))
def test_values_and_gradients_equal_the_double_loop(name: str, method: str, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    n = int(torch.randint(2, 40, (), generator=random))
    scale, offset = [(0.2, 0.5), (1.0, 0.0), (5.0, 50.0), (40.0, 0.0), (1.0, 0.0), (0.1, 0.0)][seed % 6]
    scores = torch.randn(n, dtype=torch.float64, generator=random) * scale + offset
    if seed % 3 == 0:  # ties, and margins hit exactly up to rounding: 0.3 - 0.2 is not 0.1
        scores = (scores * 10).round() / 10
    labels = torch.randint(0, 2, (n,), generator=random)
    labels[:2] = torch.tensor([1, 0])
    weights = None if seed % 2 else torch.rand(n, generator=random, dtype=torch.float64) + 0.1
    margin = [0.1, 0.3, 0.5, 0.7][seed % 4] if LOSSES[name].has_margin else None
    expected, gradient = double_loop(
        name, margin or 0.0, scores.tolist(), labels.tolist(), [1.0] * n if weights is None else weights.tolist()
    )
    value, slopes = ours(name, margin, method, scores, labels, weights)
    assert value == pytest.approx(expected, rel=1e-10)
    largest = max(abs(slope) for slope in gradient)
    assert slopes == pytest.approx(gradient, rel=1e-10, abs=1e-12 * largest)


@pytest.mark.parametrize("method", ["matrix", "fast"])
@pytest.mark.parametrize("name", SURROGATES)
def test_extreme_logits(name: str, method: str) -> None:
    scores = torch.tensor([1e4, -1e4, 9999.75, 1e4, -1e4, 0.0, 3.0, -9999.0], dtype=torch.float64)
    labels = torch.tensor([1, 1, 0, 0, 0, 1, 0, 1])
    if name == "exponential":  # e^(2e4) has no float64: infinity is the right answer, and it must not be NaN
        assert ours(name, None, method, scores, labels, None)[0] == math.inf
        scores, labels = scores[[0, 4, 5, 7]], torch.tensor([1, 0, 1, 0])
    value, slopes = ours(name, MARGINS[name], method, scores, labels, None)
    expected, gradient = double_loop(name, 0.5, scores.tolist(), labels.tolist(), [1.0] * labels.numel())
    assert value == pytest.approx(expected, rel=1e-10)
    assert slopes == pytest.approx(gradient, rel=1e-10, abs=1e-12 * max(abs(slope) for slope in gradient))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("name", SURROGATES)
def test_narrow_scores_are_widened_not_rounded(name: str, dtype: torch.dtype) -> None:
    random = torch.Generator().manual_seed(5)
    scores = torch.randn(30, generator=random).to(dtype)
    labels = (torch.arange(30) % 3 == 0).long()
    expected, gradient = double_loop(name, 0.5, scores.double().tolist(), labels.tolist(), [1.0] * 30)
    scores.requires_grad_()
    loss = PairwiseLoss(LOSSES[name], Surrogate(name, MARGINS[name]))(scores, labels)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(expected, rel=1e-7)
    loss.backward()
    assert scores.grad is not None
    assert scores.grad.dtype == dtype
    assert scores.grad.tolist() == pytest.approx(gradient, rel=torch.finfo(dtype).eps, abs=1e-6)


def test_autocast_changes_nothing() -> None:
    scores, labels = torch.randn(600) * 3, (torch.arange(600) % 4 == 0).long()
    for name in SURROGATES:
        loss = PairwiseLoss(LOSSES[name], Surrogate(name, MARGINS[name]), "fast")
        with torch.autocast("cpu", dtype=torch.bfloat16):
            inside = loss(scores, labels)
        assert inside.item() == loss(scores, labels).item()


@pytest.mark.parametrize("method", ["matrix", "fast"])
@pytest.mark.parametrize("name", SURROGATES)
def test_first_and_second_derivatives_pass_gradcheck(name: str, method: str) -> None:
    random = torch.Generator().manual_seed(3)
    scores = torch.randn(9, dtype=torch.float64, generator=random).requires_grad_()
    labels = torch.tensor([1, 0, 0, 1, 1, 0, 0, 0, 1])
    weights = torch.rand(9, dtype=torch.float64, generator=random)
    loss = PairwiseLoss(LOSSES[name], Surrogate(name, MARGINS[name]), method)
    assert torch.autograd.gradcheck(lambda s: loss(s, labels, weights), (scores,))
    assert torch.autograd.gradgradcheck(lambda s: loss(s, labels, weights), (scores,))


@pytest.mark.parametrize("name", SURROGATES)
def test_hessian_product_equals_the_dense_hessian(name: str) -> None:
    random = torch.Generator().manual_seed(4)
    scores = torch.randn(12, dtype=torch.float64, generator=random).requires_grad_()
    labels = (torch.arange(12) % 3 == 0).long()
    tangent = torch.randn(12, dtype=torch.float64, generator=random)
    loss = PairwiseLoss(LOSSES[name], Surrogate(name, MARGINS[name]), "fast")
    (gradient,) = torch.autograd.grad(loss(scores, labels), scores, create_graph=True)
    (product,) = torch.autograd.grad(gradient, scores, tangent)
    p, q = (labels == 1).nonzero().squeeze(1), (labels == 0).nonzero().squeeze(1)
    x = (scores[p][:, None] - scores[q]).detach()
    curvature = {
        "square": torch.full_like(x, 2),
        "hinge": torch.zeros_like(x),
        "squared_hinge": 2.0 * (x < 0.5),
        "logistic": 1 / (2 + 2 * torch.cosh(x)),
        "exponential": torch.exp(-x),
        "smoothed_indicator": torch.tanh(x / 2) / (2 + 2 * torch.cosh(x)),
    }[name] / x.numel()
    dense = torch.zeros(12, 12, dtype=torch.float64)
    for (a, i), (b, j) in itertools.product(enumerate(p), enumerate(q)):
        for first, second, sign in ((i, i, 1), (j, j, 1), (i, j, -1), (j, i, -1)):
            dense[first, second] += sign * curvature[a, b]
    assert torch.allclose(product, dense @ tangent, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("name", SURROGATES)
def test_signed_weights_give_the_projections_of_psi(name: str) -> None:
    random = torch.Generator().manual_seed(6)
    p, q = (torch.randn(size, dtype=torch.float64, generator=random) for size in (70, 50))
    a_pos, a_neg = torch.randn(70, 1, dtype=torch.float64), torch.randn(50, 1, dtype=torch.float64)
    surrogate = Surrogate(name, MARGINS[name])
    table = [[value_and_weight(name, i - j, 0.5)[1] for j in q.tolist()] for i in p.tolist()]
    weight = torch.tensor(table, dtype=torch.float64)
    psi = weight * (a_neg.T - a_pos)
    ones = torch.ones(50, 1, dtype=torch.float64)
    (rows,) = row_sums(surrogate, (1,), p, q, torch.cat((ones, a_neg), 1), "fast")
    assert torch.allclose(rows[:, 1] - a_pos[:, 0] * rows[:, 0], psi.sum(1), rtol=1e-11, atol=1e-11)
    (columns,) = column_sums(surrogate, (1,), p, q, torch.cat((torch.ones_like(a_pos), a_pos), 1), "fast")
    assert torch.allclose(a_neg[:, 0] * columns[:, 0] - columns[:, 1], psi.sum(0), rtol=1e-11, atol=1e-11)


@given(
    grid=st.lists(st.integers(-40, 40), min_size=4, max_size=40),
    step=st.sampled_from([0.1, 0.05, 1 / 3, 1.0]),
    margin=st.sampled_from([0.1, 0.2, 0.3, 0.6, 0.7, 1.0, 1 / 3]),
)
@settings(max_examples=200, deadline=None)
def test_the_active_pairs_are_those_of_the_floating_point_difference(
    grid: list[int], step: float, margin: float
) -> None:
    scores = torch.tensor([step * k for k in grid], dtype=torch.float64)
    p, q = scores[::2], scores[1::2]
    counts = truncated.active_count(p, (-q).sort().values, margin)
    assert counts.tolist() == [sum(i - j < margin for j in q.tolist()) for i in p.tolist()]


LARGE = [
    (name, n, scale)
    for name in SURROGATES
    for n, scale in [(3000, 0.3), (3000, 3.0), (3000, 60.0), (2500, 3000.0)]
    if name != "exponential" or scale < 100  # beyond, the loss overflows float64 either way
]


@pytest.mark.parametrize(("name", "n", "scale"), LARGE)
def test_fast_equals_the_matrix_on_large_batches(name: str, n: int, scale: float) -> None:
    random = torch.Generator().manual_seed(n)
    scores = torch.randn(n, dtype=torch.float64, generator=random) * scale
    labels = (torch.arange(n) % 10 == 0).long()
    for margin in (0.1, 2.0) if LOSSES[name].has_margin else (None,):
        fast = ours(name, margin, "fast", scores, labels, None)
        matrix = ours(name, margin, "matrix", scores, labels, None)
        assert fast[0] == pytest.approx(matrix[0], rel=1e-11)
        assert fast[1] == pytest.approx(matrix[1], rel=1e-10, abs=1e-11 * max(map(abs, matrix[1])))


def test_a_perfect_ranking_keeps_its_tiny_loss() -> None:
    scores = torch.cat((torch.linspace(300, 320, 40), torch.linspace(-5, 5, 60))).double()
    labels = (torch.arange(100) < 40).long()
    for name in ("logistic", "exponential"):
        value, _ = ours(name, None, "fast", scores, labels, None)
        expected, _ = double_loop(name, 0.0, scores.tolist(), labels.tolist(), [1.0] * 100)
        assert value == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("name", SURROGATES)
@pytest.mark.parametrize("method", ["matrix", "fast"])
def test_nan_scores_give_a_nan_loss(name: str, method: str) -> None:
    scores = torch.tensor([0.1, float("nan"), 0.3, 0.2])
    for labels in ([1, 1, 0, 0], [1, 0, 0, 1]):
        assert math.isnan(ours(name, MARGINS[name], method, scores, torch.tensor(labels), None)[0])


@pytest.mark.parametrize("name", SURROGATES)
@pytest.mark.parametrize("weigh", [False, True])
def test_matrices_too_large_to_hold_are_made_in_tiles(name: str, weigh: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainables.losses.kernels.matrix.WHOLE_PAIRS", 20)
    monkeypatch.setattr("trainables.losses.kernels.matrix.CPU_TILE_PAIRS", 60)  # 2 rows of 23, the last tile of 1
    random = torch.Generator().manual_seed(8)
    scores = (torch.randn(34, dtype=torch.float64, generator=random) * 10).round() / 10
    labels = (torch.arange(34) % 3 == 1).long()
    weights = torch.rand(34, dtype=torch.float64, generator=random) + 0.1 if weigh else None
    of_examples = [1.0] * 34 if weights is None else weights.tolist()
    expected, gradient = double_loop(name, 0.5, scores.tolist(), labels.tolist(), of_examples)
    for method in ("auto", "matrix"):
        value, slopes = ours(name, MARGINS[name], method, scores, labels, weights)
        assert value == pytest.approx(expected, rel=1e-12)
        assert slopes == pytest.approx(gradient, rel=1e-10, abs=1e-14)


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(LossError, match="method"):
        row_sums(Surrogate("hinge", 0.5), (0,), torch.zeros(1), torch.zeros(1), torch.ones(1, 1), "quick")
    assert set(FAST) == set(SURROGATES)


batches = st.lists(st.tuples(st.floats(-4, 4), st.integers(0, 1)), min_size=2, max_size=60).filter(
    lambda items: 0 < sum(label for _, label in items) < len(items)
)


@given(batch=batches, name=st.sampled_from(SURROGATES), method=st.sampled_from(["matrix", "fast"]), seed=st.integers(0))
@settings(max_examples=150, deadline=None)
def test_invariances(batch: list[tuple[float, int]], name: str, method: str, seed: int) -> None:
    scores = torch.tensor([score for score, _ in batch], dtype=torch.float64)
    labels = torch.tensor([label for _, label in batch])
    value, slopes = ours(name, MARGINS[name], method, scores, labels, None)
    order = torch.randperm(len(batch), generator=torch.Generator().manual_seed(seed % 2**31))
    shuffled = ours(name, MARGINS[name], method, scores[order], labels[order], None)
    assert shuffled[0] == pytest.approx(value, rel=1e-11, abs=1e-13)
    assert shuffled[1] == pytest.approx([slopes[i] for i in order], rel=1e-10, abs=1e-12)
    flipped = ours(name, MARGINS[name], method, -scores, 1 - labels, None)  # reversing scores and classes is nothing
    assert flipped[0] == pytest.approx(value, rel=1e-11, abs=1e-13)
    assert flipped[1] == pytest.approx([-slope for slope in slopes], rel=1e-10, abs=1e-12)
    assert sum(slopes) == pytest.approx(0.0, abs=1e-9 * (1 + max(map(abs, slopes))))
    if name != "hinge":  # a shift rounds scores, which may carry a pair over the hinge's kink
        assert ours(name, MARGINS[name], method, scores + 3.0, labels, None)[0] == pytest.approx(
            value, rel=1e-9, abs=1e-12
        )
