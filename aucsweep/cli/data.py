"""``data``: list what tasks need, check and prepare the data of a task, built in or your own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aucsweep.cli.options import DEFAULT_DATA_ROOT, DataRoot, JsonFlag, emit_columns, emit_json, is_terminal

if TYPE_CHECKING:
    from search_spaces.cards import TaskCard

app = typer.Typer(help="List, check and prepare the data of tasks.", no_args_is_help=True)

TaskArgument = Annotated[str, typer.Argument(metavar="TASK", help="A task's name, or the YAML file of your own task.")]


@app.command("list")
def list_tasks(json: JsonFlag = False, data_root: DataRoot = DEFAULT_DATA_ROOT) -> None:
    """Say of every built-in task whether its data are there, under which licence they are, and where to get them.

    States: prepared, packaged (in an installed package), sources (there, not prepared), downloadable (by the library
    that owns them), missing. Nothing is decoded or changed.
    """
    from search_spaces.tasks import TASKS
    from trainables.data import task_state

    facts = [
        {
            "name": card.name,
            "modality": card.modality,
            "state": task_state(card, data_root),
            "licence": card.licence,
            "source": card.source,
            "get": card.get,
            "packages": list(card.packages),
        }
        for card in TASKS.values()
    ]
    if json:
        emit_json({"data_root": str(data_root), "tasks": facts})
        return
    emit_columns(
        [[fact["name"], fact["state"], fact["licence"], fact["get"] or fact["source"]] for fact in facts],
        header=["task", "data", "licence", "get it"],
    )


@app.command("check")
def check(task: TaskArgument, data_root: DataRoot = DEFAULT_DATA_ROOT) -> None:
    """Say whether the data of TASK are there and are what its card says; change nothing.

    Exit code 0 if they are, prepared or ready to be; 1 if they are wrong or missing.
    """
    from trainables.data import check_task

    result = check_task(_card_or_file(task), data_root)
    for line in result.lines:
        typer.echo(line)
    raise typer.Exit(0 if result.ok or result.preparable else 1)


@app.command("prepare")
def prepare(
    task: TaskArgument,
    data_root: DataRoot = DEFAULT_DATA_ROOT,
    download: Annotated[
        bool, typer.Option("--download", help="Let the library that owns the data fetch them, if they are not there.")
    ] = False,
) -> None:
    """Prepare the data of TASK once, so that every trial reads the same fast form; doing it again changes nothing."""
    from rich.console import Console
    from rich.progress import Progress

    from trainables.data import prepare_task

    with Progress(console=Console(stderr=True), transient=True, disable=not is_terminal()) as bar:
        line = bar.add_task(f"preparing {task}", total=None)
        prepared = prepare_task(
            _card_or_file(task),
            data_root,
            progress=lambda done, total: bar.update(line, completed=done, total=total),
            download=download,
        )
    for split, counts in prepared.counts.items():
        typer.echo(f"{split}: {sum(counts)} examples, per class {'/'.join(str(count) for count in counts)}")
    for note in prepared.notes:
        typer.echo(note)
    typer.echo(f"fingerprint: {prepared.fingerprint}")
    typer.echo(f"prepared: {prepared.path or 'nothing to prepare, trials read the installed package'}")


def _card_or_file(task: str) -> TaskCard | Path:
    from search_spaces.errors import SpaceError
    from search_spaces.tasks import task_card

    path = Path(task)
    if path.suffix not in {".yaml", ".yml"}:
        return task_card(task)
    if not path.exists():
        raise SpaceError(f"task file {task}", ["there is no such file"])
    return path
