"""Bringing a source into ``data_root/sources`` with the library that owns it: never in a trial, only when asked.

Hugging Face data sets come through ``datasets`` at one recorded revision, FGVC-Aircraft, CIFAR and Fashion-MNIST
through ``torchvision``, Kaggle releases through ``kagglehub`` where it is installed and set up. ImageNet, CheXpert,
DeepWeeds and iNaturalist ask for an agreement or a manual download: their cards say where.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from search_spaces.cards import TaskCard
from search_spaces.errors import DataError
from trainables.data.sources import SOURCES

REVISION = "revision.txt"


@dataclass(frozen=True)
class HubSource:
    """A Hugging Face data set: repository, configuration, and the splits to keep."""

    repository: str
    configuration: str | None
    splits: tuple[str, ...]


HUB: Mapping[str, HubSource] = {
    "go_emotions": HubSource("google-research-datasets/go_emotions", "simplified", ("train", "test")),
    "anli": HubSource(
        "facebook/anli", None, tuple(f"{part}_r{number}" for number in (1, 2, 3) for part in ("train", "dev", "test"))
    ),
    "snli": HubSource("stanfordnlp/snli", None, ("train", "validation", "test")),
    "wanli": HubSource("alisawuffles/WANLI", None, ("train", "test")),
}
"""By source folder."""

TORCHVISION: Mapping[str, Callable[[Any, str], object]] = {
    "fgvc-aircraft-2013b": lambda datasets, root: datasets.FGVCAircraft(root, download=True),
    "cifar-100-python": lambda datasets, root: datasets.CIFAR100(root, download=True),
    "cifar-10-batches-py": lambda datasets, root: datasets.CIFAR10(root, download=True),
    "FashionMNIST": lambda datasets, root: datasets.FashionMNIST(root, download=True),
}
"""By the folder torchvision itself makes under ``sources``."""

KAGGLE: Mapping[str, str] = {
    "aptos2019": "sovitrath/diabetic-retinopathy-224x224-2019-data",
    "d-kap": "hsmcaju/d-kap",
    "ham10000": "kmader/skin-cancer-mnist-ham10000",
    "rice-leaf-diseases": "vbookshelf/rice-leaf-diseases",
    "stanford-dogs": "jessicali9530/stanford-dogs-dataset",
}
"""By source folder: the release's name on Kaggle."""

_OF_LOADER = {
    "goemotions": "go_emotions",
    "fgvc_aircraft": "fgvc-aircraft-2013b",
    "cifar10": "cifar-10-batches-py",
    "cifar100": "cifar-100-python",
    "fashion_mnist": "FashionMNIST",
}


def source_name(card: TaskCard) -> str | None:
    """The source folder of a task, or None when nothing here can download it."""
    name = _OF_LOADER.get(str(card.loader), card.options.get("source"))
    return name if name in {*HUB, *TORCHVISION, *KAGGLE} else None


def download(card: TaskCard, data_root: Path) -> Path:
    """Bring the task's source and return its folder; nothing happens when the folder is there.

    Raises ``DataError`` when no library can bring it, the library is missing, or the download fails.
    """
    name = source_name(card)
    if name is None:
        raise DataError(f"task {card.name}: its source cannot be downloaded from here. Get it by hand: {card.get}")
    folder = data_root / SOURCES / name
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        if name in HUB:
            _from_hub(HUB[name], folder)
        elif name in TORCHVISION:
            TORCHVISION[name](importlib.import_module("torchvision.datasets"), str(folder.parent))
        else:
            path = importlib.import_module("kagglehub").dataset_download(KAGGLE[name])
            folder.symlink_to(Path(path).resolve(), target_is_directory=True)
    except ImportError as error:
        raise DataError(
            f"task {card.name}: {error.name} is needed to download {name}: pip install {error.name}"
        ) from error
    except Exception as error:  # each library raises its own types for a failed download
        raise DataError(f"task {card.name}: downloading {name} failed ({error}). Get it by hand: {card.get}") from error
    return folder


def _from_hub(source: HubSource, folder: Path) -> None:
    datasets, hub = importlib.import_module("datasets"), importlib.import_module("huggingface_hub")
    revision = str(hub.HfApi().dataset_info(source.repository).sha)
    # The folder appears whole: a source half there would be taken for all of it.
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}")
    temporary.mkdir()
    for split in source.splits:
        table = datasets.load_dataset(source.repository, source.configuration, split=split, revision=revision)
        table.to_parquet(temporary / f"{split}.parquet")
    (temporary / REVISION).write_text(f"{source.repository} {revision}\n")
    temporary.rename(folder)


def recorded_revision(card: TaskCard, data_root: Path) -> str | None:
    """The revision of a downloaded source, where one was recorded."""
    name = source_name(card)
    path = data_root / SOURCES / str(name) / REVISION
    return path.read_text().strip() if name and path.is_file() else None
