"""Fashion-MNIST from its idx files, ``sources/FashionMNIST/raw/*-ubyte`` (or ``.gz``), as torchvision lays them."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from search_spaces.cards import TaskCard
from search_spaces.errors import DataError
from trainables.data.cifar10 import draw
from trainables.data.examples import Example
from trainables.data.loader import Loader
from trainables.data.sources import find_file, source_folder

FILES = {"train": "train", "t10k": "test"}


def read_idx(path: Path) -> NDArray[np.uint8]:
    """The array of an idx file of bytes, gzipped or not: two zeros, 8, the number of sizes, the sizes, the values.

    Raises ``DataError`` when it is not one, or is cut off.
    """
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be decompressed ({error})") from error
    if len(data) < 4 or data[:3] != b"\0\0\x08" or len(data) < 4 + 4 * data[3]:
        raise DataError(f"{path}: not an idx file of bytes")
    start = 4 + 4 * data[3]
    shape = np.frombuffer(data[4:start], dtype=">u4").astype(int)
    if len(data) - start != int(np.prod(shape)):
        raise DataError(f"{path}: expected {int(np.prod(shape))} values, got {len(data) - start}")
    return np.frombuffer(data[start:], dtype=np.uint8).reshape(shape)


def collect(card: TaskCard, data_root: Path) -> list[Example]:
    """All images (28, 28, 1); a class's label is its number in the files."""
    folder = source_folder(card, data_root, "FashionMNIST")
    examples = []
    for name, part in FILES.items():
        images, labels = (
            read_idx(find_file(card, folder, [f"{name}-{kind}-ubyte", f"{name}-{kind}-ubyte.gz"]))
            for kind in ("images-idx3", "labels-idx1")
        )
        if images.shape[1:] != (28, 28) or labels.shape != images.shape[:1]:
            raise DataError(f"{folder}: {name} images of shape {images.shape} with labels of shape {labels.shape}")
        examples += [
            Example(id=f"{name}/{row:05d}", label=int(label), content=image[:, :, None], part=part)
            for row, (label, image) in enumerate(zip(labels, images, strict=True))
        ]
    return examples


LOADER = Loader(collect=collect, draw=draw, channels=1)
