"""How fast images reach a model: the decoded store against decoding each time, and both against a training step.

    python benchmarks/data.py [--images 400] [--threads 1]

Prints examples per second on this machine for photographs of 500 x 375 in the paper's views at 224 (random resized
crop, flip and RandAugment for training; resize and centre crop for evaluation), and for one ResNet18 training step.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageFilter

from search_spaces.tasks import TASKS
from trainables.data import load_task, prepare_task
from trainables.models import build_model


def write_photographs(folder: Path, count: int) -> None:
    """Smooth noise as JPEG of quality 90: about the size (60 kB) of an ImageNet photograph."""
    random = np.random.RandomState(0)
    for label in ("brown spot", "leaf smut"):
        (folder / label).mkdir(parents=True)
        for i in range(count // 2):
            noise = Image.fromarray(random.randint(0, 256, (375, 500, 3), dtype=np.uint8))
            noise.filter(ImageFilter.GaussianBlur(1.2)).save(folder / label / f"{i}.jpg", quality=90)


def rate(body: Callable[[np.ndarray], object], count: int, batch: int = 32, seconds: float = 6.0) -> float:
    """Examples per second of ``body(indices)`` over random batches."""
    random = np.random.RandomState(1)
    body(random.randint(0, count, batch))
    start, done = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        body(random.randint(0, count, batch))
        done += batch
    return done / (time.perf_counter() - start)


def training_step(batch: int = 32) -> Callable[[np.ndarray], object]:
    """One forward, backward and optimizer step of ResNet18 on images already in memory."""
    torch.manual_seed(0)
    module = build_model("resnet18", "random", card=TASKS["rice-disease"]).module
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4)
    images = torch.randint(0, 256, (batch, 3, 224, 224), dtype=torch.uint8)

    def step(indices: np.ndarray) -> None:
        optimizer.zero_grad()
        module(images).square().mean().backward()
        optimizer.step()

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    train = given.images // 2 - 20
    base = replace(TASKS["rice-disease"], counts={"train": (train,) * 2, "validation": (10,) * 2, "test": (10,) * 2})
    speeds: dict[tuple[str, str], float] = {}
    with tempfile.TemporaryDirectory() as name:
        photographs = Path(name) / "rice-leaf-diseases"
        write_photographs(photographs, given.images)
        for storage in ("encoded", "decoded"):
            root = Path(name) / storage
            (root / "sources").mkdir(parents=True)
            (root / "sources" / photographs.name).symlink_to(photographs)
            card = replace(base, options={**base.options, "storage": storage})
            start = time.perf_counter()
            prepared = prepare_task(card, root)
            seconds = time.perf_counter() - start
            assert prepared.path is not None
            size = sum(file.stat().st_size for file in prepared.path.iterdir()) / given.images / 1e3
            print(f"{storage:8} prepared in {seconds:.1f} s, {size:.0f} kB an image")
            split = load_task(card, seed=0, data_root=root, augmentation="paper").train
            views = {
                "pixels": lambda rows, split=split: [split.images.pixels(int(row)).sum() for row in rows],
                "training": lambda rows, split=split: split.fetch(rows, rows),
                "evaluation": lambda rows, split=split: split.fetch(rows, None),
            }
            for view, body in views.items():
                speeds[storage, view] = rate(body, 2 * train)
                print(f"{storage:8} {view:10} {speeds[storage, view]:8.0f} images/s")
    step = rate(training_step(), 2 * train)
    print(f"ResNet18 training step {step:.0f} images/s")
    for view in ("pixels", "training", "evaluation"):
        print(f"decoded / encoded, {view}: {speeds['decoded', view] / speeds['encoded', view]:.2f}")
    print(f"decoded training view / ResNet18 step: {speeds['decoded', 'training'] / step:.1f}")


if __name__ == "__main__":
    main()
