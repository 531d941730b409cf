"""What 20,000 trials cost to scan and to read, as single files and compacted, against plain pandas.

    python benchmarks/store.py [--trials 20000] [--folder /tmp/somewhere]

Prints seconds (they depend on the machine and its load) and ratios (which depend on it less).
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from orchestrator.compact import compact_store
from orchestrator.listing import Memory
from orchestrator.plan import make_plan
from orchestrator.status import store_status
from orchestrator.store import Store, open_store
from orchestrator.verify import verify_store
from search_spaces.expand import expand
from search_spaces.space import load_space


def fill(store: Store, trials: int) -> float:
    """Write the first ``trials`` trials of the paper; returns seconds per trial."""
    expansion = expand(load_space("paper"))
    store.add_cells(expansion.cells)
    start = time.perf_counter()
    for config in list(expansion.trials.values())[:trials]:
        rows = [
            {
                "epoch": epoch,
                "update": epoch * config.updates_per_epoch,
                "train_loss": 1.0 / (epoch + config.seed % 5),
                "train_auc": 0.5 + epoch / 50,
                "val_auc": 0.5 + epoch / 51,
                "test_auc": 0.5 + epoch / 53,
                "learning_rate_now": config.learning_rate / epoch,
                "seconds": 1.0 + epoch / 7,
                "gpu_seconds": 0.9,
                "peak_memory_bytes": 10**9 + epoch,
                "device": "cuda:0",
            }
            for epoch in range(1, config.epochs + 1)
        ]
        store.write_run(config, rows, {"selected_epoch": config.epochs})
    return (time.perf_counter() - start) / trials


def timed(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def measure(store: Store) -> dict[str, float]:
    space = load_space("paper")
    memory: Memory = {}
    return {
        "scan (every digest)": timed(store.scan),
        "plan paper --store": timed(lambda: make_plan(space, store)),
        "status": timed(lambda: store_status(store)),
        "status --watch, first": timed(lambda: store_status(store, memory=memory)),
        "status --watch, second": timed(lambda: store_status(store, memory=memory)),
        "read_runs": timed(store.read_runs),
        "verify": timed(lambda: verify_store(store)),
        "pandas.read_parquet": timed(lambda: pd.read_parquet(Path(store.uri) / "runs")),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20000)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        store = open_store(Path(folder) / "store", create=True)
        print(f"write_run: {1000 * fill(store, arguments.trials):.1f} ms a trial")
        size = sum(path.stat().st_size for path in (Path(folder) / "store" / "runs").iterdir())
        single = measure(store)
        start = time.perf_counter()
        result = compact_store(store)
        seconds = time.perf_counter() - start
        compacted_size = sum(path.stat().st_size for path in (Path(folder) / "store" / "runs").iterdir())
        compacted = measure(store)
        print(f"compact: {seconds:.1f} s, {dataclasses.asdict(result)}")
        print(f"bytes: {size:,} -> {compacted_size:,} ({size / compacted_size:.1f} times smaller)")
        print(f"{'':24}{'single files':>14}{'compacted':>12}{'ratio':>8}")
        for name, value in single.items():
            print(f"{name:24}{value:12.2f} s{compacted[name]:10.2f} s{value / compacted[name]:8.1f}")
        ratios = [times["status --watch, first"] / times["status --watch, second"] for times in (single, compacted)]
        print(f"{'first / second tick':24}{ratios[0]:14.1f}{ratios[1]:12.1f}")


if __name__ == "__main__":
    main()
