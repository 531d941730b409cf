"""LocalRunner keeps what every runner keeps."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

from orchestrator.local import LocalRunner
from orchestrator.running import Runner
from search_spaces.errors import UsageError
from tests.contracts.runner_suite import RunnerContract, StoppedRunnerContract


@pytest.fixture
def runner() -> Iterator[Runner]:
    with LocalRunner(gpus_per_trial=0) as entered:
        yield entered


class TestLocalRunner(RunnerContract):
    pass


class TestStoppedLocalRunner(StoppedRunnerContract):
    pass


def test_slots_are_known_once_entered() -> None:
    runner = LocalRunner(gpus_per_trial=0)
    with pytest.raises(RuntimeError, match="entered"):
        _ = runner.slots
    with runner:
        assert (runner.slots.concurrent, runner.slots.device) == (1, "cpu")


def test_more_cores_than_there_are_is_refused() -> None:
    with pytest.raises(UsageError, match="no machine can run"), LocalRunner(gpus_per_trial=0, cpus_per_trial=10_000):
        pass


def test_it_leaves_the_environment_and_streams_alone() -> None:
    before = dict(os.environ), sys.stdout, sys.stderr
    with LocalRunner(gpus_per_trial=0) as runner:
        runner.run([], on_event=lambda event: None, should_stop=lambda: None)  # type: ignore[arg-type,return-value]
    assert (dict(os.environ), sys.stdout, sys.stderr) == before
