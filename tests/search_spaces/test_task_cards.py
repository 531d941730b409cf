"""The cards against the published split sizes and against the rules that are said to give them."""

import csv
from pathlib import Path

import pytest

from search_spaces.cards import SPLITS
from search_spaces.errors import SpaceError
from search_spaces.losses import LOSSES
from search_spaces.models import MODELS
from search_spaces.tasks import BINARY, EXTENSIONS, TASKS, task_card

with (Path(__file__).parent / "split_sizes.csv").open(newline="") as file:
    PUBLISHED = {row["task"]: row for row in csv.DictReader(file)}
BY_TITLE = {card.title: card for card in TASKS.values()}


@pytest.mark.parametrize("title", PUBLISHED)
def test_published_split_sizes(title):
    row, card = PUBLISHED[title], BY_TITLE[title]
    for split, short in zip(SPLITS, ("train", "val", "test"), strict=True):
        assert card.counts[split] == (int(row[f"{short}_neg"]), int(row[f"{short}_pos"]))
        assert sum(card.counts[split]) == int(row[f"{short}_n"])
    assert card.modality == {"cv": "image", "nlp": "text"}[row["kind"]]


def test_every_card_is_complete():
    assert len(PUBLISHED) == 16
    assert list(TASKS) == [*BINARY, *EXTENSIONS]
    for name, card in TASKS.items():
        assert card.name == name
        assert set(card.counts) == set(SPLITS)
        assert (card.kind == "binary") == (name in BINARY)
        assert card.outputs == 1 if name in BINARY else card.outputs >= 2
        assert card.classes == 2 or name not in BINARY
        for text in (card.title, card.source, card.licence, card.construction, card.split, card.get, card.revision):
            assert text.strip()


@pytest.mark.parametrize(
    ("name", "positives", "negatives"),
    [
        ("dog-breeds", 192 + 178, 150 + 218),
        ("aptos", 193 + 295, 999),
        ("ham10000", 1113, 6705),
        ("rice-disease", 40, 40),
        ("mnist-8-low-shot", 500, 9 * 500),
        ("drug-reviews", 161 + 95, 385 + 247),
    ],
)
def test_splits_use_up_the_source(name, positives, negatives):
    counts = TASKS[name].counts
    assert sum(counts[split][1] for split in SPLITS) == positives
    assert sum(counts[split][0] for split in SPLITS) == negatives


EXTENSION_SHAPES = {  # typed from section B.6 and from the packages' own pages
    "airbus-6-lt": ("multiclass", 6, 93, 200, 200),
    "cifar-mammals-5-lt": ("multiclass", 5, 431, 250, 250),
    "cifar-vehicles-10-lt": ("multiclass", 10, 818, 500, 500),
    "cifar-10": ("multiclass", 10, 45000, 5000, 10000),
    "fashion-mnist": ("multiclass", 10, 54000, 6000, 10000),
    "chexpert-competition-5": ("multilabel", 5, 12000, 3000, 234),
    "chexpert-cardiac-fluid-4": ("multilabel", 4, 12000, 3000, 234),
    "chexpert-consolidation-cardiac-2": ("multilabel", 2, 12000, 3000, 234),
    "inaturalist-2018": ("multiclass", 8142, 437513, 0, 24426),
    "imagenet-lt": ("multiclass", 1000, 115846, 20000, 50000),
    "mnist-lt": ("multiclass", 10, 700, 1000, 1500),
    "reuters-r8": ("multiclass", 8, 4338, 1085, 2172),
    "reuters-r52": ("multiclass", 52, 5159, 1291, 2547),
    "kaomoji-16": ("multilabel", 16, 4343, 1200, 1800),
}


def test_extension_tasks():
    shapes = {
        name: (card.kind, card.outputs, *(sum(card.counts[split]) for split in SPLITS))
        for name, card in EXTENSIONS.items()
    }
    assert shapes == EXTENSION_SHAPES


def test_both_mnist_tasks_share_validation_and_test():
    full, few = TASKS["mnist-8-low-shot"], TASKS["mnist-8-low-shot-12"]
    assert few.counts["train"] == (2250, 12)
    assert {split: few.counts[split] for split in SPLITS[1:]} == {split: full.counts[split] for split in SPLITS[1:]}
    assert all(full.counts[split][0] % 9 == 0 for split in SPLITS)  # the same number of every other digit


def test_unknown_task_names_the_nearest():
    with pytest.raises(SpaceError, match="did you mean ham10000"):
        task_card("ham1000")
    own = TASKS["aptos"]
    assert task_card("mine", {"mine": own}) is own


def test_parameters_of_the_plain_mlp():
    assert MODELS["plain-mlp"].parameters == (784 + 1) * 128 + 5 * (128 + 1) * 128 + (128 + 1)
    assert MODELS["plain-mlp"].flops == pytest.approx(2 * (784 * 128 + 5 * 128 * 128 + 128), rel=0.01)


def test_cards_are_keyed_by_their_names():
    assert all(name == card.name for name, card in MODELS.items())
    assert all(name == card.name for name, card in LOSSES.items())
    assert list(LOSSES)[:6] == ["ce", "square", "hinge", "squared_hinge", "logistic", "exponential"]
    six = list(LOSSES)[:6]
    assert [name for name in six if LOSSES[name].has_margin] == ["square", "hinge", "squared_hinge"]
    assert [name for name, card in LOSSES.items() if not card.pairwise] == ["ce", "multiclass_hinge", "softmax_mse"]
    assert all(set(card.tasks) <= set(TASKS) for card in MODELS.values())
