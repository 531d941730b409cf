"""Status while a sweep runs and while it does not, against counts made by hand."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from orchestrator.lock import StoreLock
from orchestrator.status import store_status
from orchestrator.store import Store, open_store
from search_spaces.expand import Expansion, expand
from search_spaces.space import load_space
from search_spaces.trial import TrialConfig
from tests.contracts.store_suite import cell, config, rows


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path, create=True)


@pytest.fixture
def expansion(store: Store) -> Expansion:
    space = load_space("smoke")
    store.write_sweep({"space": {"given": dict(space.given), "resolved": space.to_dict()}})
    found = expand(space)
    store.add_cells(found.cells)
    return found


def finish(store: Store, trial: TrialConfig, at: float | None = None) -> None:
    stamp = {} if at is None else {"finished_at": datetime.fromtimestamp(at, UTC)}
    store.write_run(trial, rows(trial), stamp)


def test_an_empty_store(store: Store) -> None:
    status = store_status(store)
    assert (status.wanted, status.done, status.pending, status.tasks) == (0, 0, 0, ())
    assert status.rate_per_hour is None
    assert status.holder is None


def test_counts_add_up_and_name_kinds(store: Store, expansion: Expansion) -> None:
    trials = list(expansion.trials.values())
    finish(store, trials[0])
    for trial, kind in zip(trials[1:4], ("nan", "nan", "lost"), strict=True):
        store.write_failure(trial, kind, "")
    store.write_failure(trials[0], "oom", "before it succeeded")
    status = store_status(store)
    assert (status.wanted, status.done, status.running, status.failed, status.pending) == (10, 1, 0, 3, 6)
    assert status.failures == {"lost": 1, "nan": 2}
    assert [vars(task) for task in status.tasks] == [
        {"task": "mnist-8-low-shot", "done": 1, "running": 0, "failed": 3, "pending": 6}
    ]


def test_a_running_sweep_shows_running_rate_and_eta(store: Store, expansion: Expansion) -> None:
    trials = list(expansion.trials.values())
    with StoreLock(store, "launch smoke", heartbeat_seconds=0.01) as lock:
        started = json.loads(store.files.read("lock.json"))["started_at"]
        finish(store, trials[0], started - 5000)  # of an earlier launch
        finish(store, trials[1], started + 10)
        finish(store, trials[2], started + 50)
        store.write_failure(trials[3], "error", "")
        store.write_failure(trials[4], "lost", "an earlier attempt")
        lock.report(running=[trials[2].trial_id, trials[4].trial_id, trials[5].trial_id])
        end = time.monotonic() + 20
        while not json.loads(store.files.read("lock.json"))["running"] and time.monotonic() < end:
            time.sleep(0.01)
        status = store_status(store, now=started + 60)
    assert (status.done, status.running, status.failed, status.pending) == (3, 2, 1, 4)
    assert status.rate_per_hour == pytest.approx(120.0)  # two in a minute
    assert status.eta_seconds == pytest.approx(6 / 120 * 3600)  # two running and four pending
    assert status.holder is not None
    assert "launch smoke" in status.holder


def test_a_dead_launchers_running_trials_are_pending(store: Store, expansion: Expansion) -> None:
    key = next(iter(expansion.trials))
    with StoreLock(store, "launch smoke"):
        holder = json.loads(store.files.read("lock.json"))
    store.files.write("lock.json", json.dumps(holder | {"pid": 2**22 + 1, "running": [key]}).encode())
    status = store_status(store)
    assert (status.running, status.pending, status.holder, status.eta_seconds) == (0, 10, None, None)


def test_only_the_space_launched_last_is_wanted(store: Store, expansion: Expansion) -> None:
    other = config(1)
    store.add_cells([cell(other)])
    finish(store, other)
    finish(store, next(iter(expansion.trials.values())))
    status = store_status(store)
    assert (status.wanted, status.done, status.others) == (10, 1, 1)


def test_before_any_launch_the_cells_are_wanted(store: Store) -> None:
    trials = [config(1), config(2), config(3, task="other")]
    store.add_cells([cell(trial) for trial in trials] + [cell(trials[0], 0.01)])
    finish(store, trials[0])
    status = store_status(store)
    assert (status.wanted, status.done, status.pending) == (3, 1, 2)
    assert [(task.task, task.done, task.pending) for task in status.tasks] == [("toy", 1, 1), ("other", 0, 1)]


def test_broken_files_are_named(store: Store) -> None:
    store.add_cells([cell(config(1))])
    finish(store, config(1))
    store.files.write(f"runs/{config(1).trial_id}.parquet", b"")
    status = store_status(store)
    assert status.done == 0
    assert status.pending == 1
    assert status.broken == (f"runs/{config(1).trial_id}.parquet: an empty file",)


def test_json_has_the_keys_of_the_design(store: Store, expansion: Expansion) -> None:
    found = json.loads(json.dumps(store_status(store).to_json()))
    assert {"wanted", "done", "running", "failed", "pending", "failures", "rate_per_hour", "eta_seconds"} <= set(found)
    assert found["wanted"] == len(expansion.trials)
