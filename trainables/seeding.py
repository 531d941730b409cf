"""Random streams as pure functions: nothing here keeps state, so a run can be cut anywhere and go on equal.

Every random decision of a trial has a stream's name, the trial's seed and counters (which epoch, update, slot ...).
Its seed is their hash. Two trials with one seed therefore share splits, initial weights, data order, augmentations
and dropout masks, whatever else differs between them, and no decision depends on how many were made before it.

| stream  | counters                    | decides                                              |
|---------|-----------------------------|------------------------------------------------------|
| split   | the loader's own            | which example falls into which split, where drawn    |
| init    | none                        | initial weights                                      |
| order   | class, epoch, pass          | the order in which a class is visited                |
| augment | update, slot in the batch   | one example's augmentation                           |
| dropout | update                      | every mask of the update's forward passes            |
"""

from __future__ import annotations

import hashlib
import struct

import numpy as np
import torch
from numpy.typing import NDArray

STREAMS = ("split", "init", "order", "augment", "dropout")


def stream_seed(stream: str, seed: int, *counters: int) -> int:
    """The seed, in 0 .. 2**63 - 1, of one random decision: a SHA-256 of its name, the trial's seed and counters.

    Equal on every machine and for every version of Python, NumPy and torch. Raises ``ValueError`` for a stream that
    is not in ``STREAMS``, so that a misspelt name cannot open a stream of its own.
    """
    if stream not in STREAMS:
        raise ValueError(f"unknown random stream {stream!r} (allowed: {', '.join(STREAMS)})")
    name = stream.encode()
    numbers = struct.pack(f"<{len(counters) + 1}q", seed, *counters)
    digest = hashlib.sha256(bytes([len(name)]) + name + numbers).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def seed_torch(stream: str, seed: int, *counters: int) -> None:
    """Seed torch's global generators, of the CPU and of every GPU in use, for one random decision.

    ``torch.manual_seed`` without what makes it slow (0.3 ms against 3 us): it records a stack trace for each kind of
    device that has not been started.
    """
    value = stream_seed(stream, seed, *counters)
    torch.default_generator.manual_seed(value)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(value)


def permutation(size: int, stream: str, seed: int, *counters: int) -> NDArray[np.int64]:
    """A permutation of 0 .. size - 1, uniform over all of them: the ranks of ``size`` random 64-bit words.

    Drawn this way because NumPy promises the raw words of a bit generator across versions, but not ``permutation``.
    """
    words = np.random.PCG64(stream_seed(stream, seed, *counters)).random_raw(size)
    return np.argsort(words, kind="stable").astype(np.int64)
