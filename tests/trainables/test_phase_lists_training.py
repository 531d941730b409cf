"""Phases of losses through the training loop: schedules, chosen pairs, mixtures and example weights, by naive loops."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from search_spaces.errors import DataError, TrialError
from search_spaces.trial import TrialConfig
from trainables.checkpoint import TrainState
from trainables.device import execution
from trainables.losses import OneClassError, make_loss
from trainables.phases import make_phases
from trainables.run import advance, prepare_run, result, run_trial

Make = Callable[..., TrialConfig]

LOGITS = torch.tensor([0.3, -0.4, 1.2, 0.1, -2.0, 0.9, 0.35], dtype=torch.float64)
LABELS = torch.tensor([1, 0, 0, 1, 0, 0, 0])
WEIGHTS = torch.tensor([0.5, 1.0, 2.0, 1.5, 0.25, 1.0, 3.0], dtype=torch.float64)


def phased(config_of: Make, *phases: dict[str, Any], **changes: Any) -> TrialConfig:
    """A run of 15 updates whose first 7 are CE; the phases share the other 8."""
    given = [{"params": {}} | phase for phase in phases]
    return config_of(loss="phases", loss_params={"phases": given}, **changes)


def sigmoid(logits: torch.Tensor) -> list[float]:
    return [1 / (1 + math.exp(-logit)) for logit in logits.tolist()]


def hinge(x: float, margin: float) -> float:
    return max(margin - x, 0.0)


def pairs_of(scores: list[float]) -> Iterable[tuple[int, int, float]]:
    """(positive, negative, x) in the order of the batch."""
    for i, label in enumerate(LABELS.tolist()):
        for j, other in enumerate(LABELS.tolist()):
            if label == 1 and other == 0:
                yield i, j, scores[i] - scores[j]


def mean_hinge(margin: float) -> float:
    values = [hinge(x, margin) for _, _, x in pairs_of(sigmoid(LOGITS))]
    return sum(values) / len(values)


def cross_entropy() -> float:
    return binary_cross_entropy_with_logits(LOGITS, LABELS.double()).item()


def value_at(config: TrialConfig, update: int, weights: torch.Tensor | None = None) -> float:
    return make_phases(config).at(update).objective(LOGITS, LABELS, weights).item()


def test_phases_follow_one_another_after_the_warm_up(config_of: Make) -> None:
    config = phased(
        config_of,
        {"updates": 3, "loss": "hinge"},
        {"updates": 1, "loss": "ce"},
        {"updates": 4, "loss": "square"},
    )
    phases = make_phases(config)
    names = [phases.at(update).name for update in range(15)]
    assert names == ["ce"] * 7 + ["hinge"] * 3 + ["ce"] + ["square"] * 4
    assert value_at(config, 10) == pytest.approx(cross_entropy(), rel=1e-12)


def test_a_margin_curriculum_is_linear_and_reaches_its_end(config_of: Make) -> None:
    config = phased(
        config_of,
        {"updates": 5, "loss": "hinge", "margin": [0.2, 1.0]},
        {"updates": 3, "loss": "hinge", "margin": [0.5, 0.5]},
    )
    for update, factor in zip(range(7, 15), [0.2, 0.4, 0.6, 0.8, 1.0, 0.5, 0.5, 0.5], strict=True):
        assert value_at(config, update) == pytest.approx(mean_hinge(0.5 * factor), rel=1e-12)


def test_ce_fades_from_the_logits_to_the_scores(config_of: Make) -> None:
    config = phased(config_of, {"updates": 5, "loss": "hinge", "ce": [1.0, 0.0]}, {"updates": 3, "loss": "hinge"})
    for update, share in zip(range(7, 15), [1, 0.75, 0.5, 0.25, 0, 0, 0, 0], strict=True):
        expected = share * cross_entropy() + (1 - share) * mean_hinge(0.5)
        assert value_at(config, update) == pytest.approx(expected, rel=1e-12)


def test_a_phase_of_one_update_is_at_the_end_of_its_ramps(config_of: Make) -> None:
    config = phased(config_of, {"updates": 1, "loss": "hinge", "margin": [0.2, 0.8]}, {"updates": 7, "loss": "hinge"})
    assert value_at(config, 7) == pytest.approx(mean_hinge(0.4), rel=1e-12)


def test_pairs_are_chosen_hard_first_then_by_budget_then_semi_hard(config_of: Make) -> None:
    scores = sigmoid(LOGITS)
    negatives = [j for j, label in enumerate(LABELS.tolist()) if label == 0]
    hardest = sorted(negatives, key=lambda j: -scores[j])[:2]
    hard = [(i, j, x) for i, j, x in pairs_of(scores) if j in hardest]

    def found(**pairs: Any) -> float:
        return value_at(phased(config_of, {"updates": 8, "loss": "hinge", "pairs": pairs}), 7)

    assert found(hard_negatives=2) == pytest.approx(sum(hinge(x, 0.5) for _, _, x in hard) / 4, rel=1e-12)
    semi = [x for _, _, x in pairs_of(scores) if 0 < x < 0.5]
    assert 0 < len(semi) < 10
    assert found(semi_hard=True) == pytest.approx(sum(hinge(x, 0.5) for x in semi) / len(semi), rel=1e-12)
    # two positives and the two hardest negatives, in batch order: a budget of 1 for each is the design (0, 0), (1, 1)
    kept = sorted(hardest)
    design = [scores[0] - scores[kept[0]], scores[3] - scores[kept[1]]]
    expected = sum(hinge(x, 0.5) for x in design) / 2
    assert found(hard_negatives=2, budget=1) == pytest.approx(expected, rel=1e-12)


def test_chosen_pairs_have_the_parameters_and_margin_of_their_loss(config_of: Make) -> None:
    pairs = {"budget": 9}  # more than there are: all
    steep = {"updates": 8, "loss": "smoothed_indicator", "params": {"steepness": 3.0}, "pairs": pairs}
    expected = make_loss("smoothed_indicator", steepness=3.0)(torch.sigmoid(LOGITS), LABELS).item()
    assert value_at(phased(config_of, steep, margin=None), 9) == pytest.approx(expected, rel=1e-12)
    half = {"updates": 8, "loss": "hinge", "margin": [0.5, 0.5], "pairs": pairs}
    assert value_at(phased(config_of, half), 9) == pytest.approx(mean_hinge(0.25), rel=1e-12)


def test_weights_are_used_where_the_phase_or_the_run_says_so(config_of: Make) -> None:
    config = phased(config_of, {"updates": 4, "loss": "hinge"}, {"updates": 4, "loss": "hinge", "weights": "task"})
    assert [make_phases(config).at(update).weighted for update in (0, 7, 11)] == [False, False, True]
    everywhere = phased(
        config_of,
        {"updates": 4, "loss": "hinge"},
        {"updates": 4, "loss": "hinge", "weights": "none"},
        example_weights="task",
    )
    assert [make_phases(everywhere).at(update).weighted for update in (0, 7, 11)] == [True, True, False]
    plain = config_of(example_weights="task")
    assert [make_phases(plain).at(update).weighted for update in (0, 7)] == [True, True]


def test_a_mixture_weighs_ce_and_pairs(config_of: Make) -> None:
    config = phased(config_of, {"updates": 8, "loss": "hinge", "ce": [0.3, 0.3], "weights": "task"})
    w = WEIGHTS.tolist()
    pairs = [(w[i] * w[j], hinge(x, 0.5)) for i, j, x in pairs_of(sigmoid(LOGITS))]
    of_pairs = sum(weight * value for weight, value in pairs) / sum(weight for weight, _ in pairs)
    each = binary_cross_entropy_with_logits(LOGITS, LABELS.double(), reduction="none").tolist()
    of_ce = sum(weight * value for weight, value in zip(w, each, strict=True)) / sum(w)
    assert value_at(config, 9, WEIGHTS) == pytest.approx(0.3 * of_ce + 0.7 * of_pairs, rel=1e-12)


def test_a_batch_without_a_pair_has_the_ce_of_a_mixture_alone(config_of: Make) -> None:
    logits, labels = torch.tensor([0.3, -0.2], dtype=torch.float64), torch.zeros(2)
    expected = (math.log1p(math.exp(0.3)) + math.log1p(math.exp(-0.2))) / 2
    mixed, alone = {"loss": "hinge", "params": {}, "ce": [0.25, 0.25]}, {"loss": "hinge", "params": {}}
    config = phased(config_of, {"updates": 3, **mixed}, {"updates": 5, **alone})
    phases = make_phases(config)
    assert phases.at(7).objective(logits, labels).item() == pytest.approx(0.25 * expected, rel=1e-12)
    with pytest.raises(OneClassError):
        phases.at(10).objective(logits, labels)


@pytest.fixture
def weighted(toy: Any) -> Any:
    toy.data.train.weights = np.random.RandomState(3).uniform(0.1, 2.0, len(toy.data.train.labels))
    return toy


def first_loss(toy: Any, config: TrialConfig, tmp_path: Path) -> float:
    with execution(torch.device("cpu"), 1):
        run = prepare_run(config, toy.context(tmp_path))
        advance(run, 1)
    return run.progress.loss_sum


@pytest.mark.parametrize("parts", [1, 4])
def test_the_loop_gives_each_example_the_weight_of_its_task(
    config_of: Make, ce_fields: dict[str, Any], weighted: Any, tmp_path: Path, parts: int
) -> None:
    """CE of the undivided batch, whatever the parts, as weighted over the batch as a whole."""
    weighted.module = lambda: nn.Sequential(nn.Linear(6, 1), nn.Flatten(0)).double()
    weighted.encode = lambda raw: raw.double()
    config = config_of(**ce_fields, example_weights="task", accumulation=parts)
    with execution(torch.device("cpu"), 1):
        run = prepare_run(config, weighted.context(tmp_path))
        indices = np.concatenate([batch.indices for batch in run.sampler.micro_batches(0)])
        train = run.data.train
        with torch.no_grad():
            logits = run.model.module(torch.from_numpy(train.features[indices]).double()).tolist()
    terms = [
        math.log1p(math.exp(-logit if label else logit))
        for logit, label in zip(logits, train.labels[indices].tolist(), strict=True)
    ]
    expected = float(np.average(terms, weights=train.weights[indices]))
    assert first_loss(weighted, config, tmp_path) == pytest.approx(expected, rel=1e-12)
    assert first_loss(weighted, config_of(**ce_fields), tmp_path) != pytest.approx(expected, rel=1e-3)


def test_data_without_weights_are_refused_where_weights_are_asked_for(
    config_of: Make, toy: Any, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=r"example_weights is task, but the data of task 'toy' have no weights"):
        run_trial(config_of(example_weights="task"), toy.context(tmp_path))


def test_hypersimplex_counts_are_expected_from_the_sampling(config_of: Make, toy: Any, tmp_path: Path) -> None:
    """16 examples a batch, 4 of them positive: what is expected is what every batch has."""
    params = {"tau": 1.0, "share": 0.5, "reduction": "mean"}

    def losses(k: str, **changes: Any) -> list[float]:
        alone = config_of(loss="hypersimplex", margin=None, loss_params=params | {"k": k}, **changes)
        phase = {"updates": 8, "loss": "hypersimplex", "params": params | {"k": k}, "ce": [0.2, 0.2]}
        return [
            row["train_loss"]
            for config in (alone, phased(config_of, phase, margin=None, **changes))
            for row in run_trial(config, toy.context(tmp_path)).rows
        ]

    assert losses("expected") == losses("labels")
    natural = {"sampling": "natural", "positive_fraction": None}
    assert losses("expected", **natural) != losses("labels", **natural)


EVERYTHING = (
    {"updates": 3, "loss": "squared_hinge", "margin": [0.2, 1.0], "ce": [1.0, 0.0]},
    {"updates": 2, "loss": "logistic", "pairs": {"hard_negatives": 3, "budget": 2}, "weights": "task"},
    {"updates": 1, "loss": "ce"},
    {"updates": 2, "loss": "hypersimplex", "params": {"tau": 1.0, "k": "labels", "share": 0.5, "reduction": "mean"}},
)


def test_a_run_of_phases_cut_at_any_update_is_bit_equal(config_of: Make, weighted: Any, tmp_path: Path) -> None:
    config, context = phased(config_of, *EVERYTHING), weighted.context(tmp_path)

    def numbers(state: TrainState | None) -> Any:
        run = prepare_run(config, context, state)
        advance(run, config.total_updates)
        columns = ("train_loss", "train_auc", "val_auc", "test_auc", "train_threshold")
        return [[row[column] for column in columns] for row in result(run).rows]

    with execution(torch.device("cpu"), 1):
        expected = numbers(None)
        walked = prepare_run(config, context)
        for update in range(config.total_updates + 1):
            advance(walked, update)
            assert numbers(TrainState.from_bytes(walked.state().to_bytes())) == expected


def test_phases_train(config_of: Make, weighted: Any, tmp_path: Path) -> None:
    longer = [{**phase, "updates": phase["updates"] * 4} for phase in EVERYTHING]
    rows = run_trial(phased(config_of, *longer, epochs=8, warmup_updates=8), weighted.context(tmp_path)).rows
    assert max(row["train_auc"] for row in rows) > 0.65


def test_phases_that_do_not_fill_the_run_are_refused(config_of: Make) -> None:
    with pytest.raises(TrialError, match=r"the phases end at update 14 of 15"):
        make_phases(phased(config_of, {"updates": 7, "loss": "hinge"}))
