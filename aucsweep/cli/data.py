"""``data``: check and prepare the data of a task, built in or your own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aucsweep.cli.options import DEFAULT_DATA_ROOT, DataRoot

if TYPE_CHECKING:
    from search_spaces.cards import TaskCard

app = typer.Typer(help="Check and prepare the data of a task.", no_args_is_help=True)

TaskArgument = Annotated[str, typer.Argument(metavar="TASK", help="A task's name, or the YAML file of your own task.")]


@app.command("check")
def check(task: TaskArgument, data_root: DataRoot = DEFAULT_DATA_ROOT) -> None:
    """Say whether the data of TASK are there and are what its card says; change nothing."""
    from trainables.data import check_task

    result = check_task(_card_or_file(task), data_root)
    for line in result.lines:
        typer.echo(line)
    raise typer.Exit(0 if result.ok else 1)


@app.command("prepare")
def prepare(task: TaskArgument, data_root: DataRoot = DEFAULT_DATA_ROOT) -> None:
    """Prepare the data of TASK once, so that every trial reads the same fast form; doing it again changes nothing."""
    from trainables.data import prepare_task

    prepared = prepare_task(_card_or_file(task), data_root)
    for split, counts in prepared.counts.items():
        typer.echo(f"{split}: {sum(counts)} examples, per class {'/'.join(str(count) for count in counts)}")
    typer.echo(f"fingerprint: {prepared.fingerprint}")
    typer.echo(f"prepared: {prepared.path}")


def _card_or_file(task: str) -> TaskCard | Path:
    from search_spaces.tasks import task_card

    path = Path(task)
    return path if path.suffix in {".yaml", ".yml"} else task_card(task)
