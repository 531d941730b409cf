"""Natural-language inference, two labels of three: ANLI, SNLI and WANLI, from Parquet or the authors' own files.

| source | sources/ | files, Parquet (premise, hypothesis, label) or JSON lines |
|---|---|---|
| ANLI | anli | ``{train,dev,test}_r1*.parquet`` or ``R1/{train,dev,test}.jsonl`` (context, hypothesis, label e/n/c) |
| SNLI | snli | ``{train,validation,test}*.parquet`` or ``snli_1.0_{train,dev,test}.jsonl`` (gold_label, sentence1 ..) |
| WANLI | wanli | ``{train,test}*.parquet`` or ``{train,test}.jsonl`` (premise, hypothesis, gold) |

The splits are the same for every seed: they are drawn once, when the task is prepared, and written down.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from search_spaces.cards import TaskCard
from search_spaces.errors import DataError
from trainables.data.examples import Example, Index, numbered
from trainables.data.faults import Faults
from trainables.data.loader import Loader, Rows
from trainables.data.sources import find_file, source_folder
from trainables.data.splits import DrawRule, draw_splits, shuffled
from trainables.data.tables import read_lines, read_table

LABELS = ("entailment", "neutral", "contradiction")
_SHORT = {"e": "entailment", "n": "neutral", "c": "contradiction"}
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Source:
    """File names of each part ({r}: the round), and the columns of the JSON lines."""

    parts: dict[str, tuple[str, str]]
    premise: str
    hypothesis: str
    label: str


SOURCES = {
    "anli": Source(
        {split: (f"{name}_r{{r}}*.parquet", f"R{{r}}/{name}.jsonl")
         for split, name in (("train", "train"), ("validation", "dev"), ("test", "test"))},
        "context", "hypothesis", "label",
    ),
    "snli": Source(
        {split: (f"{split}*.parquet", f"snli_1.0_{name}.jsonl")
         for split, name in (("train", "train"), ("validation", "dev"), ("test", "test"))},
        "sentence1", "sentence2", "gold_label",
    ),
    "wanli": Source(
        {split: (f"{split}*.parquet", f"{split}.jsonl") for split in ("train", "test")},
        "premise", "hypothesis", "gold",
    ),
}  # fmt: skip
CARVED = 10
"""Percent of each class of the training rows that become validation where the source has none."""


def capped(available: Sequence[int], cap: int) -> tuple[int, ...]:
    """Counts a class: all of them, or when they are more than ``cap`` together at most half of it each.

    >>> capped((7052, 5371), 20_000), capped((4900, 1540), 4_000)
    ((7052, 5371), (2000, 1540))
    """
    if sum(available) <= cap:
        return tuple(available)
    return tuple(min(count, cap // 2) for count in available)


def overlap(premise: str, hypothesis: str) -> float:
    """Share of the hypothesis's words (lower case, letters and digits, repeats counted) that the premise has too.

    >>> overlap("A man is sleeping.", "A man sleeps")
    0.6666666666666666
    """
    words = _WORD.findall(hypothesis.lower())
    there = set(_WORD.findall(premise.lower()))
    return sum(word in there for word in words) / len(words) if words else 0.0


def collect(card: TaskCard, data_root: Path) -> list[Example]:
    """The rows of the card's two labels. For the high-overlap task, per part and class only as many as the card counts:
    those with the largest overlap, ties in the order of their hash.
    """
    options = card.options
    source = SOURCES[options["source"]]
    folder = source_folder(card, data_root, options["source"])
    label_of = {"neutral": 0, options["positive"]: 1}
    examples = []
    for part, patterns in source.parts.items():
        path = find_file(card, folder, [pattern.format(r=options.get("round", "")) for pattern in patterns])
        faults = Faults(str(path))
        for number, (premise, hypothesis, label) in enumerate(_rows(path, source), start=1):
            if label is not None and label not in LABELS:
                faults.add(f"row {number}: label {label!r} (allowed: {', '.join(LABELS)})")
            elif label in label_of:
                pair = json.dumps([premise, hypothesis], ensure_ascii=False).encode()
                examples.append(
                    Example(
                        id=f"{part}/{hashlib.sha256(pair).hexdigest()[:24]}",
                        label=label_of[label],
                        content=(premise, hypothesis),
                        part=part,
                        where=f"{path.name} row {number}",
                    )
                )
        faults.raise_if_any()
    examples = numbered(examples)
    return _high_overlap(card, examples) if options.get("high_overlap") else examples


def _high_overlap(card: TaskCard, examples: list[Example]) -> list[Example]:
    chosen = []
    for part, counts in card.counts.items():
        for label, count in enumerate(counts):
            rows = [example for example in examples if example.part == part and example.label == label]
            order = shuffled([example.id for example in rows], 0)
            ranked = sorted(order, key=lambda row: -overlap(*_pair(rows[row])))
            chosen += [rows[row] for row in ranked[:count]]
    return chosen


def _pair(example: Example) -> tuple[str, str]:
    assert isinstance(example.content, tuple)
    return example.content


def _rows(path: Path, source: Source) -> Iterator[tuple[str, str, str | None]]:
    """Premise, hypothesis and label, which is None where the annotators did not agree (SNLI's -1 and "-")."""
    if path.suffix == ".parquet":
        names = _label_column(path)
        for premise, hypothesis, label in read_table(path, ["premise", "hypothesis", names]):
            yield premise, hypothesis, _label(label)
        return
    for number, line in enumerate(read_lines(path), start=1):
        try:
            row = json.loads(line)
            yield row[source.premise], row[source.hypothesis], _label(row[source.label])
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}: row {number} is not a line of this source ({error!r})") from error


def _label_column(path: Path) -> str:
    import pyarrow.parquet as pq

    return "gold" if "gold" in pq.read_schema(path).names else "label"


def _label(value: object) -> str | None:
    if isinstance(value, str):
        return None if value == "-" else _SHORT.get(value, value)
    number = int(value)  # type: ignore[call-overload]
    return None if number == -1 else LABELS[number] if number < len(LABELS) else str(number)


def draw(card: TaskCard, index: Index, seed: int) -> Rows:
    """The official parts, cut to the card's counts; where the source has no validation, 10 % of each class of the
    training rows are set aside first and validation is cut from those.
    """
    if "validation" not in index.parts:
        index = dataclasses.replace(index, parts=_carved(index, seed))
    rule = DrawRule(parts={"train": "train", "validation": "validation", "test": "test"}, leftover=True)
    return draw_splits(index, card.counts, seed, rule)


def _carved(index: Index, seed: int) -> tuple[str, ...]:
    parts = list(index.parts)
    order = shuffled(index.ids, seed)
    for label in (0, 1):
        rows = [row for row in order if index.parts[row] == "train" and index.labels[row] == label]
        for row in rows[: (2 * CARVED * len(rows) + 100) // 200]:
            parts[row] = "validation"
    return tuple(parts)


LOADER = Loader(collect=collect, draw=draw)
