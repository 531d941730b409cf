"""The options that ``launch``, ``resume`` and ``retry`` have in common, listed once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from aucsweep.cli.options import seconds


def run_options(
    address: Annotated[
        str | None,
        typer.Option("--address", help="A Ray cluster to run on (host:port or auto); default: this machine."),
    ] = None,
    gpus_per_trial: Annotated[
        float | None, typer.Option(help="GPUs per trial, may be a fraction; default 1 if any.")
    ] = None,
    cpus_per_trial: Annotated[float, typer.Option(help="CPU cores per trial.")] = 1,
    max_concurrent: Annotated[int | None, typer.Option(help="At most this many trials at once.")] = None,
    time_budget: Annotated[
        str | None, typer.Option(metavar="T", help="Start no trial after this long: seconds, or 90m, 12h, 2d.")
    ] = None,
    trial_timeout: Annotated[
        str | None, typer.Option("--trial-timeout", metavar="T", help="Fail slower trials.")
    ] = None,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Stop at the first failed trial.")] = False,
    retries: Annotated[int, typer.Option(min=0, help="Run a trial again this often when its worker is lost.")] = 0,
    save_scores: Annotated[
        bool | None,
        typer.Option(
            "--save-scores/--no-save-scores", help="Keep each trial's validation and test scores in the store."
        ),
    ] = None,
    channels_last: Annotated[
        bool | None,
        typer.Option(
            "--channels-last/--no-channels-last", help="Compute images in the channels-last layout, for speed."
        ),
    ] = None,
    compiled: Annotated[
        bool | None, typer.Option("--compile/--no-compile", help="Compute through torch.compile, for speed.")
    ] = None,
    runner: Annotated[
        str, typer.Option("--runner", help="ray, or local: in this process, one trial at a time.")
    ] = "ray",
) -> dict[str, Any]:
    """The options as ``orchestrator.launching`` takes them: durations in seconds."""
    return {
        "address": address,
        "gpus_per_trial": gpus_per_trial,
        "cpus_per_trial": cpus_per_trial,
        "max_concurrent": max_concurrent,
        "time_budget": seconds(time_budget, "--time-budget"),
        "trial_timeout": seconds(trial_timeout, "--trial-timeout"),
        "fail_fast": fail_fast,
        "retries": retries,
        "save_scores": save_scores,
        "channels_last": channels_last,
        "compiled": compiled,
        "runner": runner,
    }


def with_run_options(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` with the parameters of ``run_options`` where it has ``**options``, which gets what that returns.

    Typer reads a command's options from its signature, so it is given one that has them all.
    """
    shared = inspect.signature(run_options, eval_str=True).parameters
    own = inspect.signature(command, eval_str=True)
    named = [parameter for name, parameter in own.parameters.items() if name != "options"]

    @functools.wraps(command)
    def call(**given: Any) -> None:
        options = run_options(**{name: given.pop(name) for name in shared})
        command(**given, **options)

    call.__dict__["__signature__"] = own.replace(parameters=[*named, *shared.values()])
    return call
