"""Estimates worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator import cost
from orchestrator.cost import estimate, prior_seconds
from orchestrator.store import open_store
from search_spaces.cards import TaskCard
from search_spaces.expand import expand
from search_spaces.models import MODELS
from search_spaces.space import load_space
from search_spaces.tasks import TASKS
from tests.contracts.store_suite import config, rows

CARD = TaskCard(
    name="toy", title="", modality="image", revision="1", source="", licence="", construction="", positive="",
    negative="", counts={"train": (100, 20), "validation": (10, 5), "test": (12, 3)}, split="", seeded=False,
    loader=None,
)  # fmt: skip


def timed(seconds: float | None, **changes: Any) -> tuple[Any, list[dict[str, Any]]]:
    """A trial of 3 epochs x 4 updates whose epochs took ``seconds`` each."""
    trial = config(**changes)
    return trial, [row | {"seconds": seconds} for row in rows(trial)]


@pytest.mark.parametrize(("precision", "speed"), [("float32", 10e12), ("bfloat16", 25e12)])
def test_the_prior_is_the_documented_arithmetic(precision: str, speed: float) -> None:
    trial = config(model="resnet50", precision=precision)  # 12 updates of 8 examples, 3 evaluations of 150
    forward = MODELS["resnet50"].flops / speed
    by_hand = 1.0 + 12 * (3 * 8 * forward + 0.005) + 3 * (150 * forward + 0.1)
    assert prior_seconds(trial, CARD) == pytest.approx(by_hand, rel=1e-12)


def test_measured_seconds_are_the_median_per_update_of_task_and_model(tmp_path: Path) -> None:
    store = open_store(tmp_path, create=True)
    for seed, seconds in enumerate([1.0, 2.0, 40.0]):
        trial, written = timed(seconds, seed=seed)
        store.write_run(trial, written, {})
    new = config(seed=9, epochs=10)
    other = config(seed=9, model="small-cnn")
    found = estimate([new, other], store.scan(), {"toy": CARD})
    assert found.trial_seconds[new.trial_id] == pytest.approx(3 * 2.0 / 12 * 40)  # median trial: 6 s for 12 updates
    assert found.trial_seconds[other.trial_id] == pytest.approx(prior_seconds(other, CARD))
    assert found.source.startswith("1 trials: median seconds per update")
    assert "1 trials: model FLOPs on an assumed RTX 3090" in found.source
    store.compact()
    assert estimate([new, other], store.scan(), {"toy": CARD}) == found


def test_runs_without_times_are_no_measurement(tmp_path: Path) -> None:
    store = open_store(tmp_path, create=True)
    trial, written = timed(None)
    store.write_run(trial, written, {})
    found = estimate([config(seed=9)], store.scan(), {"toy": CARD})
    assert found.source.startswith("model FLOPs")


def test_nothing_to_run() -> None:
    found = estimate([], None, {})
    assert (found.gpu_hours, found.wall_hours(4), found.source) == (0.0, 0.0, "nothing left to run")


def test_wall_time_is_shared_work_or_the_longest_trial() -> None:
    found = cost.Estimate({"a": 3600.0, "b": 1800.0, "c": 1800.0}, "")
    assert found.gpu_hours == 2.0
    assert found.wall_hours(1) == 2.0
    assert found.wall_hours(2) == 1.0
    assert found.wall_hours(8) == 1.0


def test_every_trial_of_the_paper_has_a_prior() -> None:
    trials = expand(load_space("paper")).trials.values()
    found = estimate(trials, None, {})
    assert len(found.trial_seconds) == 22465
    assert min(found.trial_seconds.values()) > 0
    assert {trial.task for trial in trials} <= set(TASKS)


def test_disk_estimate_is_within_half_of_the_truth(tmp_path: Path) -> None:
    store = open_store(tmp_path, create=True)
    trials = [config(seed, epochs=10) for seed in range(4)]
    for trial in trials:
        store.write_run(trial, rows(trial), {})
        store.write_log(trial.trial_id, "x" * 2000)
    truth = sum(path.stat().st_size for folder in ("runs", "logs") for path in (tmp_path / folder).iterdir())
    assert cost.disk_bytes(trials) == pytest.approx(truth, rel=0.5)
