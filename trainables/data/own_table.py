"""A user's table of texts or image paths (CSV, TSV, Parquet), read strictly: every fault names the file and the row."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from search_spaces.errors import DataError
from search_spaces.own_task_schema import OwnTask, label_text
from trainables.data.examples import Content, Example
from trainables.data.faults import Faults


def read_table(path: Path, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """The rows of ``columns``. CSV and TSV must be UTF-8 with a header; cells come as text, an empty one as "".

    Raises ``DataError`` for a missing file or column, bytes that are not UTF-8 and a row of the wrong length.
    """
    import pandas as pd

    if not path.is_file():
        raise DataError(f"{path}: no such file")
    try:
        if path.suffix.lower() == ".parquet":
            table = pd.read_parquet(path)
        else:
            table = pd.read_csv(
                path,
                sep="\t" if path.suffix.lower() == ".tsv" else ",",
                dtype=str,
                keep_default_na=False,
                encoding="utf-8-sig",
                index_col=False,
                on_bad_lines="error",
            )
    except UnicodeDecodeError:
        raise DataError(f"{path}: {_first_bad_line(path)} is not UTF-8; save the file as UTF-8") from None
    except Exception as error:  # pandas and pyarrow raise a dozen types for a malformed file
        raise DataError(f"{path}: not a readable table ({error})") from error
    missing = [name for name in columns if name not in table.columns]
    if missing:
        there = ", ".join(map(str, table.columns))
        raise DataError(f"{path}: no column {', '.join(map(repr, missing))} (the columns are: {there})")
    return list(table[list(columns)].itertuples(index=False, name=None))


def table_examples(task: OwnTask, base: Path, file: str, part: str, split_column: str | None) -> list[Example]:
    """The examples of one table. ``part`` is their split, unless ``split_column`` names it row by row.

    A text's id is the hash of the text, an image's id is its path as written, so that the order of rows means nothing.
    """
    path = base / file
    texts = [name for name in (task.text, task.text_pair) if name]
    content_columns = texts or [str(task.image)]
    columns = [*content_columns, str(task.label), *([split_column] if split_column else [])]
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
        split = str(part if split_column is None else label_text(plain(row[-1])))
        cells = [plain(cell) for cell in row[: len(content_columns)]]
        empty = [
            name
            for name, cell in zip(content_columns, cells, strict=True)
            if not isinstance(cell, str) or not cell.strip()
        ]
        if empty:
            faults.add(f"row {number}: {empty[0]} is empty or no text")
            continue
        name, content = _content(task, base, cells)
        examples.append(Example(id=name, label=label, content=content, part=split, where=where))
    faults.raise_if_any()
    return _numbered(examples) if texts else examples


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


def plain(value: Any) -> Any:
    """A numpy scalar as the Python value it holds."""
    return value.item() if hasattr(value, "item") else value


def _content(task: OwnTask, base: Path, cells: list[str]) -> tuple[str, Content]:
    if task.modality == "image":
        return cells[0].strip(), base / (task.images or ".") / cells[0].strip()
    name = hashlib.sha256(json.dumps(cells, ensure_ascii=False).encode()).hexdigest()[:24]
    return name, cells[0] if len(cells) == 1 else (cells[0], cells[1])


def _numbered(examples: list[Example]) -> list[Example]:
    """Equal texts get ids of their own, whatever the order of rows: they are numbered by part and label."""
    repeated = {name for name, count in Counter(example.id for example in examples).items() if count > 1}
    numbered = [example for example in examples if example.id not in repeated]
    seen: Counter[str] = Counter()
    for example in sorted((e for e in examples if e.id in repeated), key=lambda e: (e.id, e.part, e.label)):
        seen[example.id] += 1
        numbered.append(replace(example, id=f"{example.id}#{seen[example.id]}"))
    return numbered


def _first_bad_line(path: Path) -> str:
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError:
            return f"line {number}"
    return "the file"
