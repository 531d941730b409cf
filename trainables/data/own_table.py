"""A user's table of texts or image paths (CSV, TSV, Parquet): its rows as examples, every fault named by its row."""

from __future__ import annotations

import hashlib
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

from search_spaces.own_task_schema import OwnTask, label_text
from trainables.data.examples import Content, Example, numbered
from trainables.data.faults import Faults
from trainables.data.tables import plain, read_table


def table_examples(task: OwnTask, base: Path, file: str, part: str, split_column: str | None) -> list[Example]:
    """The examples of one table. ``part`` is their split, unless ``split_column`` names it row by row.

    A text's id is the hash of the text, an image's id is its path as written, so that the order of rows means nothing.
    """
    path = base / file
    texts = [name for name in (task.text, task.text_pair) if name]
    content_columns = texts or [str(task.image)]
    more = [name for name in (split_column, task.weight) if name]
    columns = [*content_columns, str(task.label), *more]
    faults = Faults(f"{path}")
    examples = []
    for number, row in enumerate(read_table(path, columns), start=1):
        where = f"{path.name} row {number}"
        label = label_of(task, row[len(content_columns)])
        if isinstance(label, str):
            faults.add(f"row {number}: {label}")
            continue
        if label is None:
            continue
        split = str(part if split_column is None else label_text(plain(row[len(content_columns) + 1])))
        cells = [plain(cell) for cell in row[: len(content_columns)]]
        empty = [
            name
            for name, cell in zip(content_columns, cells, strict=True)
            if not isinstance(cell, str) or not cell.strip()
        ]
        if empty:
            faults.add(f"row {number}: {empty[0]} is empty or no text")
            continue
        weight = None if task.weight is None else _weight_of(row[-1])
        if isinstance(weight, str):
            faults.add(f"row {number}: {task.weight} {weight}")
            continue
        name, content = _content(task, base, cells)
        examples.append(Example(id=name, label=label, content=content, part=split, where=where, weight=weight))
    faults.raise_if_any()
    return numbered(examples) if texts else examples


def label_of(task: OwnTask, value: Any) -> int | str | None:
    """0 or 1; None for a label to leave out; a sentence when the label is missing or outside the set."""
    value = plain(value)
    if value is None or value == "" or value != value:
        return "no label"
    label = label_text(value)
    if label in task.positive:
        return 1
    if task.negative is None or label in task.negative:
        return None if label in (task.ignore or ()) else 0
    if label in (task.ignore or ()):
        return None
    allowed = ", ".join((*task.positive, *task.negative))
    return f"label {label!r} is neither positive nor negative (allowed: {allowed}; to leave it out, list it in ignore)"


def _weight_of(value: Any) -> float | str:
    """The weight in a cell, or a sentence when it is no finite number above 0."""
    value = plain(value)
    allowed = "(allowed: a finite number above 0; to leave an example out, give it a label listed in ignore)"
    if value is None or value != value or (isinstance(value, str) and not value.strip()):
        return f"is empty {allowed}"
    # Python reads 1_000 as a number; spreadsheets do not. True and False are no confidence.
    readable = isinstance(value, int | float | str | Decimal) and not isinstance(value, bool) and "_" not in str(value)
    try:
        weight = float(value) if readable else math.nan
    except (ValueError, OverflowError):
        weight = math.nan
    return weight if 0 < weight < math.inf else f"is {value!r} {allowed}"


def _content(task: OwnTask, base: Path, cells: list[str]) -> tuple[str, Content]:
    if task.modality == "image":
        return cells[0].strip(), base / (task.images or ".") / cells[0].strip()
    name = hashlib.sha256(json.dumps(cells, ensure_ascii=False).encode()).hexdigest()[:24]
    return name, cells[0] if len(cells) == 1 else (cells[0], cells[1])
