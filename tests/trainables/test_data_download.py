import dataclasses
import sys
import types

import pandas as pd
import pytest

from search_spaces.errors import DataError
from search_spaces.tasks import EXTENSIONS, TASKS
from trainables.data import load_task, prepare_task, task_state
from trainables.data.download import HUB, download, source_name


class FakeTable:
    def __init__(self, split):
        rows = [(f"{split} premise {i}", f"hypothesis {i}", i % 3) for i in range(60)]
        self.table = pd.DataFrame(rows, columns=["premise", "hypothesis", "label"])

    def to_parquet(self, path):
        self.table.to_parquet(path)


@pytest.fixture
def hub(monkeypatch):
    """Stand-ins for ``datasets`` and ``huggingface_hub`` that serve three small splits."""
    asked = []

    def load_dataset(repository, configuration, *, split, revision):
        asked.append((repository, configuration, split, revision))
        if split == "broken":
            raise ConnectionError("no route")
        return FakeTable(split)

    api = types.SimpleNamespace(dataset_info=lambda repository: types.SimpleNamespace(sha="a1b2"))
    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    monkeypatch.setitem(sys.modules, "huggingface_hub", types.SimpleNamespace(HfApi=lambda: api))
    return asked


def test_a_hub_source_is_fetched_once_at_a_recorded_revision(hub, tmp_path):
    counts = {"train": (9, 9), "validation": (4, 4), "test": (4, 4)}
    card = dataclasses.replace(TASKS["snli-high-overlap"], counts=counts)
    assert task_state(card, tmp_path) == "downloadable"
    with pytest.raises(DataError, match="no folder"):
        prepare_task(card, tmp_path)
    assert not hub
    prepared = prepare_task(card, tmp_path, download=True)
    assert hub == [("stanfordnlp/snli", None, split, "a1b2") for split in ("train", "validation", "test")]
    assert '"source_revision": "stanfordnlp/snli a1b2"' in (prepared.path / "manifest.json").read_text()
    prepare_task(card, tmp_path, download=True)
    assert len(hub) == 3
    assert len(load_task(card, seed=0, data_root=tmp_path).train.labels) == 18
    assert task_state(card, tmp_path) == "prepared"


def test_a_failed_download_leaves_no_source(hub, tmp_path, monkeypatch):
    from trainables.data import download as module

    broken = dataclasses.replace(HUB["wanli"], splits=("train", "broken"))
    monkeypatch.setattr(module, "HUB", {**HUB, "wanli": broken})
    with pytest.raises(DataError, match=r"downloading wanli failed \(no route\).*by hand"):
        download(TASKS["wanli-cn"], tmp_path)
    assert not (tmp_path / "sources/wanli").exists()


def test_kaggle_releases_are_linked_and_the_library_is_named_when_missing(tmp_path, monkeypatch):
    release = tmp_path / "cache/1"
    release.mkdir(parents=True)
    asked = []
    fake = types.SimpleNamespace(dataset_download=lambda name: asked.append(name) or str(release))
    monkeypatch.setitem(sys.modules, "kagglehub", fake)
    assert download(TASKS["ham10000"], tmp_path).resolve() == release
    assert asked == ["kmader/skin-cancer-mnist-ham10000"]
    monkeypatch.setitem(sys.modules, "kagglehub", None)
    with pytest.raises(DataError, match="pip install kagglehub"):
        download(TASKS["aptos"], tmp_path)


def test_torchvision_brings_its_own(tmp_path, monkeypatch):
    import torchvision.datasets

    asked = []

    def fake(root, download):
        asked.append((root, download))
        (tmp_path / "sources/cifar-100-python").mkdir()

    monkeypatch.setattr(torchvision.datasets, "CIFAR100", fake)
    download(EXTENSIONS["cifar-mammals-5-lt"], tmp_path)
    assert asked == [(str(tmp_path / "sources"), True)]


def test_sources_that_need_an_agreement_say_where_to_get_them(tmp_path):
    for card in (TASKS["imagenet-lt-dogs"], TASKS["deepweeds"], EXTENSIONS["chexpert-competition-5"]):
        assert source_name(card) is None
        with pytest.raises(DataError, match="Get it by hand"):
            download(card, tmp_path)
        assert task_state(card, tmp_path) == "missing"
