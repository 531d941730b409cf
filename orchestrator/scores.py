"""Scores of a finished trial as a table for the store: one row per validation and test example."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

COLUMNS = ("split", "index", "label", "score")


def score_frame(scores: Mapping[str, NDArray[Any]]) -> pd.DataFrame:
    """``TrialResult.scores`` with columns ``split`` (``validation``, ``test``), ``index`` (place in the split),
    ``label`` and ``score``, at the selected epoch.

    Binary: raw logits. Multiclass: ``score`` is a list of log-softmax values, one per class. Multilabel: ``score``
    (logits) and ``label`` are lists. Empty for a trial whose scores were too many to keep (``evaluate.KEPT_AT_MOST``).
    """
    parts = []
    for split in (name for name in ("validation", "test") if name in scores):
        values, labels = np.asarray(scores[split]), np.asarray(scores[f"{split}_labels"])
        columns = {"label": labels, "score": values}
        part = {key: value if value.ndim == 1 else list(value) for key, value in columns.items()}
        parts.append(pd.DataFrame({"split": split, "index": np.arange(len(values)), **part}))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(COLUMNS))
