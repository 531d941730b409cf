"""Stores with made-up results: the real plan, the real store, numbers drawn by hash instead of trained."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from orchestrator.definitions import add_definitions
from orchestrator.store import Store, open_store
from search_spaces.expand import expand
from search_spaces.space import load_space
from search_spaces.trial import TrialConfig


def hashed(*parts: object) -> float:
    """A number in [0, 1) that depends on ``parts`` alone."""
    digest = hashlib.sha256("|".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def made_up_rows(config: TrialConfig) -> list[dict[str, Any]]:
    """Epoch rows that look like training: saturating curves, warm-up better than direct, hinge worst."""
    level = 0.86 + 0.04 * hashed("task", config.task)
    level -= {"hinge": 0.07, "exponential": 0.02, "logistic": 0.015, "ce": 0.03}.get(config.loss, 0.0)
    if config.warmup_updates:
        level += {"hinge": 0.05}.get(config.loss, 0.012)
    level += 0.02 * (hashed(config.trial_id) - 0.5) + 0.015 * (hashed("seed", config.seed) - 0.5)
    rows = []
    for epoch in range(1, config.epochs + 1):
        value = 0.5 + (level - 0.5) * (1 - 0.6 ** (2 * epoch))
        noise = [0.01 * (hashed(config.trial_id, epoch, split) - 0.5) for split in ("val", "test")]
        rows.append(
            {
                "epoch": epoch,
                "update": epoch * config.updates_per_epoch,
                "train_loss": 1.0 / epoch,
                "train_auc": value + 0.02,
                "val_auc": value + noise[0],
                "test_auc": value - 0.005 + noise[1],
                "learning_rate_now": config.learning_rate,
                "seconds": 0.5,
            }
        )
    return rows


@pytest.fixture
def fill_store(tmp_path: Path) -> Callable[..., Store]:
    """``fill_store(space, overrides, keep=..., name=...)``: a store with that plan and a result for each kept trial.

    Filling a store again is another launch on it.
    """

    def fill(
        space: str = "quickstart",
        overrides: tuple[str, ...] = (),
        *,
        keep: Callable[[TrialConfig], bool] = lambda config: True,
        rows: Callable[[TrialConfig], list[dict[str, Any]]] = made_up_rows,
        name: str = "store",
    ) -> Store:
        loaded = load_space(space, overrides)
        expansion = expand(loaded)
        store = open_store(tmp_path / name, create=True)
        store.add_cells(expansion.cells)
        given = {"given": dict(loaded.given), "resolved": loaded.to_dict()}
        environment = {"python": "3.11.0", "hostname": "laptop", "packages": {"torch": "2.6.0"}, "cpus": 2, "gpus": []}
        environment["code"] = {"version": "0.1.0", "git_commit": "abc123", "git_dirty": True}
        before = store.read_sweep().get("definitions") or ()
        store.write_sweep(
            {
                "space": given,
                "plan_hash": expansion.plan_hash,
                "environment": environment,
                "launches": [{}],
                "definitions": add_definitions(before, loaded, expansion.cells),
            }
        )
        for config in expansion.trials.values():
            if keep(config):
                store.write_run(config, rows(config), {"device": "cpu"})
        return store

    return fill


CELL_DEFAULTS: dict[str, Any] = {
    "task": "toy-task",
    "model": "plain-mlp",
    "init": "random",
    "loss": "hinge",
    "mode": "direct",
    "warmup_ratio": 0.0,
    "margin": 0.5,
    "loss_params": "{}",
    "batch_size": 64,
    "learning_rate": 0.1,
    "seed": 1,
}


def make_frame(*rows: dict[str, Any]) -> pd.DataFrame:
    """Rows of ``load_runs`` with defaults filled in; ``val`` and ``test`` may be lists, one value per epoch."""
    full = []
    for number, given in enumerate(rows):
        row = CELL_DEFAULTS | {"trial_id": f"trial{number:03d}"} | given
        vals, tests = ([v] if isinstance(v, float) else list(v) for v in (row.pop("val"), row.pop("test")))
        row.setdefault("epochs", len(vals))
        for epoch, (val, test) in enumerate(zip(vals, tests, strict=True), start=1):
            full.append(row | {"epoch": epoch, "val_auc": val, "test_auc": test})
    return pd.DataFrame(full)


@pytest.fixture(scope="session")
def frame() -> Callable[..., pd.DataFrame]:
    """``frame(*rows)``: hand-made rows as ``load_runs`` gives them."""
    return make_frame


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder of hand-made results and the tables worked out from them."""
    return Path(__file__).parent.parent / "golden"


@pytest.fixture(scope="session")
def golden_runs(golden: Path) -> pd.DataFrame:
    """``golden/runs.csv`` as ``load_runs`` would give it; two seeds are planned."""
    rows = []
    for record in csv.DictReader((golden / "runs.csv").read_text().splitlines()):
        numbers = {key: [float(value) for value in record[key].split()] for key in ("val", "test")}
        rows.append(
            {
                **numbers,
                "loss": record["loss"],
                "mode": record["mode"],
                "warmup_ratio": float(record["warmup_ratio"]),
                "margin": float(record["margin"]) if record["margin"] else float("nan"),
                "seed": int(record["seed"]),
                "seeds_planned": 2,
            }
        )
    return make_frame(*rows)
