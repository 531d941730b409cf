"""The Python of docs/reading-results.md runs as printed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

import analysis
from analysis import load_runs, main_table, select, warmup_gain
from analysis.extensions import METRICS
from orchestrator.store import Store
from trainables.data import prepare_task

DOC = Path(__file__).parents[2] / "docs" / "reading-results.md"


def blocks() -> list[str]:
    code = re.findall(r"(?:^    .*\n(?:^\n(?=    ))?)+", DOC.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in code]


def test_python_blocks_run(fill_store: Callable[..., Store], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    overrides = (
        "losses=[ce, squared_hinge]",
        "margins=[0.1]",
        "warmup_ratios=[0, 0.1]",
        "tasks=[aptos]",
        "seeds=[123]",
    )
    store = fill_store("cv-resnet50", (*overrides, "inits=[random, pretrained]"), name="results")
    random = np.random.default_rng(0)
    labels = np.arange(80) % 2
    for trial_id in sorted(store.scan().done):
        parts = {"label": labels, "score": labels + random.standard_normal(80)}
        split = np.repeat(["validation", "test"], 40)
        store.write_scores(trial_id, pd.DataFrame({"split": split, "index": np.tile(np.arange(40), 2), **parts}))
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    python = [block for block in blocks() if "import" in block]
    assert len(python) == 5
    for block in python:
        exec(block, names)
    assert isinstance(names["table"], pd.DataFrame)
    assert len(names["table"]) == 2
    tests = names["tests"]
    assert isinstance(tests, pd.DataFrame)
    assert list(tests["seed"]) == [123]
    assert f"(`{'`, `'.join(tests.columns)}`)".replace("\n", " ") in DOC.read_text(encoding="utf-8").replace("\n", " ")
    assert (tmp_path / "reliability.pdf").exists()


OWN_TASK = {
    **{"name": "noisy", "modality": "text", "kind": "table", "file": "a.csv", "text": "words", "label": "kind"},
    **{"positive": "yes", "weight": "confidence"},
    "splits": {"by": "seed", "fractions": {"train": 0.5, "validation": 0.25, "test": 0.25}},
}


def test_two_values_of_a_setting_in_one_store(
    fill_store: Callable[..., Store],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = "".join(f"t{i},{'yes' if i % 3 else 'no'},{1 + i % 4}\n" for i in range(40))
    (tmp_path / "a.csv").write_text(f"words,kind,confidence\n{rows}")
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(OWN_TASK))
    prepare_task(tmp_path / "a.yaml", tmp_path / "data")
    grid = {"regime": "kaomoji", "tasks": ["a.yaml"], "models": ["char-cnn"], "inits": ["random"], "seeds": [1, 2]}
    grid |= {"losses": ["ce", "hinge"], "margins": [0.5], "warmup_ratios": [0, 0.1]}
    (tmp_path / "space.yaml").write_text(yaml.safe_dump(grid))
    monkeypatch.chdir(tmp_path)
    weights = ("none", "task")
    changes = {value: (f"settings.example_weights={value}",) for value in weights}
    for value in weights:
        fill_store("space.yaml", changes[value], name="results")
    alone = {value: fill_store("space.yaml", changes[value], name=value) for value in weights}
    (recipe,) = [block for block in blocks() if 'settings=["example_weights"]' in block]
    names: dict[str, object] = {}
    exec(recipe, names)
    expected = "".join(f"example_weights: {value}\n{main_table(alone[value])}\n" for value in weights)
    assert capsys.readouterr().out == expected
    sides = names["sides"]
    assert isinstance(sides, pd.DataFrame)
    for value in weights:
        chosen = select(alone[value]).set_index(["task", "model", "init", "loss", "mode"])
        assert sides[value].to_dict() == chosen["test_mean"].to_dict()
    # Without the recipe the two compete, and the caption says so.
    assert "batch size, learning rate, other settings)" in main_table("results")
    assert main_table(alone["none"]) != main_table(alone["task"])


def test_every_table_is_named() -> None:
    text = DOC.read_text(encoding="utf-8")
    named = re.search(r"\| `aucsweep table \.\.\.`.*?\n\n", text, flags=re.DOTALL)
    assert named
    first = [line.split("|")[1] for line in named.group().splitlines()[2:] if line]
    assert {name.strip() for part in first for name in part.split(",")} == {"main", *METRICS, "deep-auc"}


def test_named_columns_exist(fill_store: Callable[..., Store]) -> None:
    runs = load_runs(fill_store("smoke"))
    rows = re.findall(r"^\| (`.*?) \|", DOC.read_text(encoding="utf-8"), flags=re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)}
    functions = {"select", "warmup_gain"}
    assert named - functions <= set(runs.columns)
    assert {"test_sd", "candidates"} <= set(select(runs).columns)
    assert {"gain", "n_pairs", "paired_sd", "gain_seed_123"} <= set(warmup_gain(runs).columns)


def test_public_names_are_exported() -> None:
    imported = {
        name
        for block in blocks()
        for line in re.findall(r"from analysis import (.*)", block)
        for name in line.split(", ")
    }
    assert imported <= set(analysis.__all__)
