"""What a runner is given, what it says while it works, and the interface every runner keeps.

A runner runs jobs; it knows nothing of spaces and plans. The promises behind the interface are written as tests in
``tests/contracts/runner_suite.py`` and hold for each runner alike.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from orchestrator.resources import Slots
from search_spaces.trial import TrialConfig

TRAINING = "trainables.run:run_trial"
"""The function that trains a trial, as ``module:name``; benchmarks and tests put another in its place."""


class Halt(enum.Enum):
    """What a runner is told to do about the rest: go on, start nothing more, or leave everything at once."""

    NO = "no"
    DRAIN = "drain"
    NOW = "now"


@dataclass(frozen=True)
class Job:
    """One attempt at one trial, ready to be sent to a worker.

    ``timeout`` is in seconds. ``cards`` and ``fingerprints`` are those of ``TrialContext``; ``body`` is the function
    that trains, as ``module:name``, called with (config, context). ``save_scores`` keeps the validation and test scores
    of the selected epoch in the store. ``loaders`` processes make batches ahead; the numbers do not depend on them.
    ``loss_files`` are the space's (``search_spaces.own_loss``).
    """

    config: TrialConfig
    store_uri: str
    data_root: Path
    device: str = "cpu"
    threads: int = 1
    loaders: int = 0
    eval_batch_size: int = 256
    timeout: float | None = None
    attempt: int = 1
    cards: Mapping[str, Any] = field(default_factory=dict)
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    body: str = TRAINING
    save_scores: bool = False
    channels_last: bool = False
    compiled: bool = False
    loss_files: Mapping[str, str] = field(default_factory=dict)

    @property
    def trial_id(self) -> str:
        """The trial's id."""
        return self.config.trial_id


@dataclass(frozen=True)
class Started:
    """A trial has begun to run."""

    trial_id: str


@dataclass(frozen=True)
class Outcome:
    """How a job ended: ``done``, ``failed`` (recorded in the store by the worker) or ``lost`` (its worker is gone).

    ``kind`` is one of ``FAILURE_KINDS``, None when done. ``best_val_auc`` is a fraction. ``where`` is host and process.
    ``unusable`` says that the worker's process can run no other trial (its CUDA context is broken).
    """

    trial_id: str
    status: str
    kind: str | None = None
    message: str = ""
    attempt: int = 1
    seconds: float = 0.0
    loss: str = ""
    best_val_auc: float | None = None
    where: str = ""
    unusable: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, small enough to be a Tune result."""
        return asdict(self)


Event = Started | Outcome
OnEvent = Callable[[Event], None]
ShouldStop = Callable[[], Halt]
Value = TypeVar("Value")


class Runner(Protocol):
    """Runs jobs somewhere. A context manager: entering claims the machines, leaving gives them back.

    Entering raises ``UsageError`` when the machines cannot run what was asked for.
    """

    name: str
    remote: bool
    """Whether trials may run on other machines than this one."""

    @property
    def slots(self) -> Slots:
        """What one trial gets and how many run at once; known after entering."""
        ...

    def on_every_node(self, probe: Callable[[], Value]) -> dict[str, Value]:
        """Call ``probe`` once on each machine and return what it gave, by the machine's name."""
        ...

    def run(self, jobs: Iterable[Job], *, on_event: OnEvent, should_stop: ShouldStop) -> None:
        """Run every job once, started in order as far as free slots allow, and return when none is running.

        ``on_event`` gets ``Started`` and later exactly one ``Outcome`` of each job that ran to an end, in this thread;
        what it raises ends the run and is passed on. ``should_stop`` is asked often: after ``DRAIN`` no job starts and
        running ones finish; after ``NOW`` running ones are left without an outcome. Nothing a trial raises gets here.
        """
        ...

    def __enter__(self) -> Self:
        """Claim the machines."""
        ...

    def __exit__(self, *error: object) -> None:
        """Give the machines back."""
        ...
