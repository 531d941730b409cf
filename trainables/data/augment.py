"""Views of an image: the evaluation view, and random training views that are functions of one seed per example."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from trainables.data.images import from_pil, resize_and_crop, to_pil

AUGMENTATIONS = ("none", "flip", "crop", "paper")
"""``none``: the evaluation view. ``flip``: that, mirrored with probability 1/2. ``crop``: that, padded by
``PADDING`` black pixels, cropped back at random, and mirrored. ``paper``: random resized crop,
horizontal flip and RandAugment(2, 9) on the stored image (paper, section B.4)."""

PADDING = 4
"""Pixels on each side, as usual for images of 32 x 32."""


def evaluation_view(image: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """Shorter side to 256/224 of ``size``, then the central crop: uint8 (size, size, channels).

    An image that already is ``size`` x ``size`` (prepared at that size) is left as it is.
    """
    if image.shape[:2] == (size, size):
        return image
    return resize_and_crop(image, round(size * 256 / 224), size)


def paper_view(image: NDArray[np.uint8], size: int, draw: int) -> NDArray[np.uint8]:
    """One training view of ``image`` (height, width, channels), a function of ``draw``: uint8 (size, size, channels).

    torchvision's transforms read torch's global generator, so it is set aside and seeded for this one image.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(draw)
        return from_pil(_paper_transform(size)(to_pil(image)))


def flip_mask(draws: NDArray[np.int64]) -> NDArray[np.bool_]:
    """One fair bit per draw (m,), well mixed even when draws are consecutive numbers."""
    return (_mixed(draws) & np.uint64(1)).astype(bool)


def cropped(batch: NDArray[np.uint8], draws: NDArray[np.int64]) -> NDArray[np.uint8]:
    """``batch`` (m, height, width, channels) shifted by up to ``PADDING`` pixels each way, black where it came in."""
    _, height, width, _ = batch.shape
    padded = np.pad(batch, ((0, 0), (PADDING, PADDING), (PADDING, PADDING), (0, 0)))
    places = np.uint64(2 * PADDING + 1)
    mixed = _mixed(draws) >> np.uint64(1)  # the lowest bit is the flip's
    tops, lefts = (mixed % places).astype(np.int64), (mixed // places % places).astype(np.int64)
    rows, columns = tops[:, None] + np.arange(height), lefts[:, None] + np.arange(width)
    found: NDArray[np.uint8] = padded[np.arange(len(batch))[:, None, None], rows[:, :, None], columns[:, None, :]]
    return found


def _mixed(draws: NDArray[np.int64]) -> NDArray[np.uint64]:
    """64 well mixed bits of each draw: the finaliser of splitmix64."""
    mixed = draws.astype(np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@lru_cache(maxsize=8)
def _paper_transform(size: int) -> Callable[[Any], Any]:
    from torchvision import transforms  # takes a second to import; only tasks with this augmentation pay for it

    transform: Callable[[Any], Any] = transforms.Compose(
        [
            transforms.RandomResizedCrop(size),
            transforms.RandomHorizontalFlip(),
            transforms.RandAugment(num_ops=2, magnitude=9),
        ]
    )
    return transform
