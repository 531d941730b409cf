"""What sweep.json says of the losses that a space defines, through real launches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.launching import launch, resume
from orchestrator.store import Store, open_store
from search_spaces.errors import StoreError

OPTIONS: dict[str, Any] = {
    "runner": "local",
    "gpus_per_trial": 0,
    "progress": False,
    "body": "tests.contracts.trial_bodies:counted",
}
SPACE: dict[str, Any] = {
    "regime": "smoke",
    "tasks": ["mnist-8-low-shot"],
    "models": ["plain-mlp"],
    "inits": ["random"],
    "losses": ["ce", "hinge", "hard"],
    "warmup_ratios": [0, 0.25],
    "margins": [0.5],
}


def launched(folder: Path, hard: int, seeds: list[int]) -> Store:
    phases = {"hard": [{"loss": "hinge", "ce": 0.5, "pairs": {"hard_negatives": hard}}]}
    (folder / "space.yaml").write_text(yaml.safe_dump(SPACE | {"phases": phases, "seeds": seeds}))
    assert launch(folder / "space.yaml", folder / "store", data_root=folder, **OPTIONS).exit_code == 0
    return open_store(folder / "store")


def recorded(store: Store) -> list[tuple[str, str, set[str]]]:
    return [(entry["loss"], entry["id"], set(entry["cells"].split())) for entry in store.read_sweep()["definitions"]]


def test_each_definition_has_the_cells_launched_with_it_the_last_one_last(tmp_path: Path) -> None:
    store = launched(tmp_path, 2, [1])
    ((loss, first, cells),) = recorded(store)
    of_loss = store.read_cells().query("loss == 'hard'")
    assert (loss, cells) == ("hard", set(of_loss["cell_id"]))
    store = launched(tmp_path, 3, [1])
    (_, kept, _), (_, second, _) = recorded(store)
    assert kept == first
    store = launched(tmp_path, 2, [2])
    assert [entry[1] for entry in recorded(store)] == [second, first]
    assert recorded(store)[1][2] > cells
    before = recorded(store)
    resume(store, **OPTIONS)
    assert recorded(store) == before


def test_a_space_of_built_in_losses_records_none(tmp_path: Path) -> None:
    assert launch("smoke", tmp_path / "store", data_root=tmp_path, **OPTIONS).exit_code == 0
    assert open_store(tmp_path / "store").read_sweep()["definitions"] == []


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({}, "definitions should be a list but is {}"),
        (["hard"], "definitions.0 should be a JSON object but is 'hard'"),
        ([{"loss": "hard", "id": 3, "cells": ""}], "definitions.0.id should be a text but is 3"),
        ([{"loss": "hard", "id": "a"}], "definitions.0.cells should be a text but is missing"),
    ],
)
def test_what_somebody_edited_wrong_is_named(tmp_path: Path, value: Any, sentence: str) -> None:
    store = launched(tmp_path, 2, [1])
    path = tmp_path / "store/sweep.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"definitions": value}))
    with pytest.raises(StoreError, match=sentence.replace("{}", r"\{\}")):
        store.read_sweep()
