"""What orchestration costs, with trials that do nothing: ours against a plain ``tune.Tuner`` grid search.

    python benchmarks/orchestration.py                 about 8 minutes on 2 cores
    python benchmarks/orchestration.py --plain 30 --finished 2000 --ours 50 200      a quick look

Ours goes through the real runner and writes a real run file per trial (canned rows). The plain grid search reports the
same rows to Tune, with Tune's default settings, and runs as many trials as ``--plain`` says; its time per trial is that
of the trials it ran, nothing is extrapolated. Each measurement is a process of its own, since memory is measured too.
The trials do not import torch; a real worker pays for that once, before its first trial.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PER_SEED = 5  # trials per seed of the smoke space
CORES = 2


@dataclass(frozen=True)
class Canned:
    rows: list[dict[str, Any]]
    selected_epoch: int = 1
    data_fingerprint: str = "none"
    parameters: int = 0
    trainable_parameters: int = 0


def canned_rows(epochs: int, updates_per_epoch: int) -> list[dict[str, Any]]:
    return [
        {
            "epoch": epoch,
            "update": epoch * updates_per_epoch,
            "train_loss": 0.5,
            "train_auc": 0.5,
            "val_auc": 0.5,
            "test_auc": 0.5,
            "learning_rate_now": 0.1,
            "seconds": 0.0,
            "gpu_seconds": 0.0,
            "peak_memory_bytes": 0,
            "device": "cpu",
        }
        for epoch in range(1, epochs + 1)
    ]


def noop(config: Any, context: Any) -> Canned:
    """A trial that does nothing but say when the first one began."""
    first = context.data_root / "first"
    if not first.exists():
        first.write_text(repr(time.time()))
    return Canned(canned_rows(config.epochs, config.updates_per_epoch))


def smoke(seeds: int) -> Any:
    from search_spaces.space import load_space

    return load_space("smoke", [f"seeds={json.dumps(list(range(seeds)))}"])


def measure_ours(trials: int, folder: Path) -> dict[str, float]:
    """A whole ``launch`` of ``trials`` trials."""
    from orchestrator.launching import launch
    from orchestrator.runner import RayRunner

    spent: list[float] = []
    run = RayRunner.run

    def timed(self: RayRunner, *args: Any, **named: Any) -> None:
        began = time.perf_counter()
        run(self, *args, **named)
        spent.append(time.perf_counter() - began)

    RayRunner.run = timed  # type: ignore[method-assign]
    began = time.perf_counter()
    result = launch(
        smoke(trials // PER_SEED), folder / "store", data_root=folder, body="benchmarks.orchestration:noop",
        gpus_per_trial=0, max_concurrent=CORES, progress=False,
    )  # fmt: skip
    whole = time.perf_counter() - began
    assert (result.exit_code, result.done) == (0, trials), result
    files = len(list((folder / "store" / "runs").glob("*.parquet")))
    return {"trials": trials, "run_s": sum(spent), "launch_s": whole, "rss_mb": rss_mb(), "run_files": files}


def measure_plain(trials: int, folder: Path) -> dict[str, float]:
    """What one would write first: ``tune.Tuner`` over a grid, all settings at their defaults."""
    import ray
    from ray import tune

    rows = canned_rows(2, 6)

    def train(config: dict[str, Any]) -> None:
        for row in rows:
            tune.report(row)

    ray.init(address="local", num_cpus=CORES, include_dashboard=False, log_to_driver=False)
    began = time.perf_counter()
    tuner = tune.Tuner(
        train, param_space={"trial": tune.grid_search(list(range(trials)))},
        run_config=tune.RunConfig(storage_path=str(folder / "results")),
    )  # fmt: skip
    results = tuner.fit()
    run_s = time.perf_counter() - began
    assert len(results) == trials
    assert results.num_errors == 0
    return {"trials": trials, "run_s": run_s, "rss_mb": rss_mb()}


def measure_resume(finished: int, folder: Path) -> dict[str, float]:
    """A ``resume`` with ``finished`` finished trials and five pending: seconds until the first of those begins."""
    from orchestrator.launching import resume

    began = float(os.environ["BENCHMARK_STARTED"])
    result = resume(
        folder / "store",
        data_root=folder,
        body="benchmarks.orchestration:noop",
        gpus_per_trial=0,
        max_concurrent=CORES,
        progress=False,
    )
    assert (result.exit_code, result.done) == (0, finished + PER_SEED), result
    first = float((folder / "first").read_text())
    return {"finished": finished, "to_first_trial_s": first - began, "rss_mb": rss_mb()}


def fill(finished: int, folder: Path) -> None:
    """A store of a launched space with ``finished`` finished trials and five pending, written without a runner."""
    from orchestrator.launching import launch
    from orchestrator.runs import run_bytes, run_name, summarise
    from orchestrator.schema import run_table
    from orchestrator.store import open_store
    from search_spaces.expand import expand

    space = smoke(finished // PER_SEED + 1)
    launch(
        space, folder / "store", data_root=folder, body="benchmarks.orchestration:noop", runner="local",
        gpus_per_trial=0, time_budget=1e-9, progress=False,
    )  # fmt: skip
    store = open_store(folder / "store")
    stamp = store._stamp() | {"attempt": 1, "device": "cpu"}
    for config in list(expand(space).trials.values())[:finished]:
        table = run_table(config, canned_rows(config.epochs, config.updates_per_epoch), stamp)
        data = run_bytes([(table, [summarise(table)])], compact=False)
        (folder / "store" / "runs" / run_name(config.trial_id)).write_bytes(data)


def rss_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(what: str, amount: int, folder: Path) -> dict[str, float]:
    """Run one measurement in a process of its own; raises with its output when it fails."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "BENCHMARK_STARTED": repr(time.time()),
    }
    done = subprocess.run(
        [sys.executable, str(Path(__file__)), "--measure", what, str(amount), str(folder)],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{what} {amount} failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    values: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return values


def main() -> None:
    parser = argparse.ArgumentParser(description="What orchestration costs, with trials that do nothing.")
    parser.add_argument("--ours", type=int, nargs=2, default=(200, 2000), help="our two sizes, multiples of five")
    parser.add_argument("--plain", type=int, default=100, help="trials of the plain grid search (about 1.4 s each)")
    parser.add_argument("--finished", type=int, default=20_000, help="finished trials for resume, a multiple of five")
    parser.add_argument("--measure", nargs=3, metavar=("WHAT", "N", "FOLDER"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        what, amount, folder = args.measure
        measure = {"ours": measure_ours, "plain": measure_plain, "resume": measure_resume, "fill": fill}[what]
        print(json.dumps(measure(int(amount), Path(folder))))
        return

    print(f"load average before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    per_trial: dict[int, float] = {}
    memory: dict[int, float] = {}
    for trials in args.ours:
        with tempfile.TemporaryDirectory() as folder:
            seen = measured("ours", trials, Path(folder))
        per_trial[trials], memory[trials] = seen["run_s"] / trials, seen["rss_mb"]
        print(
            f"ours, {trials} trials: {1000 * per_trial[trials]:.1f} ms per trial ({seen['run_s']:.1f} s in the runner, "
            f"{seen['launch_s']:.1f} s for the whole launch), {seen['run_files']:.0f} run files, "
            f"driver {seen['rss_mb']:.0f} MB"
        )
    with tempfile.TemporaryDirectory() as folder:
        plain = measured("plain", args.plain, Path(folder))
    plain_per_trial = plain["run_s"] / plain["trials"]
    print(
        f"plain tune.Tuner grid search, default settings, {args.plain} trials: {1000 * plain_per_trial:.0f} ms per "
        f"trial ({plain['run_s']:.1f} s), driver {plain['rss_mb']:.0f} MB"
    )
    small, large = args.ours
    print(f"ratio plain / ours per trial: {plain_per_trial / per_trial[small]:.1f} at {small} trials of ours, "
          f"{plain_per_trial / per_trial[large]:.1f} at {large} (target: at least 10)")  # fmt: skip
    print(f"driver memory, {large} against {small} trials: {memory[large] / memory[small]:.2f} times")

    scratch = Path(tempfile.mkdtemp())
    try:
        measured("fill", args.finished, scratch)
        for state in ("as single files", "after compact"):
            (scratch / "first").unlink(missing_ok=True)
            copy = scratch.with_name(scratch.name + "-copy")
            shutil.copytree(scratch, copy)
            try:
                if state == "after compact":
                    subprocess.run(
                        [sys.executable, "-c", f"from orchestrator.store import open_store\n"
                         f"print(open_store({str(copy / 'store')!r}).compact())"],
                        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, stdout=subprocess.DEVNULL,
                    )  # fmt: skip
                seen = measured("resume", args.finished, copy)
            finally:
                shutil.rmtree(copy)
            print(
                f"resume of {args.finished} finished trials {state}: {seen['to_first_trial_s']:.1f} s from the "
                f"start of the process to the first pending trial (target: under 10), driver {seen['rss_mb']:.0f} MB"
            )
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"load average after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
