"""CheXpert, several labels an image: patient-disjoint training and validation, the official validation file as test.

``sources/chexpert`` holds ``train.csv`` and ``valid.csv`` and the images at the paths they list, which start with the
release's own folder name (CheXpert-v1.0-small). U-Zero: uncertain (-1) and missing labels are 0. Frontal and lateral
views are both used (our choice: the paper does not say).
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np

from search_spaces.cards import TaskCard
from search_spaces.errors import DataError
from trainables.data.examples import Example, Index
from trainables.data.faults import Faults
from trainables.data.loader import Loader, Rows
from trainables.data.sources import find_file, source_folder
from trainables.data.splits import DrawRule, draw_splits
from trainables.data.tables import read_table

_VALUES = {"": 0, "0": 0, "0.0": 0, "1": 1, "1.0": 1, "-1": 0, "-1.0": 0}
_PATIENT = re.compile(r"/(patient\d+)/")


def collect(card: TaskCard, data_root: Path) -> list[Example]:
    """Every image of both files with the card's labels; the group of an example is its patient."""
    root = source_folder(card, data_root, "chexpert")
    names = list(card.options["labels"])
    examples = []
    for part, file in (("train", "train.csv"), ("test", "valid.csv")):
        table = find_file(card, root, [file])
        faults = Faults(str(table))
        for number, (path, *values) in enumerate(read_table(table, ["Path", *names]), start=1):
            patient = _PATIENT.search(path)
            wrong = [f"{name} is {value!r}" for name, value in zip(names, values, strict=True) if value not in _VALUES]
            if patient is None or wrong:
                faults.add(f"row {number}: {'; '.join(wrong) or f'no patient in the path {path!r}'}")
                continue
            # The listed path starts with the release's folder, which may be the source folder itself.
            inside = path.partition("/")[2]
            examples.append(
                Example(
                    id=inside,
                    label=tuple(_VALUES[value] for value in values),
                    content=table.parent / inside,
                    part=part,
                    group=f"{part}/{patient.group(1)}",
                    where=f"{table.name} row {number}",
                )
            )
        faults.raise_if_any()
    return examples


def draw(card: TaskCard, index: Index, seed: int) -> Rows:
    """Test: the whole official validation file. Validation, then training: whole patients in the order of their hash
    until the card's number of images is reached; the last patient's surplus images are left out.
    """
    if index.labels.ndim != 2:
        raise DataError(f"task {card.name}: labels of one column where several were expected")
    one_class = dataclasses.replace(index, labels=np.zeros(len(index.ids), dtype=np.int64))
    parts = {"train": "train", "validation": "train", "test": "test"}
    return draw_splits(one_class, card.counts, seed, DrawRule(parts=parts, leftover=True, grouped=True))


LOADER = Loader(collect=collect, draw=draw, image_size=224, channels=1)
