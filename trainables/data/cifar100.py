"""CIFAR-100 subsets with a long-tailed training set, from the archive's own Python pickles.

``sources/cifar-100-python/{meta,train,test}``. The training examples are drawn by seed from the official training
file; the official test file is halved by seed, 50 images a class for validation and 50 for test.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from search_spaces.cards import TaskCard
from search_spaces.errors import DataError
from trainables.data.examples import Example, Index
from trainables.data.loader import Loader, Rows
from trainables.data.sources import find_file, source_folder
from trainables.data.splits import DrawRule, draw_splits

_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
}


class _ArraysOnly(pickle.Unpickler):
    """Reads the archive's dictionaries, lists, strings and arrays, and nothing that could run code."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _ALLOWED:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} has no place in a CIFAR archive")


def read_pickle(path: Path) -> dict[str, Any]:
    """One file of the archive, keys as text. Raises ``DataError`` when it is not one."""
    try:
        with path.open("rb") as file:
            content = _ArraysOnly(file, encoding="bytes").load()
        return {key.decode() if isinstance(key, bytes) else key: value for key, value in content.items()}
    except (pickle.UnpicklingError, EOFError, AttributeError, ValueError) as error:
        raise DataError(f"{path}: not a file of a CIFAR archive ({error})") from error


def collect(card: TaskCard, data_root: Path) -> list[Example]:
    """The images (32, 32, 3) of the card's classes, labelled in the order the card lists them."""
    folder = source_folder(card, data_root, "cifar-100-python")
    names = [name.decode() for name in read_pickle(find_file(card, folder, ["meta"]))["fine_label_names"]]
    missing = sorted(set(card.options["classes"]) - set(names))
    if missing:
        raise DataError(f"task {card.name}: CIFAR-100 has no class {', '.join(missing)}")
    label_of = {names.index(name): label for label, name in enumerate(card.options["classes"])}
    examples = []
    for part in ("train", "test"):
        content = read_pickle(find_file(card, folder, [part]))
        pixels = np.asarray(content["data"], dtype=np.uint8).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        rows = zip(content["filenames"], content["fine_labels"], pixels, strict=True)
        for row, (name, fine, image) in enumerate(rows):
            if fine in label_of:
                # File names repeat inside the archive; its row does not.
                number = f"{part}/{row:05d}-{name.decode()}"
                examples.append(Example(id=number, label=label_of[fine], content=image, part=part))
    return examples


def draw(card: TaskCard, index: Index, seed: int) -> Rows:
    """Training from the official training file, validation and test from the official test file."""
    rule = DrawRule(parts={"train": "train", "validation": "test", "test": "test"}, leftover=True)
    return draw_splits(index, card.counts, seed, rule)


LOADER = Loader(collect=collect, draw=draw)
