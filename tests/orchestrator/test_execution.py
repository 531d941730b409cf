"""execute: from job to stored result or recorded failure."""

from __future__ import annotations

import dataclasses
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from orchestrator import execution
from orchestrator.execution import LOG_LIMIT, execute, prepare_worker
from orchestrator.running import TRAINING, Job
from orchestrator.store import Store, open_store
from search_spaces.errors import TrialTimeout
from search_spaces.trial import TrialConfig
from tests.contracts.store_suite import config, rows
from tests.contracts.trial_bodies import Result, steady
from trainables.context import TrialContext


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "store", create=True)


def job(store: Store, **changes: Any) -> Job:
    made = Job(config(7), store.uri, Path("/data"), body="tests.contracts.trial_bodies:steady")
    return dataclasses.replace(made, **changes)


def patched(monkeypatch: pytest.MonkeyPatch, body: Any) -> None:
    """Let ``body`` train whatever the job says."""
    monkeypatch.setattr(execution, "_resolve", lambda name: body)


def test_a_result_is_stored_with_what_is_known_about_the_trial(store: Store) -> None:
    outcome = execute(job(store, attempt=2), store)
    assert (outcome.status, outcome.kind, outcome.attempt, outcome.loss) == ("done", None, 2, "hinge")
    assert outcome.best_val_auc == 0.5 + 7 / 1000.0 + 3 / 103.0
    assert outcome.where.endswith(f":{os.getpid()}")
    stored, broken = store.read_runs()
    assert broken == ()
    expected = steady(config(7), TrialContext(Path("/data")))
    for name in ("epoch", "update", "train_loss", "val_auc", "test_auc"):
        assert list(stored[name]) == [row[name] for row in expected.rows]
    first = stored.iloc[0]
    assert (first["attempt"], first["selected_epoch"], first["parameters"], first["trainable_parameters"]) == (
        2,
        3,
        7,
        5,
    )
    assert (first["data_fingerprint"], first["device"]) == ("fingerprint of toy", "cpu")


def test_the_context_is_the_jobs(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[TrialContext] = []

    def body(trial: TrialConfig, context: TrialContext) -> Result:
        seen.append(context)
        return steady(trial, context)

    patched(monkeypatch, body)
    execute(
        job(
            store,
            device="cuda",
            threads=3,
            loaders=2,
            eval_batch_size=99,
            timeout=50.0,
            fingerprints={"toy": "x"},
            cards={"a": 1},
        ),
        store,
    )
    (context,) = seen
    assert (context.device, context.threads, context.workers, context.eval_batch_size) == ("cuda", 3, 2, 99)
    assert (context.fingerprints, context.cards, context.data_root) == ({"toy": "x"}, {"a": 1}, Path("/data"))
    assert context.deadline is not None
    assert 40 < context.deadline - time.monotonic() <= 50
    assert store.scan().done == {config(7).trial_id}


def test_a_job_trains_for_real_unless_told_otherwise() -> None:
    from trainables.run import run_trial

    assert execution._resolve(TRAINING) is run_trial
    assert Job(config(), "store", Path("data")).body == TRAINING


@pytest.mark.parametrize("body", ["tests.contracts.trial_bodies:nothing", "no.such.module:run", "no_colon"])
def test_a_body_that_is_not_there(store: Store, body: str) -> None:
    outcome = execute(job(store, body=body), store)
    assert (outcome.status, outcome.kind) == ("failed", "error")
    assert body in outcome.message


def test_a_timeout(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def body(trial: TrialConfig, context: TrialContext) -> Result:
        assert context.deadline is not None
        while time.monotonic() < context.deadline:
            pass
        raise TrialTimeout("out of time after 3 of 12 updates")

    patched(monkeypatch, body)
    outcome = execute(job(store, timeout=0.01), store)
    assert (outcome.status, outcome.kind) == ("failed", "timeout")
    (row,) = store.read_failures().to_dict("records")
    assert (row["kind"], row["message"]) == ("timeout", "TrialTimeout: out of time after 3 of 12 updates")
    assert row["seconds"] >= 0.01


def test_a_result_that_cannot_be_stored_is_a_failure(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def body(trial: TrialConfig, context: TrialContext) -> Result:
        bad = rows(trial)
        bad[1]["test_auc"] = float("nan")
        return Result(bad, 1, "f")

    patched(monkeypatch, body)
    outcome = execute(job(store), store)
    assert outcome.status == "failed"
    assert "test_auc" in outcome.message
    assert store.scan().done == frozenset()


def test_other_data_than_the_stores(store: Store) -> None:
    store.record_fingerprint("toy", "recorded")
    outcome = execute(job(store), store)
    assert (outcome.status, outcome.kind) == ("failed", "data")
    assert store.scan().done == frozenset()


def test_interrupts_pass_through(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def body(trial: TrialConfig, context: TrialContext) -> Result:
        raise KeyboardInterrupt

    patched(monkeypatch, body)
    before = sys.stdout, sys.stderr, list(logging.getLogger().handlers)
    with pytest.raises(KeyboardInterrupt):
        execute(job(store), store)
    assert (sys.stdout, sys.stderr, list(logging.getLogger().handlers)) == before
    assert store.latest_failures() == {}


def test_a_long_log_is_cut_in_the_failure_row_only(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def body(trial: TrialConfig, context: TrialContext) -> Result:
        print("x" * 3 * LOG_LIMIT)
        raise ValueError("at the end")

    patched(monkeypatch, body)
    execute(job(store), store)
    (row,) = store.read_failures().to_dict("records")
    assert len(row["log"]) < LOG_LIMIT + 100
    assert row["log"].startswith("[... ")
    assert "ValueError: at the end" in row["log"]
    assert len(store.read_log(config(7).trial_id) or "") > 3 * LOG_LIMIT


def test_the_log_grows_while_the_trial_runs(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def body(trial: TrialConfig, context: TrialContext) -> Result:
        assert context.on_epoch is not None
        context.on_epoch(rows(trial)[0])
        seen.append(store.read_log(trial.trial_id) or "")
        return steady(trial, dataclasses.replace(context, on_epoch=None))

    patched(monkeypatch, body)
    execute(job(store), store)
    assert "epoch 1/3 update 4 loss 0.333333 auc train 0.5333 val 0.5323 test 0.5270" in seen[0]


def test_a_remote_store_gets_the_log_at_the_end() -> None:
    store = open_store("memory://execution-test", create=True)
    execute(job(store, body="tests.contracts.trial_bodies:noisy"), store)
    log = store.read_log(config(7).trial_id) or ""
    assert "said on stdout" in log
    assert "done in" in log


def test_prepare_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"CUDA_VISIBLE_DEVICES": "0,1", "HF_HUB_OFFLINE": "0"}
    monkeypatch.setattr(os, "environ", environment)
    prepare_worker(2, 0.5)
    assert environment["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert environment["OMP_NUM_THREADS"] == "2"
    assert environment["HF_HUB_OFFLINE"] == "0"  # a user's own choice stays
    prepare_worker(1, 0)
    assert environment["CUDA_VISIBLE_DEVICES"] == ""
