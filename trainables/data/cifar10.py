"""CIFAR-10 from the archive's own Python pickles, ``sources/cifar-10-batches-py/{data_batch_1 .. 5,test_batch}``."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from search_spaces.cards import TaskCard
from search_spaces.errors import DataError
from trainables.data.cifar100 import read_pickle
from trainables.data.examples import Example, Index
from trainables.data.loader import Loader, Rows
from trainables.data.sources import find_file, source_folder
from trainables.data.splits import DrawRule, draw_splits

FILES = {**{f"data_batch_{number}": "train" for number in range(1, 6)}, "test_batch": "test"}


def collect(card: TaskCard, data_root: Path) -> list[Example]:
    """All images (32, 32, 3); a class's label is its number in the archive."""
    folder = source_folder(card, data_root, "cifar-10-batches-py")
    examples = []
    for file, part in FILES.items():
        path = find_file(card, folder, [file])
        content = read_pickle(path)
        try:
            pixels = np.asarray(content["data"], dtype=np.uint8).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
            rows = list(zip(content["labels"], pixels, strict=True))
        except (KeyError, ValueError) as error:
            raise DataError(f"{path}: not a file of cifar-10-batches-py ({error})") from error
        examples += [
            Example(id=f"{file}/{row:05d}", label=int(label), content=image, part=part)
            for row, (label, image) in enumerate(rows)
        ]
    return examples


def draw(card: TaskCard, index: Index, seed: int) -> Rows:
    """Training and validation from the official training file, which they share; test is the official test file."""
    return draw_splits(
        index, card.counts, seed, DrawRule(parts={"train": "train", "validation": "train", "test": "test"})
    )


LOADER = Loader(collect=collect, draw=draw)
