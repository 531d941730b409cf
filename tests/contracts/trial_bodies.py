"""Stand-ins for ``run_trial``: functions of (config, context) that workers import by name, without torch.

They know a trial only by its configuration; what else they need lies in the folder ``context.data_root``.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from orchestrator.store import Store
from search_spaces.errors import NonFiniteError
from search_spaces.trial import TrialConfig
from trainables.context import TrialContext


@dataclass(frozen=True)
class Result:
    rows: list[dict[str, Any]]
    selected_epoch: int
    data_fingerprint: str
    parameters: int = 7
    trainable_parameters: int = 5


def steady(config: TrialConfig, context: TrialContext) -> Result:
    """Succeeds at once, with numbers that follow from the seed."""
    rows = []
    for epoch in range(1, config.epochs + 1):
        row = {
            "epoch": epoch,
            "update": epoch * config.updates_per_epoch,
            "train_loss": 1.0 / (epoch + config.seed % 7 + 1),
            "train_auc": 0.5 + epoch / 101.0,
            "val_auc": 0.5 + (config.seed % 100) / 1000.0 + epoch / 103.0,
            "test_auc": 0.5 + epoch / 107.0,
            "learning_rate_now": 0.05 / epoch,
            "seconds": 0.1,
            "gpu_seconds": 0.0,
            "peak_memory_bytes": 2**20,
            "device": "cpu",
        }
        rows.append(row)
        if context.on_epoch is not None:
            context.on_epoch(row)
    return Result(rows, config.epochs, f"fingerprint of {config.task}")


def timed(config: TrialConfig, context: TrialContext) -> Result:
    """Takes 0.4 s and leaves a file with when it ran and in which process."""
    start = time.time()
    time.sleep(0.4)
    text = f"{config.seed} {os.getpid()} {start} {time.time()}"
    (context.data_root / f"span-{uuid.uuid4().hex}").write_text(text)
    return steady(config, context)


def counted(config: TrialConfig, context: TrialContext) -> Result:
    """Leaves a file for every time a trial is trained."""
    (context.data_root / f"{config.trial_id}-{uuid.uuid4().hex}.trained").touch()
    return steady(config, context)


def interrupted(config: TrialConfig, context: TrialContext) -> Result:
    """The third trial to be trained gets this process a SIGTERM in its second epoch."""
    (context.data_root / f"{config.trial_id}.trained").touch()
    if len(list(context.data_root.glob("*.trained"))) != 3:
        return steady(config, context)

    def after_epoch(row: dict[str, Any]) -> None:
        if row["epoch"] == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        assert context.on_epoch is not None
        context.on_epoch(row)

    return steady(config, TrialContext(data_root=context.data_root, on_epoch=after_epoch))


def other_data(config: TrialConfig, context: TrialContext) -> Result:
    """Trained on data that change from seed to seed, which they must not."""
    result = steady(config, context)
    return Result(result.rows, result.selected_epoch, f"fingerprint {config.seed}")


def slow(config: TrialConfig, context: TrialContext) -> Result:
    """Takes five minutes in steps of a twentieth of a second, each the end of an epoch; leaves a file at the start."""
    (context.data_root / f"began-{config.seed}").touch()
    result = steady(config, TrialContext(data_root=context.data_root))
    for _ in range(6000):
        time.sleep(0.05)
        if context.on_epoch is not None:
            context.on_epoch(result.rows[0])
    return result


def noisy(config: TrialConfig, context: TrialContext) -> Result:
    """Prints on both streams and logs, then succeeds."""
    print("said on stdout")
    print("said on stderr", file=sys.stderr)
    logging.getLogger("a.library").warning("said in a log record")
    return steady(config, context)


def by_loss(config: TrialConfig, context: TrialContext) -> Result:
    """Hinge raises, square meets a NaN, logistic loses its worker, exponential runs out of memory; others succeed.

    A file ``cured`` in the data root makes all of them succeed.
    """
    if not (context.data_root / "cured").exists():
        if config.loss == "hinge":
            raise RuntimeError("a fault of the trial")
        if config.loss == "square":
            raise NonFiniteError("the square loss is nan at update 3 of 12")
        if config.loss == "logistic":
            os.kill(os.getpid(), signal.SIGKILL)
        if config.loss == "exponential":
            raise MemoryError("no memory left")
    return steady(config, context)


def lost_once(config: TrialConfig, context: TrialContext) -> Result:
    """Loses the worker of the trial with the smallest seed, the first time."""
    flag = context.data_root / f"lost-{config.trial_id}"
    if config.seed == 1 and not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return steady(config, context)


def environment(config: TrialConfig, context: TrialContext) -> Result:
    """Leaves the worker's environment in a file."""
    (context.data_root / "environment").write_text("\n".join(f"{key}={value}" for key, value in os.environ.items()))
    return steady(config, context)


def on_gpu(config: TrialConfig, context: TrialContext) -> Result:
    """Leaves a file with the GPUs its worker sees, and waits for four workers to be there."""
    text = f"{os.environ.get('CUDA_VISIBLE_DEVICES')} {os.getpid()}"
    (context.data_root / f"gpu-{config.seed}").write_text(text)
    while len({path.read_text() for path in context.data_root.glob("gpu-*")}) < 4:
        time.sleep(0.05)
    return steady(config, context)


def dies_when_stored(config: TrialConfig, context: TrialContext) -> Result:
    """The worker dies when its result, or its failure if the loss is square, has been written, before it reports."""
    for name in ("write_run", "write_failure"):
        setattr(Store, name, _then_die(getattr(Store, name)))
    if config.loss == "square":
        raise RuntimeError("recorded")
    return steady(config, context)


def _then_die(write: Callable[..., Any]) -> Callable[..., None]:
    def write_and_die(*args: Any, **named: Any) -> None:
        write(*args, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    return write_and_die


def paced(config: TrialConfig, context: TrialContext) -> Any:
    """The real training, half a second slower, so that a test can interrupt a sweep of short trials."""
    from trainables.run import run_trial

    time.sleep(0.5)
    return run_trial(config, context)
