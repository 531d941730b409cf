"""The command line. Each command lives in its own module and imports what it runs only when it is called, so that

``aucsweep --help`` and ``aucsweep plan`` load neither torch nor Ray.

Exit codes: 0 all wanted work is done; 1 some trials failed; 2 the call is wrong, nothing was started; 3 stopped early
and resumable.
"""

from __future__ import annotations

import sys
import warnings

import typer
import typer.main

from aucsweep.cli import (
    compact,
    data,
    doctor,
    gain,
    launch,
    lists,
    logs,
    matched,
    plan,
    report,
    resume,
    retry,
    show,
    status,
    table,
    verify,
)
from search_spaces.errors import AucsweepError

app = typer.Typer(
    name="aucsweep",
    help="Sweeps for deep AUC optimisation: plan, launch, resume, and read the answer from Parquet.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("spaces")(lists.spaces)
app.command("tasks")(lists.tasks)
app.command("models")(lists.models)
app.command("losses")(lists.losses)
app.command("plan")(plan.plan)
app.command("launch")(launch.launch)
app.command("resume")(resume.resume)
app.command("retry")(retry.retry)
app.command("status")(status.status)
app.command("show")(show.show)
app.command("logs")(logs.logs)
app.command("compact")(compact.compact)
app.command("verify")(verify.verify)
app.add_typer(data.app, name="data")
app.command("table")(table.table)
app.command("gain")(gain.gain)
app.command("matched")(matched.matched)
app.command("report")(report.report)
app.command("doctor")(doctor.doctor)


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version and exit.", is_eager=True)) -> None:
    if version:
        from aucsweep import __version__

        typer.echo(__version__)
        raise typer.Exit


def run(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code; ``arguments`` defaults to those of the process."""
    command = typer.main.get_command(app)
    try:
        command.main(args=arguments, prog_name="aucsweep")
    except SystemExit as finished:
        if isinstance(finished.__context__, BrokenPipeError):
            return 0  # the reader of our output (head, less) has gone; what it wanted it has
        return finished.code if isinstance(finished.code, int) else 0
    except AucsweepError as error:
        typer.echo(f"aucsweep: {error}", err=True)
        return 2
    return 0


def main() -> None:
    """Entry point of the ``aucsweep`` script."""
    warnings.formatwarning = lambda message, *_, **__: f"aucsweep: warning: {message}\n"
    sys.exit(run())
