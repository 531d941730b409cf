"""The weights of a task of one's own, from its table through a launch to the losses of its runs."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import yaml

from orchestrator.launching import launch
from orchestrator.store import open_store
from search_spaces.errors import SpaceError
from search_spaces.expand import expand
from search_spaces.space import Space, load_space
from search_spaces.tasks import task_card
from trainables.context import TrialContext
from trainables.data import load_task, prepare_task
from trainables.run import prepare_run

N = 40
WEIGHTS = [0.1 * (1 + 7 * i % 23) for i in range(N)]
TASK: dict[str, Any] = {
    "name": "noisy", "modality": "text", "kind": "table", "file": "a.csv", "text": "words", "label": "kind",
    "positive": "yes", "splits": {"by": "seed", "fractions": {"train": 0.5, "validation": 0.25, "test": 0.25}},
}  # fmt: skip
GRID: dict[str, Any] = {
    "regime": "kaomoji", "tasks": ["a.yaml"], "models": ["char-cnn"], "inits": ["random"], "losses": ["ce", "hinge"],
    "margins": [0.5], "warmup_ratios": [0], "seeds": [7],
}  # fmt: skip
# One batch is the whole training split of 20: the loss of the first update is one of the model as it was drawn.
WHOLE = {"sampling": "natural", "batch_size": 20, "updates_per_epoch": None, "epochs": 2, "score_scale": "identity"}


def prepared(folder: Path, weight: list[float] | None) -> Path:
    """A prepared task of 40 texts, 12 of them positive, and where its file lies."""
    folder.mkdir()
    frame = pd.DataFrame({"words": [f"t{i} {'ab' * (i % 5)}" for i in range(N)]})
    frame["kind"] = ["yes" if i % 10 in (0, 3, 7) else "no" for i in range(N)]
    if weight is not None:
        frame["confidence"] = weight
    frame.to_csv(folder / "a.csv", index=False)
    path = folder / "a.yaml"
    path.write_text(yaml.safe_dump(TASK | ({} if weight is None else {"weight": "confidence"})))
    prepare_task(path, folder / "data")
    return path


def space(task: Path, example_weights: str = "task", **changes: Any) -> Space:
    path = task.with_name("space.yaml")
    settings = WHOLE | {"example_weights": example_weights}
    path.write_text(yaml.safe_dump(GRID | {"settings": settings} | changes))
    return load_space(path)


def launched(wanted: Space, folder: Path, name: str = "store") -> pd.DataFrame:
    done = launch(wanted, folder / name, data_root=folder / "data", runner="local", gpus_per_trial=0, progress=False)
    assert (done.exit_code, done.failed, done.pending) == (0, 0, 0)
    rows, broken = open_store(folder / name).read_runs()
    assert not broken
    return rows.sort_values(["loss", "epoch"], ignore_index=True)


def by_hand(task: Path, wanted: Space) -> dict[str, float]:
    """The first loss of each trial, from its model's logits and the cells of the table."""
    with task.with_name("a.csv").open() as file:
        cells = {row["words"]: row for row in csv.DictReader(file)}
    found = {}
    for config in expand(wanted).trials.values():
        data_root = task.with_name("data")
        cards = dict(wanted.cards)
        run = prepare_run(config, TrialContext(data_root=data_root, cards=cards))
        split = load_task(task_card(config.task, cards), seed=config.seed, data_root=data_root).train
        texts = split.fetch(np.arange(20))
        with torch.no_grad():
            logits = run.model.module(run.model.encode(texts)).double().numpy()
        weights = [float(cells[text]["confidence"]) for text in texts]
        labels = [cells[text]["kind"] == "yes" for text in texts]
        total = mass = 0.0
        for i in range(20):
            if config.loss == "ce":
                total += weights[i] * np.log1p(np.exp(-logits[i] if labels[i] else logits[i]))
                mass += weights[i]
                continue
            for j in range(20):
                if labels[i] and not labels[j]:
                    total += weights[i] * weights[j] * max(0.0, 0.5 - (logits[i] - logits[j]))
                    mass += weights[i] * weights[j]
        found[config.loss] = total / mass
    return found


def test_a_launch_weighs_each_example_by_its_row(tmp_path: Path) -> None:
    task = prepared(tmp_path / "a", WEIGHTS)
    wanted = space(task)
    rows = launched(wanted, task.parent)
    assert list(zip(rows["loss"], rows["update"], strict=True)) == [("ce", 1), ("ce", 2), ("hinge", 1), ("hinge", 2)]
    assert {json.loads(config)["example_weights"] for config in rows["config"]} == {"task"}
    assert rows[["train_auc", "val_auc", "test_auc"]].notna().all(axis=None)
    first = rows[rows["epoch"] == 1].set_index("loss")["train_loss"]
    assert first.to_dict() == pytest.approx(by_hand(task, wanted), rel=1e-5)
    # The same task and data, and a space that does not ask: other trials, of other losses.
    plain = launched(space(task, "none"), task.parent, "plain")
    assert set(plain["trial_id"]).isdisjoint(rows["trial_id"])
    assert (np.abs(plain["train_loss"] - rows["train_loss"]) > 1e-4).all()


def test_even_weights_train_as_none(tmp_path: Path) -> None:
    even, none = prepared(tmp_path / "even", [3.0] * N), prepared(tmp_path / "none", None)
    rows, plain = launched(space(even), even.parent), launched(space(none, "none"), none.parent)
    for column in ("train_loss", "train_auc", "val_auc", "test_auc"):
        assert rows[column].tolist() == pytest.approx(plain[column].tolist(), rel=1e-5)


def test_a_phase_may_ask_alone(tmp_path: Path) -> None:
    task = prepared(tmp_path / "a", WEIGHTS)
    # Two updates: the first half is plain, the second weighted.
    two = [{"loss": "hinge", "share": 0.5}, {"loss": "hinge", "weights": "task"}]
    rows = launched(space(task, "none", losses=["two"], phases={"two": two}), task.parent)
    plain = launched(space(task, "none", losses=["hinge"]), task.parent, "plain")
    kept = rows["loss"] != "ce"
    first, second = rows[kept]["train_loss"]
    alone = plain[plain["loss"] == "hinge"]["train_loss"].tolist()
    assert first == pytest.approx(alone[0], rel=1e-6)
    assert abs(second - alone[1]) > 1e-4


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({}, "settings.example_weights"),
        (
            {
                "losses": ["two"],
                "settings": WHOLE,
                "phases": {"two": [{"loss": "hinge", "share": 0.5}, {"loss": "hinge", "weights": "task"}]},
            },
            "phases.two",
        ),
    ],
)
def test_weights_that_the_task_has_not_are_refused_before_anything_starts(
    tmp_path: Path, changes: dict[str, Any], named: str
) -> None:
    task = prepared(tmp_path / "a", None)
    path = task.with_name("space.yaml")
    path.write_text(yaml.safe_dump(GRID | {"settings": WHOLE | {"example_weights": "task"}} | changes))
    with pytest.raises(SpaceError) as caught:
        launch(path, tmp_path / "store", data_root=tmp_path / "a" / "data", runner="local", progress=False)
    (problem,) = caught.value.problems
    assert problem == (
        f"{named}: needs the weights of the task's data, which noisy has not (a task of your own names a column of its "
        "table: weight)"
    )
    assert not (tmp_path / "store").exists()
