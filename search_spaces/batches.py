"""The arithmetic of batches, epochs and the CE warm-up, in integers only (``docs/protocol-notes.md`` says why so)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from fractions import Fraction


@functools.lru_cache(maxsize=4096)
def _times_half_up(share: float, whole: int) -> int:
    # The decimal the user wrote, not its binary neighbour: 0.15 * 10 + 0.5 is exactly 2.
    product = Fraction(repr(share)) * whole + Fraction(1, 2)
    return product.numerator // product.denominator


def class_shares(batch_size: int, positive_fraction: float) -> tuple[int, int]:
    """Negatives and positives of every batch: B+ = floor(fraction * B + 1/2) and the rest.

    Raises ``ValueError`` when one of them would be 0, since a pairwise loss needs both classes.

    >>> class_shares(128, 0.25)
    (96, 32)
    """
    positives = _times_half_up(positive_fraction, batch_size)
    negatives = batch_size - positives
    if positives < 1 or negatives < 1:
        raise ValueError(
            f"a batch of {batch_size} with positive_fraction {positive_fraction} has {positives} positives and "
            f"{negatives} negatives; every batch needs both"
        )
    return negatives, positives


def updates_per_epoch(counts: Sequence[int], batch_size: int, positive_fraction: float) -> int:
    """Optimizer updates of one epoch over ``counts`` = (negatives, positives) of the training split.

    The class that takes more batches is seen once, the other is recycled.

    >>> updates_per_epoch((6586, 202), 128, 0.25)
    69
    """
    if len(counts) != 2:
        raise ValueError(f"expected the counts of two classes, got {len(counts)}")
    shares = class_shares(batch_size, positive_fraction)
    return max(-(-count // share) for count, share in zip(counts, shares, strict=True))


def balanced_updates(counts: Sequence[int], batch_size: int) -> int:
    """Updates of one epoch when every class fills an equal share of each batch: the largest class is seen once.

    >>> balanced_updates((200, 112, 63, 36, 20), 60)
    17
    """
    return -(-max(counts) * len(counts) // batch_size)


def natural_updates(examples: int, batch_size: int) -> int:
    """Updates of one epoch over ``examples``, each seen once: as few batches of at most ``batch_size`` as hold them.

    >>> natural_updates(437513, 128)
    3419
    """
    return -(-examples // batch_size)


def warmup_updates(ratio: float, total: int) -> int:
    """W = floor(ratio * total + 1/2), computed exactly from the ratio's decimal form.

    Serves the CE warm-up and the linear learning-rate ramp alike.

    >>> warmup_updates(0.15, 30)
    5
    """
    if not 0 <= ratio <= 1:
        raise ValueError(f"ratio must be between 0 and 1, got {ratio}")
    return _times_half_up(ratio, total)
