"""Losses with parameters, phases and losses of one's own, from a space through a real sweep into the store and back."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.launching import launch
from orchestrator.store import open_store
from search_spaces import own_loss
from search_spaces.expand import expand
from search_spaces.losses import LOSSES
from search_spaces.space import load_space
from trainables.losses.registry import BUILDERS

ROOT = Path(__file__).parents[2]
(GAP,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/add-a-loss.md").read_text(), re.DOTALL)
SPACE: dict[str, Any] = {
    "regime": "smoke",
    "loss_files": ["gap.py"],
    "tasks": ["mnist-8-low-shot"],
    "models": ["plain-mlp"],
    "inits": ["random"],
    "losses": ["top_push(k=3)", "mean_gap(scale=2)", "soft-switch", "plain"],
    "warmup_ratios": [0.25],
    "margins": [0.5],
    "seeds": [123],
    "phases": {
        "soft-switch": [
            {"share": 0.5, "loss": "mean_gap", "ce": {"from": 1, "to": 0}},
            {"loss": "squared_hinge", "pairs": {"hard_negatives": 2, "budget": 1}},
        ],
        "plain": [{"loss": "hinge"}],
    },
}


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    losses, builders = dict(LOSSES), dict(BUILDERS)
    yield
    own_loss._IN_USE.clear()
    for table, before in ((LOSSES, losses), (BUILDERS, builders)):
        table.clear()
        table.update(before)  # type: ignore[arg-type]


@pytest.mark.parametrize("runner", ["local", "ray"])
def test_a_sweep_of_objectives(tmp_path: Path, runner: str) -> None:
    (tmp_path / "gap.py").write_text(GAP)
    path = tmp_path / "space.yaml"
    path.write_text(yaml.safe_dump(SPACE))
    space = load_space(path)
    options: dict[str, Any] = {"runner": runner, "gpus_per_trial": 0, "progress": False, "data_root": tmp_path}
    result = launch(space, tmp_path / "store", **options)
    assert (result.exit_code, result.done) == (0, 4)

    store = open_store(tmp_path / "store")
    rows, _ = store.read_runs()
    by_loss = rows.groupby("loss").first()
    assert sorted(by_loss.index) == ["hinge", "mean_gap", "phases", "top_push"]
    assert json.loads(by_loss.loc["top_push", "loss_params"]) == {"k": 3, "surrogate": "squared_hinge"}
    phases = json.loads(by_loss.loc["phases", "loss_params"])["phases"]
    assert [phase["updates"] for phase in phases] == [5, 4]  # of 12, 3 are CE: floor(4.5 + 1/2) and the rest
    assert set(store.read_cells()["loss"]) == set(SPACE["losses"])
    assert [str(finding) for finding in store.verify(expand(space))] == []

    # elsewhere, later, without the file: one trial more, the others as they are
    (tmp_path / "gap.py").unlink()
    resolved = open_store(tmp_path / "store").read_sweep()["space"]["resolved"]
    assert resolved["loss_files"] == {"gap.py": GAP}
    victim = rows.loc[rows["loss"] == "mean_gap", "trial_id"].iloc[0]
    held = {file.name: file.read_bytes() for file in (tmp_path / "store/runs").iterdir() if victim not in file.name}
    for file in (tmp_path / "store/runs").iterdir():
        if victim in file.name:
            file.unlink()
    command = [sys.executable, "-m", "aucsweep", "resume", "--store", str(tmp_path / "store")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    again, _ = open_store(tmp_path / "store").read_runs()
    numbers = ["trial_id", "epoch", "train_loss", "val_auc", "test_auc"]
    assert again[numbers].equals(rows[numbers])
    assert all((tmp_path / "store/runs" / name).read_bytes() == data for name, data in held.items())
