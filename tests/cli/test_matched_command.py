"""``aucsweep matched`` on a store with made-up results, and ``aucsweep data list``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aucsweep.cli import run
from orchestrator.store import open_store
from search_spaces.expand import expand
from search_spaces.space import load_space
from search_spaces.tasks import TASKS
from search_spaces.trial import TrialConfig

GRID = ["tasks=[aptos]", "inits=[random, pretrained]", "losses=[hinge]", "margins=[0.1]", "warmup_ratios=[0, 0.1]"]
TEST_AUC = {("random", "direct"): 0.70, ("random", "warmup"): 0.76, ("pretrained", "direct"): 0.9}


def rows(config: TrialConfig) -> list[dict[str, float]]:
    test = TEST_AUC.get((config.init, config.mode), 0.91)
    row = {
        "train_loss": 1.0,
        "train_auc": 0.9,
        "val_auc": 0.8,
        "test_auc": test,
        "learning_rate_now": 0.1,
        "seconds": 1.0,
    }
    per_epoch = config.updates_per_epoch
    return [row | {"epoch": epoch, "update": epoch * per_epoch} for epoch in range(1, config.epochs + 1)]


def make_store(path: Path, *, without: tuple[str, int] | None = None) -> str:
    expansion = expand(load_space("cv-resnet50", [*GRID, "seeds=[1, 2]"]))
    store = open_store(path, create=True)
    store.add_cells(expansion.cells)
    for config in expansion.trials.values():
        if (config.init, config.seed) != without:
            store.write_run(config, rows(config), {"device": "cpu"})
    return str(path)


def test_matched_prints_the_gains_and_draws_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = make_store(tmp_path / "store")
    figure = tmp_path / "matched.svg"
    assert run(["matched", "--store", store, "--figure", str(figure)]) == 0
    printed = capsys.readouterr()
    (line,) = [line for line in printed.out.splitlines() if "| aptos" in line]
    assert [cell.strip() for cell in line.split("|")[3:-1]] == ["Hinge", "70.00", "90.00", "+6.00", "+1.00", "-5.00"]
    assert "figure: " in printed.err
    assert "<svg" in figure.read_text()
    for wrong, why in ((tmp_path / "nowhere" / "m.svg", "there is no folder"), (tmp_path / "m.nonsense", "nonsense")):
        assert run(["matched", "--store", store, "--figure", str(wrong)]) == 2
        message = capsys.readouterr().err
        assert f"cannot draw {wrong}: " in message
        assert why in message


def test_unequal_grids_are_refused_or_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = make_store(tmp_path / "store", without=("random", 2))
    assert run(["matched", "--store", store]) == 2
    assert "seed 2 only with pretrained" in capsys.readouterr().err
    assert run(["matched", "--store", store, "--exclude"]) == 0
    assert "Left out: aptos, resnet50, Hinge: seed 2 only with pretrained." in capsys.readouterr().out


def test_one_initialisation_is_no_comparison(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "store"
    expansion = expand(load_space("cv-resnet50", [*GRID, "seeds=[1]", "inits=[random]"]))
    store = open_store(path, create=True)
    store.add_cells(expansion.cells)
    for config in expansion.trials.values():
        store.write_run(config, rows(config), {"device": "cpu"})
    assert run(["matched", "--store", str(path)]) == 2
    assert "no setting ran with both" in capsys.readouterr().err


def test_data_list_names_every_task_its_licence_and_its_state(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["data", "list", "--data-root", str(tmp_path), "--json"]) == 0
    tasks = {task["name"]: task for task in json.loads(capsys.readouterr().out)["tasks"]}
    assert set(tasks) == set(TASKS)
    assert tasks["ham10000"]["state"] == "downloadable"
    assert tasks["imagenet-lt-dogs"]["state"] == "missing"
    assert tasks["solar-cell-defects"]["get"] == "pip install --no-deps elpv-dataset==1.0.0.post1"
    assert all(task["licence"] and task["source"] for task in tasks.values())
    assert run(["data", "list", "--data-root", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(TASKS)
    assert all(TASKS[line.split()[0]].licence in line for line in lines[1:])
    assert list(tmp_path.iterdir()) == []


def test_data_list_sees_what_was_prepared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from trainables.data import can_load

    (name,) = [name for name in ("solar-cell-defects",) if can_load(TASKS[name])]
    assert run(["data", "prepare", name, "--data-root", str(tmp_path)]) == 0
    capsys.readouterr()
    assert run(["data", "list", "--data-root", str(tmp_path), "--json"]) == 0
    states = {task["name"]: task["state"] for task in json.loads(capsys.readouterr().out)["tasks"]}
    assert states[name] == "prepared"
