"""--save-scores: what is kept of a trial's scores, and when."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from orchestrator import execution
from orchestrator.execution import execute
from orchestrator.launching import launch, resume
from orchestrator.running import Job
from orchestrator.scores import score_frame
from orchestrator.store import Store, open_store
from search_spaces.space import load_space
from search_spaces.trial import TrialConfig
from tests.contracts.store_suite import config
from tests.contracts.trial_bodies import steady
from trainables.context import TrialContext
from trainables.metrics import binary_auc


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "store", create=True)


def body(monkeypatch: pytest.MonkeyPatch, scores: dict[str, Any]) -> None:
    def train(trial: TrialConfig, context: TrialContext) -> Any:
        return SimpleNamespace(**vars(steady(trial, context)), scores=scores)

    monkeypatch.setattr(execution, "_resolve", lambda name: train)


def job(store: Store, **changes: Any) -> Job:
    return Job(config(7), store.uri, Path("/data"), **changes)


BINARY = {
    "validation": np.array([0.5, -1.25]),
    "validation_labels": np.array([1, 0]),
    "test": np.array([3.0, 2.0, 1.0]),
    "test_labels": np.array([1, 0, 0]),
}


def test_scores_are_kept_when_asked_for(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    body(monkeypatch, BINARY)
    assert execute(job(store), store).status == "done"
    assert store.read_scores(config(7).trial_id) is None
    assert execute(job(store, save_scores=True), store).status == "done"
    expected = pd.DataFrame(
        {
            "split": ["validation"] * 2 + ["test"] * 3,
            "index": [0, 1, 0, 1, 2],
            "label": [1, 0, 1, 0, 0],
            "score": [0.5, -1.25, 3.0, 2.0, 1.0],
        }
    )
    found = store.read_scores(config(7).trial_id)
    assert found is not None
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)


def test_scores_of_classes_and_labels_are_lists(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = np.array([[0.0, -1.0, -2.0], [-3.0, -4.0, -5.0]], dtype=np.float32)
    body(monkeypatch, {"test": scores, "test_labels": np.array([2, 0])})
    execute(job(store, save_scores=True), store)
    found = store.read_scores(config(7).trial_id)
    assert found is not None
    assert list(found["label"]) == [2, 0]
    np.testing.assert_array_equal(np.stack(list(found["score"])), scores)
    labels = score_frame({"test": scores, "test_labels": np.array([[1, 0, 1], [0, 1, 0]])})["label"]
    np.testing.assert_array_equal(np.stack(list(labels)), [[1, 0, 1], [0, 1, 0]])


def test_a_trial_with_too_many_scores_is_done_without(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    body(monkeypatch, {})
    assert execute(job(store, save_scores=True), store).status == "done"
    assert store.read_scores(config(7).trial_id) is None
    assert "no scores saved" in (store.read_log(config(7).trial_id) or "")


def test_a_sweep_keeps_the_scores_its_metrics_came_from(tmp_path: Path) -> None:
    space = load_space("smoke", ["losses=[ce]", "margins=[]", "seeds=[5,6]"])
    options: dict[str, Any] = {"runner": "local", "gpus_per_trial": 0, "progress": False}
    launch(space, tmp_path / "s", data_root=tmp_path, save_scores=True, time_budget=1e-9, **options)
    assert resume(tmp_path / "s", **options).exit_code == 0  # goes on saving, as launched
    store = open_store(tmp_path / "s")
    runs, _ = store.read_runs()
    for trial_id, rows in runs.groupby("trial_id"):
        scores = store.read_scores(str(trial_id))
        assert scores is not None
        chosen = rows[rows["epoch"] == rows["selected_epoch"]].iloc[0]
        for split, column in (("validation", "val_auc"), ("test", "test_auc")):
            part = scores[scores["split"] == split]
            assert binary_auc(part["score"].to_numpy(), part["label"].to_numpy()) == chosen[column]
    launch(load_space("smoke", ["losses=[ce]", "margins=[]", "seeds=[7]"]), store, data_root=tmp_path, **options)
    assert len(list((tmp_path / "s" / "scores").iterdir())) == 2
