"""Decoding: any image file a user may bring becomes uint8 (height, width, channels), or a message that names it."""

from __future__ import annotations

import io
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from search_spaces.errors import DataError

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"})

_SIXTEEN_BIT = frozenset({"I", "I;16", "I;16L", "I;16B", "I;16N"})


def decode(content: Path | bytes, *, channels: int = 3, name: str = "") -> tuple[NDArray[np.uint8], str | None]:
    """The pixels of an image file, uint8 (height, width, channels), and what was converted ("RGBA to RGB") if anything.

    ``channels`` is 3 (RGB) or 1 (grey). Palettes are expanded, transparency is dropped, 16-bit values are divided by
    256. The first frame of an animation is used; EXIF rotation is not applied, as torchvision does not either.

    Raises ``DataError`` naming the file when it is missing, no image, truncated, or of floating-point pixels.
    """
    name = name or (str(content) if isinstance(content, Path) else "image")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(content if isinstance(content, Path) else io.BytesIO(content)) as image:
                image.load()
                return _to_uint8(image, channels, name)
    except FileNotFoundError:
        raise DataError(f"{name}: no such file") from None
    except DataError:
        raise
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise DataError(f"{name}: not a readable image ({error})") from error


def resize(image: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """The shorter side scaled to ``size``, the centre cut out: uint8 (size, size, channels).

    Bilinear with antialiasing, as torchvision's ``Resize(size)`` and ``CenterCrop(size)`` do on PIL images.
    """
    return resize_and_crop(image, size, size)


def resize_and_crop(image: NDArray[np.uint8], shorter: int, size: int) -> NDArray[np.uint8]:
    """The shorter side scaled to ``shorter``, then the central ``size`` x ``size``: uint8 (size, size, channels)."""
    height, width = image.shape[:2]
    # int(), not round(): torchvision truncates the longer side.
    if width <= height:
        new_width, new_height = shorter, int(shorter * height / width)
    else:
        new_width, new_height = int(shorter * width / height), shorter
    if (new_height, new_width) != (height, width):
        image = from_pil(to_pil(image).resize((new_width, new_height), Image.Resampling.BILINEAR))
    top, left = round((new_height - size) / 2.0), round((new_width - size) / 2.0)
    return image[top : top + size, left : left + size]


def to_pil(image: NDArray[np.uint8]) -> Image.Image:
    """uint8 (height, width, 1 or 3) as a PIL image of mode L or RGB."""
    return Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image)


def from_pil(image: Image.Image) -> NDArray[np.uint8]:
    """A PIL image of mode L or RGB as uint8 (height, width, 1 or 3)."""
    pixels = np.asarray(image, dtype=np.uint8)
    return pixels[:, :, None] if pixels.ndim == 2 else pixels


def _to_uint8(image: Image.Image, channels: int, name: str) -> tuple[NDArray[np.uint8], str | None]:
    mode, wanted = image.mode, "RGB" if channels == 3 else "L"
    if mode == wanted:
        return from_pil(image), None
    note = f"{mode} to {wanted}"
    if mode in _SIXTEEN_BIT:
        values = np.asarray(image).astype(np.int64)
        if values.min() < 0 or values.max() > 65535:
            raise DataError(f"{name}: integer pixels outside 0..65535 (mode {mode})")
        return from_pil(Image.fromarray((values >> 8).astype(np.uint8)).convert(wanted)), note
    if mode == "F":
        raise DataError(f"{name}: floating-point pixels (mode F) have no known range; convert to 8 or 16 bit first")
    if mode in {"P", "PA"} and "transparency" in image.info:
        # Through RGBA: from a transparent palette straight to RGB Pillow warns and may choose another colour.
        image = image.convert("RGBA")
    return from_pil(image.convert(wanted)), note
