"""What a plan will cost, before or after something of it has run.

Seconds per trial come from this store's own finished trials of the same task and model (median seconds per update,
evaluation included). For a task and model that never ran here there is only arithmetic on the model card, which is an
assumption about a GPU and no measurement; ``Estimate.source`` always says which of the two it is.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from orchestrator.runs import Scan
from search_spaces.cards import TaskCard
from search_spaces.models import MODELS
from search_spaces.tasks import task_card
from search_spaces.trial import TrialConfig

ASSUMED_GPU = "RTX 3090"
ASSUMED_FLOPS = {"float32": 10e12, "bfloat16": 25e12, "bfloat16-autocast": 25e12}
"""Assumed sustained FLOP/s: about 0.3 of the card's 35.6 (float32) and 71 (bfloat16 tensor) TFLOP/s peaks."""

ASSUMED_UPDATE_SECONDS = 0.005
ASSUMED_EVALUATION_SECONDS = 0.1
ASSUMED_TRIAL_SECONDS = 1.0
"""Assumed time that an update, an epoch's evaluation and a trial's start in a running worker take for any model."""

_BACKWARD = 3.0
"""A training update costs about three forward passes."""

_RUN_BYTES = 6500
_EPOCH_BYTES = 120
_LOG_BYTES = 2000
"""Measured: a one-trial file of ``runs`` is about 6.5 KB plus 120 bytes an epoch."""


@dataclass(frozen=True)
class Estimate:
    """``trial_seconds`` per trial id, their sum in hours of one device, and where the figures come from."""

    trial_seconds: Mapping[str, float]
    source: str

    @property
    def gpu_hours(self) -> float:
        """Hours if one device ran all trials after another."""
        return sum(self.trial_seconds.values()) / 3600.0

    def wall_hours(self, gpus: int) -> float:
        """Hours on ``gpus`` devices, one trial each, never less than the longest trial."""
        longest = max(self.trial_seconds.values(), default=0.0) / 3600.0
        return max(self.gpu_hours / gpus, longest)


def estimate(trials: Iterable[TrialConfig], scan: Scan | None, cards: Mapping[str, TaskCard]) -> Estimate:
    """Seconds of each trial; ``cards`` are a space's own task cards by name."""
    measured = _measured(scan) if scan is not None else {}
    seconds: dict[str, float] = {}
    sources: Counter[str] = Counter()
    prior: dict[tuple[object, ...], float] = {}
    for trial in trials:
        pair = (trial.task, trial.model)
        if pair in measured:
            seconds[trial.trial_id] = measured[pair] * trial.total_updates
            sources["measured"] += 1
            continue
        key = (*pair, trial.epochs, trial.updates_per_epoch, trial.batch_size, trial.precision)
        if key not in prior:
            prior[key] = prior_seconds(trial, task_card(trial.task, cards))
        seconds[trial.trial_id] = prior[key]
        sources["assumed"] += 1
    return Estimate(seconds, _describe(sources))


def prior_seconds(trial: TrialConfig, card: TaskCard) -> float:
    """A trial's seconds from the model card's FLOPs alone, on the assumed GPU.

    Every update is three forward passes of its batch; every epoch ends with one forward pass of all splits.
    """
    speed = ASSUMED_FLOPS.get(trial.precision, ASSUMED_FLOPS["float32"])
    forward = MODELS[trial.model].flops / speed
    examples = sum(sum(counts) for counts in card.counts.values())
    update = _BACKWARD * forward * trial.batch_size + ASSUMED_UPDATE_SECONDS
    evaluation = forward * examples + ASSUMED_EVALUATION_SECONDS
    return ASSUMED_TRIAL_SECONDS + trial.total_updates * update + trial.epochs * evaluation


def disk_bytes(trials: Iterable[TrialConfig]) -> int:
    """Bytes the trials will take in a store before ``compact``: rows and logs."""
    return sum(_RUN_BYTES + _LOG_BYTES + _EPOCH_BYTES * trial.epochs for trial in trials)


def _measured(scan: Scan) -> dict[tuple[str, str], float]:
    """Median seconds per update by (task, model)."""
    rates: dict[tuple[str, str], list[float]] = defaultdict(list)
    for record in scan.records.values():
        summary = record.summary
        if summary["seconds"] is not None and summary["updates"] > 0:
            rates[summary["task"], summary["model"]].append(summary["seconds"] / summary["updates"])
    return {pair: statistics.median(values) for pair, values in rates.items()}


def _describe(sources: Mapping[str, int]) -> str:
    assumed = (
        f"model FLOPs on an assumed {ASSUMED_GPU} sustaining {ASSUMED_FLOPS['float32'] / 1e12:g} TFLOP/s in float32 "
        f"and {ASSUMED_FLOPS['bfloat16'] / 1e12:g} in bfloat16 (no measurement)"
    )
    measured = "median seconds per update of this store's finished trials of the same task and model"
    if not sources:
        return "nothing left to run"
    if not sources["assumed"]:
        return measured
    if not sources["measured"]:
        return assumed
    return f"{sources['measured']} trials: {measured}; {sources['assumed']} trials: {assumed}"
