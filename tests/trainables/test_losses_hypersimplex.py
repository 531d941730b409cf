"""The hypersimplex projection against entmax, a brute-force search and its own conditions; its pitfalls as tests."""

from __future__ import annotations

import importlib.util
import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainables.losses import LossError, OneClassError, make_loss
from trainables.losses.hypersimplex import Hypersimplex, project
from trainables.metrics import choose_threshold

needs_entmax = pytest.mark.skipif(importlib.util.find_spec("entmax") is None, reason="entmax is not installed")


def column(values: list[float], k: float) -> torch.Tensor:
    return project(torch.tensor(values, dtype=torch.float64)[:, None], torch.tensor([k], dtype=torch.float64))[:, 0]


@needs_entmax
@pytest.mark.parametrize("seed", range(30))
def test_values_and_gradients_equal_entmax(seed: int) -> None:
    from entmax import budget_bisect

    random = torch.Generator().manual_seed(seed)
    n, c = int(torch.randint(2, 50, (), generator=random)), 4
    z = torch.randn(n, c, dtype=torch.float64, generator=random) * [0.1, 1.0, 5.0][seed % 3]
    k = torch.randint(1, n, (c,), generator=random).double()
    outer = torch.randn(n, c, dtype=torch.float64, generator=random)
    ours, theirs = z.clone().requires_grad_(), z.clone().requires_grad_()
    mine, its = project(ours, k), budget_bisect(theirs, budget=k[None], dim=0)
    assert torch.allclose(mine, its, rtol=0, atol=1e-10)
    mine.backward(outer)
    its.backward(outer)
    assert ours.grad is not None
    assert torch.allclose(ours.grad, theirs.grad, rtol=0, atol=1e-8)


@pytest.mark.parametrize("seed", range(8))
def test_equals_a_brute_force_quadratic_program(seed: int) -> None:
    """Each entry is 0, 1 or free: every assignment, its closed form, and the nearest feasible point of them all."""
    random = torch.Generator().manual_seed(seed)
    z = (torch.randn(5, dtype=torch.float64, generator=random) * 1.5).tolist()
    for k in (1.0, 2.0, 3.5, 4.0):
        best = None
        for kinds in itertools.product("01f", repeat=5):
            free = [i for i in range(5) if kinds[i] == "f"]
            point = [1.0 if kind == "1" else 0.0 for kind in kinds]
            rest = k - sum(point)
            if not free and abs(rest) > 1e-12:
                continue
            for i in free:
                point[i] = z[i] - (sum(z[j] for j in free) - rest) / len(free)
            if all(-1e-12 <= v <= 1 + 1e-12 for v in point):
                distance = sum((a - b) ** 2 for a, b in zip(point, z, strict=True))
                best = min(best, (distance, point)) if best else (distance, point)
        assert best is not None
        assert column(z, k).tolist() == pytest.approx(best[1], abs=1e-12)


@given(values=st.lists(st.integers(-8, 8), min_size=2, max_size=40), share=st.floats(0, 1), shift=st.integers(-5, 5))
@settings(max_examples=150, deadline=None)
def test_feasible_ordered_and_shift_invariant_with_ties(values: list[int], share: float, shift: int) -> None:
    z = [value / 4 for value in values]
    k = round(share * len(z) * 2) / 2
    projected = column(z, k)
    assert projected.sum().item() == pytest.approx(k, abs=1e-9)
    assert 0 <= projected.min().item() <= projected.max().item() <= 1
    for i, j in itertools.combinations(range(len(z)), 2):
        if z[i] == z[j]:
            assert projected[i] == projected[j]
        elif z[i] > z[j]:
            assert projected[i] >= projected[j]
    assert torch.allclose(column([value + shift for value in z], k), projected, atol=1e-12)


@pytest.mark.parametrize("k", [0.0, 4.0])
def test_no_or_only_positives_give_a_constant_and_no_gradient(k: float) -> None:
    z = torch.tensor([[0.3], [-2.0], [0.3], [5.0]], dtype=torch.float64, requires_grad=True)
    projected = project(z, torch.tensor([k], dtype=torch.float64))
    assert projected.flatten().tolist() == [k / 4] * 4
    projected.sum().backward()
    assert z.grad is not None
    assert z.grad.flatten().tolist() == [0.0] * 4


def test_clipped_ties_get_no_gradient() -> None:
    """The published code gives tied clipped logits a spurious gradient; the derivative there is 0."""
    scores = torch.tensor([9.0, 9.0, 0.1, 0.0, -9.0, -9.0], dtype=torch.float64, requires_grad=True)
    make_loss("hypersimplex", tau=1.0)(scores, torch.tensor([1, 0, 1, 0, 1, 0])).backward()
    assert scores.grad is not None
    assert scores.grad[[0, 1, 4, 5]].tolist() == [0.0] * 4


@pytest.mark.parametrize("tau", [0.01, 0.5, 1.5])
def test_the_dead_zone_of_the_worst_errors(tau: float) -> None:
    scores = torch.tensor([4.0, 3.0, 0.2, 0.0, -3.0, -4.0], dtype=torch.float64, requires_grad=True)
    make_loss("hypersimplex", tau=tau)(scores, torch.tensor([0, 1, 1, 0, 0, 1])).backward()
    assert scores.grad is not None
    assert scores.grad[0] == 0  # a negative at the very top
    assert scores.grad[5] == 0  # a positive at the very bottom


def test_loss_and_gradient_when_nothing_is_clipped_are_a_centred_square_error() -> None:
    random = torch.Generator().manual_seed(0)
    scores = (torch.randn(20, dtype=torch.float64, generator=random) * 0.05).requires_grad_()
    labels = (torch.arange(20) < 10).long()
    for reduction, factor in (("sum", 1.0), ("mean", 1 / 20)):
        z = scores / 1.5
        expected = factor * (z - z.mean() + 0.5 - labels).square().sum() / 2
        loss = make_loss("hypersimplex", reduction=reduction)(scores, labels)
        assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
        mine, its = (torch.autograd.grad(value, scores, retain_graph=True)[0] for value in (loss, expected))
        assert torch.allclose(mine, its, atol=1e-14)


def test_columns_are_projected_apart_and_offsets_stay_undetermined() -> None:
    random = torch.Generator().manual_seed(1)
    scores = torch.randn(40, 3, dtype=torch.float64, generator=random).requires_grad_()
    labels = torch.randint(0, 3, (40,), generator=random)
    loss = make_loss("hypersimplex")
    expected = torch.stack([loss(scores[:, c], (labels == c).long()) for c in range(3)]).sum()
    found = loss(scores, labels)
    assert found.item() == pytest.approx(expected.item(), rel=1e-12)
    (gradient,) = torch.autograd.grad(found, scores)
    assert gradient.sum(0).abs().max().item() < 1e-12
    moved = loss(scores + torch.tensor([2.0, 0.0, -1.0], dtype=torch.float64), labels)
    assert moved.item() == pytest.approx(found.item(), rel=1e-12)


def test_k_from_a_share_is_the_published_image_setting() -> None:
    """With k = n / 2 and a tenth of positives the ideal fit keeps positives at 1 and negatives at 4/9."""
    labels = (torch.arange(50) < 5).long()
    scores = 100.0 * labels.double()
    loss = make_loss("hypersimplex", k="share", share=0.5, reduction="mean")(scores, labels)
    assert loss.item() == pytest.approx(0.5 * 0.9 * (4 / 9) ** 2, rel=1e-12)


def test_k_from_the_expected_shares_of_the_classes() -> None:
    """Nothing is clipped: each column is z minus its mean plus its share, which need not be that of the batch."""
    random = torch.Generator().manual_seed(6)
    scores = 0.02 * torch.randn(30, 3, dtype=torch.float64, generator=random)
    labels = torch.randint(0, 3, (30,), generator=random)
    shares = [0.6, 0.3, 0.1]
    loss = make_loss("hypersimplex", tau=1.0, k="expected").expecting(shares)  # type: ignore[attr-defined]
    targets = torch.nn.functional.one_hot(labels, 3)
    expected = (scores - scores.mean(0) + torch.tensor(shares) - targets).square().sum() / 2
    assert loss(scores, labels).item() == pytest.approx(expected.item(), rel=1e-6)
    binary = make_loss("hypersimplex", k="expected").expecting([0.25])  # type: ignore[attr-defined]
    even = (torch.arange(40) < 10).long()
    assert binary(scores.reshape(-1)[:40], even) == make_loss("hypersimplex")(scores.reshape(-1)[:40], even)
    with pytest.raises(LossError, match="k=expected of loss hypersimplex needs 3 expected shares, got none"):
        make_loss("hypersimplex", k="expected")(scores, labels)
    with pytest.raises(LossError, match="needs 1 expected shares, got 3"):
        loss(scores[:, 0], (labels == 0).long())


def test_half_precision_is_widened() -> None:
    random = torch.Generator().manual_seed(2)
    scores = torch.randn(4096, generator=random)
    labels = (torch.arange(4096) % 8 == 0).long()
    for dtype in (torch.float16, torch.bfloat16):
        narrow = scores.to(dtype)
        wide = make_loss("hypersimplex")(narrow.double(), labels).item()
        assert make_loss("hypersimplex")(narrow, labels).item() == pytest.approx(wide, rel=1e-6)


def test_gradcheck_away_from_the_clips() -> None:
    random = torch.Generator().manual_seed(3)
    scores = torch.randn(15, dtype=torch.float64, generator=random).requires_grad_()
    labels = (torch.arange(15) % 3 == 0).long()
    loss = make_loss("hypersimplex")
    assert torch.autograd.gradcheck(lambda s: loss(s, labels), (scores,))
    assert torch.autograd.gradgradcheck(lambda s: loss(s, labels), (scores,))


def test_a_threshold_for_test_time_comes_from_the_training_set() -> None:
    random = torch.Generator().manual_seed(4)
    labels = (torch.arange(60) < 12).long()
    scores = torch.randn(60, generator=random) + 3 * labels + 17  # an offset the loss never sees
    threshold = choose_threshold(scores, labels, "count").value
    assert int((scores >= threshold).sum()) == 12


def test_wrong_batches_are_refused() -> None:
    loss = make_loss("hypersimplex")
    with pytest.raises(OneClassError):
        loss(torch.randn(3), torch.zeros(3))
    for scores, labels in (
        (torch.randn(4, 3), torch.full((4, 3), 2)),
        (torch.randn(4, 3), torch.tensor([0, 1, 2, 3])),
        (torch.randn(4, 3), torch.zeros(4, 2)),
    ):
        with pytest.raises(LossError):
            loss(scores, labels)


@pytest.mark.parametrize("k", ["expected", "share"])
def test_a_batch_of_one_class_has_a_loss_when_k_is_not_counted_in_it(k: str) -> None:
    """4 examples with k = 1: all are negative, and the projection of equal scores is 1/4 everywhere."""
    loss = make_loss("hypersimplex", k=k, **({"share": 0.25} if k == "share" else {}))
    assert isinstance(loss, Hypersimplex)
    loss = loss.expecting([0.25])
    assert loss(torch.zeros(4), torch.zeros(4)).item() == pytest.approx(4 * 0.25**2 / 2)
    with pytest.raises(LossError, match="labels must be 0 or 1"):
        loss(torch.zeros(4), torch.full((4,), 2))
