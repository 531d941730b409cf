"""Canonical form and hash of a configuration, so that equal configurations have equal ids everywhere.

1, 1.0 and 1e0 are one value, -0.0 is 0, mappings are sorted, and the bytes are the same whether the values came
from YAML, JSON, Python or Parquet (numpy scalars included).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

ID_LENGTH = 16


def canonical(value: Any) -> Any:
    """``value`` with one representation per meaning: JSON types only, whole floats as integers, keys sorted.

    Raises ``TypeError`` for a type that has no JSON form and ``ValueError`` for NaN, infinity, or a key that is not
    a string.
    """
    kind = type(value)
    if value is None or kind is str or kind is int or kind is bool:  # the common ones first: a plan has 20,000 trials
        return value
    if kind is float:
        return _number(value)
    if isinstance(value, str):
        return str(value)
    if kind.__name__ in {"bool", "bool_"}:  # numpy's, under either of its names
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return _number(float(value))
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise ValueError(f"configuration keys must be strings, got {key!r}")
        return {key: canonical(value[key]) for key in sorted(value)}
    if isinstance(value, Sequence):
        return [canonical(item) for item in value]
    raise TypeError(f"{type(value).__name__} cannot be part of a configuration: {value!r}")


def _number(number: float) -> int | float:
    if not math.isfinite(number):
        raise ValueError(f"{number} cannot be part of a configuration")
    return int(number) if number.is_integer() else number


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical_json(value: Any) -> str:
    """The canonical form of ``value`` as compact JSON text."""
    return _ENCODER.encode(canonical(value))


def content_id(value: Any) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of ``canonical_json(value)``."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:ID_LENGTH]
