"""A launcher killed before its first trial: the launch is recorded by then, and ``resume`` takes it up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator.launching import launch, resume
from orchestrator.lock import read_lock
from orchestrator.status import store_status
from orchestrator.store import open_store
from search_spaces.expand import expand
from search_spaces.space import load_space

ROOT = Path(__file__).parents[2]
BODY = "tests.contracts.trial_bodies:counted"
OPTIONS: dict[str, Any] = {"runner": "local", "gpus_per_trial": 0, "progress": False, "body": BODY}

# The child says where it is and stays there, so that it is killed at this place on any machine. In place of Ray's start
# it waits for its end, as it would if Ray took for ever.
LAUNCH = """
import sys, time
from orchestrator.launching import launch

def stay(*_, **__):
    print("here", flush=True)
    time.sleep(600)

{place} = stay
launch("smoke", sys.argv[1], data_root=sys.argv[2], gpus_per_trial=0, progress=False, channels_last=True, body={body!r})
"""
PLACES = {
    "while it plans": "import orchestrator.launching; orchestrator.launching.survey",
    "before Ray is imported": "import orchestrator.launching; orchestrator.launching.make_runner",
    "while Ray starts": "from orchestrator.runner import RayRunner; RayRunner._start_here",
    "while it looks at the machines": "import orchestrator.sweeping; orchestrator.sweeping.Sweep.check_nodes",
    "while it adds the cells": "import orchestrator.store; orchestrator.store.Store.add_cells",
}
WITH_RAY = {"while it looks at the machines", "while it adds the cells"}


def killed(uri: Path, data_root: Path, place: str) -> int:
    """Kill a launcher at ``place`` and return its process number."""
    code = LAUNCH.format(place=PLACES[place], body=BODY)
    if place in WITH_RAY:  # these come after Ray has started, which a runner without one spares us
        code = code.replace("body=", "runner='local', body=")
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(uri), str(data_root)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "here\n"
    child.kill()
    assert child.wait() == -signal.SIGKILL
    child.stdout.close()
    return child.pid


@pytest.mark.parametrize("place", PLACES)
def test_resume_takes_up_what_was_killed(tmp_path: Path, place: str) -> None:
    uri, data_root = tmp_path / "store", tmp_path / "data"
    data_root.mkdir()
    pid = killed(uri, data_root, place)

    store = open_store(uri)
    (entry,) = store.read_sweep()["launches"]
    assert (entry["command"], entry["data_root"], entry["channels_last"]) == ("launch smoke", str(data_root), True)
    assert store.read_sweep()["space"]["given"]["source"] == "smoke"
    assert (read_lock(store) or {})["pid"] == pid
    status = store_status(store)
    assert (status.wanted, status.done, status.running, status.pending) == (10, 0, 0, 10)
    assert status.holder is None

    result = resume(uri, **OPTIONS)
    assert (result.exit_code, result.done) == (0, 10)
    assert store.scan().done == set(expand(load_space("smoke")).trials)
    first, second = open_store(uri).read_sweep()["launches"]
    assert first == entry
    assert (second["command"], second["pending"], second["channels_last"]) == ("resume smoke", 10, True)
    assert store.verify() == []


def test_the_space_that_was_being_launched_is_the_one_resumed(tmp_path: Path) -> None:
    uri, data_root = tmp_path / "store", tmp_path / "data"
    data_root.mkdir()
    launch("smoke", uri, **(OPTIONS | {"data_root": data_root}))
    earlier = open_store(uri).read_sweep()
    killed(uri, data_root, "while it plans")
    sweep = open_store(uri).read_sweep()
    assert len(sweep["launches"]) == 2
    assert sweep["launches"][0] == earlier["launches"][0]
    assert resume(uri, **OPTIONS).exit_code == 0
