"""Durations, sizes and columns."""

from __future__ import annotations

import pytest
import typer

from aucsweep.cli.options import duration, emit_columns, seconds, size


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90", 90.0), ("90s", 90.0), ("1.5m", 90.0), ("12h", 43200.0), ("2D", 172800.0), (None, None)],
)
def test_seconds(text: str | None, expected: float | None) -> None:
    assert seconds(text, "--time-budget") == expected


@pytest.mark.parametrize("text", ["", "h", "-1", "0", "1w", "1 h 30 m", "nan", "inf"])
def test_seconds_refuses(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="no duration"):
        seconds(text, "--time-budget")


@pytest.mark.parametrize(
    ("total", "expected"),
    [(None, "unknown"), (0, "0 s"), (89, "89 s"), (90, "2 min"), (5400, "1.5 h"), (172800, "2.0 days")],
)
def test_duration(total: float | None, expected: str) -> None:
    assert duration(total) == expected


@pytest.mark.parametrize(
    ("number", "expected"), [(0, "0 B"), (999, "999 B"), (1500, "2 kB"), (2.5e9, "2 GB"), (3e12, "3.0 TB")]
)
def test_size(number: float, expected: str) -> None:
    assert size(number) == expected


def test_columns_align_and_an_empty_table_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    emit_columns([])
    emit_columns([["a", "long text"], ["longer", "b"]])
    assert capsys.readouterr().out == "a       long text\nlonger  b\n"
