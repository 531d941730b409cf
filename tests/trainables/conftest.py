"""A trial configuration to vary, and a toy task with a toy model in place of the real ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from search_spaces.cards import TaskCard
from search_spaces.trial import TrialConfig
from trainables.context import TrialContext

BASE = TrialConfig(
    task="toy",
    task_revision="1",
    model="toy-model",
    init="random",
    loss="squared_hinge",
    mode="warmup",
    margin=0.5,
    loss_params={},
    warmup_updates=7,
    seed=123,
    epochs=3,
    updates_per_epoch=5,
    batch_size=16,
    positive_fraction=0.25,
    accumulation=1,
    optimizer="sgd",
    learning_rate=0.1,
    momentum=0.9,
    weight_decay=1e-3,
    lr_schedule="cosine",
    lr_warmup_updates=0,
    switch_scale=0.5,
    max_grad_norm=None,
    score_scale="sigmoid",
    precision="float32",
    max_length=None,
    augmentation="none",
)

CE = {"loss": "ce", "mode": "ce", "margin": None, "warmup_updates": 0, "switch_scale": None, "score_scale": None}
DIRECT = {"mode": "direct", "warmup_updates": 0, "switch_scale": None}


class ToySplit:
    """Feature rows with noise from ``draws`` as augmentation, so that wrong draws show up as wrong numbers."""

    def __init__(self, features: NDArray[np.float32], labels: NDArray[np.int64], noise: float):
        self.features, self.labels, self.noise = features, labels, noise
        self.weights: NDArray[np.float64] | None = None

    def fetch(self, indices: NDArray[np.int64], draws: NDArray[np.int64] | None = None) -> Tensor:
        rows = torch.from_numpy(self.features[indices])
        if draws is None or self.noise == 0:
            return rows
        noise = [torch.randn(rows.shape[1], generator=torch.Generator().manual_seed(int(draw))) for draw in draws]
        return rows + self.noise * torch.stack(noise)


class ToyData:
    """Three splits of two overlapping Gaussian classes in ``width`` dimensions."""

    def __init__(self, counts: dict[str, tuple[int, int]], noise: float = 0.0, width: int = 6):
        self.fingerprint = "f" * 64
        random = np.random.RandomState(7)
        for name, (negatives, positives) in counts.items():
            labels = np.array([0] * negatives + [1] * positives, dtype=np.int64)
            labels = labels[random.permutation(len(labels))]
            features = random.randn(len(labels), width) + 0.4 * labels[:, None]
            setattr(self, name, ToySplit(features.astype(np.float32), labels, noise))


class Toy:
    """What the fixture ``toy`` puts in place of data and model; tests change its attributes before a run."""

    def __init__(self) -> None:
        self.counts = {"train": (57, 9), "validation": (30, 12), "test": (40, 20)}
        self.data = ToyData(self.counts)
        self.module: Callable[[], nn.Module] = lambda: nn.Sequential(nn.Linear(6, 1), nn.Flatten(0))
        self.encode: Callable[[Tensor], Tensor] = lambda raw: raw

    def make_deep(self, noise: float = 0.5) -> None:
        """Dropout, batch normalisation and augmentation: what a cut run is most likely to get wrong."""
        self.data = ToyData(self.counts, noise)
        self.module = deep_module

    def card(self) -> TaskCard:
        words = dict.fromkeys(("title", "source", "licence", "construction", "positive", "negative", "split"), "toy")
        return TaskCard(
            name="toy", modality="image", revision="1", counts=self.counts, seeded=False, loader=None, **words
        )

    def context(self, tmp_path: Path, **changes: Any) -> TrialContext:
        return TrialContext(data_root=tmp_path, cards={"toy": self.card()}, **changes)


def deep_module() -> nn.Module:
    return nn.Sequential(
        nn.Linear(6, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Dropout(0.3), nn.Linear(12, 1), nn.Flatten(0)
    )


@pytest.fixture
def config_of() -> Callable[..., TrialConfig]:
    """A small warm-up run of the toy task, with some fields changed."""
    return lambda **changes: TrialConfig.from_dict(BASE.as_dict() | changes)


@pytest.fixture
def ce_fields() -> dict[str, Any]:
    return dict(CE)


@pytest.fixture
def direct_fields() -> dict[str, Any]:
    return dict(DIRECT)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Toy:
    from trainables import run
    from trainables.models import BuiltModel

    toy = Toy()
    monkeypatch.setattr(run, "load_task", lambda card, **_: toy.data)
    monkeypatch.setattr(run, "build_model", lambda *_, **__: BuiltModel(toy.module(), toy.encode))
    return toy
