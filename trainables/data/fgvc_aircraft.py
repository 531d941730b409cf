"""FGVC-Aircraft variants: CRJ-700 against CRJ-900, and the six Airbus variants of the multiclass task.

The archive's own layout: ``data/images_variant_{train,val,test}.txt`` with lines "image variant", ``data/images``.
The strip with the photographer's name at the bottom of every photograph is left in, as torchvision leaves it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from search_spaces.cards import TaskCard
from search_spaces.errors import DataError
from trainables.data.examples import Example, Index
from trainables.data.loader import Loader, Rows
from trainables.data.sources import find_file, source_folder
from trainables.data.splits import DrawRule, draw_splits

FILES = {"train": "train", "validation": "val", "test": "test"}


def collect(card: TaskCard, data_root: Path) -> list[Example]:
    """The photographs of the card's variants, each in the part of its official file."""
    folder = source_folder(card, data_root, "fgvc-aircraft-2013b")
    label_of = {variant: label for label, variant in enumerate(card.options["classes"])}
    examples = []
    for part, name in FILES.items():
        listing = find_file(card, folder, [f"images_variant_{name}.txt"])
        seen = set()
        for number, line in enumerate(listing.read_text(encoding="utf-8").splitlines(), start=1):
            image, _, variant = line.strip().partition(" ")
            if not variant or not image.isdigit():
                raise DataError(f"{listing}: row {number} should hold an image number and a variant, got {line!r}")
            seen.add(variant)
            if variant in label_of:
                path = listing.parent / "images" / f"{image}.jpg"
                where = f"{listing.name} row {number}"
                examples.append(Example(id=image, label=label_of[variant], content=path, part=part, where=where))
        missing = sorted(set(label_of) - seen)
        if missing:
            raise DataError(f"{listing}: no image of the variant {', '.join(missing)}")
    return examples


def draw(card: TaskCard, index: Index, seed: int) -> Rows:
    """Each split from its own official part: the card's counts by seed, or where it counts in all, the whole part."""
    counts = {}
    for part, wanted in card.counts.items():
        labels = index.labels[[place == part for place in index.parts]]
        everything = np.bincount(labels, minlength=card.classes).tolist()
        whole = len(wanted) == 1
        if whole and sum(everything) != wanted[0]:
            raise DataError(f"task {card.name}: {part} should hold {wanted[0]} images, found {sum(everything)}")
        counts[part] = everything if whole else wanted
    return draw_splits(index, counts, seed, DrawRule(parts={part: part for part in FILES}, leftover=True))


LOADER = Loader(collect=collect, draw=draw, image_size=224)
