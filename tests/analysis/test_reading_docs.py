"""The Python of docs/reading-results.md runs as printed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import analysis
from analysis import load_runs, select, warmup_gain
from orchestrator.store import Store

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
    assert len(python) == 4
    for block in python:
        exec(block, names)
    assert isinstance(names["table"], pd.DataFrame)
    assert len(names["table"]) == 2
    tests = names["tests"]
    assert isinstance(tests, pd.DataFrame)
    assert list(tests["seed"]) == [123]
    assert f"(`{'`, `'.join(tests.columns)}`)".replace("\n", " ") in DOC.read_text(encoding="utf-8").replace("\n", " ")
    assert (tmp_path / "reliability.pdf").exists()


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
