"""channels_last and compiled: from the launch to the worker, and into the records."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator import execution
from orchestrator.execution import execute
from orchestrator.launching import launch, resume
from orchestrator.running import Job
from orchestrator.store import open_store
from search_spaces.trial import TrialConfig
from tests.contracts.store_suite import config
from tests.contracts.trial_bodies import steady
from trainables.context import TrialContext

BODY = "tests.contracts.trial_bodies:steady"


@pytest.mark.parametrize("options", [{}, {"channels_last": True}, {"channels_last": True, "compiled": True}])
def test_a_trial_gets_them_and_its_log_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, bool]
) -> None:
    store = open_store(tmp_path / "store", create=True)
    seen: list[TrialContext] = []

    def train(trial: TrialConfig, context: TrialContext) -> Any:
        seen.append(context)
        return SimpleNamespace(**vars(steady(trial, context)))

    monkeypatch.setattr(execution, "_resolve", lambda name: train)
    assert execute(Job(config(7), store.uri, Path("/data"), **options), store).status == "done"
    assert (seen[0].channels_last, seen[0].compiled) == tuple(
        options.get(key, False) for key in ("channels_last", "compiled")
    )
    log = store.read_log(config(7).trial_id)
    assert log is not None
    first = log.splitlines()[0]
    assert first.endswith("".join(["cpu", *(f", {key}" for key in options)]))


def test_a_launch_records_them_and_resume_keeps_them(tmp_path: Path) -> None:
    uri, options = tmp_path / "store", {"data_root": tmp_path, "runner": "local", "progress": False, "body": BODY}
    launch("smoke", uri, **options, channels_last=True)
    resume(uri, **options)
    resume(uri, **options, channels_last=False, compiled=True)
    entries = open_store(uri).read_sweep()["launches"]
    assert [(entry["channels_last"], entry["compiled"]) for entry in entries] == [
        (True, False),
        (True, False),
        (False, True),
    ]
    assert "channels_last" not in open_store(uri).read_sweep()["space"]["resolved"]
