"""Scores and AUC of a split at the end of an epoch, and the epoch a run is judged by. Consumes no random numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from search_spaces.errors import DataError, NonFiniteError
from trainables.data import Split
from trainables.device import Inputs, to_device
from trainables.metrics import binary_auc
from trainables.models import BuiltModel
from trainables.prefetch import prefetch


def score_split(
    model: BuiltModel,
    split: Split,
    *,
    name: str,
    epoch: int,
    batch_size: int,
    device: torch.device,
    workers: int = 0,
    before_batch: Callable[[], None] = lambda: None,
) -> NDArray[np.float64]:
    """The raw logits (n,) of the whole split in its own order, in float64, with the evaluation view of each example.

    The module is left in evaluation mode. ``name`` and ``epoch`` are for messages. ``before_batch`` is called before
    each batch of ``batch_size`` and may raise. Raises ``NonFiniteError`` when a logit is NaN or infinite.
    """
    size = len(split.labels)

    def inputs(start: int) -> Inputs:
        return model.encode(split.fetch(np.arange(start, min(start + batch_size, size)), None))

    model.module.eval()
    parts = []
    with torch.no_grad():  # not inference_mode: a tensor that a module caches here may be needed for a gradient later
        for batch in prefetch(inputs, range(0, size, batch_size), workers):
            before_batch()
            parts.append(model.module(to_device(batch, device)).double().cpu().numpy())
    scores: NDArray[np.float64] = np.concatenate(parts)
    bad = np.flatnonzero(~np.isfinite(scores))
    if len(bad):
        raise NonFiniteError(
            f"{len(bad)} of {size} {name} scores are not finite at the end of epoch {epoch} "
            f"(first: example {bad[0]}, {scores[bad[0]]})"
        )
    return scores


def require_both_classes(labels: NDArray[np.int64], name: str) -> None:
    """Raise ``DataError`` unless ``labels`` holds both classes: no AUC is defined on one."""
    positives = int((labels == 1).sum())
    if positives in (0, len(labels)):
        raise DataError(
            f"the {name} split holds one class only ({len(labels) - positives} negatives, {positives} positives): "
            "its AUC is undefined"
        )


def auc(scores: NDArray[np.float64], labels: NDArray[np.int64], name: str) -> float:
    """AUC of a split, 0 .. 1. Raises ``DataError`` when it holds one class only."""
    require_both_classes(labels, name)
    return binary_auc(scores, labels)


def selected_epoch(rows: Sequence[dict[str, Any]]) -> int:
    """The epoch a run is judged by: the first with the largest ``val_auc``."""
    best = max(row["val_auc"] for row in rows)
    return int(next(row["epoch"] for row in rows if row["val_auc"] == best))
