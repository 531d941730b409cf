"""Losses with parameters in a space: how they are written, merged, refused, and what becomes of them in trials."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from search_spaces.cards import LossCard
from search_spaces.errors import SpaceError
from search_spaces.expand import expand
from search_spaces.loss_spec import loss_card, loss_spec
from search_spaces.losses import LOSSES
from search_spaces.space import Space, load_space


def space(tmp_path: Path, **changes: Any) -> Space:
    """The smoke preset with other losses and whatever else is asked for."""
    content = {
        "name": "trial",
        "regime": "smoke",
        "tasks": ["mnist-8-low-shot"],
        "models": ["plain-mlp"],
        "inits": ["random"],
        "losses": ["hinge"],
        "warmup_ratios": [0, 0.2],
        "margins": [0.5],
        "seeds": [1, 2],
    }
    path = tmp_path / "space.yaml"
    path.write_text(yaml.safe_dump(content | changes))
    return load_space(path)


@pytest.mark.parametrize(
    ("written", "canonical", "changed"),
    [
        ("hinge", "hinge", {}),
        (" partial_auc ( max_fpr = 0.10 ) ", "partial_auc(max_fpr=0.1)", {"max_fpr": 0.1}),
        ("partial_auc(min_tpr=5e-1, surrogate=hinge)", "partial_auc(surrogate=hinge, min_tpr=0.5)", {"min_tpr": 0.5}),
        ("partial_auc(max_fpr=0.3)", "partial_auc", {}),
        ("p_norm_push(p=8)", "p_norm_push(p=8)", {"p": 8}),
        ("p_norm_push(p=8.0)", "p_norm_push(p=8)", {"p": 8.0}),
        ("aucm(variant=libauc-2.0.1)", "aucm(variant=libauc-2.0.1)", {"variant": "libauc-2.0.1"}),
    ],
)
def test_a_spec_has_one_canonical_form(written: str, canonical: str, changed: dict[str, Any]) -> None:
    card = loss_card(written)
    assert loss_spec(card) == canonical
    assert loss_card(canonical) == card
    for name, value in changed.items():
        assert card.params[name] == value


@pytest.mark.parametrize(
    ("written", "match"),
    [
        ("hinje", "did you mean hinge"),
        ("partial_auk(max_fpr=0.1)", "did you mean partial_auc"),
        ("hinge(margin=0.5)", "hinge has no parameter 'margin', which is listed in the space's margins"),
        ("logistic(margin=0.5, tau=2)", "logistic has no parameter 'margin', and has no margin; .* no parameter 'tau'"),
        ("hinge(tau=0.5)", "loss hinge has no parameter 'tau': it has none"),
        ("partial_auc(max_frp=0.1)", "did you mean max_fpr"),
        ("partial_auc(max_fpr=2, min_tpr=1)", r"max_fpr of loss .*; min_tpr of loss"),
        ("partial_auc(0.1)", "name=value"),
        ("partial_auc()", "name=value"),
        ("partial_auc(max_fpr=)", "name=value"),
        ("partial_auc(max_fpr=0.1, max_fpr=0.2)", "given twice"),
        ("partial_auc(max_fpr=0.1", "is no loss: .*; a list ends an item at its comma, so quote it"),
        ("surrogate=hinge)", "is no loss: .* quote it"),
        ("(max_fpr=0.1)", "is no loss"),
    ],
)
def test_wrong_specs_are_refused(written: str, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        loss_card(written)


def test_cells_name_the_spec_and_trials_the_loss_and_its_parameters(tmp_path: Path) -> None:
    found = expand(space(tmp_path, losses=["hinge", "partial_auc(max_fpr=0.1)", "partial_auc(max_fpr=0.5)"]))
    assert {cell.loss for cell in found.cells} == {"hinge", "partial_auc(max_fpr=0.1)", "partial_auc(max_fpr=0.5)"}
    assert len(found.cells) == len(found.trials) == 3 * 2 * 2
    partial = [trial for trial in found.trials.values() if trial.loss == "partial_auc"]
    assert {trial.loss_params["max_fpr"] for trial in partial} == {0.1, 0.5}
    assert all(set(trial.loss_params) == set(LOSSES["partial_auc"].params) for trial in partial)
    assert all(not trial.loss_params for trial in found.trials.values() if trial.loss == "hinge")


@pytest.mark.parametrize(
    ("written", "same", "margins"),
    [
        ("hypersimplex(share=0.2)", "hypersimplex", []),
        ("hypersimplex(share=0.2, k=expected)", "hypersimplex(k=expected)", []),
        ("semi_hard(surrogate=square)", "semi_hard", [0.5]),
    ],
)
def test_parameters_that_mean_nothing_are_one_trial(
    tmp_path: Path, written: str, same: str, margins: list[float]
) -> None:
    one, both = (expand(space(tmp_path, losses=names, margins=margins)) for names in ([same], [same, written]))
    assert list(both.trials) == list(one.trials)
    assert both.cells == one.cells
    assert both.product == 2 * one.product
    alone = expand(space(tmp_path, losses=[written], margins=margins))
    assert (alone.cells, alone.trials) == (one.cells, one.trials)
    assert alone.cells[0].loss == same


def test_the_default_hypersimplex_keeps_its_id(tmp_path: Path) -> None:
    found = next(iter(expand(space(tmp_path, losses=["hypersimplex"], margins=[])).trials.values()))
    assert found.loss_params == {"tau": 1.5, "k": "labels", "share": 0.5, "reduction": "sum"}
    assert found.trial_id == "7c037836f31fe4d1"


def test_parameters_that_mean_something_stay_apart(tmp_path: Path) -> None:
    shares = ["hypersimplex(k=share)", "hypersimplex(k=share, share=0.2)", "hypersimplex"]
    assert len(expand(space(tmp_path, losses=shares, margins=[], warmup_ratios=[0], seeds=[1])).trials) == 3
    # the objective of v1 is one in both variants, its optimizer is not
    variants = ["aucm(version=v1)", "aucm(version=v1, variant=libauc-2.0.1)"]
    deep = space(tmp_path, losses=variants, warmup_ratios=[0], seeds=[1], settings={"optimizer": "pesg"})
    assert len(expand(deep).trials) == 2


@pytest.mark.parametrize("card", [card for card in LOSSES.values() if card.equal], ids=lambda card: card.name)
def test_equal_parameters_give_the_same_numbers(card: LossCard) -> None:
    torch = pytest.importorskip("torch")
    from trainables.losses import make_loss

    margin = 0.5 if card.has_margin else None
    generator = torch.Generator().manual_seed(7)
    scores, labels = torch.rand(60, generator=generator), torch.arange(60) % 3 == 0
    for where, instead in card.equal:
        results = []
        for params in (where, {**where, **instead}, *_others(card, where, instead)):
            loss = make_loss(card.name, margin, **params)
            if params.get("k") == "expected":
                loss = loss.expecting([1 / 3])
            given = scores.clone().requires_grad_()
            value = loss(given, labels.long())
            value.backward()
            results.append((value.detach(), given.grad))
        assert all(torch.equal(a, b) for other in results[1:] for a, b in zip(results[0], other, strict=True))


def _others(card: LossCard, where: Mapping[str, Any], instead: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Further parameters that ``card.equal`` says are the same."""
    return [{**where, "share": 0.2}] if "share" in instead else []


def test_one_loss_written_in_two_ways_is_given_twice(tmp_path: Path) -> None:
    with pytest.raises(SpaceError, match="given twice"):
        space(tmp_path, losses=["partial_auc", "partial_auc(max_fpr=0.3)"])


def test_problems_of_specs_come_with_all_others(tmp_path: Path) -> None:
    with pytest.raises(SpaceError) as caught:
        space(tmp_path, losses=["partial_auc(max_fpr=2)", "hinje"], seeds=[])
    text = str(caught.value)
    for part in ("losses.0: max_fpr of loss partial_auc must be", "losses.1: unknown loss 'hinje'", "seeds"):
        assert part in text


@pytest.mark.parametrize(
    ("losses", "optimizer", "match"),
    [
        (["aucm"], "sgd", "aucm needs pesg, got sgd"),
        (["aucm(version=v1)"], "adamw", "aucm needs pesg"),
        (["aucm", "ce", "hinge"], "pesg", "pesg trains aucm only, not ce, hinge"),
    ],
)
def test_deep_auc_and_its_optimizer_go_together(tmp_path: Path, losses: list[str], optimizer: str, match: str) -> None:
    with pytest.raises(SpaceError, match=match):
        space(tmp_path, losses=losses, settings={"optimizer": optimizer})


def test_the_preset_covers_the_seventeen_settings_in_both_variants_and_a_control() -> None:
    found = expand(load_space("deep-auc"))
    assert len({(cell.task, cell.model) for cell in found.cells}) == 17
    trials = list(found.trials.values())
    deep, control = ([t for t in trials if t.loss == name] for name in ("aucm", "aucm_closed"))
    assert (len(deep), len(control), len(trials)) == (17 * 2 * 5, 17 * 5, 17 * 3 * 5)
    assert {(t.optimizer, t.momentum, t.weight_decay, t.max_grad_norm) for t in deep} == {("pesg", 0.9, 1e-5, None)}
    assert {(t.margin, t.positive_fraction) for t in trials} == {(1.0, 0.25)}
    assert {t.loss_params["variant"] for t in deep} == {"paper", "libauc-2.0.1"}
    pairwise = {
        (t.task, t.model, t.seed, t.optimizer, t.learning_rate, t.weight_decay, t.max_grad_norm, t.updates_per_epoch)
        for preset in ("cv-densenet121", "cv-imagenet-lt", "cv-resnet50", "nlp-distilbert")
        for t in expand(load_space(preset)).trials.values()
    }
    assert all(
        (t.task, t.model, t.seed, t.optimizer, t.learning_rate, t.weight_decay, t.max_grad_norm, t.updates_per_epoch)
        in pairwise
        for t in control
    )


def test_a_space_with_specs_survives_the_store(tmp_path: Path) -> None:
    one = space(tmp_path, losses=["partial_auc(max_fpr=0.1, surrogate=hinge)", "ce"])
    again = Space.from_dict(one.to_dict())
    assert expand(again).plan_hash == expand(one).plan_hash
    assert set(expand(again).trials) == set(expand(one).trials)
