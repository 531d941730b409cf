"""AUCM and PESG: the published formula, the square-loss identity, and libauc 2.0.1 step by step if installed."""

from __future__ import annotations

import importlib.util
import warnings
from typing import Any

import pytest
import torch
from torch import nn

from trainables.losses import LossError, make_loss
from trainables.losses.aucm import AucMargin
from trainables.pesg import Pesg

needs_libauc = pytest.mark.skipif(
    importlib.util.find_spec("libauc") is None, reason="libauc is not installed (pip install --no-deps libauc==2.0.1)"
)


def aucm(**params: Any) -> AucMargin:
    loss = make_loss("aucm", params.pop("margin", 1.0), **params)
    assert isinstance(loss, AucMargin)
    return loss


def batches(count: int, n: int = 32) -> list[tuple[torch.Tensor, torch.Tensor]]:
    random = torch.Generator().manual_seed(11)
    labels = (torch.arange(n) < n // 4).long()
    return [(torch.randn(n, 6, generator=random) + labels[:, None] * 0.3, labels) for _ in range(count)]


def model() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1), nn.Sigmoid())


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_paper_variant_is_the_published_formula(version: str) -> None:
    random = torch.Generator().manual_seed(0)
    scores = torch.rand(20, dtype=torch.float64, generator=random)
    labels = (torch.arange(20) < 5).long()
    loss = aucm(version=version, margin=0.7)
    with torch.no_grad():
        for parameter, value in ((loss.a, 0.6), (loss.b, 0.25), (loss.alpha, 0.4)):
            parameter.fill_(value)
    a, b, alpha = loss.a.item(), loss.b.item(), loss.alpha.item()
    s, p = scores.tolist(), 0.25
    up, down = s[:5], s[5:]
    if version == "v2":
        expected = (
            sum((x - a) ** 2 for x in up) / 5
            + sum((x - b) ** 2 for x in down) / 15
            + 2 * alpha * (0.7 + sum(down) / 15 - sum(up) / 5)
            - alpha**2
        )
    else:
        expected = (
            (1 - p) * sum((x - a) ** 2 for x in up) / 20
            + p * sum((x - b) ** 2 for x in down) / 20
            + 2 * alpha * (p * (1 - p) * 0.7 + (p * sum(down) - (1 - p) * sum(up)) / 20)
            - p * (1 - p) * alpha**2
        )
    assert loss(scores, labels).item() == pytest.approx(expected, rel=1e-12)


def saddle(loss: AucMargin, scores: torch.Tensor, labels: torch.Tensor) -> float:
    up, down = scores[labels == 1].mean(), scores[labels == 0].mean()
    with torch.no_grad():
        loss.double()
        loss.a.copy_(up)
        loss.b.copy_(down)
        loss.alpha.copy_((loss.margin + down - up).clamp(min=0))
    return loss(scores, labels).item()


@pytest.mark.parametrize("margin", [0.2, 1.0, 3.0])
def test_v2_at_its_saddle_is_the_closed_form_and_the_square_loss(margin: float) -> None:
    random = torch.Generator().manual_seed(1)
    labels = (torch.arange(40) % 4 == 0).long()
    scores = torch.randn(40, dtype=torch.float64, generator=random) + labels
    closed = make_loss("aucm_closed", margin)(scores, labels).item()
    assert saddle(aucm(margin=margin), scores, labels) == pytest.approx(closed, rel=1e-12)
    gap = float(scores[labels == 1].mean() - scores[labels == 0].mean())
    square = make_loss("square", margin)(scores, labels).item()
    if gap < margin:
        assert closed == pytest.approx(square, rel=1e-12)
    else:
        assert closed == pytest.approx(square - (margin - gap) ** 2, rel=1e-12)


def test_the_closed_form_passes_gradcheck() -> None:
    scores = torch.randn(12, dtype=torch.float64, generator=torch.Generator().manual_seed(2)).requires_grad_()
    labels = (torch.arange(12) % 3 == 0).long()
    loss = make_loss("aucm_closed", 0.6)
    assert torch.autograd.gradcheck(lambda s: loss(s, labels), (scores,))


def test_v1_is_one_formula_in_both_variants_and_v2_is_not() -> None:
    scores, labels = torch.rand(32), (torch.arange(32) < 8).long()
    for version, equal in (("v1", True), ("v2", False)):
        values = []
        for variant in ("paper", "libauc-2.0.1"):
            loss = aucm(version=version, variant=variant)
            nn.init.constant_(loss.alpha, 0.5)
            values.append(loss(scores, labels).item())
        assert (abs(values[0] - values[1]) < 1e-6) == equal


@needs_libauc
@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("momentum", [0.9, 0.0])
def test_shipped_variant_makes_libaucs_steps(version: str, momentum: float) -> None:
    warnings.simplefilter("ignore")
    from libauc.losses import AUCMLoss
    from libauc.optimizers import PESG

    ours, theirs = model(), model()
    our_loss, their_loss = aucm(version=version, variant="libauc-2.0.1"), AUCMLoss(version=version, device="cpu")
    our_steps = Pesg(ours.parameters(), our_loss, 0.1, momentum=momentum)
    torch.manual_seed(3)
    their_steps = PESG(theirs.parameters(), loss_fn=their_loss, lr=0.1, momentum=momentum, verbose=False, device="cpu")
    torch.manual_seed(3)  # they draw the reference when built, we at the first step
    for update, (features, labels) in enumerate(batches(50)):
        for module, loss, optimizer in ((ours, our_loss, our_steps), (theirs, their_loss, their_steps)):
            optimizer.zero_grad()
            loss(module(features).squeeze(1), labels).backward()
            optimizer.step()
        if update in (20, 35):
            our_steps.update_reference()
            their_steps.update_regularizer()
    for mine, its in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(mine, its, rtol=0, atol=1e-6)
    for name in ("a", "b", "alpha"):
        assert getattr(our_loss, name).item() == pytest.approx(getattr(their_loss, name).item(), abs=1e-6)
    assert our_loss.a.item() != 0


def run(module: nn.Module, loss: AucMargin, optimizer: Pesg, stream: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    for features, labels in stream:
        optimizer.zero_grad()
        loss(module(features).squeeze(1), labels).backward()
        optimizer.step()


@pytest.mark.parametrize("variant", ["paper", "libauc-2.0.1"])
def test_a_cut_run_goes_on_bit_equal(variant: str) -> None:
    stream = batches(20)

    def fresh() -> tuple[nn.Module, AucMargin, Pesg]:
        module, loss = model(), aucm(variant=variant)
        return module, loss, Pesg(module.parameters(), loss)

    whole = fresh()
    torch.manual_seed(10)
    run(*whole, stream[:10])
    saved = [part.state_dict() for part in whole]
    saved = [{key: value for key, value in state.items()} for state in saved]
    copies = torch.load(_saved(saved), weights_only=True)
    whole[2].update_reference()
    run(*whole, stream[10:])
    again = fresh()
    for part, state in zip(again, copies, strict=True):
        part.load_state_dict(state)
    again[2].update_reference()
    run(*again, stream[10:])
    for mine, its in zip(whole[0].parameters(), again[0].parameters(), strict=True):
        assert torch.equal(mine, its)
    assert torch.equal(whole[1].alpha, again[1].alpha)


def _saved(content: object) -> Any:
    import io

    buffer = io.BytesIO()
    torch.save(content, buffer)
    buffer.seek(0)
    return buffer


def test_paper_pesg_by_hand() -> None:
    module = nn.Linear(1, 1, bias=False).double()
    nn.init.constant_(module.weight, 0.5)
    loss = aucm().double()
    optimizer = Pesg(module.parameters(), loss, 0.1, momentum=0.9, weight_decay=0.01, epoch_decay=0.2)
    features, labels = torch.tensor([[1.0], [2.0], [-1.0]], dtype=torch.float64), torch.tensor([1, 0, 0])
    weight = reference = 0.5
    a = b = alpha = 0.0
    buffers = [0.0, 0.0, 0.0]
    for update in range(3):
        optimizer.zero_grad()
        loss(module(features).squeeze(1), labels).backward()
        optimizer.step()
        s = [weight * x for x in (1.0, 2.0, -1.0)]
        slope = 2 * (s[0] - a) * 1.0 + ((s[1] - b) * 2.0 - (s[2] - b)) + 2 * alpha * (0.5 - 1.0)
        slopes = [slope, -2 * (s[0] - a), -((s[1] - b) + (s[2] - b))]
        rise = 2 * (1 + (s[1] + s[2]) / 2 - s[0]) - 2 * alpha
        point, anchors = [weight, a, b], [reference, 0.0, 0.0]
        for i in range(3):
            pull = slopes[i] + 0.2 * (point[i] - anchors[i]) + 0.01 * point[i]
            buffers[i] = pull if update == 0 else 0.9 * buffers[i] + pull
            point[i] -= 0.1 * buffers[i]
        weight, a, b = point
        alpha = max(0.0, alpha + 0.1 * rise)
        assert module.weight.item() == pytest.approx(weight, rel=1e-12)
        assert loss.a.item() == pytest.approx(a, rel=1e-12)
        assert loss.alpha.item() == pytest.approx(alpha, rel=1e-12)


def test_reference_moves_to_the_mean_iterate_and_not_before_a_step() -> None:
    module, loss = model(), aucm()
    optimizer = Pesg(module.parameters(), loss)
    first = next(module.parameters())
    start = first.detach().clone()
    optimizer.update_reference()
    run(module, loss, optimizer, batches(1))
    assert torch.equal(optimizer.state[first]["reference"], start)
    seen = [first.detach().clone()]
    for one in batches(3):
        run(module, loss, optimizer, [one])
        seen.append(first.detach().clone())
    optimizer.update_reference()
    assert torch.allclose(optimizer.state[first]["reference"], torch.stack(seen).mean(0), atol=1e-7)


def test_wrong_settings_are_refused() -> None:
    for wrong in ({"lr": -1.0}, {"momentum": 1.0}, {"weight_decay": -1e-3}, {"epoch_decay": -1.0}):
        with pytest.raises(LossError, match="PESG"):
            Pesg(model().parameters(), aucm(), **wrong)


@pytest.mark.parametrize("variant", ["paper", "libauc-2.0.1"])
def test_a_ce_phase_under_pesg_is_plain_sgd_whatever_the_variant(variant: str) -> None:
    ours, theirs = model(), model()
    pesg = Pesg(ours.parameters(), aucm(variant=variant), 0.05, momentum=0.9, weight_decay=0.01)
    sgd = torch.optim.SGD(theirs.parameters(), 0.05, 0.9, weight_decay=0.01)
    for features, labels in batches(5):
        for module, optimizer in ((ours, pesg), (theirs, sgd)):
            optimizer.zero_grad()
            make_loss("ce")(module(features).squeeze(1), labels).backward()
            optimizer.step()
    for mine, its in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(mine, its, atol=1e-7)
