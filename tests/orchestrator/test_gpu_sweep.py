"""A sweep on a machine with a GPU: slots, devices and what is recorded of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from orchestrator.failures import breaks_process, classify
from orchestrator.launching import launch
from orchestrator.store import open_store
from search_spaces.space import load_space

DEVICE = torch.device("cuda:0")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="needs a CUDA device (torch.cuda.is_available() is False)"
    ),
]


@pytest.mark.parametrize(
    "options",
    [
        {"runner": "local"},
        {"runner": "ray", "max_concurrent": 1},
        {"runner": "ray", "max_concurrent": 2, "gpus_per_trial": 0.5},
    ],
    ids=["local", "ray", "two-on-one-gpu"],
)
def test_the_smoke_space(tmp_path: Path, options: dict[str, Any]) -> None:
    given = {"gpus_per_trial": 1.0, "progress": False} | options
    if DEVICE.type == "cpu":
        given["gpus_per_trial"] = 0
    result = launch(load_space("smoke", ["seeds=[123]"]), tmp_path / "store", data_root=tmp_path / "data", **given)
    assert (result.exit_code, result.done) == (0, 5)
    store = open_store(tmp_path / "store")
    rows, broken = store.read_runs()
    assert broken == ()
    assert rows["test_auc"].between(0, 1).all()
    assert (rows["peak_memory_bytes"] > 0).all()
    (entry,) = store.read_sweep()["launches"]
    assert entry["slots"]["gpus_per_trial"] == given["gpus_per_trial"]
    if DEVICE.type == "cuda":
        assert (rows["gpu_seconds"] > 0).all()
        assert set(rows["device"]) == {torch.cuda.get_device_name(DEVICE)}
        assert store.read_sweep()["environment"]["gpus"]


def test_running_out_of_memory_is_of_its_own_kind() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**50, dtype=torch.uint8, device=DEVICE)
    assert classify(caught.value) == "oom"
    assert not breaks_process(caught.value)
    assert float(torch.ones(3, device=DEVICE).sum()) == 3.0  # the process can go on
