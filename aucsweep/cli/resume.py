"""``resume``: go on with the space a store was launched with last."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aucsweep.cli.options import (
    AddressOption,
    ChannelsLast,
    Compiled,
    CpusPerTrial,
    FailFast,
    GpusPerTrial,
    MaxConcurrent,
    Retries,
    RunnerOption,
    SaveScores,
    StoreOption,
    TimeBudget,
    TrialTimeoutOption,
    seconds,
)

SavedDataRoot = Annotated[
    Path | None,
    typer.Option("--data-root", envvar="AUCSWEEP_DATA", help="Where prepared data live; default: as at the launch."),
]


def resume(
    store: StoreOption,
    data_root: SavedDataRoot = None,
    address: AddressOption = None,
    gpus_per_trial: GpusPerTrial = None,
    cpus_per_trial: CpusPerTrial = 1,
    max_concurrent: MaxConcurrent = None,
    time_budget: TimeBudget = None,
    trial_timeout: TrialTimeoutOption = None,
    fail_fast: FailFast = False,
    retries: Retries = 0,
    save_scores: SaveScores = None,
    channels_last: ChannelsLast = None,
    compiled: Compiled = None,
    runner: RunnerOption = "ray",
) -> None:
    """Run what the store still lacks of the space it was launched with last."""
    from orchestrator import launching

    result = launching.resume(
        store,
        data_root=data_root,
        runner=runner,
        address=address,
        gpus_per_trial=gpus_per_trial,
        cpus_per_trial=cpus_per_trial,
        max_concurrent=max_concurrent,
        time_budget=seconds(time_budget, "--time-budget"),
        trial_timeout=seconds(trial_timeout, "--trial-timeout"),
        fail_fast=fail_fast,
        retries=retries,
        save_scores=save_scores,
        channels_last=channels_last,
        compiled=compiled,
    )
    raise typer.Exit(result.exit_code)
