"""The few statistics the tables need, with their conventions written down."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

TIE_DECIMALS = 12
"""Means and deviations that agree to this many decimals are one value.

Means of AUCs are sums of fractions with small denominators, so equal values are common on small validation sets and
differ only in floating-point rounding (about 1e-16), which must not decide a selection.
"""


def mean(values: Iterable[float]) -> float:
    """Arithmetic mean with an exactly rounded sum (independent of the order); NaN for no values."""
    listed = [float(value) for value in values]
    return math.fsum(listed) / len(listed) if listed else math.nan


def sample_sd(values: Iterable[float]) -> float:
    """Sample standard deviation (ddof 1); NaN for fewer than two values."""
    listed = [float(value) for value in values]
    if len(listed) < 2:
        return math.nan
    centre = mean(listed)
    return math.sqrt(math.fsum((value - centre) ** 2 for value in listed) / (len(listed) - 1))


@dataclass(frozen=True)
class Quartiles:
    """First quartile, median and third quartile by linear interpolation (numpy's default), and their range."""

    q1: float
    median: float
    q3: float

    @property
    def iqr(self) -> float:
        """Interquartile range q3 - q1."""
        return self.q3 - self.q1


def quartiles(values: Iterable[float]) -> Quartiles:
    """Quartiles of ``values``, all NaN for no values."""
    listed = [float(value) for value in values]
    if not listed:
        return Quartiles(math.nan, math.nan, math.nan)
    q1, median, q3 = (float(value) for value in np.quantile(np.asarray(listed), [0.25, 0.5, 0.75]))
    return Quartiles(q1, median, q3)
