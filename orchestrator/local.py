"""LocalRunner: the jobs one after the other in this process. For tests, debugging and machines without Ray."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable
from typing import Self

from orchestrator.execution import execute
from orchestrator.resources import Node, Slots, fit
from orchestrator.running import Halt, Job, OnEvent, ShouldStop, Started, Value
from orchestrator.store import Store, open_store
from trainables.context import EpochRow


class LocalRunner:
    """Runs one job at a time. After ``Halt.NOW`` the running trial is left when its epoch ends."""

    name = "local"
    remote = False

    def __init__(self, *, gpus_per_trial: float | None = None, cpus_per_trial: float = 1):
        self._request = (gpus_per_trial, cpus_per_trial)
        self._slots: Slots | None = None

    @property
    def slots(self) -> Slots:
        """One slot, on a GPU if this process sees one and none was ruled out."""
        if self._slots is None:
            raise RuntimeError("the runner has not been entered")
        return self._slots

    def __enter__(self) -> Self:
        gpus, cpus = self._request
        here = Node(socket.gethostname(), os.cpu_count() or 1, 0 if gpus == 0 else _visible_gpus())
        self._slots = fit([here], gpus_per_trial=gpus, cpus_per_trial=cpus, max_concurrent=1)
        return self

    def __exit__(self, *error: object) -> None:
        self._slots = None

    def on_every_node(self, probe: Callable[[], Value]) -> dict[str, Value]:
        """Call ``probe`` here."""
        return {socket.gethostname(): probe()}

    def run(self, jobs: Iterable[Job], *, on_event: OnEvent, should_stop: ShouldStop) -> None:
        """Run the jobs in order; see ``Runner.run``."""
        stores: dict[str, Store] = {}

        def leave_if_told(row: EpochRow) -> None:
            if should_stop() is Halt.NOW:
                raise _Left

        for job in jobs:
            if should_stop() is not Halt.NO:
                return
            if job.store_uri not in stores:
                stores[job.store_uri] = open_store(job.store_uri)
            on_event(Started(job.trial_id))
            try:
                outcome = execute(job, stores[job.store_uri], leave_if_told)
            except _Left:
                return
            on_event(outcome)


class _Left(BaseException):
    """Leaves a running trial; no ``Exception``, so that nothing on the way takes it for the trial's failure."""


def _visible_gpus() -> int:
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0
