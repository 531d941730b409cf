"""Reading scores and labels: numpy arrays, torch tensors or sequences, checked before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from search_spaces.errors import DataError, NonFiniteError, TrialError

Floats = NDArray[Any]
Labels = NDArray[np.int64]


class MetricError(ValueError, TrialError):
    """Scores or labels from which a metric cannot be computed."""


class OneClassSetError(MetricError, DataError):
    """An evaluation set that lacks a class, so that the metric is undefined. ``kind`` is ``data``."""


class NonFiniteScoresError(MetricError, NonFiniteError):
    """Scores with NaN (or infinite ones, where a metric needs numbers). ``kind`` is ``nan``."""


def as_scores(scores: Any, dimensions: int, *, keep_float32: bool = False) -> Floats:
    """``scores`` as a float64 array of ``dimensions`` axes; float32 is kept on request (comparisons are exact in it).

    Raises ``MetricError`` for another number of axes and ``NonFiniteScoresError`` for NaN.
    """
    array = _numpy(scores)
    if array.ndim != dimensions:
        raise MetricError(f"scores must have {dimensions} axes, got shape {array.shape}")
    if not (keep_float32 and array.dtype == np.float32):
        array = array.astype(np.float64, copy=False)
    bad = int(np.isnan(array).sum())
    if bad:
        raise NonFiniteScoresError(f"{bad} of {array.size} scores are NaN")
    return array


def as_labels(labels: Any, shape: tuple[int, ...], allowed: int) -> Labels:
    """``labels`` as int64 of ``shape`` with values 0 .. ``allowed`` - 1. Raises ``MetricError`` otherwise."""
    array = _numpy(labels)
    if array.shape != shape:
        raise MetricError(f"labels must have shape {shape} like the scores, got {array.shape}")
    with np.errstate(invalid="ignore"):  # NaN becomes some number, which is not NaN
        whole = array.astype(np.int64)
    wrong = (whole != array) | (whole < 0) | (whole >= allowed)
    if wrong.any():
        names = "0 or 1" if allowed == 2 else f"whole numbers from 0 to {allowed - 1}"
        raise MetricError(f"labels must be {names}, got {np.unique(array[wrong])[:5].tolist()}")
    return whole


def binary_inputs(scores: Any, labels: Any) -> tuple[Floats, Labels]:
    """Checked float64 scores (n,) and labels (n,) with both classes present.

    Raises ``MetricError``, ``NonFiniteScoresError`` or ``OneClassSetError`` (which names the missing class).
    """
    values = as_scores(scores, 1)
    truth = as_labels(labels, values.shape, 2)
    positives = int(truth.sum())
    if positives in (0, truth.size):
        missing = "positive (label 1)" if positives == 0 else "negative (label 0)"
        raise OneClassSetError(f"no {missing} example among {truth.size}: the metric is undefined")
    return values, truth


def numbered(items: Sequence[int], limit: int = 10) -> str:
    """The first ``limit`` of ``items`` as text, with how many more there are."""
    shown = ", ".join(str(item) for item in items[:limit])
    return shown if len(items) <= limit else f"{shown} and {len(items) - limit} more"


def _numpy(values: Any) -> NDArray[Any]:
    """An array from numpy, torch (any device, half precision too) or a sequence; torch itself is not imported."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        if values.is_floating_point() and str(values.dtype) not in ("torch.float32", "torch.float64"):
            values = values.float()
        return np.asarray(values.numpy())
    try:
        array = np.asarray(values)
    except ValueError as error:  # lists of different lengths
        raise MetricError(f"expected numbers: {error}") from error
    if array.dtype.kind not in "biuf":
        raise MetricError(f"expected numbers, got an array of {array.dtype}")
    return array
