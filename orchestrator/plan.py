"""The plan: what a space wants, minus what the store has."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from orchestrator import cost
from search_spaces.errors import UsageError
from search_spaces.expand import Expansion, expand
from search_spaces.trial import TrialConfig

if TYPE_CHECKING:
    from orchestrator.store import BrokenFile, Store
    from search_spaces.space import Space


@dataclass(frozen=True)
class Plan:
    """A space against a store. Each wanted trial is in exactly one of ``done``, ``failed`` and ``pending``.

    ``failed`` maps a trial to the kind of its last failure; those wait for ``retry``. A trial whose worker was lost
    is pending again: nothing is known against it. ``pending`` is in launch order. ``gpu_hours`` and ``wall_hours``
    (on ``gpus`` devices) are for the pending trials; ``estimate_source`` says what they rest on. ``best_val_auc`` has
    the done trials whose files say it in their index.
    """

    expansion: Expansion
    done: frozenset[str]
    failed: dict[str, str]
    pending: tuple[TrialConfig, ...]
    broken: tuple[BrokenFile, ...]
    gpus: int
    gpu_hours: float
    wall_hours: float
    disk_bytes: int
    estimate_source: str
    best_val_auc: dict[str, float]

    @cached_property
    def failures(self) -> dict[str, int]:
        """Number of failed trials by kind."""
        kinds = sorted(self.failed.values())
        return {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}

    def to_json(self) -> dict[str, Any]:
        """The plan's counts, ready for ``json.dumps``."""
        return {
            "product": self.expansion.product,
            "cells": len(self.expansion.cells),
            "trials": len(self.expansion.trials),
            "done": len(self.done),
            "failed": len(self.failed),
            "pending": len(self.pending),
            "updates": {
                "product": self.expansion.updates_product,
                "trials": self.expansion.updates_trials,
                "with_shared_prefixes": self.expansion.updates_with_shared_prefixes,
            },
            "gpu_hours": round(self.gpu_hours, 4),
            "wall_hours": round(self.wall_hours, 4),
            "disk_bytes": self.disk_bytes,
            "estimate_source": self.estimate_source,
        }


def make_plan(space: Space, store: Store | None = None, *, gpus: int = 1) -> Plan:
    """What running ``space`` on ``store`` would do. Trains nothing, writes nothing, needs no data."""
    if gpus < 1:
        raise UsageError(f"gpus must be at least 1, got {gpus}")
    expansion = expand(space)
    scan = store.scan() if store is not None else None
    latest = store.latest_failures() if store is not None else {}
    done = frozenset(expansion.trials) & scan.done if scan is not None else frozenset[str]()
    failed = {
        trial_id: latest[trial_id].kind
        for trial_id in expansion.trials
        if trial_id in latest and trial_id not in done and latest[trial_id].kind != "lost"
    }
    pending = tuple(trial for key, trial in expansion.trials.items() if key not in done and key not in failed)
    estimate = cost.estimate(pending, scan, space.cards)
    records = {trial_id: scan.records[trial_id].summary for trial_id in done} if scan is not None else {}
    return Plan(
        expansion=expansion,
        done=done,
        failed=failed,
        pending=pending,
        broken=scan.broken if scan is not None else (),
        gpus=gpus,
        gpu_hours=estimate.gpu_hours,
        wall_hours=estimate.wall_hours(gpus),
        disk_bytes=cost.disk_bytes(pending),
        estimate_source=estimate.source,
        best_val_auc={key: found["best_val_auc"] for key, found in records.items() if "best_val_auc" in found},
    )
