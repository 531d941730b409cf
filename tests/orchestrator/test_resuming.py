"""Real trials on Ray, killed and resumed, against the same sweep undisturbed in one process. Starts Ray often."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from orchestrator.launching import launch, resume, retry
from orchestrator.lock import read_lock
from orchestrator.status import store_status
from orchestrator.store import Store, open_store
from search_spaces.errors import LockedError
from search_spaces.space import load_space

ROOT = Path(__file__).parents[2]
NUMBERS = ["trial_id", "epoch", "update", "train_loss", "train_auc", "val_auc", "test_auc", "learning_rate_now"]
ON_RAY = {"gpus_per_trial": 0, "max_concurrent": 2, "progress": False}


def command(call: str) -> list[str]:
    names = "from orchestrator.launching import launch, resume; import sys"
    return [sys.executable, "-c", f"{names}; sys.exit({call}.exit_code)"]


def start(call: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(call), cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def wait_for(condition: Callable[[], Any], process: subprocess.Popen[str] | None = None, seconds: float = 180) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        assert process is None or process.poll() is None, f"it ended: {process.communicate() if process else ''}"
        time.sleep(0.05)


def numbers(store: Store) -> pd.DataFrame:
    rows, broken = store.read_runs()
    assert broken == ()
    return rows[NUMBERS].reset_index(drop=True)


def processes_of(pid: int) -> list[str]:
    """The command lines of the Ray processes of a launcher: they name its folder, or are its workers."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                environment = (folder / "environ").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if f"/tmp/aucs-{pid}/" in line or f"/tmp/aucs-{pid}/" in environment:
                found.append(line)
    return found


@pytest.fixture(scope="module")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, data_root: Path) -> pd.DataFrame:
    """The numbers of the smoke space, run in one process, one trial after the other."""
    uri = tmp_path_factory.mktemp("undisturbed") / "store"
    result = launch("smoke", uri, data_root=data_root, runner="local", gpus_per_trial=0, progress=False)
    assert (result.exit_code, result.done) == (0, 10)
    return numbers(open_store(uri))


def test_a_killed_launcher_loses_and_repeats_nothing(
    tmp_path: Path, data_root: Path, undisturbed: pd.DataFrame
) -> None:
    uri = tmp_path / "store"
    body = "tests.contracts.trial_bodies:paced"
    process = start(f"launch('smoke', {str(uri)!r}, data_root={str(data_root)!r}, body={body!r}, **{ON_RAY})")
    wait_for(lambda: len(list(uri.glob("runs/*.parquet"))) >= 3, process)

    store = open_store(uri)
    with pytest.raises(LockedError, match=rf"launch smoke` by .* \(process {process.pid}\)"):
        launch("smoke", uri, data_root=data_root, **ON_RAY)

    process.kill()
    process.communicate()
    wait_for(lambda: not processes_of(process.pid), seconds=60)
    assert read_lock(store) is not None  # left behind
    recorded = {path.name: path.read_bytes() for path in (uri / "runs").glob("*.parquet")}
    assert 3 <= len(recorded) < 10
    done = set(store.scan().done)

    result = resume(uri, **ON_RAY)
    assert (result.exit_code, result.done, result.failed) == (0, 10, 0)
    assert {name: (uri / "runs" / name).read_bytes() for name in recorded} == recorded
    assert set(store.scan().done) > done
    assert read_lock(store) is None
    pd.testing.assert_frame_equal(numbers(store), undisturbed, check_exact=True)
    assert len(store.read_failures()) == 0


def test_sigterm_ends_it_soon_and_resume_finishes(tmp_path: Path, data_root: Path, undisturbed: pd.DataFrame) -> None:
    uri, waiting = tmp_path / "store", tmp_path / "data"
    waiting.mkdir()
    body = "tests.contracts.trial_bodies:slow"  # five minutes a trial
    process = start(f"launch('smoke', {str(uri)!r}, data_root={str(waiting)!r}, body={body!r}, **{ON_RAY})")
    wait_for(lambda: list(waiting.glob("began-*")), process)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 3, err
    store = open_store(uri)
    assert read_lock(store) is None
    assert store_status(store).pending == 10
    wait_for(lambda: not processes_of(process.pid), seconds=60)
    assert not Path(f"/tmp/aucs-{process.pid}").exists()


def test_a_lost_a_failed_and_a_nan_trial_do_not_stop_the_rest(tmp_path: Path) -> None:
    uri, data_root = tmp_path / "store", tmp_path / "data"
    data_root.mkdir()
    body = "tests.contracts.trial_bodies:by_loss"
    space = load_space("smoke", ["losses=[ce,hinge,square,logistic,exponential]", "warmup_ratios=[0]", "seeds=[1,2]"])
    result = launch(space, uri, data_root=data_root, body=body, **ON_RAY)
    kinds = {"error": 2, "lost": 2, "nan": 2, "oom": 2}
    assert (result.exit_code, result.wanted, result.done, result.failed) == (1, 10, 2, 8)
    assert result.failures == kinds
    store = open_store(uri)
    assert store_status(store).failures == kinds
    assert dict(store.read_failures().groupby("loss")["kind"].first()) == {
        "hinge": "error",
        "square": "nan",
        "logistic": "lost",
        "exponential": "oom",
    }

    (data_root / "cured").touch()
    again = retry(uri, kind="nan", body=body, runner="local", gpus_per_trial=0, progress=False)
    assert (again.exit_code, again.wanted, again.done) == (0, 2, 2)
    # Nothing is known against a trial whose worker was lost: resume runs it, and no other that failed.
    after = resume(uri, body=body, runner="local", gpus_per_trial=0, progress=False)
    assert (after.exit_code, after.done, after.failures) == (1, 6, {"error": 2, "oom": 2})
