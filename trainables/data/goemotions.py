"""GoEmotions, configuration "simplified": one emotion against all other rows.

``sources/go_emotions`` holds the Hugging Face Parquet files (``train*.parquet``, ``test*.parquet``: text, labels, id)
or the authors' ``train.tsv`` and ``test.tsv`` (text, comma-separated label numbers, id). The official validation file
is not used: validation is carved from the training rows by seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from search_spaces.cards import TaskCard
from search_spaces.errors import DataError
from trainables.data.examples import Example, Index
from trainables.data.faults import Faults
from trainables.data.loader import Loader, Rows
from trainables.data.sources import find_file, source_folder
from trainables.data.splits import DrawRule, draw_splits
from trainables.data.tables import read_lines, read_table

EMOTIONS = [
    "admiration",
    "amusement",
    "anger",
    "annoyance",
    "approval",
    "caring",
    "confusion",
    "curiosity",
    "desire",
    "disappointment",
    "disapproval",
    "disgust",
    "embarrassment",
    "excitement",
    "fear",
    "gratitude",
    "grief",
    "joy",
    "love",
    "nervousness",
    "optimism",
    "pride",
    "realization",
    "relief",
    "remorse",
    "sadness",
    "surprise",
    "neutral",
]
"""The 28 labels in the order of their numbers."""


def collect(card: TaskCard, data_root: Path) -> list[Example]:
    """Training and test rows; positive when the emotion is among a row's labels."""
    emotion = EMOTIONS.index(card.options["emotion"])
    folder = source_folder(card, data_root, "go_emotions")
    examples = []
    for part in ("train", "test"):
        path = find_file(card, folder, [f"{part}*.parquet", f"{part}.tsv"])
        faults = Faults(str(path))
        for number, (text, labels, name) in enumerate(_rows(path), start=1):
            if not labels or not all(0 <= label < len(EMOTIONS) for label in labels):
                faults.add(f"row {number}: labels {labels} (allowed: 0 to {len(EMOTIONS) - 1})")
                continue
            where = f"{path.name} row {number}"
            examples.append(
                Example(id=f"{part}/{name}", label=int(emotion in labels), content=text, part=part, where=where)
            )
        faults.raise_if_any()
    return examples


def _rows(path: Path) -> Iterator[tuple[str, list[int], str]]:
    if path.suffix == ".parquet":
        for text, labels, name in read_table(path, ["text", "labels", "id"]):
            yield text, [int(label) for label in labels], str(name)
        return
    for number, line in enumerate(read_lines(path), start=1):
        fields = line.split("\t")
        if len(fields) != 3 or not all(label.isdigit() for label in fields[1].split(",")):
            raise DataError(f"{path}: row {number} should hold text, label numbers and id, got {line!r}")
        yield fields[0], [int(label) for label in fields[1].split(",")], fields[2]


def draw(card: TaskCard, index: Index, seed: int) -> Rows:
    """The official test rows; validation carved from the training rows by seed."""
    rule = DrawRule(parts={"train": "train", "validation": "train", "test": "test"})
    return draw_splits(index, card.counts, seed, rule)


LOADER = Loader(collect=collect, draw=draw)
