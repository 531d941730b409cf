"""Cards of the two ten-class image sets of the large-batch study (arXiv 2602.23336)."""

from __future__ import annotations

from search_spaces.cards import TaskCard

_SPLIT = (
    "test: the official test file; validation: a tenth of each class of the training file, drawn by seed (our choice: "
    "the published runs report their best test accuracy)"
)

CARDS = (
    TaskCard(
        name="cifar-10",
        title="CIFAR-10",
        modality="image",
        revision="1",
        source="CIFAR-10 (Krizhevsky 2009)",
        licence="no licence stated; the terms of its project page",
        construction="all ten classes",
        positive="",
        negative="",
        counts={"train": (4500,) * 10, "validation": (500,) * 10, "test": (1000,) * 10},
        split=_SPLIT,
        seeded=True,
        loader="cifar10",
        options={"image_size": 32},
        get="cifar-10-python.tar.gz, www.cs.toronto.edu/~kriz/cifar.html (torchvision downloads it)",
        metric="macro_ovo_auc",
    ),
    TaskCard(
        name="fashion-mnist",
        title="Fashion-MNIST",
        modality="image",
        revision="1",
        source="Fashion-MNIST (Xiao, Rasul, Vollgraf 2017)",
        licence="MIT",
        construction="all ten classes",
        positive="",
        negative="",
        counts={"train": (5400,) * 10, "validation": (600,) * 10, "test": (1000,) * 10},
        split=_SPLIT,
        seeded=True,
        loader="fashion_mnist",
        options={"image_size": 28, "channels": 1},
        get="the four idx files, github.com/zalandoresearch/fashion-mnist (torchvision downloads them)",
        metric="macro_ovo_auc",
    ),
)
"""CIFAR-10, then Fashion-MNIST."""
