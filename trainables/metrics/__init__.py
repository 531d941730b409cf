"""Ranking metrics with scikit-learn's definitions, exact and fast; what a score means afterwards. Needs no torch."""

from trainables.metrics.binary import average_precision, binary_auc, partial_auc, roc_points
from trainables.metrics.calibration import Calibrator, Reliability, fit_calibrator, reliability
from trainables.metrics.delong import AucComparison, AucInterval, delong_interval, delong_test
from trainables.metrics.inputs import MetricError, NonFiniteScoresError, OneClassSetError
from trainables.metrics.multiclass import (
    log_softmax_scores,
    macro_aucs,
    macro_ovo_auc,
    macro_ovr_auc,
    multilabel_macro_auc,
)
from trainables.metrics.thresholds import Threshold, choose_threshold

__all__ = [
    "AucComparison",
    "AucInterval",
    "Calibrator",
    "MetricError",
    "NonFiniteScoresError",
    "OneClassSetError",
    "Reliability",
    "Threshold",
    "average_precision",
    "binary_auc",
    "choose_threshold",
    "delong_interval",
    "delong_test",
    "fit_calibrator",
    "log_softmax_scores",
    "macro_aucs",
    "macro_ovo_auc",
    "macro_ovr_auc",
    "multilabel_macro_auc",
    "partial_auc",
    "reliability",
    "roc_points",
]
