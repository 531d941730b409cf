"""Ranking metrics with scikit-learn's definitions, exact and fast; what a score means afterwards. Needs no torch."""

from trainables.metrics.binary import average_precision, binary_auc, partial_auc, roc_points
from trainables.metrics.inputs import MetricError, NonFiniteScoresError, OneClassSetError
from trainables.metrics.multiclass import (
    log_softmax_scores,
    macro_aucs,
    macro_ovo_auc,
    macro_ovr_auc,
    multilabel_macro_auc,
)

__all__ = [
    "MetricError",
    "NonFiniteScoresError",
    "OneClassSetError",
    "average_precision",
    "binary_auc",
    "log_softmax_scores",
    "macro_aucs",
    "macro_ovo_auc",
    "macro_ovr_auc",
    "multilabel_macro_auc",
    "partial_auc",
    "roc_points",
]
