"""Multiclass and multilabel objectives against loops over classes, labels and pairs."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch.nn import functional

from search_spaces.losses import LOSSES
from trainables.losses import LossError, OneClassError, make_loss

NAMES = ("square", "hinge", "squared_hinge", "logistic", "exponential")
M = 0.5


def margin_of(name: str) -> float | None:
    return M if LOSSES[name].has_margin else None


def draw(classes: int = 5, n: int = 30) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(classes)
    scores = (torch.randn(n, classes, dtype=torch.float64, generator=random) * 4).round() / 4
    return scores, torch.randint(0, classes - 1, (n,), generator=random)  # the last class is absent


@pytest.fixture(params=[(1 << 16, 1 << 20), (1 << 16, 1), (1 << 16, 300), (130, 300), (0, 1)])
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All columns at once, one by one, some at a time, the large ones by the engine, all of them."""
    monkeypatch.setattr("trainables.losses.macro.ENGINE_FROM", request.param[0])
    monkeypatch.setattr("trainables.losses.macro.PAIRS_AT_ONCE", request.param[1])


@pytest.mark.usefixtures("sizes")
@pytest.mark.parametrize("name", NAMES)
def test_one_vs_rest_is_the_mean_of_the_binary_losses(name: str) -> None:
    scores, labels = draw()
    binary = make_loss(name, margin_of(name))
    given, other = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    classes = labels.unique().tolist()
    expected = torch.stack([binary(other[:, c], (labels == c).long()) for c in classes]).mean()
    found = binary(given, labels)
    assert found.item() == pytest.approx(expected.item(), rel=1e-12)
    found.backward()
    expected.backward()
    assert given.grad is not None
    assert other.grad is not None
    assert torch.allclose(given.grad, other.grad, rtol=1e-10, atol=1e-14)


@pytest.mark.usefixtures("sizes")
@pytest.mark.parametrize("surrogate", ["square", "hinge", "squared_hinge"])
def test_hand_till_is_the_mean_over_ordered_class_pairs(surrogate: str) -> None:
    scores, labels = draw()
    binary = make_loss(surrogate, M)
    given, other = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    parts = []
    for c, k in itertools.permutations(labels.unique().tolist(), 2):
        both = (labels == c) | (labels == k)
        parts.append(binary(other[both][:, c], (labels[both] == c).long()))
    found, expected = make_loss("hand_till", M, surrogate=surrogate)(given, labels), torch.stack(parts).mean()
    assert found.item() == pytest.approx(expected.item(), rel=1e-12)
    found.backward()
    expected.backward()
    assert given.grad is not None
    assert other.grad is not None
    assert torch.allclose(given.grad, other.grad, rtol=1e-10, atol=1e-14)


@pytest.mark.usefixtures("sizes")
@pytest.mark.parametrize("name", NAMES)
def test_multilabel_is_the_mean_over_labels_with_both_classes(name: str) -> None:
    random = torch.Generator().manual_seed(1)
    scores = torch.randn(24, 6, dtype=torch.float64, generator=random)
    labels = torch.randint(0, 2, (24, 6), generator=random)
    labels[:, 2], labels[:, 4] = 0, 1
    binary = make_loss(name, margin_of(name))
    given, other = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    expected = torch.stack([binary(other[:, c], labels[:, c]) for c in (0, 1, 3, 5)]).mean()
    found = binary(given, labels)
    assert found.item() == pytest.approx(expected.item(), rel=1e-12)
    found.backward()
    expected.backward()
    assert given.grad is not None
    assert other.grad is not None
    assert torch.allclose(given.grad, other.grad, rtol=1e-10, atol=1e-14)
    assert bool((given.grad[:, [2, 4]] == 0).all())


def test_the_kink_has_weight_zero_here_too() -> None:
    scores = torch.tensor([[0.75, 0.0], [0.25, 0.0]], requires_grad=True)
    make_loss("hinge", 0.5)(scores, torch.tensor([0, 1])).backward()
    assert scores.grad is not None
    assert scores.grad[:, 0].tolist() == [0.0, 0.0]
    assert scores.grad[:, 1].tolist() == [0.5, -0.5]


@pytest.mark.usefixtures("sizes")
@pytest.mark.parametrize("name", ["hinge", "squared_hinge", "hand_till"])
def test_gradcheck_and_second_derivatives(name: str) -> None:
    random = torch.Generator().manual_seed(2)
    scores = torch.randn(8, 3, dtype=torch.float64, generator=random).requires_grad_()
    labels = torch.tensor([0, 1, 2, 0, 1, 1, 2, 0])
    loss = make_loss(name, M)
    assert torch.autograd.gradcheck(lambda s: loss(s, labels), (scores,))
    assert torch.autograd.gradgradcheck(lambda s: loss(s, labels), (scores,))


def test_cross_entropy_of_classes_and_labels() -> None:
    scores, labels = draw()
    expected = functional.cross_entropy(scores, labels)
    assert make_loss("ce")(scores, labels).item() == pytest.approx(expected.item(), rel=1e-12)
    many = (scores > 0.5).long()
    terms = [
        math.log1p(math.exp(-z if y else z))
        for z, y in zip(scores.flatten().tolist(), many.flatten().tolist(), strict=True)
    ]
    assert make_loss("ce")(scores, many).item() == pytest.approx(sum(terms) / len(terms), rel=1e-12)


def test_eight_thousand_classes_without_a_loop() -> None:
    scores = torch.randn(128, 8142, requires_grad=True)
    labels = torch.randint(0, 8142, (128,), generator=torch.Generator().manual_seed(0))
    loss = make_loss("squared_hinge", M)(scores, labels)
    loss.backward()
    assert scores.grad is not None
    assert int((scores.grad != 0).any(0).sum()) <= labels.unique().numel()


def test_wrong_class_batches_are_refused() -> None:
    loss = make_loss("hinge", M)
    with pytest.raises(OneClassError, match="one class"):
        loss(torch.randn(4, 3), torch.tensor([1, 1, 1, 1]))
    with pytest.raises(OneClassError, match="no label has both"):
        loss(torch.randn(4, 3), torch.ones(4, 3))
    for scores, labels in (
        (torch.randn(4, 3), torch.tensor([0, 1, 2, 3])),
        (torch.randn(4, 3), torch.tensor([0, 1, 2, -1])),
        (torch.randn(4, 3), torch.tensor([0.0, 1.0, 0.5, 2.0])),
        (torch.randn(4, 3), torch.tensor([0, 1, 2])),
        (torch.randn(4, 3), torch.full((4, 3), 2)),
        (torch.randn(4, 1), torch.zeros(4, 1)),
        (torch.randn(4, 3, 2), torch.zeros(4)),
    ):
        for name in ("hinge", "ce"):
            with pytest.raises(LossError):
                make_loss(name, margin_of(name))(scores, labels)


@pytest.mark.parametrize("name", ["hinge", "hand_till", "hypersimplex", "ce"])
def test_a_nan_for_an_absent_class_shows(name: str) -> None:
    scores, labels = draw()
    scores[3, -1] = math.nan
    assert math.isnan(make_loss(name, margin_of(name))(scores, labels).item())
    truth = functional.one_hot(labels, scores.shape[1])
    if name != "hand_till":
        assert math.isnan(make_loss(name, margin_of(name))(scores, truth).item())


def test_what_is_held_does_not_grow_with_the_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 300 labels of 64 examples, 300 * 16 * 48 pairs, no more than one part is saved for the gradient."""
    monkeypatch.setattr("trainables.losses.macro.PAIRS_AT_ONCE", 5_000)
    scores = torch.randn(64, 300, generator=torch.Generator().manual_seed(0), requires_grad=True)
    labels = ((torch.arange(64)[:, None] + torch.arange(300)) % 4 == 0).long()
    largest, held = 0, 0

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal largest, held
        largest, held = max(largest, tensor.numel()), held + tensor.numel()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = make_loss("squared_hinge", M)(scores, labels)
    assert largest <= scores.numel()
    assert held < 20 * scores.numel()
    loss.backward()
    assert scores.grad is not None
    assert bool(torch.isfinite(scores.grad).all())


def test_padding_brings_no_infinity_into_the_sum() -> None:
    """Labels with 1 and 3 positives are padded together; the pairs of padding would overflow."""
    scores = torch.tensor([[2e3, 0.0], [-2e3, 0.1], [0.0, 0.2], [0.0, -2e3]], dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([[1, 1], [0, 1], [0, 1], [0, 0]])
    loss = make_loss("exponential")(scores, labels)
    assert loss.item() == 0.0
    loss.backward()
    assert scores.grad is not None
    assert scores.grad.tolist() == [[0.0, 0.0]] * 4
