"""Cards of the paper's eight binary text tasks (its Tables 4 and 6, section B.7).

An inference task keeps two of its three labels. A split with more than 20,000 (train) or 4,000 (validation, test) of
those rows is cut to half of that per class, otherwise it is kept whole; this gives every count of Table 6.
"""

from __future__ import annotations

from search_spaces.cards import TaskCard

_CAP = (
    "a split with more than 20,000 (train) or 4,000 (validation, test) rows is cut to half of that a class; prepared "
    "once and written down, the same for every seed"
)
_WANLI_ID = "alisawuffles/WANLI"
_LICENCES = {"anli": "CC BY-NC 4.0", "snli": "CC BY-SA 4.0", _WANLI_ID: "CC BY 4.0"}

Counts = tuple[int, int]


def _emotion(name: str, title: str, label: str, train: Counts, validation: Counts, test: Counts) -> TaskCard:
    return TaskCard(
        name=name,
        title=title,
        modality="text",
        revision="1",
        source="GoEmotions, configuration simplified (Demszky et al. 2020), Hugging Face go_emotions",
        licence="Apache 2.0",
        construction=f"Rows that carry the label {label} against all others.",
        positive=label,
        negative=f"not {label}",
        counts={"train": train, "validation": validation, "test": test},
        split="official test; validation is 10 % of the 43,410 official training rows, stratified, by seed",
        seeded=True,
        loader="goemotions",
        options={"emotion": label},
        get="Hugging Face dataset go_emotions (simplified)",
    )


def _inference(
    name: str,
    title: str,
    dataset: str,
    positive: str,
    train: Counts,
    validation: Counts,
    test: Counts,
    split: str,
    **options: object,
) -> TaskCard:
    return TaskCard(
        name=name,
        title=title,
        modality="text",
        revision="1",
        source=f"Hugging Face {dataset}",
        licence=_LICENCES[dataset],
        construction=f"{positive.capitalize()} against neutral, third label dropped; premise and hypothesis as a pair.",
        positive=positive,
        negative="neutral",
        counts={"train": train, "validation": validation, "test": test},
        split=f"{split}; {_CAP}",
        seeded=False,
        loader="nli",
        options={"source": dataset.rpartition("/")[2].lower(), "positive": positive, **options},
        get=f"Hugging Face dataset {dataset}",
    )


_HALF = (10000, 10000)
_ANLI_R1 = "official train, dev and test of round 1"
_ANLI_R3 = "official train, dev and test of round 3"
_SNLI = (
    "official train, validation and test, each restricted to its high-overlap slice: per class the rows with the "
    "largest share of hypothesis tokens found in the premise (our choice of measure)"
)
_WANLI = "official test; validation is 10 % of each class of the official train file, carved before the cut"

CARDS = (
    _emotion("goemotions-annoyance", "GoEmotions Annoy.", "annoyance", (36846, 2223), (4094, 247), (5107, 320)),
    _emotion("goemotions-fear", "GoEmotions Fear", "fear", (38533, 536), (4281, 60), (5349, 78)),
    _inference(
        "anli-r1-en", "ANLI R1 E/N", "anli", "entailment", (7052, 5371), (333, 334), (333, 334), _ANLI_R1, round=1
    ),
    _inference("anli-r3-cn", "ANLI R3 C/N", "anli", "contradiction", _HALF, (402, 396), (402, 396), _ANLI_R3, round=3),
    _inference("anli-r3-en", "ANLI R3 E/N", "anli", "entailment", _HALF, (402, 402), (402, 402), _ANLI_R3, round=3),
    _inference(
        "snli-high-overlap",
        "SNLI High-Overlap",
        "snli",
        "entailment",
        _HALF,
        (2000, 2000),
        (2000, 2000),
        _SNLI,
        high_overlap=True,
    ),
    _inference("wanli-cn", "WANLI C/N", _WANLI_ID, "contradiction", _HALF, (2000, 1540), (2397, 745), _WANLI),
    _inference("wanli-en", "WANLI E/N", _WANLI_ID, "entailment", _HALF, (2000, 2000), (2000, 1858), _WANLI),
)
"""The eight text tasks in the order of Table 6."""
