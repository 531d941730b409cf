"""Speed and memory of macro one-vs-one and one-vs-rest AUC against scikit-learn, and alone at 8,142 classes.

Run: ``python benchmarks/metrics.py`` (about a minute on one core).
"""

from __future__ import annotations

import resource
import time

import numpy as np
from sklearn.metrics import roc_auc_score

from trainables.metrics import macro_aucs, macro_ovo_auc


def scores_and_labels(n: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Random probabilities (n, classes) float32 with some signal, and labels with every class present."""
    random = np.random.default_rng(0)
    labels = np.concatenate([np.arange(classes), random.integers(0, classes, n - classes)])
    scores = random.standard_normal((n, classes), dtype=np.float32)
    scores[np.arange(n), labels] += 2
    return scores, labels


def main() -> None:
    """Print the comparison at 100 classes, then the large case."""
    logits, labels = scores_and_labels(5_000, 100)
    probabilities = np.exp(logits.astype(np.float64))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    start = time.process_time()
    ours = macro_ovo_auc(probabilities, labels)
    middle = time.process_time()
    theirs = roc_auc_score(labels, probabilities, multi_class="ovo", average="macro")
    end = time.process_time()
    print(
        f"OVO, 100 classes, 5,000 examples: ours {middle - start:.2f} s, scikit-learn {end - middle:.2f} s "
        f"({(end - middle) / (middle - start):.0f}x), difference {abs(ours - theirs):.1e}"
    )
    logits, labels = scores_and_labels(24_426, 8_142)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    one_vs_one, one_vs_rest = macro_aucs(logits, labels)
    took = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"8,142 classes, 24,426 examples: OVO {one_vs_one:.4f} and OVR {one_vs_rest:.4f} in {took:.1f} s, "
        f"{(peak - before) / 1024:.0f} MiB beyond the scores ({logits.nbytes / 2**20:.0f} MiB), "
        f"process peak {peak / 2**20:.2f} GiB"
    )


if __name__ == "__main__":
    main()
