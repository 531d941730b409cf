"""The plan against stores in every state. The smoke space has 10 trials: 2 CE, 4 squared hinge, 4 logistic."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from orchestrator.plan import make_plan
from orchestrator.store import Store, open_store
from search_spaces.errors import UsageError
from search_spaces.expand import expand
from search_spaces.space import Space, load_space
from tests.contracts.store_suite import rows

ROOT = Path(__file__).parents[2]


@pytest.fixture
def space() -> Space:
    return load_space("smoke")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path, create=True)


def test_without_a_store_everything_is_pending(space: Space) -> None:
    plan = make_plan(space)
    assert [trial.trial_id for trial in plan.pending] == list(expand(space).trials)
    assert plan.done == frozenset()
    assert plan.failed == {}


def test_json_has_exactly_the_keys_of_the_design_and_ours(space: Space) -> None:
    plan = json.loads(json.dumps(make_plan(space).to_json()))
    assert set(plan) == {
        "product", "cells", "trials", "done", "failed", "pending", "updates", "gpu_hours", "wall_hours", "disk_bytes",
        "estimate_source",
    }  # fmt: skip
    assert set(plan["updates"]) == {"product", "trials", "with_shared_prefixes"}
    assert (plan["trials"], plan["cells"], plan["done"], plan["pending"]) == (10, 10, 0, 10)


def test_done_failed_and_pending_partition_the_trials(space: Space, store: Store) -> None:
    trials = list(expand(space).trials.values())
    done, nan, lost, both = trials[:4]
    store.write_run(done, rows(done), {})
    store.write_failure(nan, "nan", "NaN")
    store.write_failure(lost, "lost", "gone")
    store.write_failure(both, "oom", "first attempt")
    store.write_run(both, rows(both), {})
    plan = make_plan(space, store)
    assert plan.done == {done.trial_id, both.trial_id}
    assert plan.failed == {nan.trial_id: "nan"}
    assert plan.failures == {"nan": 1}
    assert [trial.trial_id for trial in plan.pending] == [lost.trial_id] + [trial.trial_id for trial in trials[4:]]
    assert make_plan(space, store).to_json()["done"] == 2


def test_the_latest_failure_decides(space: Space, store: Store) -> None:
    trial = next(iter(expand(space).trials.values()))
    start = datetime(2026, 1, 1, tzinfo=UTC)
    store.write_failure(trial, "error", "", failed_at=start)
    assert make_plan(space, store).failed == {trial.trial_id: "error"}
    store.write_failure(trial, "lost", "", attempt=2, failed_at=start + timedelta(minutes=1))
    assert make_plan(space, store).failed == {}


def test_a_broken_file_is_pending_again(space: Space, store: Store) -> None:
    trial = next(iter(expand(space).trials.values()))
    store.write_run(trial, rows(trial), {})
    store.files.write(f"runs/{trial.trial_id}.parquet", b"PAR1")
    plan = make_plan(space, store)
    assert trial in plan.pending
    assert [file.path for file in plan.broken] == [f"runs/{trial.trial_id}.parquet"]


def test_another_seed_adds_its_trials_and_a_loss_less_adds_none(store: Store) -> None:
    for trial in expand(load_space("smoke")).trials.values():
        store.write_run(trial, rows(trial), {})
    more = make_plan(load_space("smoke", ["seeds=123,124,125"]), store)
    assert len(more.pending) == 5
    assert {trial.seed for trial in more.pending} == {125}
    fewer = make_plan(load_space("smoke", ["losses=ce,squared_hinge"]), store)
    assert (len(fewer.pending), len(fewer.done), len(fewer.expansion.trials)) == (0, 6, 6)
    assert fewer.to_json()["gpu_hours"] == 0.0
    assert fewer.estimate_source == "nothing left to run"


def test_more_gpus_shorten_the_wall_but_not_below_one_trial(space: Space) -> None:
    one, two, many = (make_plan(space, gpus=gpus) for gpus in (1, 2, 1000))
    assert one.gpu_hours == two.gpu_hours == one.wall_hours
    assert two.wall_hours == pytest.approx(one.wall_hours / 2)
    assert many.wall_hours == pytest.approx(one.gpu_hours / 10)  # ten equal trials


@pytest.mark.parametrize("gpus", [0, -1])
def test_no_gpus_is_a_usage_error(space: Space, gpus: int) -> None:
    with pytest.raises(UsageError, match="at least 1"):
        make_plan(space, gpus=gpus)


def test_the_papers_plan_without_torch_or_ray() -> None:
    code = (
        "import json, sys\nfrom search_spaces.space import load_space\nfrom orchestrator.plan import make_plan\n"
        "print(json.dumps(make_plan(load_space('paper'), gpus=4).to_json()))\n"
        "assert not {'torch', 'ray'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    plan = json.loads(done.stdout)
    assert (plan["product"], plan["cells"], plan["trials"], plan["pending"]) == (37200, 24640, 22465, 22465)
    assert round(plan["updates"]["product"] / plan["updates"]["with_shared_prefixes"], 2) == 1.61
    assert plan["wall_hours"] == pytest.approx(plan["gpu_hours"] / 4, rel=1e-3)
    assert "no measurement" in plan["estimate_source"]
