"""What a source's module provides, and which module reads which card."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from search_spaces.cards import TaskCard
from search_spaces.errors import DataError, nearest
from trainables.data.examples import Example, Index
from trainables.data.splits import DrawRule, draw_splits

Rows = dict[str, NDArray[np.int64]]
"""Rows of a pool for each split, ascending."""


def draw_by_rule(card: TaskCard, index: Index, seed: int) -> Rows:
    """Every example in exactly one split, the card's counts of each class drawn from the whole pool."""
    return draw_splits(index, card.counts, seed, DrawRule())


@dataclass(frozen=True)
class Loader:
    """How a task's data are read.

    ``collect(card, data_root)`` lists every example of the task in any order, without decoding images. It raises
    ``DataError`` for what is missing (naming it, and what brings it), for a label outside the set, a wrong column.
    ``draw(card, index, seed)`` gives the rows of each split.

    ``storage`` says what a prepared image task holds: ``resized`` images of the card's ``image_size``, all ``decoded``
    pixels at their own size, or the files' own bytes (``encoded``). ``image_size`` is the side of what ``fetch``
    gives when the card's options name none; None keeps the stored size. ``packaged`` tasks can be read straight
    from an installed package, without being prepared.
    """

    collect: Callable[[TaskCard, Path], list[Example]]
    draw: Callable[[TaskCard, Index, int], Rows] = draw_by_rule
    storage: str = "decoded"
    image_size: int | None = None
    channels: int = 3
    packaged: bool = False


LOADERS: dict[str, str] = {
    name: f"trainables.data.{module}"
    for name, module in {
        "chexpert": "chexpert",
        "cifar10": "cifar10",
        "cifar100": "cifar100",
        "class_folders": "class_folders",
        "drug_reviews": "drug_reviews",
        "fashion_mnist": "fashion_mnist",
        "fgvc_aircraft": "fgvc_aircraft",
        "goemotions": "goemotions",
        "image_table": "image_table",
        "imagenet_lt": "imagenet_lt_full",
        "kaomoji": "kaomoji",
        "mnist_lt": "mnist_lt",
        "reuters": "reuters",
        "imagenet_lt_dogs": "imagenet_lt",
        "inaturalist": "inaturalist",
        "mnist": "mnist",
        "nli": "nli",
        "own": "own",
        "solar": "solar",
    }.items()
}
"""Loader name (``TaskCard.loader``) to the module whose ``LOADER`` it is."""


def can_load(card: TaskCard) -> bool:
    """Whether a loader for this card exists."""
    return card.loader in LOADERS


def loader_of(card: TaskCard) -> Loader:
    """The loader of ``card``; raises ``DataError`` when there is none."""
    if card.loader is None or card.loader not in LOADERS:
        known = nearest(card.loader or "", LOADERS)
        raise DataError(f"task {card.name}: no loader {card.loader!r} ({known})")
    loader: Loader = importlib.import_module(LOADERS[card.loader]).LOADER
    return loader


def image_size(card: TaskCard, loader: Loader) -> int | None:
    """The side of the images ``fetch`` gives, from the card's options or else the loader."""
    options = card.options.get("definition", card.options)
    size = options.get("image_size", loader.image_size)
    return None if size is None else int(size)
