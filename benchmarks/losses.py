"""Speed and memory of the pairwise losses: ours, the plain pair matrix, and libauc's PairwiseAUCLoss.

Run: ``python benchmarks/losses.py`` (about two minutes on one core; ``--full`` also runs the matrix at 1e5 examples,
which needs 20 GB, instead of scaling it by the number of pairs from 3e4; scaled entries carry a ``~``).
Each entry is value and gradient of one batch, float32 scores, 10 % positives, one thread: median CPU milliseconds and
the peak memory it added. Only ratios within one run mean anything on a shared machine.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import statistics
import time
import warnings
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from trainables.losses import make_loss

NAMES = ("square", "hinge", "squared_hinge", "logistic", "exponential")
LIBAUC = {"square": "squared", "hinge": "hinge", "squared_hinge": "squared_hinge", "logistic": "logistic"}
MARGIN = 0.5
SCALE = 2.0
BATCHES = (24, 32, 48, 64, 128)
REPEATS = {100: 60, 1_000: 30, 10_000: 5, 30_000: 2, 100_000: 3, 1_000_000: 2}

Objective = Callable[[Tensor, Tensor], Tensor]


def matrix_loss(name: str) -> Objective:
    """The textbook formula on the pair matrix."""
    forms: dict[str, Callable[[Tensor], Tensor]] = {
        "square": lambda x: (MARGIN - x) ** 2,
        "hinge": lambda x: functional.relu(MARGIN - x),
        "squared_hinge": lambda x: functional.relu(MARGIN - x) ** 2,
        "logistic": lambda x: functional.softplus(-x),
        "exponential": lambda x: torch.exp(-x),
    }
    form = forms[name]
    return lambda scores, labels: form(scores[labels == 1][:, None] - scores[labels == 0]).mean()


def objective(kind: str, name: str) -> Objective | None:
    """The loss ``name`` of one of the three libraries, or None where it has none."""
    if kind == "ours":
        return make_loss(name, MARGIN if name in ("square", "hinge", "squared_hinge") else None)
    if kind == "matrix":
        return matrix_loss(name)
    if name not in LIBAUC:
        return None
    try:
        from libauc.losses import PairwiseAUCLoss
    except ImportError:
        return None
    loss: Objective = PairwiseAUCLoss(LIBAUC[name], 1.0 if name == "logistic" else MARGIN)
    return loss


def batch(n: int, positive: float) -> tuple[Tensor, Tensor]:
    """``n`` scores N(0, SCALE^2) that want a gradient, and their labels."""
    scores = (torch.randn(n, generator=torch.Generator().manual_seed(n)) * SCALE).requires_grad_()
    return scores, (torch.arange(n) < round(positive * n)).long()


def milliseconds(loss: Objective, scores: Tensor, labels: Tensor, repeats: int) -> float:
    """Median CPU time of value and gradient."""
    times = []
    for _ in range(repeats + 1):
        start = time.process_time()
        loss(scores, labels).backward()  # type: ignore[no-untyped-call]
        times.append(time.process_time() - start)
    return 1e3 * statistics.median(times[1:] if repeats > 1 else times)


def measure(task: tuple[str, str, int]) -> tuple[float, float] | None:
    """(milliseconds, peak MiB) of one entry; runs in a process of its own, so that the peak is its own."""
    warnings.simplefilter("ignore")
    kind, name, n = task
    torch.set_num_threads(1)
    loss = objective(kind, name)
    if loss is None:
        return None
    milliseconds(loss, *batch(100, 0.1), 2)
    scores, labels = batch(n, 0.1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    took = milliseconds(loss, scores, labels, REPEATS[n])
    return took, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def small_batches() -> None:
    """Training batches: ours against the matrix, interleaved, as ratios of medians."""
    torch.set_num_threads(1)
    print("\nTraining batches (25 % positives): CPU microseconds ours / matrix = ratio")
    for n in BATCHES:
        scores, labels = batch(n, 0.25)
        cells = []
        for name in NAMES:
            ours, matrix = objective("ours", name), matrix_loss(name)
            assert ours is not None
            pairs = [
                (milliseconds(ours, scores, labels, 50), milliseconds(matrix, scores, labels, 50)) for _ in range(31)
            ]
            a, b = (1e3 * statistics.median(times) for times in zip(*pairs, strict=True))
            ratio = statistics.median(one / other for one, other in pairs)  # the machine's speed may change between
            cells.append(f"{name} {a:.0f}/{b:.0f}={ratio:.2f}")
        print(f"  B={n:<4}", "  ".join(cells))


def measure_columns(kind: str) -> tuple[float, float]:
    """(milliseconds, peak MiB) of squared hinge, 512 examples with 8,142 classes or labels (10 % positive)."""
    torch.set_num_threads(1)
    random = torch.Generator().manual_seed(0)
    scores = torch.randn(512, 8142, generator=random).requires_grad_()
    if kind == "classes":
        labels = torch.randint(0, 8142, (512,), generator=random)
    else:
        labels = (torch.rand(512, 8142, generator=random) < 0.1).long()
    loss = make_loss("squared_hinge", MARGIN)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    took = milliseconds(loss, scores, labels, 1)
    return took, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="run the matrix at 1e5 (20 GB) instead of scaling it")
    full = parser.parse_args().full
    context = multiprocessing.get_context("spawn")

    def run(kind: str, name: str, n: int) -> tuple[str, float | None]:
        scaled = kind != "ours" and n == 100_000 and not full
        with context.Pool(1) as pool:
            found = pool.map(measure, [(kind, name, 30_000 if scaled else n)])[0]
        if found is None:
            return "-", None
        factor = (n / 30_000) ** 2 if scaled else 1.0
        return f"{'~' if scaled else ''}{found[0] * factor:.3g} ms {found[1] * factor:.0f} MiB", found[0] * factor

    print("Value and gradient, 10 % positives, float32: CPU ms and peak MiB; ratios are to ours")
    for name in NAMES:
        for n in (1_000, 10_000, 100_000, 1_000_000):
            text, ours = run("ours", name, n)
            line = f"{name:14} n={n:<8} ours {text:22}"
            if n < 1_000_000:
                for kind in ("matrix", "libauc"):
                    text, took = run(kind, name, n)
                    ratio = "" if took is None or ours is None else f" ({took / ours:.3g}x)"
                    line += f" {kind} {text}{ratio:8}"
            print(line, flush=True)
    small_batches()
    print("\nSquared hinge, 512 examples with 8,142 columns of scores, CPU time and peak memory")
    for kind in ("classes", "labels"):
        with context.Pool(1) as pool:
            took, peak = pool.apply(measure_columns, (kind,))
        print(f"  {kind:8} {took / 1e3:.2f} s {peak:.0f} MiB")


if __name__ == "__main__":
    main()
