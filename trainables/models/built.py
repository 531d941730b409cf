"""What a builder returns, and the two wrappers that every image and text model shares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from search_spaces.cards import TaskCard
from trainables.data.types import Raw
from trainables.device import Inputs

PRECISIONS = ("float32", "bfloat16", "bfloat16-autocast")
"""``bfloat16``: computed under autocast; what is trained stays in float32, what is frozen is held in bfloat16.
``bfloat16-autocast``: computed under autocast, everything held in float32."""


@dataclass(frozen=True)
class BuiltModel:
    """A model ready to train. ``module(encode(raw))`` gives logits (n,), or (n, outputs) for more than one output."""

    module: nn.Module
    encode: Callable[[Raw], Inputs]


@dataclass(frozen=True)
class Spec:
    """What a builder is told: the model's name, ``random`` or ``pretrained``, and what the task and regime ask for.

    ``outputs`` is 1 for a binary task (the logit of the positive class), else the number of classes or labels.
    """

    name: str
    init: str
    outputs: int
    card: TaskCard
    max_length: int | None
    precision: str
    weights: Any = None
    """The file or folder of the pretrained weights, where they were found."""

    @property
    def pretrained(self) -> bool:
        """Whether the weights are to be loaded."""
        return self.init == "pretrained"


def draw_seed() -> int:
    """A seed drawn from torch's global generator.

    Builders draw one for the head before anything else, so that a random and a pretrained model of one seed start
    from the same head (and adapters) although one of them used up many more random numbers.
    """
    return int(torch.randint(2**62, ()).item())


class ImageModel(nn.Module):
    """Normalises pixels, runs ``trunk`` and ``head``. Reads uint8 0..255 or float 0..1, (n, channels, height, width).

    The pixels are normalised here and not while encoding, so that a batch travels to the GPU as bytes. Grey images are
    repeated when the trunk wants three ``channels``.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        trunk: nn.Module,
        head: nn.Module,
        *,
        channels: int | None,
        mean: tuple[float, ...] = (0.0,),
        std: tuple[float, ...] = (1.0,),
        precision: str = "float32",
    ):
        super().__init__()
        self.trunk = trunk
        self.head = head
        self.channels = channels
        self.precision = precision
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(1, -1, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Logits (n,) or (n, outputs), float32."""
        pixels = images.float() / 255 if images.dtype == torch.uint8 else images
        if self.channels is not None and pixels.shape[1] == 1 != self.channels:
            pixels = pixels.expand(-1, self.channels, -1, -1)
        with mixed(self.precision, pixels.device):
            logits = self.head(self.trunk((pixels - self.mean) / self.std))
        return squeezed(logits)


def mixed(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """Autocast to bfloat16, or nothing for float32."""
    return nullcontext() if precision == "float32" else torch.autocast(device.type, torch.bfloat16)


def squeezed(logits: Tensor) -> Tensor:
    """float32 logits, (n,) when there is one output."""
    return logits.float().squeeze(1) if logits.shape[1] == 1 else logits.float()


def as_images(raw: Raw) -> Inputs:
    """The image batch itself; raises ``TypeError`` for texts."""
    if not isinstance(raw, Tensor):
        raise TypeError(f"an image model got {type(raw).__name__}, not a batch of images")
    return raw


def linear_head(features: int, outputs: int, seed: int, dropout: float = 0.0) -> nn.Module:
    """A linear layer drawn from ``seed`` alone, after dropout if any."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        layer = nn.Linear(features, outputs)
    return nn.Sequential(nn.Dropout(dropout), layer) if dropout else layer


def tensors(inputs: Inputs) -> Mapping[str, Tensor]:
    """The named tensors a text model reads."""
    if isinstance(inputs, Tensor):
        raise TypeError("a text model got a batch of images")
    return inputs
