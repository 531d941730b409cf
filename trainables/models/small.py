"""Small models of our own, random only: for the quickstart, tests and first tries."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from trainables.data.types import Raw
from trainables.device import Inputs
from trainables.models.built import BuiltModel, ImageModel, Spec, as_images, mixed, squeezed, tensors

PLAIN_WIDTH, PLAIN_DEPTH, PLAIN_INPUTS = 128, 6, 28 * 28
BUCKETS, WIDTH, HEADS, LAYERS, LONGEST = 4096, 64, 4, 2, 128
PAD, SEPARATOR, FIRST_WORD = 0, 1, 2

_WORD = re.compile(r"\w+|[^\w\s]")


def plain_mlp(spec: Spec) -> BuiltModel:
    """784-128x6-1 with ReLU and no normalisation: a poor starting region that CE leaves quickly. Pixels in 0..1."""
    layers: list[nn.Module] = [nn.Flatten()]
    width = PLAIN_INPUTS
    for _ in range(PLAIN_DEPTH):
        layers += [nn.Linear(width, PLAIN_WIDTH), nn.ReLU()]
        width = PLAIN_WIDTH
    trunk = nn.Sequential(*layers)
    return BuiltModel(
        ImageModel(trunk, nn.Linear(width, spec.outputs), channels=None, precision=spec.precision), as_images
    )


def small_cnn(spec: Spec) -> BuiltModel:
    """Three 3x3 convolutions with batch normalisation and global pooling, any image size, grey or colour."""
    trunk = nn.Sequential(
        *_convolution(3, 16), nn.MaxPool2d(2), *_convolution(16, 32), nn.MaxPool2d(2), *_convolution(32, 64),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )  # fmt: skip
    head = nn.Linear(64, spec.outputs)
    module = ImageModel(trunk, head, channels=3, mean=(0.5,), std=(0.5,), precision=spec.precision)
    return BuiltModel(module, as_images)


def four_conv_cnn(spec: Spec) -> BuiltModel:
    """Two blocks of two 3x3 convolutions of 64 with batch normalisation and a max-pool, a layer of 512, the head.

    For square images of the side the card's ``image_size`` says, with its ``channels`` (3 unless given).
    """
    channels, side = int(spec.card.options.get("channels", 3)), int(spec.card.options["image_size"])
    trunk = nn.Sequential(
        *_convolution(channels, 64), *_convolution(64, 64), nn.MaxPool2d(2),
        *_convolution(64, 64), *_convolution(64, 64), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * (side // 4) ** 2, 512), nn.ReLU(),
    )  # fmt: skip
    head = nn.Linear(512, spec.outputs)
    module = ImageModel(trunk, head, channels=channels, mean=(0.5,), std=(0.5,), precision=spec.precision)
    return BuiltModel(module, as_images)


def _convolution(inputs: int, outputs: int) -> list[nn.Module]:
    return [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]


def small_transformer(spec: Spec) -> BuiltModel:
    """Two transformer layers over words hashed into 4,096 buckets, mean-pooled. At most 128 words."""
    longest = min(spec.max_length or LONGEST, LONGEST)
    return BuiltModel(SmallTransformer(spec.outputs, spec.precision), WordHasher(longest))


class WordHasher:
    """Texts to bucket numbers: words and punctuation marks, lower case, by CRC-32; padded to the batch's longest.

    ``seen`` and ``truncated`` count the texts encoded and those cut.
    """

    def __init__(self, longest: int):
        self.longest = longest
        self.seen = 0
        self.truncated = 0

    def __call__(self, raw: Raw) -> Inputs:
        """int64 ``input_ids`` (n, length) and ``attention_mask`` (n, length)."""
        if isinstance(raw, Tensor):
            raise TypeError("a text model got a batch of images")
        rows = [self._numbers(text) for text in raw]
        self.seen += len(rows)
        self.truncated += sum(len(row) > self.longest for row in rows)
        rows = [row[: self.longest] for row in rows]
        length = max(1, *map(len, rows))
        ids = torch.tensor([row + [PAD] * (length - len(row)) for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in rows])
        return {"input_ids": ids, "attention_mask": mask}

    def _numbers(self, text: str | tuple[str, str]) -> list[int]:
        if isinstance(text, tuple):
            return [*self._numbers(text[0]), SEPARATOR, *self._numbers(text[1])]
        words = _WORD.findall(text.lower())
        return [FIRST_WORD + zlib.crc32(word.encode()) % (BUCKETS - FIRST_WORD) for word in words]


class SmallTransformer(nn.Module):
    """Embedding, positions, two encoder layers, mean over the words, linear head."""

    def __init__(self, outputs: int, precision: str):
        super().__init__()
        self.precision = precision
        self.words = nn.Embedding(BUCKETS, WIDTH, padding_idx=PAD)
        self.positions = nn.Embedding(LONGEST, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, dropout=0.1, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(WIDTH), enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, outputs)

    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Logits (n,) or (n, outputs), float32. An empty text gives the head's bias."""
        ids, mask = tensors(inputs)["input_ids"], tensors(inputs)["attention_mask"]
        with mixed(self.precision, ids.device):
            hidden = self.words(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
            # The first place is never masked: attention over nothing would be NaN for an empty text.
            hidden_places = (mask == 0) & (torch.arange(ids.shape[1], device=ids.device) > 0)
            hidden = self.layers(hidden, src_key_padding_mask=hidden_places)
            logits = self.head(mean_pool(hidden, mask))
        return squeezed(logits)


def mean_pool(hidden: Tensor, mask: Tensor) -> Tensor:
    """The mean of ``hidden`` (n, length, width) over the places where ``mask`` (n, length) is 1."""
    weights = mask.unsqueeze(2).to(hidden.dtype)
    return (hidden * weights).sum(1) / weights.sum(1).clamp(min=1)
