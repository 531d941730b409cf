"""What every runner keeps: inherit both contracts and give each a fixture ``runner``, entered and for CPU trials.

Run for ``LocalRunner`` in ``tests/orchestrator/test_local.py`` and for ``RayRunner`` in ``test_runner.py``.
"""

from __future__ import annotations

import dataclasses
import socket
import time
from pathlib import Path

import pytest

from orchestrator.running import Event, Halt, Job, Outcome, Runner, Started
from orchestrator.store import Store, open_store
from tests.contracts.store_suite import config


def go_on() -> Halt:
    return Halt.NO


class _Jobs:
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return open_store(tmp_path / "store", create=True)

    @pytest.fixture
    def data_root(self, tmp_path: Path) -> Path:
        folder = tmp_path / "data"
        folder.mkdir()
        return folder

    def jobs(self, store: Store, data_root: Path, count: int, body: str = "steady") -> list[Job]:
        return [self.job(store, data_root, seed, body) for seed in range(1, count + 1)]

    def job(self, store: Store, data_root: Path, seed: int, body: str, **changes: str) -> Job:
        return Job(config(seed, **changes), store.uri, data_root, body=f"tests.contracts.trial_bodies:{body}")

    def run(self, runner: Runner, jobs: list[Job]) -> list[Event]:
        events: list[Event] = []
        runner.run(iter(jobs), on_event=events.append, should_stop=go_on)
        return events


class RunnerContract(_Jobs):
    """For one runner that many tests may share."""

    def test_it_says_what_a_trial_gets(self, runner: Runner) -> None:
        assert runner.slots.concurrent >= 1
        assert runner.slots.device in {"cpu", "cuda"}

    def test_every_job_runs_once_and_is_in_the_store_when_it_is_reported(
        self, runner: Runner, store: Store, data_root: Path
    ) -> None:
        jobs = self.jobs(store, data_root, 13, "timed")
        done_when_reported: list[bool] = []
        events: list[Event] = []

        def on_event(event: Event) -> None:
            events.append(event)
            if isinstance(event, Outcome):
                done_when_reported.append(event.trial_id in store.scan().done)

        runner.run(jobs, on_event=on_event, should_stop=go_on)
        wanted = [job.trial_id for job in jobs]
        outcomes = [event for event in events if isinstance(event, Outcome)]
        assert sorted(outcome.trial_id for outcome in outcomes) == sorted(wanted)
        assert {outcome.status for outcome in outcomes} == {"done"}
        assert all(done_when_reported)
        seeds = sorted(int(path.read_text().split()[0]) for path in data_root.glob("span-*"))
        assert seeds == list(range(1, 14))  # trained once each, not merely reported once

        for trial_id in wanted:
            kinds = [type(event) for event in events if event.trial_id == trial_id]
            assert kinds == [Started, Outcome]
        by_id = {outcome.trial_id: outcome for outcome in outcomes}
        # trial_bodies.steady, seed 3, third epoch: 0.5 + 3/1000 + 3/103
        assert by_id[jobs[2].trial_id].best_val_auc == 0.5 + 3 / 1000.0 + 3 / 103.0
        assert by_id[jobs[2].trial_id].loss == jobs[2].config.loss

    def test_jobs_start_in_order_and_fill_every_slot(self, runner: Runner, store: Store, data_root: Path) -> None:
        slots = runner.slots.concurrent
        jobs = self.jobs(store, data_root, 6 * slots, "timed")
        events = self.run(runner, jobs)
        place = {job.trial_id: number for number, job in enumerate(jobs)}
        started = [place[event.trial_id] for event in events if isinstance(event, Started)]
        # As free slots allow: the first ones may wait for a worker that has to be made, and two that start at the same
        # moment may be reported either way round.
        later = [number for number in started if number >= slots]
        assert all(abs(number - slots - position) < slots for position, number in enumerate(later))
        assert sorted(started) == list(range(len(jobs)))

        spans = [path.read_text().split() for path in data_root.glob("span-*")]
        edges = sorted([(float(span[2]), 1) for span in spans] + [(float(span[3]), -1) for span in spans])
        running = peak = 0
        for _, change in edges:
            running += change
            peak = max(peak, running)
        assert peak == slots
        # Processes are reused. A runner that works in chunks may take new ones for each.
        assert len({span[1] for span in spans}) <= 2 * slots

    def test_a_failing_trial_is_recorded_and_the_rest_goes_on(
        self, runner: Runner, store: Store, data_root: Path
    ) -> None:
        losses = {"ce": None, "hinge": "error", "square": "nan", "exponential": "oom", "squared_hinge": None}
        jobs = [self.job(store, data_root, 1, "by_loss", loss=loss) for loss in losses]
        jobs[1] = dataclasses.replace(jobs[1], attempt=3)
        outcomes = {event.loss: event for event in self.run(runner, jobs) if isinstance(event, Outcome)}
        assert {loss: outcome.kind for loss, outcome in outcomes.items()} == losses
        assert {loss: outcome.status for loss, outcome in outcomes.items()} == {
            loss: "failed" if kind else "done" for loss, kind in losses.items()
        }
        failures = store.read_failures().set_index("loss")
        assert failures["kind"].to_dict() == {loss: kind for loss, kind in losses.items() if kind}
        raised = failures.loc["hinge"]
        assert raised["message"] == "RuntimeError: a fault of the trial"
        assert raised["attempt"] == 3
        assert 'raise RuntimeError("a fault of the trial")' in raised["traceback"]
        assert "attempt 3" in raised["log"]
        assert "RuntimeError: a fault of the trial" in raised["log"]
        assert store.scan().done == {jobs[0].trial_id, jobs[4].trial_id}

    def test_what_a_trial_says_is_in_its_log(
        self, runner: Runner, store: Store, data_root: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        (job,) = self.jobs(store, data_root, 1, "noisy")
        self.run(runner, [job])
        log = store.read_log(job.trial_id) or ""
        for text in ("said on stdout", "said on stderr", "said in a log record", "epoch 3/3", f"trial {job.trial_id}"):
            assert text in log
        assert "said" not in "".join(capfd.readouterr())

    def test_nothing_to_run(self, runner: Runner) -> None:
        assert self.run(runner, []) == []

    def test_after_drain_running_trials_finish_and_no_other_starts(
        self, runner: Runner, store: Store, data_root: Path
    ) -> None:
        jobs = self.jobs(store, data_root, 12 * runner.slots.concurrent, "timed")
        events: list[Event] = []
        after: list[Event] = []

        def halt() -> Halt:
            return Halt.DRAIN if sum(isinstance(event, Outcome) for event in events) >= 2 else Halt.NO

        def on_event(event: Event) -> None:
            if halt() is Halt.DRAIN:
                after.append(event)
            events.append(event)

        runner.run(jobs, on_event=on_event, should_stop=halt)
        started = {event.trial_id for event in events if isinstance(event, Started)}
        ended = {event.trial_id for event in events if isinstance(event, Outcome)}
        assert ended == started == store.scan().done
        assert 2 <= len(ended) < len(jobs)
        # Starts already on their way when the second outcome came in are reported after it: at most one per slot.
        assert sum(isinstance(event, Started) for event in after) <= runner.slots.concurrent
        assert len(list(data_root.glob("span-*"))) == len(ended)

    def test_every_node_is_asked(self, runner: Runner) -> None:
        answers = runner.on_every_node(socket.gethostname)
        assert list(answers.values()) == [socket.gethostname()]


class StoppedRunnerContract(_Jobs):
    """For a runner that each test uses up."""

    def test_after_now_running_trials_are_left_without_outcome(
        self, runner: Runner, store: Store, data_root: Path
    ) -> None:
        jobs = self.jobs(store, data_root, 20, "slow")
        events: list[Event] = []

        def halt() -> Halt:
            return Halt.NOW if list(data_root.glob("began-*")) else Halt.NO

        began = time.monotonic()
        runner.run(jobs, on_event=events.append, should_stop=halt)
        assert time.monotonic() - began < 120  # a trial takes 300 s
        assert [event for event in events if isinstance(event, Outcome)] == []
        assert store.scan().done == frozenset()
        assert store.latest_failures() == {}

    def test_what_on_event_raises_ends_the_run(self, runner: Runner, store: Store, data_root: Path) -> None:
        def on_event(event: Event) -> None:
            if isinstance(event, Outcome):
                raise ZeroDivisionError("in the caller")

        with pytest.raises(ZeroDivisionError, match="in the caller"):
            runner.run(self.jobs(store, data_root, 30), on_event=on_event, should_stop=go_on)
