"""Which loss acts at which update, on which scale and in which precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from search_spaces.errors import TrialError
from search_spaces.trial import TrialConfig
from trainables.phases import ce_updates, make_phases

Make = Callable[..., TrialConfig]

LOGITS = torch.tensor([-1.5, 0.2, 3.0, 0.1, -0.4])
LABELS = torch.tensor([0, 0, 0, 1, 1])


def naive_squared_hinge(scores: list[float], margin: float) -> float:
    pairs = [max(0.0, margin - (up - down)) ** 2 for up in scores[3:] for down in scores[:3]]
    return sum(pairs) / len(pairs)


def test_a_warm_up_run_switches_at_w(config_of: Make) -> None:
    phases = make_phases(config_of())
    assert [phases.at(update)[0] for update in range(15)] == ["ce"] * 7 + ["squared_hinge"] * 8


def test_ce_and_direct_runs_never_switch(
    config_of: Make, ce_fields: dict[str, Any], direct_fields: dict[str, Any]
) -> None:
    ce, direct = config_of(**ce_fields), config_of(**direct_fields)
    assert {make_phases(ce).at(update)[0] for update in range(15)} == {"ce"}
    assert {make_phases(direct).at(update)[0] for update in range(15)} == {"squared_hinge"}
    assert [ce_updates(config) for config in (ce, direct, config_of())] == [15, 0, 7]


def test_ce_acts_on_logits_and_the_pairwise_loss_on_sigmoids(config_of: Make) -> None:
    phases = make_phases(config_of())
    expected = binary_cross_entropy_with_logits(LOGITS.double(), LABELS.double()).item()
    assert phases.at(0)[1](LOGITS, LABELS).item() == pytest.approx(expected, rel=1e-6)
    sigmoids = torch.sigmoid(LOGITS.double()).tolist()
    assert phases.at(7)[1](LOGITS, LABELS).item() == pytest.approx(naive_squared_hinge(sigmoids, 0.5), rel=1e-6)


def test_identity_scale_acts_on_raw_logits(config_of: Make) -> None:
    loss = make_phases(config_of(score_scale="identity")).at(7).objective
    assert loss(LOGITS, LABELS).item() == pytest.approx(naive_squared_hinge(LOGITS.tolist(), 0.5), rel=1e-6)


@pytest.mark.parametrize("update", [0, 7])
def test_half_precision_logits_are_widened_before_the_loss(config_of: Make, update: int) -> None:
    loss = make_phases(config_of()).at(update).objective
    half = LOGITS.to(torch.bfloat16).requires_grad_()
    value = loss(half, LABELS)
    assert value.dtype == torch.float32
    assert value.item() == loss(LOGITS.to(torch.bfloat16).float(), LABELS).item()
    value.backward()
    assert half.grad is not None
    assert half.grad.dtype == torch.bfloat16


def test_double_precision_is_kept(config_of: Make) -> None:
    assert make_phases(config_of()).at(7)[1](LOGITS.double(), LABELS).dtype == torch.float64


def test_an_unknown_scale_is_refused(config_of: Make) -> None:
    with pytest.raises(TrialError, match=r"'tanh'.*identity|'tanh'.*sigmoid"):
        make_phases(config_of(score_scale="tanh"))


def test_a_loss_without_a_margin_refuses_one(config_of: Make) -> None:
    with pytest.raises(ValueError, match="margin"):
        make_phases(config_of(loss="logistic"))
