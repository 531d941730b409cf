"""Solar-cell defects: the ELPV electroluminescence photographs that the package elpv-dataset ships.

Cells of one module lie side by side in the file and carry no module id. Whole blocks of neighbouring cells therefore
go to one split, so that a model is not tested on the other cells of a module it was trained on.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from search_spaces.cards import TaskCard
from search_spaces.errors import DataError
from trainables.data.examples import Example, Index
from trainables.data.loader import Loader, Rows
from trainables.data.packages import package_file
from trainables.data.splits import DrawRule, draw_splits, shuffled

PACKAGE, FILE = "elpv-dataset", "elpv_dataset/data/labels.csv"


def collect(card: TaskCard, data_root: Path) -> list[Example]:
    """The cells surely whole (probability 0) or surely defect (1); the group of an example is its block."""
    path = package_file(PACKAGE, FILE)
    lines = path.read_text(encoding="utf-8").splitlines()
    block_of = np.concatenate(
        [np.full(len(part), block) for block, part in enumerate(np.array_split(lines, int(card.options["blocks"])))]
    )
    examples = []
    for row, line in enumerate(lines):
        where = f"{path.name} row {row + 1}"
        fields = line.split()
        if len(fields) != 3:
            raise DataError(f"{path}: row {row + 1} should hold path, probability and type, got {line!r}")
        name, probability = fields[0], float(fields[1])
        if probability in (0.0, 1.0):
            examples.append(
                Example(
                    id=Path(name).stem,
                    label=int(probability),
                    content=path.parent / name,
                    group=f"{block_of[row]:02d}",
                    where=where,
                )
            )
    return examples


def draw(card: TaskCard, index: Index, seed: int) -> Rows:
    """Of every four neighbouring blocks two go to train, one to validation, one to test; counts drawn from those."""
    size = int(card.options["group"])
    part_of = {}
    blocks = sorted(set(index.groups))
    for start in range(0, len(blocks), size):
        neighbours = blocks[start : start + size]
        order = shuffled(neighbours, seed)
        for place, block in zip(order, ("test", "validation", *["train"] * (size - 2)), strict=False):
            part_of[neighbours[place]] = block
    parts = tuple(part_of[block] for block in index.groups)
    rule = DrawRule(parts={"train": "train", "validation": "validation", "test": "test"}, leftover=True)
    return draw_splits(dataclasses.replace(index, parts=parts), card.counts, seed, rule)


LOADER = Loader(collect=collect, draw=draw, storage="resized", image_size=64, channels=1, packaged=True)
