"""``launch``: run what the store lacks of a space."""

from __future__ import annotations

import typer

from aucsweep.cli.options import (
    DEFAULT_DATA_ROOT,
    AddressOption,
    ChannelsLast,
    Compiled,
    CpusPerTrial,
    DataRoot,
    FailFast,
    GpusPerTrial,
    MaxConcurrent,
    Overrides,
    Retries,
    RunnerOption,
    SaveScores,
    SpaceArgument,
    StoreOption,
    TimeBudget,
    TrialTimeoutOption,
    seconds,
)


def launch(
    space: SpaceArgument,
    store: StoreOption,
    override: Overrides = [],  # noqa: B006 (typer reads the default)
    data_root: DataRoot = DEFAULT_DATA_ROOT,
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
    """Run every trial of SPACE that the store lacks; what is there already is never run again."""
    from orchestrator import launching
    from search_spaces.space import load_space

    result = launching.launch(
        load_space(space, override),
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
