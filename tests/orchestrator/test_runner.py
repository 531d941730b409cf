"""RayRunner keeps what every runner keeps, and what a Ray of its own, or a cluster, asks for. Starts Ray."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

# A Ray started by ray.init asks for a token; by address Ray offers its own in this mode only, which it reads when it is
# imported. The same for both sides of the cluster below, whatever tests ran before.
os.environ.setdefault("RAY_AUTH_MODE", "token")

import ray

from orchestrator.failures import settle_lost
from orchestrator.runner import RayRunner, _auth_mode_kept, remove_leftovers
from orchestrator.running import Halt, Job, Outcome, Runner
from orchestrator.store import Store
from search_spaces.errors import UsageError
from tests.contracts.runner_suite import RunnerContract, StoppedRunnerContract, go_on
from tests.contracts.store_suite import config

ROOT = Path(__file__).parents[2]


def watched_handlers() -> list[object]:
    return [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)]


@pytest.fixture(scope="class")
def shared() -> Iterator[RayRunner]:
    # A small chunk, so that some lists of the suite cross from one Tuner to the next.
    with RayRunner(gpus_per_trial=0, max_concurrent=2, chunk=12) as entered:
        yield entered


class TestRayRunner(RunnerContract):
    @pytest.fixture
    def runner(self, shared: RayRunner) -> RayRunner:
        return shared

    def test_its_own_ray_is_private_and_quiet(self, runner: Runner) -> None:
        handlers = watched_handlers()
        assert ray.is_initialized()
        with pytest.raises(UsageError, match="already running"), RayRunner():
            pass
        assert not logging.getLogger("ray").isEnabledFor(logging.CRITICAL)
        self.run(runner, [])
        assert watched_handlers() == handlers
        assert Path(f"/tmp/aucs-{os.getpid()}").is_dir()

    def test_a_worker_without_a_gpu_sees_none_and_uses_one_thread(
        self, runner: Runner, store: Store, data_root: Path
    ) -> None:
        (job,) = self.jobs(store, data_root, 1, "environment")
        self.run(runner, [job])
        seen = dict(line.split("=", 1) for line in (data_root / "environment").read_text().splitlines())
        assert seen["CUDA_VISIBLE_DEVICES"] == ""
        assert seen["OMP_NUM_THREADS"] == "1"
        assert seen["HF_HUB_OFFLINE"] == "1"

    def test_a_killed_worker_loses_its_trial_only(
        self, runner: Runner, store: Store, data_root: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        jobs = self.jobs(store, data_root, 6, "lost_once")
        outcomes = {event.trial_id: event for event in self.run(runner, jobs) if isinstance(event, Outcome)}
        assert {outcome.status for key, outcome in outcomes.items() if key != jobs[0].trial_id} == {"done"}
        lost = outcomes[jobs[0].trial_id]
        assert (lost.status, lost.kind, lost.attempt) == ("lost", "lost", 1)
        assert lost.message.startswith("the worker process ended: ")
        assert "ray stop" not in lost.message  # Ray's general advice
        assert "".join(capfd.readouterr()) == ""

        settled = settle_lost(lost, jobs[0], store)
        assert (settled.status, settled.kind) == ("failed", "lost")
        assert store.latest_failures()[jobs[0].trial_id].kind == "lost"

    def test_a_worker_that_dies_after_it_wrote_is_believed(self, runner: Runner, store: Store, data_root: Path) -> None:
        written, recorded = self.jobs(store, data_root, 2, "dies_when_stored")
        recorded = Job(**{**vars(recorded), "config": config(2, loss="square"), "attempt": 4})
        outcomes = {
            event.trial_id: event for event in self.run(runner, [written, recorded]) if isinstance(event, Outcome)
        }
        assert {outcome.status for outcome in outcomes.values()} == {"lost"}
        assert settle_lost(outcomes[written.trial_id], written, store).status == "done"
        settled = settle_lost(outcomes[recorded.trial_id], recorded, store)
        assert (settled.status, settled.kind) == ("failed", "error")
        assert len(store.read_failures()) == 1


def test_leaving_removes_everything_it_made(tmp_path: Path) -> None:
    """After the class above: its Ray is down and its folder gone."""
    assert not ray.is_initialized()
    assert not Path(f"/tmp/aucs-{os.getpid()}").exists()


class TestStoppedRayRunner(StoppedRunnerContract):
    @pytest.fixture
    def runner(self) -> Iterator[RayRunner]:
        with RayRunner(gpus_per_trial=0, max_concurrent=2) as entered:
            yield entered


def test_the_auth_mode_ray_sets_does_not_outlive_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for before in (None, "disabled"):
        monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
        if before is not None:
            monkeypatch.setenv("RAY_AUTH_MODE", before)
        with _auth_mode_kept():
            os.environ["RAY_AUTH_MODE"] = "token"
        assert os.environ.get("RAY_AUTH_MODE") == before


@pytest.mark.parametrize("address", ["ray://head:10001", "http://head:8265"])
def test_addresses_of_other_services_are_refused(address: str) -> None:
    with pytest.raises(UsageError, match="host:port"):
        RayRunner(address=address)


def test_leftovers_of_killed_launchers_are_removed() -> None:
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait()
    left, living = Path(f"/tmp/aucs-{process.pid}"), Path("/tmp/aucs-1")
    left.mkdir()
    living.mkdir(exist_ok=True)
    try:
        remove_leftovers()
        assert not left.exists()
        assert living.exists()
    finally:
        living.rmdir()


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a Ray cluster of another process, which pretends to have two GPUs."""
    code = """
import ray, sys
context = ray.init(
    address="local", num_cpus=4, num_gpus=2, include_dashboard=False, log_to_driver=False, _temp_dir=sys.argv[1]
)
print(context.address_info["gcs_address"], flush=True)
sys.stdin.read()
"""
    folder = f"/tmp/aucs-test-{os.getpid()}"
    process = subprocess.Popen(
        [sys.executable, "-c", code, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    yield process.stdout.readline().strip()
    process.stdin.close()
    process.wait(60)
    subprocess.run(["rm", "-rf", folder], check=True)


class TestCluster:
    def test_it_is_joined_and_left_running(self, cluster: str, tmp_path: Path) -> None:
        from orchestrator.store import open_store

        store = open_store(tmp_path / "store", create=True)
        body = "tests.contracts.trial_bodies:"
        quick = [Job(config(seed), store.uri, tmp_path, body=body + "steady") for seed in range(1, 6)]
        slow = [Job(config(seed), store.uri, tmp_path, body=body + "slow") for seed in (11, 12, 13)]
        with RayRunner(address=cluster, gpus_per_trial=0, max_concurrent=1) as runner:
            assert runner.slots.concurrent == 1
            runner.run(quick, on_event=lambda event: None, should_stop=go_on)
            assert len(store.scan().done) == 5
            began = tmp_path / "began-11"
            runner.run(slow, on_event=lambda event: None, should_stop=lambda: Halt.NOW if began.exists() else Halt.NO)
        assert not ray.is_initialized()
        with RayRunner(address=cluster, gpus_per_trial=0) as runner:
            assert runner.slots.concurrent == 4
            # The trial that was left holds nothing: all CPUs come free again.
            deadline = time.monotonic() + 60
            while ray.available_resources().get("CPU", 0) < 4 and time.monotonic() < deadline:
                time.sleep(0.2)
            assert ray.available_resources()["CPU"] == 4
        assert not (tmp_path / "began-12").exists()

    def test_two_trials_share_a_gpu_when_asked_to(self, cluster: str, tmp_path: Path) -> None:
        from orchestrator.store import open_store

        store = open_store(tmp_path / "store", create=True)
        body = "tests.contracts.trial_bodies:on_gpu"
        jobs = [Job(config(seed), store.uri, tmp_path, "cuda", body=body) for seed in range(1, 9)]
        with RayRunner(address=cluster) as runner:
            assert (runner.slots.gpus_per_trial, runner.slots.concurrent) == (1, 2)
        with RayRunner(address=cluster, gpus_per_trial=0.5) as runner:
            assert (runner.slots.device, runner.slots.concurrent) == ("cuda", 4)
            runner.run(jobs, on_event=lambda event: None, should_stop=go_on)
        assert len(store.scan().done) == 8
        seen = [path.read_text().split() for path in tmp_path.glob("gpu-*")]
        assert {visible for visible, _ in seen} == {"0", "1"}  # one each, both used
        assert len({process for _, process in seen}) == 4

    def test_a_trial_that_fits_nowhere_is_refused(self, cluster: str) -> None:
        refused = pytest.raises(UsageError, match="no machine can run a trial that asks for 1 CPU cores and 3 GPUs")
        with refused, RayRunner(address=cluster, gpus_per_trial=3):
            pass
        assert not ray.is_initialized()


def test_no_cluster_at_the_address() -> None:
    with pytest.raises(UsageError, match="cannot join the Ray cluster at"), RayRunner(address="127.0.0.1:1"):
        pass
