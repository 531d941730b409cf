"""The long-tailed class profile of the multiclass tasks."""

from __future__ import annotations

from fractions import Fraction


def long_tail(largest: int, ratio: int, classes: int) -> tuple[int, ...]:
    """Examples of each class, from ``largest`` down to ``largest / ratio``, falling by one factor from class to class.

    round(largest * ratio ** (-i / (classes - 1))). The totals are the paper's: 431 and 818 for the CIFAR-100 tasks
    (200, ratio 10), 93 for Airbus-6 (30, ratio 5).

    >>> long_tail(30, 5, 6), sum(long_tail(200, 10, 5)), sum(long_tail(200, 10, 10))
    ((30, 22, 16, 11, 8, 6), 431, 818)
    """
    return tuple(round(largest * ratio ** float(-Fraction(i, classes - 1))) for i in range(classes))
