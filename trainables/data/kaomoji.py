"""Kaomoji, several labels a text: the emoticons of the package kaomoji-dataset, tier ``core``."""

from __future__ import annotations

import dataclasses
import gzip
import json
from pathlib import Path

import numpy as np

from search_spaces.cards import TaskCard
from search_spaces.errors import DataError
from trainables.data.examples import Example, Index
from trainables.data.loader import Loader, Rows
from trainables.data.packages import package_file
from trainables.data.splits import DrawRule, draw_splits

PACKAGE, FILE = "kaomoji-dataset", "kaomoji_dataset/data/kaomoji.jsonl.gz"
KEYS = ("emotion", "intent", "subject")


def collect(card: TaskCard, data_root: Path) -> list[Example]:
    """Every emoticon with at least one of the card's labels, once; one listed twice has the labels of both.

    The file's other labels are synonyms of these (``happy``, ``smile``, ``glad`` ... come together) or rare.
    """
    path = package_file(PACKAGE, FILE)
    names = list(card.options["labels"])
    found: dict[str, set[str]] = {}
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:  # read line by line: whole, it takes 540 MB
            for line in file:
                row = json.loads(line)
                if row["tier"] == "core":
                    labels = {label for key in KEYS for label in row[key]} & set(names)
                    found.setdefault(row["text"], set()).update(labels)
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise DataError(f"{path}: not the emoticons expected ({error!r})") from error
    return [
        Example(id=text, label=tuple(int(name in labels) for name in names), content=text)
        for text, labels in found.items()
        if labels
    ]


def draw(card: TaskCard, index: Index, seed: int) -> Rows:
    """The card's numbers of examples, drawn by seed; counted in all, not by label."""
    one_class = dataclasses.replace(index, labels=np.zeros(len(index.ids), dtype=np.int64))
    return draw_splits(one_class, card.counts, seed, DrawRule(leftover=True))


LOADER = Loader(collect=collect, draw=draw, packaged=True)
