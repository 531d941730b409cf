"""The options of launch, resume and retry: names, defaults, what is allowed, and the runner they ask for."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TypedDict

from orchestrator.resources import check_request
from orchestrator.running import TRAINING, Runner
from search_spaces.errors import UsageError, nearest

RUNNERS = ("ray", "local")


class Options(TypedDict, total=False):
    """How to run, for ``launch``, ``resume`` and ``retry``; none of it changes what a trial is.

    data_root: where prepared data and weights lie; ``resume`` and ``retry`` default to that of the last launch.
    runner: ``ray`` (default), ``local`` (in this process, one trial at a time), or a ``Runner`` of your own.
    address: a Ray cluster to run on, ``host:port`` or ``auto``; default: a Ray of its own on this machine.
    gpus_per_trial: may be a fraction; default 1 where there is a GPU, else 0.  cpus_per_trial: default 1.
    max_concurrent: at most this many trials at once.
    time_budget: start no trial after so many seconds; running ones finish.
    trial_timeout: fail a trial (kind ``timeout``) after so many seconds.
    fail_fast: leave everything at the first failed trial.
    retries: run a trial again up to so many times within this launch when its worker is lost.
    save_scores: keep every trial's validation and test scores in the store; ``resume`` and ``retry`` default to what
        the last launch did, ``launch`` to False. Trials that are done already are not run again for it.
    channels_last, compiled: compute images in the channels-last memory layout, and through ``torch.compile``. Both are
        for speed, change results by rounding only and are recorded; ``resume`` and ``retry`` default to what the last
        launch did, ``launch`` to False.
    progress: show progress on stderr, default True.
    body: the function that trains a trial, ``module:name``, for benchmarks and tests; data are then not checked.
    """

    data_root: Path | str | None
    runner: str | Runner
    address: str | None
    gpus_per_trial: float | None
    cpus_per_trial: float
    max_concurrent: int | None
    time_budget: float | None
    trial_timeout: float | None
    fail_fast: bool
    retries: int
    save_scores: bool | None
    channels_last: bool | None
    compiled: bool | None
    progress: bool
    body: str


DEFAULTS: Options = {
    "data_root": None,
    "runner": "ray",
    "address": None,
    "gpus_per_trial": None,
    "cpus_per_trial": 1,
    "max_concurrent": None,
    "time_budget": None,
    "trial_timeout": None,
    "fail_fast": False,
    "retries": 0,
    "save_scores": None,
    "channels_last": None,
    "compiled": None,
    "progress": True,
    "body": TRAINING,
}


def complete(options: Options) -> Options:
    """``options`` with the defaults; raises ``UsageError`` for what no launch could do."""
    for name in options:
        if name not in DEFAULTS:
            raise TypeError(f"unknown option {name!r}: {nearest(name, DEFAULTS)}")
    settings: Options = {**DEFAULTS, **options}
    check_request(settings["gpus_per_trial"], settings["cpus_per_trial"], settings["max_concurrent"])
    for name, seconds in (("time_budget", settings["time_budget"]), ("trial_timeout", settings["trial_timeout"])):
        if seconds is not None and not (math.isfinite(seconds) and seconds > 0):
            raise UsageError(f"{name} must be a positive number of seconds, got {seconds}")
    if settings["retries"] < 0:
        raise UsageError(f"retries must be 0 or more, got {settings['retries']}")
    chosen = settings["runner"]
    if isinstance(chosen, str) and chosen not in RUNNERS:
        raise UsageError(f"unknown runner {chosen!r}: {nearest(chosen, RUNNERS)}")
    if chosen == "local" and settings["address"] is not None:
        raise UsageError("the local runner runs in this process: give no address, or the ray runner")
    return settings


def make_runner(settings: Options) -> Runner:
    """The runner the options name, not yet entered."""
    chosen = settings["runner"]
    if not isinstance(chosen, str):
        return chosen
    gpus, cpus, most = settings["gpus_per_trial"], settings["cpus_per_trial"], settings["max_concurrent"]
    if chosen == "local":
        from orchestrator.local import LocalRunner

        return LocalRunner(gpus_per_trial=gpus, cpus_per_trial=cpus)
    from orchestrator.runner import RayRunner

    return RayRunner(address=settings["address"], gpus_per_trial=gpus, cpus_per_trial=cpus, max_concurrent=most)


def data_root(settings: Options) -> Path:
    """The data root as an absolute path, which means the same to a worker."""
    root = settings["data_root"]
    assert root is not None
    return Path(root).expanduser().absolute()
