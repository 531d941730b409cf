"""AUC, partial AUC, average precision and their multiclass relatives against scikit-learn and double loops."""

from __future__ import annotations

import itertools
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from trainables.metrics import (
    MetricError,
    NonFiniteScoresError,
    OneClassSetError,
    average_precision,
    binary_auc,
    log_softmax_scores,
    macro_aucs,
    macro_ovo_auc,
    macro_ovr_auc,
    multilabel_macro_auc,
    partial_auc,
)


def draw(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A random set of 2 to 60 examples with both classes and, for even seeds, many ties."""
    random = np.random.default_rng(seed)
    n = int(random.integers(2, 60))
    labels = random.integers(0, 2, n)
    labels[:2] = [0, 1]
    scores = random.integers(0, 6, n) / 4 if seed % 2 == 0 else random.standard_normal(n)
    return scores, labels


def loop_auc(scores: list[float], labels: list[int]) -> float:
    pairs = [(a, b) for (a, i), (b, j) in itertools.product(zip(scores, labels, strict=True), repeat=2) if i > j]
    return sum(1.0 if a > b else 0.5 if a == b else 0.0 for a, b in pairs) / len(pairs)


@pytest.mark.parametrize("positives", [1, 16, 17, 80])
def test_average_precision_of_few_and_of_many_positives(positives: int) -> None:
    scores = np.random.RandomState(positives).randint(0, 30, 90).astype(float)  # with ties
    labels = (np.arange(90) < positives).astype(int)
    assert average_precision(scores, labels) == pytest.approx(average_precision_score(labels, scores), rel=1e-12)


@pytest.mark.parametrize("seed", range(40))
def test_binary_metrics_equal_sklearn_and_the_double_loop(seed: int) -> None:
    scores, labels = draw(seed)
    assert binary_auc(scores, labels) == pytest.approx(roc_auc_score(labels, scores), rel=1e-12)
    assert binary_auc(scores, labels) == pytest.approx(loop_auc(scores.tolist(), labels.tolist()), rel=1e-12)
    assert average_precision(scores, labels) == pytest.approx(average_precision_score(labels, scores), rel=1e-12)
    for max_fpr in (0.05, 0.25, 0.5, 0.999):
        expected = roc_auc_score(labels, scores, max_fpr=max_fpr)
        assert partial_auc(scores, labels, max_fpr, normalisation="mcclish") == pytest.approx(expected, rel=1e-10)
    assert partial_auc(scores, labels) == pytest.approx(binary_auc(scores, labels), rel=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_partial_auc_by_mean_is_the_share_of_pairs_in_the_block(seed: int) -> None:
    random = np.random.default_rng(seed)
    labels = np.r_[np.ones(8, int), np.zeros(20, int)]
    scores = random.permutation(28) / 7.0 + 1.05 * labels  # no ties
    positives, negatives = np.sort(scores[labels == 1]), np.sort(scores[labels == 0])
    hardest = negatives[-5:]
    one_way = np.mean(positives[:, None] > hardest)
    assert partial_auc(scores, labels, 0.25) == pytest.approx(one_way, rel=1e-12)
    two_way = np.mean(positives[:4, None] > hardest)  # TPR above 1/2: the four lowest positives
    assert partial_auc(scores, labels, 0.25, 0.5) == pytest.approx(two_way, rel=1e-12, abs=1e-12)


def test_partial_auc_refuses_ranges_it_has_no_meaning_for() -> None:
    scores, labels = [0.1, 0.2, 0.3], [0, 1, 1]
    for wrong in ({"max_fpr": 0.0}, {"max_fpr": 1.5}, {"min_tpr": 1.0}, {"normalisation": "area"}):
        with pytest.raises(MetricError):
            partial_auc(scores, labels, **wrong)
    with pytest.raises(MetricError, match="McClish"):
        partial_auc(scores, labels, 0.5, 0.5, normalisation="mcclish")


def test_inputs_may_be_torch_of_any_precision_and_analysis_needs_no_torch() -> None:
    scores = torch.tensor([0.1, 0.9, 0.5, 0.4], requires_grad=True)
    assert binary_auc(scores, torch.tensor([0, 1, 1, 0])) == 1.0
    assert binary_auc(scores.to(torch.bfloat16), torch.tensor([False, True, False, True])) == 0.75
    code = "import sys, trainables.metrics; assert 'torch' not in sys.modules and 'sklearn' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("scores", "labels", "error", "match"),
    [
        ([0.1, float("nan"), 0.3], [0, 1, 1], NonFiniteScoresError, "1 of 3 scores are NaN"),
        ([0.1, 0.2], [1, 1], OneClassSetError, "negative"),
        ([0.1, 0.2], [0, 0], OneClassSetError, "positive"),
        ([0.1, 0.2], [0, 2], MetricError, "0 or 1"),
        ([0.1, 0.2], [-1, 1], MetricError, "0 or 1"),
        ([0.1, 0.2], [0.0, 0.5], MetricError, "0 or 1"),
        ([0.1, 0.2], [0, 1, 1], MetricError, "shape"),
        ([0.1, 0.2, 0.3], [0.0, 1.0, float("nan")], MetricError, "0 or 1"),
        ([0.1, [0.2]], [0, 1], MetricError, "numbers"),
        ([[0.1], [0.2]], [[0], [1]], MetricError, "axes"),
        ([], [], OneClassSetError, "positive"),
        (["a", "b"], [0, 1], MetricError, "numbers"),
    ],
)
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("metric", [binary_auc, average_precision, partial_auc])
def test_bad_sets_are_refused(metric, scores, labels, error, match) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error, match=match) as caught:
        metric(scores, labels)
    assert isinstance(caught.value, ValueError)


def test_infinite_scores_rank_at_the_ends() -> None:
    assert binary_auc([float("inf"), 0.0, -float("inf")], [1, 0, 0]) == 1.0


@given(seed=st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_auc_depends_on_order_alone(seed: int) -> None:
    scores, labels = draw(2 * seed)
    auc = binary_auc(scores, labels)
    assert binary_auc(np.exp(3 * scores) - 7, labels) == auc
    assert binary_auc(-scores, 1 - labels) == auc
    assert binary_auc(-scores, labels) == pytest.approx(1 - auc, abs=1e-15)
    order = np.random.default_rng(seed).permutation(labels.size)
    assert binary_auc(scores[order], labels[order]) == auc


@pytest.mark.parametrize(
    ("classes", "n", "ties"), [(3, 40, True), (10, 300, False), (10, 300, True), (100, 1200, False)]
)
def test_macro_aucs_equal_sklearn(classes: int, n: int, ties: bool) -> None:
    random = np.random.default_rng(classes)
    labels = np.r_[np.arange(classes), random.integers(0, classes, n - classes)]
    scores = random.random((n, classes)) + 0.3 * np.eye(classes)[labels]
    if ties:
        scores = np.round(scores * 5) + 1
    scores /= scores.sum(axis=1, keepdims=True)
    ovr = roc_auc_score(labels, scores, multi_class="ovr", average="macro")
    assert macro_ovr_auc(scores, labels) == pytest.approx(ovr, rel=1e-12)
    assert macro_aucs(scores.astype(np.float32), labels)[1] == pytest.approx(ovr, abs=1e-6)
    ovo = roc_auc_score(labels, scores, multi_class="ovo", average="macro")
    assert macro_ovo_auc(scores, labels) == pytest.approx(ovo, rel=1e-12)
    assert macro_aucs(scores, labels) == (macro_ovo_auc(scores, labels), macro_ovr_auc(scores, labels))


def test_absent_classes_are_named_and_left_out_only_on_request() -> None:
    random = np.random.default_rng(1)
    labels = random.choice([0, 2, 3], 50)
    scores = random.standard_normal((50, 5))
    with pytest.raises(OneClassSetError, match=r"class 1, 4 has no example"):
        macro_ovo_auc(scores, labels)
    with pytest.warns(UserWarning, match=r"2 of 5 left out: class 1, 4"):
        ovo, ovr = macro_aucs(scores, labels, absent="exclude")
    kept = scores[:, [0, 2, 3]]
    pairs = [
        loop_auc(kept[np.isin(labels, (a, b)), [0, 2, 3].index(a)].tolist(), (labels[np.isin(labels, (a, b))] == a))
        for a, b in itertools.permutations([0, 2, 3], 2)
    ]
    assert ovo == pytest.approx(np.mean(pairs), rel=1e-12)
    rest = [roc_auc_score(labels == c, scores[:, c]) for c in (0, 2, 3)]
    assert ovr == pytest.approx(np.mean(rest), rel=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(OneClassSetError, match="at least 2"):
            macro_ovo_auc(scores, np.zeros(50, int), absent="exclude")
    with pytest.raises(MetricError, match="absent"):
        macro_ovo_auc(scores, labels, absent="skip")


def test_multiclass_inputs_are_checked() -> None:
    for scores, labels in (
        (np.zeros((3, 1)), [0, 0, 0]),
        (np.zeros(3), [0, 1, 1]),
        (np.zeros((3, 2)), [0, 1]),
        (np.zeros((3, 2)), [0, 1, 2]),
        (np.full((3, 2), np.nan), [0, 1, 1]),
    ):
        with pytest.raises(MetricError):
            macro_ovr_auc(scores, labels)


def test_multilabel_macro_equals_sklearn() -> None:
    random = np.random.default_rng(2)
    labels, scores = random.integers(0, 2, (80, 6)), np.round(random.standard_normal((80, 6)), 1)
    expected = roc_auc_score(labels, scores, average="macro")
    assert multilabel_macro_auc(scores, labels) == pytest.approx(expected, rel=1e-12)
    labels[:, 3] = 1
    with pytest.raises(OneClassSetError, match="label 3 has one class only"):
        multilabel_macro_auc(scores, labels)
    rest = [0, 1, 2, 4, 5]
    with pytest.warns(UserWarning, match="label 3"):
        value = multilabel_macro_auc(scores, labels, absent="exclude")
    assert value == pytest.approx(roc_auc_score(labels[:, rest], scores[:, rest], average="macro"), rel=1e-12)


def test_log_softmax_scores_do_not_underflow_and_differ_from_logits_in_ovr() -> None:
    random = np.random.default_rng(3)
    logits = random.standard_normal((60, 4)) * 400
    scores = log_softmax_scores(logits)
    expected = torch.log_softmax(torch.from_numpy(logits), 1).numpy()
    assert np.allclose(scores, expected, rtol=1e-12)
    losing = scores[scores < -1]  # as probabilities most of these would be 0, hence tied
    assert losing.min() < -1000
    assert np.unique(losing).size == losing.size
    assert log_softmax_scores(logits.astype(np.float32)).dtype == np.float32
    shift = random.standard_normal((60, 1)) * 1000
    labels = np.arange(60) % 4
    assert macro_ovr_auc(logits + shift, labels) != macro_ovr_auc(logits, labels)
    shifted = macro_ovr_auc(log_softmax_scores(logits + shift), labels)
    assert shifted == pytest.approx(macro_ovr_auc(scores, labels), abs=1e-12)
