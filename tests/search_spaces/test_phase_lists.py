"""Phases in a space: what is read, what is refused, and which run each list amounts to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from search_spaces.errors import SpaceError
from search_spaces.expand import Expansion, expand
from search_spaces.losses import LOSSES
from search_spaces.own_task import write_card
from search_spaces.phase_spec import WITH_PAIRS, effective_loss, phase_card, read_phases
from search_spaces.space import Space, load_space
from search_spaces.trial import TrialConfig

SPACE: dict[str, Any] = {
    "regime": "quickstart-mnist",
    "tasks": ["mnist-8-low-shot"],
    "models": ["plain-mlp"],
    "inits": ["random"],
    "losses": ["own"],
    "warmup_ratios": [0],
    "margins": [0.5],
    "seeds": [1],
    "settings": {"epochs": 2, "updates_per_epoch": 10},
}


def space(tmp_path: Path, phases: Any, **changes: Any) -> Space:
    path = tmp_path / "space.yaml"
    path.write_text(yaml.safe_dump({**SPACE, "phases": phases, **changes}, sort_keys=False))
    return load_space(path)


def trial(tmp_path: Path, phases: Any, **changes: Any) -> TrialConfig:
    (found,) = expand(space(tmp_path, {"own": phases}, **changes)).trials.values()
    return found


def problems(tmp_path: Path, phases: Any, **changes: Any) -> tuple[str, ...]:
    with pytest.raises(SpaceError) as caught:
        space(tmp_path, phases, **changes)
    return caught.value.problems


def test_a_run_holds_its_phases_in_updates(tmp_path: Path) -> None:
    own = [
        {"share": 0.25, "loss": "squared_hinge", "margin": {"from": 0.2, "to": 1}, "ce": {"from": 0.5, "to": 0}},
        {"share": 0.5, "loss": "smoothed_indicator(steepness=5)", "pairs": {"hard_negatives": 8, "budget": 2}},
        {"loss": "ce"},
    ]
    found = trial(tmp_path, own)
    assert (found.loss, found.mode, found.margin, found.warmup_updates) == ("phases", "direct", 0.5, 0)
    assert found.as_dict()["loss_params"] == {
        "phases": [
            {"updates": 5, "loss": "squared_hinge", "params": {}, "margin": [0.2, 1.0], "ce": [0.5, 0.0]},
            {
                "updates": 10,
                "loss": "smoothed_indicator",
                "params": {"steepness": 5},
                "pairs": {"hard_negatives": 8, "budget": 2},
            },
            {"updates": 5, "loss": "ce", "params": {}},
        ]
    }


@pytest.mark.parametrize(
    ("shares", "updates", "expected"),
    [
        ([0.5], 3, [2, 1]),  # floor(1.5 + 1/2) = 2
        ([0.1, 0.2], 15, [2, 3, 10]),  # ends at floor(2.0) and, of 0.1 + 0.2 = 0.3 exactly, floor(5.0)
        ([0.01, 0.5], 20, [10, 10]),  # 0.2 updates are none
    ],
)
def test_shares_round_like_warm_up_ratios(shares: list[float], updates: int, expected: list[int]) -> None:
    ce = iter([0.5, 0.25])
    written = [{"share": share, "loss": "logistic", "ce": next(ce)} for share in shares] + [{"loss": "exponential"}]
    read, _ = read_phases({"own": written})
    name, params, _ = effective_loss(read["own"], updates, "none")
    assert name == "phases"
    assert [phase["updates"] for phase in params["phases"]] == expected


def test_the_warm_up_comes_before_the_phases(tmp_path: Path) -> None:
    own = [{"share": 0.5, "loss": "hinge"}, {"loss": "squared_hinge"}]
    found = trial(tmp_path, own, warmup_ratios=[0.2])
    assert (found.mode, found.warmup_updates, found.switch_scale) == ("warmup", 4, 0.5)
    assert [phase["updates"] for phase in found.loss_params["phases"]] == [8, 8]


@pytest.mark.parametrize(
    ("phase", "loss", "params"),
    [
        ({"loss": "hinge"}, "hinge", {}),
        ({"loss": "hinge", "margin": 1, "ce": 0, "pairs": {}, "weights": "none"}, "hinge", {}),
        ({"loss": "hinge", "pairs": {"semi_hard": False, "max_fpr": 1, "min_tpr": 0}}, "hinge", {}),
        ({"loss": "listwise(tau=0.1)"}, "listwise", {"tau": 0.1}),
        ({"loss": "hinge", "pairs": {"hard_negatives": 3}}, "top_push", {"surrogate": "hinge", "k": 3}),
        ({"loss": "square", "pairs": {"budget": 2}}, "incomplete_pairs", {"surrogate": "square", "per_example": 2}),
        ({"loss": "hinge", "pairs": {"semi_hard": True}}, "semi_hard", {"surrogate": "hinge"}),
        ({"loss": "square", "pairs": {"semi_hard": True}}, "semi_hard", {"surrogate": "squared_hinge"}),
        ({"loss": "hypersimplex(share=0.2)"}, "hypersimplex", dict(LOSSES["hypersimplex"].params)),
        (
            {"loss": "hinge", "pairs": {"max_fpr": 0.1}},
            "partial_auc",
            {"surrogate": "hinge", "max_fpr": 0.1, "min_tpr": 0},
        ),
        (
            {"loss": "hinge", "pairs": {"min_tpr": 0.4}},
            "partial_auc",
            {"surrogate": "hinge", "max_fpr": 1, "min_tpr": 0.4},
        ),
    ],
)
def test_a_phase_that_has_a_name_of_its_own_is_that_run(
    tmp_path: Path, phase: dict[str, Any], loss: str, params: dict[str, Any]
) -> None:
    margins = [0.5] if LOSSES[loss].has_margin else []
    spec = f"{loss}({', '.join(f'{key}={value}' for key, value in params.items())})" if params else loss
    found = expand(space(tmp_path, {"own": [phase]}, losses=["own", spec], margins=margins))
    assert [(one.loss, dict(one.loss_params)) for one in found.trials.values()] == [(loss, params)]
    assert next(cell.loss for cell in found.cells) == "own"
    assert len(found.cells) == 2


@pytest.mark.parametrize(
    "phase",
    [
        {"loss": "hinge", "margin": {"from": 0.5, "to": 1}},
        {"loss": "hinge", "ce": 0.1},
        {"loss": "logistic", "pairs": {"hard_negatives": 3}},
        {"loss": "hinge", "pairs": {"hard_negatives": 3, "budget": 1}},
        {"loss": "hinge", "pairs": {"max_fpr": 0.3, "semi_hard": True}},
    ],
)
def test_a_phase_without_a_name_of_its_own_stays(tmp_path: Path, phase: dict[str, Any]) -> None:
    margins = [0.5] if LOSSES[phase["loss"]].has_margin else []
    found = trial(tmp_path, [phase], margins=margins)
    assert found.loss == "phases"
    assert found.margin == (0.5 if margins else None)


HALF = {"share": 0.5}
TOP = {"loss": "hinge", "pairs": {"hard_negatives": 3}}


@pytest.mark.parametrize(
    ("one", "other", "updates"),
    [
        ([{**HALF, "loss": "hinge"}, {"loss": "hinge"}], [{"loss": "hinge"}], 20),
        ([{**HALF, **TOP, "ce": 0.1}, {**TOP, "ce": {"from": 0.1, "to": 0.1}}], [{**TOP, "ce": 0.1}], 20),
        ([{**TOP, "ce": 0.1}], [{"loss": "top_push(k=3, surrogate=hinge)", "ce": 0.1}], 20),
        (
            [{**HALF, "loss": "square", "pairs": {"budget": 2}}, {"loss": "hinge"}],
            [{**HALF, "loss": "incomplete_pairs(surrogate=square, per_example=2)"}, {"loss": "hinge"}],
            20,
        ),
        (
            [{"loss": "square", "pairs": {"semi_hard": True, "budget": 2}}],
            [{"loss": "squared_hinge", "pairs": {"semi_hard": True, "budget": 2}}],
            20,
        ),
        # the only update of a phase is its last
        ([{"loss": "hinge", "margin": {"from": 0.1, "to": 1}, "ce": {"from": 1, "to": 0}}], [{"loss": "hinge"}], 1),
        (
            [{**HALF, "loss": "hinge", "ce": {"from": 0, "to": 1}}, {"loss": "square"}],
            [{**HALF, "loss": "square", "ce": {"from": 0, "to": 1}, "margin": 0.5}, {"loss": "square"}],
            2,
        ),
        # 0.4 of an update is none
        ([{"share": 0.4, "loss": "square"}, {"loss": "hinge"}], [{"loss": "hinge"}], 1),
    ],
)
def test_one_run_written_in_two_ways_is_one_trial(tmp_path: Path, one: Any, other: Any, updates: int) -> None:
    settings = {"epochs": 1, "updates_per_epoch": updates}
    found = expand(space(tmp_path, {"one": one, "other": other}, losses=["one", "other"], settings=settings))
    assert [cell.loss for cell in found.cells] == ["one", "other"]
    assert len(found.trials) == 1


def test_a_constant_part_of_the_margin_is_that_margin(tmp_path: Path) -> None:
    """Half of 0.5 is the cell at 0.25, half of 0.25 a run of its own; the cells keep the margins of the space."""
    half, two = {"loss": "hinge", "margin": 0.5}, {"loss": "hinge", "margin": 0.5, "pairs": {"budget": 2}}
    found = expand(space(tmp_path, {"half": [{**HALF, **half}, half], "two": [two]}, losses=["hinge", "half", "two"],
                         margins=[0.25, 0.5]))  # fmt: skip
    runs = {(cell.loss, cell.margin): found.trials[cell.trial_id] for cell in found.cells}
    assert runs["half", 0.5] == runs["hinge", 0.25]
    assert (runs["half", 0.25].loss, runs["half", 0.25].margin) == ("hinge", 0.125)
    assert (runs["two", 0.5].loss, runs["two", 0.5].margin) == ("incomplete_pairs", 0.25)
    assert len(found.trials) == 5


def test_neighbours_that_change_stay_apart() -> None:
    ramp = {"loss": "hinge", "ce": {"from": 1, "to": 0}}
    read, _ = read_phases({"own": [{**HALF, **ramp}, ramp]})
    _, params, _ = effective_loss(read["own"], 20, "none")
    assert [phase["updates"] for phase in params["phases"]] == [10, 10]


def test_what_only_ce_is_left_of(tmp_path: Path) -> None:
    """The first phase has 0.4 updates, which are none."""
    own = {"own": [{"share": 0.4, "loss": "hinge"}, {"loss": "ce"}]}
    settings = {"epochs": 1, "updates_per_epoch": 1}
    (only,) = expand(space(tmp_path, own, losses=["ce", "own"], settings=settings)).trials.values()
    assert (only.loss, only.mode, only.margin, only.score_scale) == ("ce", "ce", None, None)
    # 9 updates with CE and a tenth at another learning rate, or at the same
    for scale, expected in ((0.5, ["ce", "phases"]), (1, ["ce"])):
        settings = {"epochs": 1, "updates_per_epoch": 10, "switch_scale": scale}
        found = expand(space(tmp_path, own, losses=["ce", "own"], settings=settings, warmup_ratios=[0.9]))
        assert [trial.loss for trial in found.trials.values()] == expected
    assert found.updates_with_shared_prefixes == 10


def test_the_margin_is_left_out_when_the_phases_that_remain_have_none(tmp_path: Path) -> None:
    own = [{"share": 0.01, "loss": "hinge"}, {"share": 0.5, "loss": "logistic"}, {"loss": "exponential"}]
    found = expand(space(tmp_path, {"own": own}, margins=[0.3, 0.5]))
    assert len(found.cells) == 2
    (only,) = found.trials.values()
    assert only.margin is None


def test_names_are_nominal_and_contents_are_the_run(tmp_path: Path) -> None:
    phases = {"own": [{"loss": "hinge", "ce": 0.5}], "other": [{"loss": "hinge", "ce": {"from": 0.5, "to": 0.5}}]}
    found = expand(space(tmp_path, phases, losses=["own", "other"]))
    assert [cell.loss for cell in found.cells] == ["own", "other"]
    assert len(found.trials) == 1


def test_the_resolved_space_reads_back(tmp_path: Path) -> None:
    own = [{"share": 0.3, "loss": "hinge", "margin": {"from": 0.1, "to": 1}, "pairs": {"budget": 3}}, {"loss": "ce"}]
    first = space(tmp_path, {"own": own})
    again = Space.from_dict(first.to_dict())
    assert again == first
    ids = [list(expand(one).trials) for one in (first, again)]
    assert ids[0] == ids[1]


def test_parts_share_phases_and_add_their_own(tmp_path: Path) -> None:
    parts = [
        {"losses": ["own"]},
        {"losses": ["own", "more"], "seeds": [2], "phases": {"more": [{"loss": "hinge", "ce": 0.2}]}},
    ]
    found = expand(space(tmp_path, {"own": [{"loss": "hinge", "ce": 0.1}]}, parts=parts, losses=[]))
    assert [(cell.loss, cell.seed) for cell in found.cells] == [("own", 1), ("own", 2), ("more", 2)]


def test_an_override_can_change_them(tmp_path: Path) -> None:
    space(tmp_path, {"own": [{"loss": "hinge", "ce": 0.1}]})
    changed = load_space(tmp_path / "space.yaml", ["phases={own: [{loss: hinge, ce: 0.3}]}"])
    (found,) = expand(changed).trials.values()
    assert found.loss_params["phases"][0]["ce"] == [0.3, 0.3]


HINGE = {"loss": "hinge"}


@pytest.mark.parametrize(
    ("phases", "message"),
    [
        ([], "phases: expected names with a list of phases each, got []"),
        ({"own": []}, "phases.own: expected a list of at least one phase"),
        ({"own": {"loss": "hinge"}}, "phases.own: expected a list of at least one phase"),
        ({"hinge": [HINGE]}, "phases.hinge: 'hinge' is a loss already, choose another name"),
        ({"phases": [HINGE]}, "phases.phases: 'phases' is a loss already, choose another name"),
        ({"a b": [HINGE]}, "phases.a b: the name should be made of letters, digits, - _ and ."),
        ({7: [HINGE]}, "phases.7: the name should be made of letters, digits, - _ and ."),
        ({"own": [{}]}, "phases.own.0.loss: missing"),
        ({"own": ["hinge"]}, "phases.own.0: should be keys and values, got 'hinge'"),
        ({"own": [{"loss": "hinge", "pairs": 4}]}, "phases.own.0.pairs: should be keys and values, got 4"),
        ({"own": [{"loss": "hinge", "margin": 10**400}]}, "phases.own.0.margin: should be a finite number"),
        ({"own": [{"loss": "hinge", "pairs": {"budget": 10**400}}]}, "phases.own.0.pairs.budget: should be a whole"),
        ({"own": [{"loss": f"top_push(k={10**400})"}]}, "phases.own.0.loss: k of loss top_push must be a whole number"),
        ({"own": [{"loss": "hing"}]}, "phases.own.0.loss: unknown loss 'hing': did you mean hinge?"),
        ({"own": [{"loss": "hinge", "pair": {}}]}, "phases.own.0.pair: unknown key, did you mean pairs?"),
        (
            {"own": [{"loss": "hinge", "pairs": {"hard_negative": 3}}]},
            "phases.own.0.pairs.hard_negative: unknown key, did you mean hard_negatives?",
        ),
        ({"own": [{"loss": "hinge", "pairs": {"budget": 0}}]}, "phases.own.0.pairs.budget: "),
        ({"own": [{"loss": "hinge", "pairs": {"max_fpr": 1.5}}]}, "phases.own.0.pairs.max_fpr: "),
        ({"own": [{"loss": "hinge", "margin": {"from": 1, "until": 2}}]}, "phases.own.0.margin: unknown key 'until'"),
        ({"own": [{"loss": "hinge", "margin": {"from": 0.1}}]}, "phases.own.0.margin: to is missing"),
        ({"own": [{"loss": "hinge", "margin": 0}]}, "phases.own.0.margin: "),
        (
            {"own": [{"loss": "hinge", "margin": "wide"}]},
            "phases.own.0.margin: should be a number, or {from: number, to: number}",
        ),
        ({"own": [{"loss": "logistic", "margin": 0.5}]}, "phases.own.0.margin: logistic has none"),
        ({"own": [{"loss": "hinge", "ce": 1.2}]}, "phases.own.0.ce: "),
        ({"own": [{"loss": "hinge", "ce": 1}]}, "phases.own.0.ce: 1 throughout is loss: ce"),
        ({"own": [{"loss": "ce"}]}, "phases.own.0.loss: ce is what warmup_ratios put before the first phase"),
        (
            {"own": [{"share": 0.5, "loss": "hinge"}, {"loss": "ce", "ce": 0.5}]},
            "phases.own.1.ce: the loss is CE already",
        ),
        ({"own": [{"loss": "softmax_mse"}]}, "phases.own.0.loss: softmax_mse is a baseline of its own"),
        ({"own": [{"loss": "aucm"}]}, "phases.own.0.loss: aucm has variables and an optimiser of its own"),
        ({"own": [{"share": 0.5, "loss": "hinge"}]}, "phases.own.0.share: the last phase has none"),
        ({"own": [HINGE, HINGE]}, "phases.own.0.share: missing (only the last phase has none: it takes the rest)"),
        (
            {"own": [{"share": 0.7, **HINGE}, {"share": 0.3, **HINGE}, HINGE]},
            "phases.own: the shares sum to 1, which leaves nothing for the last phase",
        ),
        ({"own": [{"share": 1, **HINGE}, HINGE]}, "phases.own.0.share: "),
        (
            {"own": [{"loss": "listwise", "pairs": {"budget": 1}}]},
            "phases.own.0.pairs: listwise is no mean over all pairs (allowed with square, hinge,",
        ),
        (
            {"own": [{"loss": "top_push", "pairs": {"budget": 1}}]},
            "phases.own.0.pairs: top_push chooses its own (allowed with square, hinge,",
        ),
        (
            {"own": [{"loss": "hinge", "margin": [0.2, 1]}]},
            "phases.own.0.margin: should be a number, or {from: number, to: number} for one that changes over the "
            "phase, got [0.2, 1]",
        ),
        (
            {"own": [{"loss": "hinge", "ce": "1 to 0"}]},
            "phases.own.0.ce: should be a number, or {from: number, to: number} for one that changes over the phase, "
            "got '1 to 0'",
        ),
        ({"own": [{"loss": "hinge", "margin": {"from": "x", "to": 1}}]}, "phases.own.0.margin: should be a finite"),
        (
            {"own": [{"loss": "hinge", "pairs": {"hard_negatives": 3, "max_fpr": 0.1}}]},
            "phases.own.0.pairs: hard_negatives and max_fpr both choose negatives, give one of them",
        ),
        (
            {"own": [{"loss": "logistic", "pairs": {"semi_hard": True}}]},
            "phases.own.0.pairs.semi_hard: needs a margin, which logistic has not",
        ),
        ({"own": [{"loss": "hinge", "weights": "yes"}]}, "phases.own.0.weights: unknown value 'yes'"),
    ],
)
def test_what_is_refused_is_named_once(tmp_path: Path, phases: Any, message: str) -> None:
    found = problems(tmp_path, phases, losses=[*phases] if isinstance(phases, dict) and 7 not in phases else ["ce"])
    assert any(problem.startswith(message) for problem in found), found
    about_phases = [problem for problem in found if problem.startswith("phases")]
    assert len(about_phases) == 1, found


def test_an_unknown_loss_names_the_phases_too(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, {"soft-switch": [{"loss": "hinge", "ce": 0.5}]}, losses=["soft-swich", "hinge"])
    assert "unknown loss 'soft-swich': did you mean soft-switch?" in found


def test_a_list_of_phases_has_no_parameters(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, {"own": [HINGE]}, losses=["own(k=1)"])
    assert found == "losses.0: 'own(k=1)': own is a list of phases, which has no parameters"
    found = problems(tmp_path, {"own": [HINGE]}, losses=["own", " own"])
    assert found == ("losses: given twice: 'own'",)


def test_every_problem_is_named_at_once(tmp_path: Path) -> None:
    wrong = {"own": [{"share": 2, "loss": "hing"}, {"loss": "hinge", "ce": -1}], "more": [{"loss": "aucm"}]}
    found = problems(tmp_path, wrong, seeds=["x"])
    starts = [problem.split(": ")[0] for problem in found]
    assert starts == ["phases.own.0.share", "phases.own.0.loss", "phases.own.1.ce", "phases.more.0.loss", "seeds.0"]


def test_margins_beyond_the_sigmoid_scale_are_refused(tmp_path: Path) -> None:
    own = {"own": [{"loss": "hinge", "margin": {"from": 1, "to": 3}}]}
    (found,) = problems(tmp_path, own, margins=[0.3, 0.5])
    assert found.startswith("phases.own: multiplies the margin 0.5 to 1.5, above 1")
    wide = {**SPACE["settings"], "score_scale": "identity"}
    assert space(tmp_path, own, settings=wide).parts[0].losses == ("own",)


def test_pairs_are_chosen_in_binary_tasks_only(tmp_path: Path) -> None:
    chosen = {"loss": "hinge", "pairs": {"budget": 2}}
    on_classes = {"regime": "mnist-lt", "tasks": ["mnist-lt"], "settings": {"epochs": 1}}
    (found,) = problems(tmp_path, {"own": [chosen]}, **on_classes)
    assert found == (
        "losses: own is for binary tasks, mnist-lt is multiclass; a phase's loss, pairs or weights are for no others"
    )
    mixed = space(tmp_path, {"own": [{"loss": "hinge", "ce": {"from": 1, "to": 0}}]}, **on_classes)
    assert expand(mixed).cells[0].loss == "own"


def test_kinds_and_margin_of_a_list_are_those_of_its_phases() -> None:
    read, wrong = read_phases({"own": [{"share": 0.5, "loss": "hinge"}, {"loss": "listwise"}]})
    assert not wrong
    card = phase_card("own", read["own"])
    assert (card.kinds, card.has_margin, card.pairwise) == (("binary",), True, True)
    assert card.formula == "hinge; then listwise"


def test_weights_need_a_task_that_has_them(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, {"own": [{"loss": "hinge", "weights": "task"}]})
    assert found.startswith("phases.own: needs the weights of the task's data, which mnist-8-low-shot has not")
    (found,) = problems(tmp_path, None, losses=["hinge"], settings={"example_weights": "task"})
    assert found.startswith("settings.example_weights: needs the weights of the task's data")


def test_weighted_phases_are_other_runs_than_plain_ones(tmp_path: Path) -> None:
    task = {"name": "mine", "modality": "text", "kind": "table", "file": "rows.csv", "text": "words", "label": "y",
            "positive": 1, "weight": "w", "splits": {"by": "seed", "fractions": {"train": 0.7, "validation": 0.15,
                                                                                 "test": 0.15}}}  # fmt: skip
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(task))
    write_card(tmp_path / "mine.yaml", {"train": (70, 30), "validation": (15, 6), "test": (15, 7)}, "f00d")
    own = {"hw": [{"loss": "hinge", "weights": "task"}], "h": [{"loss": "hinge", "weights": "none"}]}
    reads = {"regime": "drug-reviews", "tasks": ["mine.yaml"], "models": ["small-transformer"], "settings": {}}
    found = expand(space(tmp_path, own, losses=["hinge", "hw", "h"], warmup_ratios=[0], **reads))
    runs = {cell.loss: found.trials[cell.trial_id] for cell in found.cells}
    assert {loss: run.example_weights for loss, run in runs.items()} == {"hinge": "none", "hw": "task", "h": "none"}
    assert runs["h"] == runs["hinge"]
    assert len(found.trials) == 2


def test_the_preset_has_what_its_name_says() -> None:
    found: Expansion = expand(load_space("phases", ["seeds=123", "warmup_ratios=0.1"]))
    losses = {cell.loss: found.trials[cell.trial_id] for cell in found.cells}
    assert {name: one.loss for name, one in losses.items()} == {
        "ce": "ce",
        "squared_hinge": "squared_hinge",
        "soft-switch": "phases",
        "curriculum": "phases",
        "hard-negatives": "phases",
        "pair-budget": "incomplete_pairs",
    }
    assert len({one.prefix_id for one in losses.values()}) == 1


def test_pairs_can_be_chosen_with_every_loss_that_is_a_mean_over_pairs() -> None:
    from trainables.losses.surrogates import SURROGATES

    assert sorted(WITH_PAIRS) == sorted(SURROGATES)
