"""How many trials fit on the machines at hand: plain arithmetic on CPU and GPU counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from search_spaces.errors import UsageError


@dataclass(frozen=True)
class Node:
    """A machine of the cluster and what of it trials may use."""

    name: str
    cpus: float
    gpus: float


@dataclass(frozen=True)
class Slots:
    """What one trial gets, and how many trials run at once."""

    gpus_per_trial: float
    cpus_per_trial: float
    concurrent: int

    @property
    def device(self) -> str:
        """Where a trial's tensors live: ``cuda`` (the worker sees only its own share) or ``cpu``."""
        return "cuda" if self.gpus_per_trial > 0 else "cpu"

    @property
    def threads(self) -> int:
        """CPU threads of one trial: its whole cores, at least one."""
        return max(1, int(self.cpus_per_trial))

    @property
    def loaders(self) -> int:
        """Processes that decode and augment images ahead of a trial on a GPU: its cores but one; none on a CPU."""
        return max(0, int(self.cpus_per_trial) - 1) if self.gpus_per_trial > 0 else 0

    def describe(self) -> str:
        """In words, such as ``4 trials at once, each on 1 GPU and 1 CPU core``."""
        cores = f"{self.cpus_per_trial:g} CPU core{'s' if self.cpus_per_trial > 1 else ''}"
        gpus = (
            f"{self.gpus_per_trial:g} GPU{'s' if self.gpus_per_trial > 1 else ''} and " if self.gpus_per_trial else ""
        )
        count = "1 trial" if self.concurrent == 1 else f"{self.concurrent} trials"
        return f"{count} at once{', each' if self.concurrent > 1 else ''} on {gpus}{cores}"


def check_request(gpus_per_trial: float | None, cpus_per_trial: float, max_concurrent: int | None) -> None:
    """Raise ``UsageError`` for amounts that no machine could give."""
    if gpus_per_trial is not None:
        if not math.isfinite(gpus_per_trial) or gpus_per_trial < 0:
            raise UsageError(f"gpus per trial must be 0 or more, got {gpus_per_trial}")
        if gpus_per_trial > 1 and gpus_per_trial != int(gpus_per_trial):
            raise UsageError(f"gpus per trial above 1 must be a whole number, got {gpus_per_trial}")
    if not math.isfinite(cpus_per_trial) or cpus_per_trial <= 0:
        raise UsageError(f"cpus per trial must be more than 0, got {cpus_per_trial}")
    if max_concurrent is not None and max_concurrent < 1:
        raise UsageError(f"max concurrent must be at least 1, got {max_concurrent}")


def fit(
    nodes: Sequence[Node], *, gpus_per_trial: float | None, cpus_per_trial: float, max_concurrent: int | None = None
) -> Slots:
    """The slots that ``nodes`` offer. ``gpus_per_trial`` None means 1 where any node has a GPU, else 0.

    Raises ``UsageError`` when not one trial fits on any node.
    """
    check_request(gpus_per_trial, cpus_per_trial, max_concurrent)
    gpus = gpus_per_trial if gpus_per_trial is not None else float(any(node.gpus >= 1 for node in nodes))
    room = sum(_room(node, gpus, cpus_per_trial) for node in nodes)
    if room == 0:
        offered = (
            "; ".join(f"{node.name}: {node.cpus:g} CPU cores, {node.gpus:g} GPUs" for node in nodes) or "no machine"
        )
        raise UsageError(
            f"no machine can run a trial that asks for {cpus_per_trial:g} CPU cores and {gpus:g} GPUs ({offered})"
        )
    return Slots(gpus, cpus_per_trial, room if max_concurrent is None else min(room, max_concurrent))


def _room(node: Node, gpus: float, cpus: float) -> int:
    """Trials that fit on ``node`` at once. A share of a GPU lies on one GPU, so shares do not add up across GPUs."""
    by_cpu = math.floor(node.cpus / cpus + 1e-9)
    if gpus == 0:
        return by_cpu
    whole = math.floor(node.gpus + 1e-9)
    by_gpu = whole // int(gpus) if gpus >= 1 else whole * math.floor(1 / gpus + 1e-9)
    return min(by_cpu, by_gpu)
