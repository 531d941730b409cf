"""launch, resume and retry with trials that take no time, in this process. ``test_resuming`` has real ones on Ray."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from orchestrator import sweeping
from orchestrator.files import Files
from orchestrator.launching import LaunchResult, launch, resume, retry
from orchestrator.lock import StoreLock, read_lock
from orchestrator.status import store_status
from orchestrator.store import open_store, store_exists
from orchestrator.sweeping import check_node, sweep_digest
from search_spaces.errors import LockedError, SpaceError, StoreError, UsageError
from search_spaces.expand import expand
from search_spaces.space import Space, load_space

FAULTY = ["losses=[ce,hinge,square,exponential]", "warmup_ratios=[0]", "seeds=[1,2]"]  # bodies.by_loss: 3 of 4 fail


@pytest.fixture
def data_root(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


@pytest.fixture
def uri(tmp_path: Path) -> Path:
    return tmp_path / "store"


def smoke(*overrides: str) -> Space:
    return load_space("smoke", overrides)


def options(body: str = "counted", **more: Any) -> dict[str, Any]:
    return {
        "runner": "local",
        "gpus_per_trial": 0,
        "progress": False,
        "body": f"tests.contracts.trial_bodies:{body}",
    } | more


def trained(data_root: Path) -> list[str]:
    """The ids of the trials trained so far, with repetitions."""
    return sorted(path.name.split("-")[0] for path in data_root.glob("*-*.trained"))


def counts(result: LaunchResult) -> tuple[int, int, int, int, int]:
    return result.exit_code, result.wanted, result.done, result.failed, result.pending


def test_progress_names_losses_as_the_space_does_and_knows_those_done_before(
    uri: Path, data_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def last_best(losses: str) -> str:
        reduced = ["warmup_ratios=[0.1]", "seeds=[1,2]", f"losses={losses}"]
        launch(load_space("phases", reduced), uri, data_root=data_root, **options("steady", progress=True))
        lines = [line for line in capsys.readouterr().err.splitlines() if "best val AUC" in line]
        return lines[-1].split("best val AUC: ")[1]

    best = 0.5 + 2 / 1000.0 + load_space("phases").parts[0].settings.epochs / 103.0
    assert last_best("[ce, squared_hinge]") == f"ce {best:.4f}, squared_hinge {best:.4f}"
    assert last_best("[ce, curriculum, pair-budget]") == ", ".join(
        f"{name} {best:.4f}" for name in ("ce", "curriculum", "pair-budget")
    )
    open_store(uri).compact()
    assert last_best("[curriculum, soft-switch]") == f"curriculum {best:.4f}, soft-switch {best:.4f}"


def test_a_launch_runs_everything_and_records_what_it_was(uri: Path, data_root: Path) -> None:
    space = smoke()
    result = launch(space, uri, data_root=data_root, **options())
    assert counts(result) == (0, 10, 10, 0, 0)
    assert result.message.startswith("10 of 10 trials done")

    store = open_store(uri)
    wanted = expand(space)
    assert store.scan().done == set(wanted.trials)
    assert trained(data_root) == sorted(wanted.trials)
    assert set(store.read_cells()["cell_id"]) == {cell.cell_id for cell in wanted.cells}
    sweep = json.loads((uri / "sweep.json").read_text())
    assert sweep["space"]["resolved"]["name"] == "smoke"
    assert sweep["space"]["given"]["source"] == "smoke"
    assert sweep["plan_hash"] == wanted.plan_hash
    assert sweep["environment"]["python"]
    (entry,) = sweep["launches"]
    assert entry["command"] == "launch smoke"
    assert entry["data_root"] == str(data_root)
    assert entry["pending"] == 10
    assert entry["slots"] == {"gpus_per_trial": 0, "cpus_per_trial": 1, "concurrent": 1}
    assert store.fingerprints() == {"mnist-8-low-shot": "fingerprint of mnist-8-low-shot"}
    assert read_lock(store) is None
    rows, _ = store.read_runs()
    assert set(rows["attempt"]) == {1}
    assert (uri / "logs" / f"{next(iter(wanted.trials))}.log").exists()


def test_trials_run_in_launch_order(uri: Path, data_root: Path) -> None:
    space = smoke()
    launch(space, uri, data_root=data_root, **options())
    rows, _ = open_store(uri).read_runs()
    finished = rows.groupby("trial_id")["finished_at"].first().sort_values()
    assert list(finished.index) == list(expand(space).trials)


def test_a_full_disk_stops_the_sweep_and_resume_goes_on(
    uri: Path, data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Files.write

    def full(self: Files, name: str, data: bytes) -> None:
        if name.startswith(("runs/", "failures/")) and len(self.names("runs")) == 4:
            raise OSError(28, "No space left on device")
        write(self, name, data)

    with monkeypatch.context() as patched:
        patched.setattr(Files, "write", full)
        result = launch(smoke(), uri, data_root=data_root, **options())
    assert counts(result) == (3, 10, 4, 0, 6)
    assert "No space left on device" in result.message
    assert read_lock(open_store(uri)) is None
    assert counts(resume(uri, **options())) == (0, 10, 10, 0, 0)


def test_the_command_to_go_on_with_can_be_pasted(tmp_path: Path, data_root: Path) -> None:
    store = tmp_path / "my results"
    result = launch(smoke(*FAULTY), store, data_root=data_root, **options("by_loss"))
    assert f"aucsweep retry --store '{store}'" in result.message


def test_what_is_done_is_not_run_again(uri: Path, data_root: Path) -> None:
    first = launch(smoke(), uri, data_root=data_root, **options())
    files = {path.name: path.read_bytes() for path in (uri / "runs").iterdir()}
    again = launch("smoke", str(uri), data_root=str(data_root), **options())
    assert counts(again) == counts(first)
    assert len(trained(data_root)) == 10
    assert {path.name: path.read_bytes() for path in (uri / "runs").iterdir()} == files
    assert [entry["pending"] for entry in open_store(uri).read_sweep()["launches"]] == [10, 0]


def test_a_new_seed_runs_only_its_own_trials_and_a_removed_loss_none(uri: Path, data_root: Path) -> None:
    launch(smoke(), uri, data_root=data_root, **options())
    before = set(trained(data_root))
    more = launch(smoke("seeds=[123,124,125]"), uri, data_root=data_root, **options())
    assert counts(more) == (0, 15, 15, 0, 0)
    new = set(trained(data_root)) - before
    assert new == set(expand(smoke("seeds=[125]")).trials)
    assert len(trained(data_root)) == 15

    fewer = launch(smoke("losses=[ce,logistic]", "margins=[]"), uri, data_root=data_root, **options())
    assert counts(fewer) == (0, 6, 6, 0, 0)
    assert len(trained(data_root)) == 15
    store = open_store(uri)
    assert len(store.scan().done) == 15
    assert set(store.read_cells()["loss"]) == {"ce", "logistic", "squared_hinge"}


def test_failures_are_counted_by_kind_and_wait_for_retry(uri: Path, data_root: Path) -> None:
    space = smoke(*FAULTY)
    result = launch(space, uri, data_root=data_root, **options("by_loss"))
    assert counts(result) == (1, 8, 2, 6, 0)
    assert result.failures == {"error": 2, "nan": 2, "oom": 2}
    assert "6 failed (error 2, nan 2, oom 2)" in result.message
    assert "aucsweep retry" in result.message
    status = store_status(open_store(uri))
    assert (status.done, status.failed, status.pending, status.failures) == (2, 6, 0, {"error": 2, "nan": 2, "oom": 2})

    resumed = resume(uri, **options("by_loss"))
    assert counts(resumed) == (1, 8, 2, 6, 0)
    assert len(open_store(uri).read_failures()) == 6  # none was tried again

    (data_root / "cured").touch()
    cured = retry(uri, kind="nan", **options("by_loss"))
    assert counts(cured) == (0, 2, 2, 0, 0)
    store = open_store(uri)
    losses = {trial_id: trial.loss for trial_id, trial in expand(space).trials.items()}
    assert sorted(losses[trial_id] for trial_id in store.scan().done) == ["ce", "ce", "square", "square"]
    rows, _ = store.read_runs()
    assert set(rows[rows["loss"] == "square"]["attempt"]) == {2}
    assert len(store.read_failures()) == 6  # kept
    assert counts(resume(uri, **options("by_loss"))) == (1, 8, 4, 4, 0)

    assert counts(retry(uri, **options("by_loss"))) == (0, 4, 4, 0, 0)
    assert counts(retry(uri, **options("by_loss"))) == (0, 0, 0, 0, 0)
    assert counts(resume(uri, **options("by_loss"))) == (0, 8, 8, 0, 0)


def test_a_retry_that_fails_again_is_one_more_attempt(uri: Path, data_root: Path) -> None:
    space = smoke("losses=[ce,hinge]", "warmup_ratios=[0]", "seeds=[1]")
    launch(space, uri, data_root=data_root, **options("by_loss"))
    assert counts(retry(uri, **options("by_loss"))) == (1, 1, 0, 1, 0)
    assert list(open_store(uri).read_failures()["attempt"]) == [1, 2]


def test_fail_fast_leaves_the_rest(uri: Path, data_root: Path) -> None:
    result = launch(smoke(*FAULTY), uri, data_root=data_root, **options("by_loss", fail_fast=True))
    assert result.exit_code == 1
    assert result.failed == 1
    assert result.pending > 0
    assert "stopped at the first failure" in result.message
    assert read_lock(open_store(uri)) is None


def test_no_trial_starts_after_the_time_budget(uri: Path, data_root: Path) -> None:
    result = launch(smoke(), uri, data_root=data_root, **options(time_budget=1e-9))
    assert counts(result) == (3, 10, 0, 0, 10)
    assert result.message.startswith("the time budget of 1e-09 s is spent: 0 of 10 trials done, 10 left")
    assert trained(data_root) == []
    assert counts(resume(uri, **options())) == (0, 10, 10, 0, 0)


def test_a_finished_sweep_ends_well_whatever_the_budget(uri: Path, data_root: Path) -> None:
    launch(smoke(), uri, data_root=data_root, **options())
    assert resume(uri, **options(time_budget=1e-9)).exit_code == 0


def test_a_signal_stops_it_and_resume_goes_on(uri: Path, data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    result = launch(smoke("settings.epochs=3"), uri, data_root=data_root, **options("interrupted"))
    assert counts(result) == (3, 10, 2, 0, 8)
    assert result.message.startswith("stopped by SIGTERM: 2 of 10 trials done, 8 left")
    assert f"aucsweep resume --store {uri}" in result.message
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == handlers
    store = open_store(uri)
    assert len(store.read_failures()) == 0  # the trial that was left has nothing against it
    assert read_lock(store) is None
    assert counts(resume(uri, **options())) == (0, 10, 10, 0, 0)
    assert len(trained(data_root)) == 8


def test_resume_takes_space_and_data_root_from_the_store(uri: Path, data_root: Path) -> None:
    launch(smoke("seeds=[5]", "margins=[0.1,0.2]"), uri, data_root=data_root, **options(time_budget=1e-9))
    result = resume(uri, **options())
    assert result.exit_code == 0
    assert set(trained(data_root)) == set(expand(smoke("seeds=[5]", "margins=[0.1,0.2]")).trials)
    launches = open_store(uri).read_sweep()["launches"]
    assert [entry["command"] for entry in launches] == ["launch smoke", "resume smoke"]
    assert open_store(uri).read_sweep()["space"]["given"]["overrides"] == ["seeds=[5]", "margins=[0.1,0.2]"]


def test_a_broken_run_file_is_run_again_and_nothing_else(
    uri: Path, data_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    launch(smoke(), uri, data_root=data_root, **options())
    broken = sorted((uri / "runs").glob("*.parquet"))[4]
    broken.write_bytes(broken.read_bytes()[:-100])
    result = resume(uri, **options(progress=True))
    assert counts(result) == (0, 10, 10, 0, 0)
    assert sorted(trained(data_root)).count(broken.stem) == 2
    assert len(trained(data_root)) == 11
    assert f"broken file runs/{broken.name}" in capsys.readouterr().err


def test_a_trial_on_other_data_fails_with_kind_data(uri: Path, data_root: Path) -> None:
    result = launch(
        smoke("losses=[ce]", "margins=[]", "warmup_ratios=[0]", "seeds=[1,2]"),
        uri,
        data_root=data_root,
        **options("other_data"),
    )
    assert counts(result) == (1, 2, 1, 1, 0)
    assert result.failures == {"data": 1}
    (message,) = open_store(uri).read_failures()["message"]
    assert "fingerprint 2" in message
    assert "fingerprint 1" in message


def test_a_store_in_use_is_refused_and_its_holder_named(uri: Path, data_root: Path) -> None:
    store = open_store(uri, create=True)
    with StoreLock(store, "launch other-space"), pytest.raises(LockedError, match="launch other-space"):
        launch(smoke(), uri, data_root=data_root, **options())
    assert trained(data_root) == []
    assert "space" not in store.read_sweep()


def test_progress_goes_to_stderr(uri: Path, data_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    launch(smoke(), uri, data_root=data_root, **options(progress=True))
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert lines[0] == "10 trials to run, 1 trial at once on 1 CPU core"
    assert "10/10; " in lines[-2]
    assert "0 failed; best val AUC: " in lines[-2]
    assert lines[-1].startswith("10 of 10 trials done, in ")


def test_failures_are_named_while_it_runs(uri: Path, data_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    launch(smoke(*FAULTY), uri, data_root=data_root, **options("by_loss", progress=True))
    assert "failed (nan): NonFiniteError: the square loss is nan at update 3 of 12" in capsys.readouterr().err


class TestRefusals:
    """Exit code 2: nothing was started."""

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"gpus_per_trial": -1}, "gpus per trial"),
            ({"gpus_per_trial": 1.5}, "whole number"),
            ({"cpus_per_trial": 0}, "cpus per trial"),
            ({"max_concurrent": 0}, "max concurrent"),
            ({"time_budget": 0}, "time_budget"),
            ({"trial_timeout": float("nan")}, "trial_timeout"),
            ({"retries": -1}, "retries"),
            ({"runner": "rya"}, "did you mean ray"),
            ({"address": "head:6379"}, "local runner"),
            ({"cpus_per_trial": 10_000}, "no machine can run"),
        ],
    )
    def test_options(self, uri: Path, data_root: Path, changes: dict[str, Any], message: str) -> None:
        with pytest.raises(UsageError, match=message):
            launch(smoke(), uri, data_root=data_root, **options(**changes))
        assert not uri.exists()

    def test_a_misspelt_option(self, uri: Path, data_root: Path) -> None:
        with pytest.raises(TypeError, match="did you mean retries"):
            launch(smoke(), uri, data_root=data_root, **options(retry=1))

    def test_no_data_root(self, uri: Path) -> None:
        with pytest.raises(UsageError, match="data_root"):
            launch(smoke(), uri, **options())

    def test_a_wrong_space_makes_no_store(self, uri: Path, data_root: Path) -> None:
        with pytest.raises(SpaceError):
            launch("smok", uri, data_root=data_root, **options())
        assert not store_exists(uri)

    def test_resume_and_retry_need_a_launch(self, uri: Path) -> None:
        with pytest.raises(StoreError, match="no store at"):
            resume(uri, **options())
        open_store(uri, create=True)
        with pytest.raises(UsageError, match="nothing was launched"):
            resume(uri, **options())
        with pytest.raises(UsageError, match="nothing was launched"):
            retry(uri, **options())

    def test_an_unknown_failure_kind(self, uri: Path) -> None:
        with pytest.raises(UsageError, match="did you mean nan"):
            retry(uri, kind="nann", **options())

    def test_missing_data_are_named_before_any_trial(self, uri: Path, data_root: Path, tmp_path: Path) -> None:
        path = tmp_path / "aptos.yaml"
        path.write_text(
            "regime: cv-densenet121\ntasks: [aptos]\nmodels: [densenet121]\ninits: [random]\nlosses: [ce]\nseeds: [1]\n"
        )
        with pytest.raises(UsageError, match=r"nothing was started[\s\S]*task aptos cannot be trained"):
            launch(path, uri, data_root=data_root, runner="local", gpus_per_trial=0, progress=False)
        assert not uri.exists()
        assert list(data_root.iterdir()) == []

    def test_data_that_are_not_the_stores(self, uri: Path, data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def answers(*fingerprints: str) -> Any:
            nodes = {f"node{number}": ([], {"mnist-8-low-shot": value}) for number, value in enumerate(fingerprints)}
            return lambda self, probe: nodes

        monkeypatch.setattr(sweeping, "TRAINING", options()["body"])  # so that the data are asked for
        monkeypatch.setattr("orchestrator.local.LocalRunner.on_every_node", answers("one", "two"))
        with pytest.raises(UsageError, match=r"node1: the data of task mnist-8-low-shot have fingerprint two, not one"):
            launch(smoke(), uri, data_root=data_root, **options())
        open_store(uri, create=True).record_fingerprint("mnist-8-low-shot", "three")
        monkeypatch.setattr("orchestrator.local.LocalRunner.on_every_node", answers("one", "one"))
        with pytest.raises(UsageError, match=r"node0.*not three[\s\S]*node1"):
            launch(smoke(), uri, data_root=data_root, **options())
        assert trained(data_root) == []


def test_check_node_sees_whether_the_store_is_the_same(tmp_path: Path) -> None:
    here = open_store(tmp_path / "here", create=True)
    digest = sweep_digest(here)
    assert check_node(here.uri, digest, [], tmp_path) == ([], {})
    other = open_store(tmp_path / "other", create=True)
    other.write_sweep({"space": None})
    problems, _ = check_node(other.uri, digest, [], tmp_path)
    assert len(problems) == 1
    assert "must be shared by all nodes" in problems[0]
    problems, _ = check_node(str(tmp_path / "nowhere"), digest, [], tmp_path)
    assert "not to be seen there" in problems[0]


def test_retries_run_lost_trials_again(uri: Path, data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a runner that loses each seed-123 trial twice."""
    from orchestrator.execution import execute
    from orchestrator.local import LocalRunner
    from orchestrator.running import Job, Outcome
    from orchestrator.store import Store

    def lossy(job: Job, store: Store, on_epoch: Any = None) -> Outcome:
        if job.config.seed == 123 and job.attempt <= 2:
            return Outcome(job.trial_id, "lost", "lost", "gone", job.attempt)
        return execute(job, store, on_epoch)

    monkeypatch.setattr("orchestrator.local.execute", lossy)
    assert counts(launch(smoke(), uri, data_root=data_root, **options())) == (1, 10, 5, 5, 0)
    result = resume(uri, **options(runner=LocalRunner(gpus_per_trial=0), retries=3))
    assert counts(result) == (0, 10, 10, 0, 0)
    failures = open_store(uri).read_failures()
    assert sorted(failures["attempt"]) == [1] * 5 + [2] * 5
    assert set(failures["kind"]) == {"lost"}
    rows, _ = open_store(uri).read_runs()
    assert set(rows[rows["seed"] == 123]["attempt"]) == {3}
