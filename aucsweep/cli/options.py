"""Arguments and options that several commands share, and how they print."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from search_spaces.space import Space

SpaceArgument = Annotated[str, typer.Argument(metavar="SPACE", help="A preset's name or a YAML file.")]
StoreOption = Annotated[str, typer.Option("--store", "-s", metavar="S", help="Folder or URI the results live in.")]
Overrides = Annotated[
    list[str], typer.Option("--override", "-o", metavar="KEY=VALUE", help="Change the space, e.g. -o seeds=[1,2].")
]
JsonFlag = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]
DataRoot = Annotated[
    Path,
    typer.Option("--data-root", envvar="AUCSWEEP_DATA", help="Where prepared data and weights live."),
]
SavedDataRoot = Annotated[
    Path | None,
    typer.Option("--data-root", envvar="AUCSWEEP_DATA", help="Where prepared data live; default: as at the launch."),
]

DEFAULT_DATA_ROOT = Path("~/.cache/aucsweep").expanduser()

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(text: str | None, option: str) -> float | None:
    """A duration such as ``90``, ``90s``, ``15m``, ``12h`` or ``2d`` in seconds; None stays None.

    Raises ``typer.BadParameter`` (exit code 2) for anything else, and for a duration that is not positive.
    """
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhd]?)\s*", text.lower())
    if match is None or float(match[1]) <= 0:
        raise typer.BadParameter(
            f"{text!r} is no duration: give seconds, or a number with s, m, h or d", param_hint=option
        )
    return float(match[1]) * _UNITS[match[2]]


def read_space(source: str, overrides: Sequence[str]) -> Space:
    """The space, its notes said on standard error."""
    from search_spaces.space import load_space

    space = load_space(source, overrides)
    for note in space.notes():
        typer.echo(f"aucsweep: note: {note}", err=True)
    return space


@contextmanager
def drawing(figure: Path) -> Iterator[None]:
    """Say what is wrong with the file a figure is drawn to: its folder, its ending, or the file system."""
    from search_spaces.errors import UsageError, reason

    if not figure.parent.is_dir():
        raise UsageError(f"cannot draw {figure}: there is no folder {figure.parent}")
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot draw {figure}: {reason(error)}") from error
    except ValueError as error:  # an ending that names no image format
        raise UsageError(f"cannot draw {figure}: {error}") from error


def emit_json(value: dict[str, Any]) -> None:
    """Print ``value`` as one JSON object on standard output."""
    typer.echo(json.dumps(value, indent=2, default=str, allow_nan=False))


def emit_columns(rows: Iterable[Sequence[object]], header: Sequence[str] = ()) -> None:
    """Print rows as aligned columns, one line each, the last column as long as it is."""
    texts = [[str(item) for item in row] for row in ([header, *rows] if header else rows)]
    if not texts:
        return
    widths = [max(len(row[column]) for row in texts) for column in range(len(texts[0]))]
    for row in texts:
        *head, last = row
        cells = [text.ljust(width) for text, width in zip(head, widths, strict=False)]
        typer.echo("  ".join([*cells, last]).rstrip())


def duration(total: float | None) -> str:
    """Seconds as a person says them: ``45 s``, ``12 min``, ``3.4 h``, ``2.1 days``; ``unknown`` for None."""
    if total is None:
        return "unknown"
    for unit, size, limit in (("s", 1.0, 90.0), ("min", 60.0, 90 * 60.0), ("h", 3600.0, 48 * 3600.0)):
        if total < limit:
            value = total / size
            return f"{value:.0f} {unit}" if unit != "h" else f"{value:.1f} {unit}"
    return f"{total / 86400.0:.1f} days"


def count(number: float) -> str:
    """A whole number with thousands separated."""
    return f"{number:,.0f}"


def size(number: float) -> str:
    """Bytes in the unit that fits."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"


def is_terminal() -> bool:
    """Whether progress can be drawn in place (standard error is a terminal that can)."""
    return os.isatty(2) and os.environ.get("TERM", "") != "dumb"
