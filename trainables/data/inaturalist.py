"""iNaturalist 2018: 8,142 classes from the competition's own JSON files.

``sources/inaturalist-2018/{train2018,val2018}.json`` and the images at the paths they list. The official validation
file is the test split; there is no validation split (the paper evaluates once, after the last epoch).
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np

from search_spaces.cards import TaskCard
from search_spaces.errors import DataError
from trainables.data.examples import Example, Index
from trainables.data.loader import Loader, Rows
from trainables.data.sources import find_file, source_folder
from trainables.data.splits import DrawRule, draw_splits


def collect(card: TaskCard, data_root: Path) -> list[Example]:
    """Every annotated image of both files; an image's id is its path."""
    folder = source_folder(card, data_root, "inaturalist-2018")
    examples = []
    for part, name in (("train", "train2018.json"), ("test", "val2018.json")):
        path = find_file(card, folder, [name])
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            files = {image["id"]: image["file_name"] for image in content["images"]}
            pairs = [(files[row["image_id"]], int(row["category_id"])) for row in content["annotations"]]
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}: not an iNaturalist 2018 annotation file ({error!r})") from error
        wrong = [file for file, category in pairs if not 0 <= category < card.options["outputs"]]
        if wrong:
            raise DataError(f"{path}: {len(wrong)} images of an unknown category, such as {wrong[0]}")
        examples += [
            Example(id=file, label=category, content=path.parent / file, part=part) for file, category in pairs
        ]
    return examples


def draw(card: TaskCard, index: Index, seed: int) -> Rows:
    """The official files, whole; counted in all, not by class."""
    one_class = dataclasses.replace(index, labels=np.zeros(len(index.ids), dtype=np.int64))
    return draw_splits(
        one_class, card.counts, seed, DrawRule(parts={"train": "train", "validation": "", "test": "test"})
    )


LOADER = Loader(collect=collect, draw=draw, storage="encoded", image_size=128)
