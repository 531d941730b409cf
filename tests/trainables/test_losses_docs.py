"""The pages about losses: every loss has an entry, and the example of a loss of one's own works as printed."""

from __future__ import annotations

import dataclasses
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from search_spaces.cards import LossCard
from search_spaces.losses import LOSSES
from trainables.losses import LossError, OneClassError, make_loss, on_classes, register_loss
from trainables.losses.cross_entropy import CrossEntropy
from trainables.losses.registry import BUILDERS

DOCS = Path(__file__).parents[2] / "docs"


def test_every_loss_has_an_entry_that_names_its_parameters() -> None:
    text = (DOCS / "losses.md").read_text()
    for card in LOSSES.values():
        assert f"`{card.name}`" in text
        for name in card.params:
            assert re.search(rf"\b{name}\b", text), f"{name} of {card.name}"


def test_the_example_of_a_loss_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for table in (LOSSES, BUILDERS):  # undone after the test
        monkeypatch.setitem(table, "mean_gap", None)
        monkeypatch.delitem(table, "mean_gap")
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / "add-a-loss.md").read_text(), re.DOTALL)
    names: dict[str, object] = {"__name__": "example"}
    exec(compile(code, "docs/add-a-loss.md", "exec", dont_inherit=True), names)
    loss = make_loss("mean_gap", scale=2.0)
    assert loss(torch.tensor([0.5, 0.1, 0.3]), torch.tensor([1, 0, 0])).item() == pytest.approx(-0.6)
    with pytest.raises(LossError, match="scale"):
        make_loss("mean_gap", scale=-1)
    with pytest.raises(OneClassError):
        loss(torch.zeros(2), torch.ones(2))
    with pytest.raises(LossError, match="already"):
        register_loss(LOSSES["mean_gap"], BUILDERS["mean_gap"])


def test_a_loss_of_ones_own_may_have_a_margin() -> None:
    card = LossCard("gap", "Gap", "(m - gap)+", "m", has_margin=True, pairwise=True, source="here")
    loss = on_classes(lambda p, q, margin: (margin - p.mean() + q.mean()).clamp(min=0))(card, 0.5, {})
    assert loss(torch.tensor([0.3, 0.1]), torch.tensor([1, 0])).item() == pytest.approx(0.3)
    assert loss(torch.tensor([0.3, 0.1]), torch.tensor([1, 0])).dtype == torch.float32
    broken = LossCard("gap", "Gap", "", "", has_margin=False, pairwise=True, source="", params={"scale": 1.0})
    with pytest.raises(LossError, match="rule"):
        register_loss(broken, on_classes(lambda p, q, scale: p.sum()))


def plain(positives: Tensor, negatives: Tensor) -> Tensor:
    return negatives.mean() - positives.mean()


CARD = LossCard("slip", title="Slip", formula="f", weight="w", source="here", has_margin=False, pairwise=True)
SLIPS: list[tuple[dict[str, Any], Any, str]] = [
    ({"has_margin": True}, on_classes(plain), "TypeError: plain() got an unexpected keyword argument 'margin'"),
    ({}, plain, "TypeError: plain() takes 2 positional arguments but 3 were given"),
    ({}, lambda card, margin, params: 3, "TypeError: its builder gives no callable; register a function of both"),
    (
        {},
        on_classes(lambda p, q: 3.0),
        "LossError: the function of loss slip should return a tensor of one number, got 3",
    ),
    ({}, on_classes(lambda p, q: p[:, None] - q), "of one number, got a tensor of shape (6, 6)"),
    ({}, on_classes(lambda p, q: (q.mean() - p.mean()).detach()), "TypeError: its value has no gradient"),
    ({"weighted": True}, on_classes(plain), "LossError: loss slip takes no example weights"),
    ({"kinds": ("multiclass",)}, on_classes(plain), "LossError: scores must have shape (n,), got (12, 3)"),
]


@pytest.mark.parametrize(("changes", "build", "message"), SLIPS)
def test_a_slip_in_an_own_loss_shows_before_any_trial(changes: dict[str, Any], build: Any, message: str) -> None:
    with pytest.raises(LossError, match=r"^loss slip fails on 12 scores: ") as caught:
        register_loss(dataclasses.replace(CARD, **changes), build)
    assert message in str(caught.value)
    assert "slip" not in LOSSES


def wants_more(positives: Tensor, negatives: Tensor) -> Tensor:
    return negatives.topk(8).values.mean() - positives.mean()


def wants_another_margin(positives: Tensor, negatives: Tensor, margin: float) -> Tensor:
    assert margin >= 1
    return (margin + negatives.mean() - positives.mean())[None]


@pytest.mark.parametrize("function", [wants_more, wants_another_margin])
def test_a_loss_that_wants_another_batch_or_margin_is_not_refused(function: Any) -> None:
    card = dataclasses.replace(CARD, has_margin=function is wants_another_margin)
    try:
        with pytest.warns(UserWarning, match="loss slip could not be tried on 12 scores, trials may do"):
            register_loss(card, on_classes(function))
        loss = make_loss("slip", margin=1.0) if card.has_margin else make_loss("slip")
        value = loss(torch.zeros(20, requires_grad=True), torch.arange(20) % 2)
        assert (value.shape, value.item()) == ((), float(card.has_margin))
    finally:
        LOSSES.pop("slip", None)
        BUILDERS.pop("slip", None)


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
def test_a_loss_for_any_kind_of_task_can_be_registered(kind: str) -> None:
    card = dataclasses.replace(CARD, kinds=(kind,), weighted=True)
    try:
        register_loss(card, lambda card, margin, params: CrossEntropy(card))
        assert make_loss("slip")(torch.zeros(2), torch.tensor([0, 1])).item() == pytest.approx(math.log(2))
    finally:
        LOSSES.pop("slip", None)
        BUILDERS.pop("slip", None)
