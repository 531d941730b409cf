"""A launch that is refused (exit code 2) started nothing and leaves nothing, whatever it was refused for."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aucsweep.cli import run
from orchestrator import launching, sweeping
from orchestrator.files import Files
from orchestrator.launching import launch, resume, retry
from orchestrator.local import LocalRunner
from orchestrator.lock import StoreLock, read_lock
from orchestrator.running import Job, OnEvent, ShouldStop
from orchestrator.store import open_store, store_exists
from search_spaces.errors import AucsweepError, LockedError, StoreError, UsageError
from search_spaces.space import Space, load_space

OPTIONS: dict[str, Any] = {
    "runner": "local",
    "gpus_per_trial": 0,
    "progress": False,
    "body": "tests.contracts.trial_bodies:counted",
}


def smoke(*overrides: str) -> Space:
    return load_space("smoke", overrides)


def tree(folder: Path) -> dict[str, bytes | None]:
    """Every file and folder below ``folder``: the bytes of a file, None for a folder."""
    return {str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes() for path in folder.rglob("*")}


@pytest.fixture
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


def unlockable(patch: pytest.MonkeyPatch) -> dict[str, Any]:
    create = Files.create

    def refuse(self: Files, name: str, data: bytes) -> None:
        if name == "lock.json":
            raise OSError(28, "No space left on device")
        create(self, name, data)

    patch.setattr(Files, "create", refuse)
    return {}


def unmakeable(patch: pytest.MonkeyPatch) -> dict[str, Any]:
    def refuse(self: Files, name: str, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    patch.setattr(Files, "create", refuse)
    return {}


def unwritable(patch: pytest.MonkeyPatch) -> dict[str, Any]:
    def refuse(self: Files, name: str, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    patch.setattr(Files, "write", refuse)
    return {}


def no_gpu(patch: pytest.MonkeyPatch) -> dict[str, Any]:
    patch.setattr("orchestrator.local._visible_gpus", lambda: 0)
    return {"gpus_per_trial": 1}


def missing_data(patch: pytest.MonkeyPatch) -> dict[str, Any]:
    patch.setattr(sweeping, "TRAINING", OPTIONS["body"])  # so that the data are asked for
    patch.setattr(LocalRunner, "on_every_node", lambda self, probe: {"here": (["no data"], {})})
    return {}


def no_plan(patch: pytest.MonkeyPatch) -> dict[str, Any]:
    def refuse(*_: object) -> None:
        raise UsageError("no plan")

    patch.setattr(launching, "survey", refuse)
    return {}


def a_bug(patch: pytest.MonkeyPatch) -> dict[str, Any]:
    def fail(*_: object) -> None:
        raise ValueError("a bug before anything was started")

    patch.setattr(launching, "survey", fail)
    return {}


REFUSALS: dict[str, tuple[Callable[[pytest.MonkeyPatch], dict[str, Any]], str]] = {
    "no machine has a GPU": (no_gpu, "no machine can run a trial that asks for 1 CPU cores and 1 GPUs"),
    "no machine has the cores": (lambda _: {"cpus_per_trial": 10_000}, "no machine can run"),
    "a Ray Client address": (lambda _: {"runner": "ray", "address": "ray://head:10001"}, "Ray Client address"),
    "no cluster there": (lambda _: {"runner": "ray", "address": "127.0.0.1:1"}, "cannot join the Ray cluster"),
    "no data": (missing_data, "nothing was started:\n  - here: no data"),
    "no plan": (no_plan, "no plan"),
    "a bug": (a_bug, "a bug"),
    "a wrong option": (lambda _: {"retries": -1}, "retries"),
    "no data root": (lambda _: {"data_root": None}, "data_root"),
    "a lock that cannot be written": (unlockable, "cannot lock the store"),
    "a record that cannot be written": (unwritable, "cannot record the launch"),
    "a store that cannot be made": (unmakeable, "No space left on device"),
}


@pytest.fixture(params=REFUSALS)
def refused(request: pytest.FixtureRequest, data_root: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Calls a function in circumstances in which it must be refused, and checks the message."""
    arrange, message = REFUSALS[request.param]

    def call(function: Callable[..., object], *arguments: Any) -> None:
        with monkeypatch.context() as patched:
            changes = {"data_root": data_root} | arrange(patched)
            with pytest.raises((UsageError, ValueError)) as caught:
                function(*arguments, **(OPTIONS | changes))
        assert message in str(caught.value)

    return call


def test_a_new_store_vanishes_with_the_folders_made_for_it(tmp_path: Path, refused: Callable[..., None]) -> None:
    (tmp_path / "there").mkdir()
    refused(launch, smoke(), tmp_path / "there" / "some" / "store")
    assert tree(tmp_path) == {"there": None}


def test_a_folder_that_was_there_stays_with_all_that_lies_in_it(tmp_path: Path, refused: Callable[..., None]) -> None:
    for name in ("empty", "used/runs", "used/logs/mine"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "used" / "runs" / "notes.txt").write_text("mine")
    before = tree(tmp_path)
    for name in ("empty", "used"):
        refused(launch, smoke(), tmp_path / name)
    assert tree(tmp_path) == before


def test_a_store_that_was_there_is_as_before(tmp_path: Path, data_root: Path, refused: Callable[..., None]) -> None:
    assert launch(smoke("losses=[ce]", "margins=[]"), tmp_path, data_root=data_root, **OPTIONS).exit_code == 0
    before = tree(tmp_path)
    refused(launch, smoke(), tmp_path)
    refused(launch, smoke(), open_store(tmp_path))
    assert tree(tmp_path) == before


def test_nothing_was_trained(tmp_path: Path, data_root: Path, refused: Callable[..., None]) -> None:
    refused(launch, smoke(), tmp_path / "store")
    assert tree(data_root) == {}


def test_a_bucket_keeps_nothing_either(refused: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.lock._SETTLE_SECONDS", 0.0)
    uri = f"memory://refused-{uuid.uuid4().hex}/store"
    refused(launch, smoke(), uri)
    assert not store_exists(uri)
    assert Files(uri).names("") == []


@pytest.mark.parametrize("command", [resume, retry])
def test_resume_and_retry_leave_the_store_as_it_was(
    tmp_path: Path, data_root: Path, monkeypatch: pytest.MonkeyPatch, command: Callable[..., object]
) -> None:
    body = {"body": "tests.contracts.trial_bodies:by_loss"}
    started = smoke("losses=[ce,hinge]", "warmup_ratios=[0]", "seeds=[1,2]")
    assert launch(started, tmp_path, data_root=data_root, **(OPTIONS | body)).exit_code == 1
    (tmp_path / "runs" / f"{next(iter(open_store(tmp_path).scan().done))}.parquet").unlink()  # something is pending
    before = tree(tmp_path)
    with pytest.raises(UsageError, match="no machine can run"):
        command(tmp_path, **(OPTIONS | body | no_gpu(monkeypatch)))
    assert tree(tmp_path) == before


def test_an_empty_store_somebody_made_stays_one(
    tmp_path: Path, data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path, create=True)
    before = store.read_sweep()
    with pytest.raises(UsageError, match="no machine can run"):
        launch(smoke(), store, data_root=data_root, **(OPTIONS | no_gpu(monkeypatch)))
    assert open_store(tmp_path).read_sweep() == before


def test_a_store_in_use_is_its_holders(tmp_path: Path, data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when both launchers find none and the other one is the first to lock it."""
    held: list[StoreLock] = []

    def lose_the_race(*arguments: Any, **more: Any) -> Any:
        store = open_store(*arguments, **more)
        held.append(StoreLock(store, "launch other-space").__enter__())
        return store

    monkeypatch.setattr(launching, "open_store", lose_the_race)
    with pytest.raises(LockedError, match="launch other-space"):
        launch(smoke(), tmp_path / "store", data_root=data_root, **OPTIONS)
    assert store_exists(tmp_path / "store")
    assert (read_lock(open_store(tmp_path / "store")) or {})["command"] == "launch other-space"
    held[0].__exit__(None, None, None)


def test_a_place_that_is_no_folder(tmp_path: Path, data_root: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for uri in (tmp_path / "file", tmp_path / "file" / "store"):
        with pytest.raises(StoreError, match="cannot make or open a store"):
            launch(smoke(), uri, data_root=data_root, **OPTIONS)
    assert tree(tmp_path) == {"file": b"mine"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["smok"],
        ["smoke", "-o", "losses=[hinje]"],
        ["smoke", "--time-budget", "soon"],
        ["smoke", "--runner", "locall"],
        ["smoke", "--runner", "local", "--cpus-per-trial", "10000"],
        ["smoke", "--address", "ray://head:10001"],
    ],
)
def test_the_command_too(tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    call = ["launch", *arguments, "--store", str(tmp_path / "store"), "--data-root", str(tmp_path / "data")]
    assert run(call) == 2
    assert capsys.readouterr().err
    assert tree(tmp_path) == {}


def test_an_error_after_trials_have_run_is_no_refusal(tmp_path: Path, data_root: Path) -> None:
    class Vanishing(LocalRunner):
        """Its machines are gone after two trials."""

        def run(self, jobs: Any, *, on_event: OnEvent, should_stop: ShouldStop) -> None:
            listed: list[Job] = list(jobs)
            super().run(listed[:2], on_event=on_event, should_stop=should_stop)
            raise error

    for count, error in ((2, UsageError("no machine can run a trial")), (4, AucsweepError("Tune did not start any"))):
        result = launch(
            smoke(), tmp_path / "store", data_root=data_root, **(OPTIONS | {"runner": Vanishing(gpus_per_trial=0)})
        )
        assert (result.exit_code, result.done, result.pending) == (3, count, 10 - count)
        assert result.message.startswith(f"stopped: {error}: {count} of 10 trials done")
    assert resume(tmp_path / "store", **OPTIONS).exit_code == 0
