"""A small convolutional model over characters, for texts that are no words: emoticons, codes, misspellings."""

from __future__ import annotations

import zlib

import torch
from torch import Tensor, nn

from trainables.data.types import Raw
from trainables.device import Inputs
from trainables.models.built import BuiltModel, Spec, mixed, squeezed, tensors

BUCKETS, WIDTH, FEATURES, LONGEST = 1024, 32, 64, 128
PAD, FIRST_CHARACTER = 0, 1


def char_cnn(spec: Spec) -> BuiltModel:
    """Two convolutions over characters hashed into 1,024 buckets, the largest value of each feature, a linear head."""
    longest = min(spec.max_length or LONGEST, LONGEST)
    return BuiltModel(CharCnn(spec.outputs, spec.precision), CharacterHasher(longest))


class CharacterHasher:
    """Texts to bucket numbers, by CRC-32 of each character; padded to the batch's longest; pairs joined by a newline.

    ``seen`` and ``truncated`` count the texts encoded and those cut.
    """

    def __init__(self, longest: int):
        self.longest = longest
        self.seen = 0
        self.truncated = 0

    def __call__(self, raw: Raw) -> Inputs:
        """int64 ``input_ids`` (n, length), 0 where padded."""
        if isinstance(raw, Tensor):
            raise TypeError("a text model got a batch of images")
        texts = [text if isinstance(text, str) else "\n".join(text) for text in raw]
        self.seen += len(texts)
        self.truncated += sum(len(text) > self.longest for text in texts)
        rows = [[_bucket(character) for character in text[: self.longest]] for text in texts]
        length = max(1, *map(len, rows))
        return {"input_ids": torch.tensor([row + [PAD] * (length - len(row)) for row in rows])}


def _bucket(character: str) -> int:
    return FIRST_CHARACTER + zlib.crc32(character.encode("utf-8", "surrogatepass")) % (BUCKETS - FIRST_CHARACTER)


class CharCnn(nn.Module):
    """Embedding, two convolutions of width 3, maximum over the characters, linear head."""

    def __init__(self, outputs: int, precision: str):
        super().__init__()
        self.precision = precision
        self.characters = nn.Embedding(BUCKETS, WIDTH, padding_idx=PAD)
        self.first = nn.Conv1d(WIDTH, FEATURES, 3, padding=1)
        self.second = nn.Conv1d(FEATURES, FEATURES, 3, padding=1)
        self.head = nn.Linear(FEATURES, outputs)

    def forward(self, inputs: Inputs) -> Tensor:
        """Logits (n,) or (n, outputs), float32; padding does not change them. An empty text gives the head's bias."""
        ids = tensors(inputs)["input_ids"]
        there = (ids != PAD).unsqueeze(1)
        with mixed(self.precision, ids.device):
            hidden = torch.relu(self.first(self.characters(ids).transpose(1, 2))) * there
            # After relu 0 is the least value, so a padded place never is the maximum.
            hidden = torch.relu(self.second(hidden)) * there
            logits = self.head(hidden.amax(2))
        return squeezed(logits)
