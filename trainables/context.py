"""What a trial is given besides its configuration: nothing that changes its numbers by more than rounding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

EpochRow = dict[str, Any]
"""One row of ``runs`` without the columns the orchestrator adds (see ``orchestrator.schema``)."""


@dataclass(frozen=True)
class TrialContext:
    """Where and how a trial runs.

    ``cards`` holds task cards that are not built in (a user's own tasks), by name. ``fingerprints`` maps a task to the
    data fingerprint recorded in the store: a trial that meets other data is refused (``DataError``).
    ``channels_last`` stores images and convolutions channel by channel within a pixel, and ``compiled`` runs the model
    through ``torch.compile``: both change the order of additions, hence the last digits, and are recorded per launch.
    ``deadline`` is a ``time.monotonic()`` value after which the trial raises ``TrialTimeout``.
    ``on_epoch`` is called with each row as soon as its epoch is evaluated.
    """

    data_root: Path
    device: str = "cpu"
    threads: int = 1
    eval_batch_size: int = 256
    workers: int = 0
    channels_last: bool = False
    compiled: bool = False
    cards: dict[str, Any] = field(default_factory=dict)
    fingerprints: dict[str, str] = field(default_factory=dict)
    deadline: float | None = None
    on_epoch: Callable[[EpochRow], None] | None = None
