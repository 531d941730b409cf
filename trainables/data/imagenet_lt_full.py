"""ImageNet-LT whole, 1,000 classes: the loader of the large multiclass task, on the split files of ``imagenet_lt``."""

from __future__ import annotations

import dataclasses

import numpy as np

from search_spaces.cards import TaskCard
from trainables.data.examples import Index
from trainables.data.imagenet_lt import FILES, collect
from trainables.data.loader import Loader, Rows
from trainables.data.splits import DrawRule, draw_splits


def draw(card: TaskCard, index: Index, seed: int) -> Rows:
    """The three files, whole; counted in all, not by class."""
    one_class = dataclasses.replace(index, labels=np.zeros(len(index.ids), dtype=np.int64))
    return draw_splits(one_class, card.counts, seed, DrawRule(parts={part: part for part in FILES}))


LOADER = Loader(collect=collect, draw=draw, storage="encoded", image_size=128)
