"""Where the examples of a task live while trials run, and the split objects the training loop reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from trainables.data.augment import cropped, evaluation_view, flip_mask, paper_view
from trainables.data.images import decode
from trainables.data.types import Raw


class Images(Protocol):
    """A pool of images."""

    def pixels(self, row: int) -> NDArray[np.uint8]:
        """Image ``row`` as uint8 (height, width, channels)."""
        ...

    def stack(self, rows: NDArray[np.int64]) -> NDArray[np.uint8] | None:
        """Images of one size together, uint8 (m, height, width, channels); None when sizes differ."""
        ...


@dataclass(frozen=True)
class ArrayImages:
    """Images of one size in one array (in memory or memory-mapped), uint8 (n, height, width, channels)."""

    array: NDArray[np.uint8]

    def pixels(self, row: int) -> NDArray[np.uint8]:
        """Image ``row``."""
        image: NDArray[np.uint8] = self.array[row]
        return image

    def stack(self, rows: NDArray[np.int64]) -> NDArray[np.uint8] | None:
        """A copy of the images ``rows``."""
        stacked: NDArray[np.uint8] = self.array[rows]
        return stacked


@dataclass(frozen=True)
class PackedImages:
    """Images of any size one after the other in a flat byte array: decoded pixels, or the bytes of image files.

    ``shapes`` is int64 (n, 3), rows of height, width and channels; a height of 0 marks undecoded bytes.
    """

    flat: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    shapes: NDArray[np.int64]
    channels: int

    def pixels(self, row: int) -> NDArray[np.uint8]:
        """Image ``row``, decoded now when the store holds file bytes."""
        blob = self.flat[self.offsets[row] : self.offsets[row + 1]]
        if self.shapes[row, 0] == 0:
            return decode(blob.tobytes(), channels=self.channels)[0]
        return blob.reshape(self.shapes[row])

    def stack(self, rows: NDArray[np.int64]) -> NDArray[np.uint8] | None:
        """None: sizes differ."""
        return None


@dataclass(frozen=True)
class ImageSplit:
    """Rows of an image pool as a split. ``size`` is the side of what ``fetch`` gives; None keeps the stored size.

    ``views`` are the evaluation views made when the task was prepared, uint8 (n, size, size, channels), or None.
    """

    labels: NDArray[np.int64]
    rows: NDArray[np.int64]
    images: Images
    size: int | None
    augmentation: str
    views: NDArray[np.uint8] | None = None
    weights: NDArray[np.float64] | None = None

    def fetch(self, indices: NDArray[np.int64], draws: NDArray[np.int64] | None = None) -> Raw:
        """uint8 (m, channels, height, width)."""
        rows = self.rows[indices]
        if draws is not None and self.augmentation == "paper" and self.size is not None:
            views = [
                paper_view(self.images.pixels(int(row)), self.size, int(draw))
                for row, draw in zip(rows, draws, strict=True)
            ]
            batch = np.stack(views)
        else:
            batch = self._evaluation(rows)
            if draws is not None and self.augmentation == "crop":
                batch = cropped(batch, draws)
            if draws is not None and self.augmentation in ("flip", "crop"):
                mirrored = flip_mask(draws)
                batch[mirrored] = batch[mirrored, :, ::-1]
        return torch.from_numpy(np.ascontiguousarray(batch.transpose(0, 3, 1, 2)))

    def _evaluation(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        if self.views is not None:
            prepared: NDArray[np.uint8] = self.views[rows]
            return prepared
        batch = self.images.stack(rows)
        if batch is not None and self.size in (None, batch.shape[1]) and batch.shape[1] == batch.shape[2]:
            return batch
        if self.size is None:
            raise ValueError("images of several sizes need a size to be brought to")
        return np.stack([evaluation_view(self.images.pixels(int(row)), self.size) for row in rows])


@dataclass(frozen=True)
class TextSplit:
    """Rows of a pool of texts or text pairs as a split."""

    labels: NDArray[np.int64]
    rows: NDArray[np.int64]
    texts: Sequence[str] | Sequence[tuple[str, str]]
    weights: NDArray[np.float64] | None = None

    def fetch(self, indices: NDArray[np.int64], draws: NDArray[np.int64] | None = None) -> Raw:
        """The texts themselves; there is no augmentation of text."""
        return [self.texts[row] for row in self.rows[indices]]

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Characters of each text or pair (n,): near enough to tokens to bring texts of one length together."""
        texts = (self.texts[row] for row in self.rows)
        sizes = (len(text) if isinstance(text, str) else sum(map(len, text)) for text in texts)
        return np.fromiter(sizes, np.int64, len(self.rows))
