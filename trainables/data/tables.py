"""Tables and text files, read strictly: a fault names the file and the row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from search_spaces.errors import DataError


def read_table(path: Path, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """The rows of ``columns`` of a .csv, .tsv or .parquet file.

    CSV and TSV must be UTF-8 with a header; cells come as text, an empty one as "". Raises ``DataError`` for a missing
    file or column, bytes that are not UTF-8 and a row of the wrong length.
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


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 text file that are not empty, without their ends. Raises ``DataError`` for other bytes."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                text = line.decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError:
                raise DataError(f"{path}: line {number} is not UTF-8") from None
            if text:
                yield text


def plain(value: Any) -> Any:
    """A numpy scalar as the Python value it holds, and what pandas reads from an empty nullable cell as None."""
    import pandas as pd

    if value is pd.NA:
        return None
    return value.item() if hasattr(value, "item") else value


def _first_bad_line(path: Path) -> str:
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError:
            return f"line {number}"
    return "the file"
