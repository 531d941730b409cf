"""ImageNet-LT by its authors' split files: the whole of it (1,000 classes), or tail dog classes against head ones.

``sources/imagenet-lt/ImageNet_LT_{train,val,test}.txt`` with lines "path label"; the paths start from
``sources/imagenet``, the ILSVRC2012 folder with ``train/<wnid>/`` and ``val/`` (flat, or one folder a wnid).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from search_spaces.cards import TaskCard
from search_spaces.errors import DataError
from trainables.data.examples import Example, Index
from trainables.data.loader import Loader, Rows
from trainables.data.sources import find_file, source_folder
from trainables.data.splits import DrawRule, draw_splits

FILES = {"train": "ImageNet_LT_train.txt", "validation": "ImageNet_LT_val.txt", "test": "ImageNet_LT_test.txt"}
FIRST_DOG, LAST_DOG = 151, 268
"""The 118 dog breeds among ImageNet's classes, Chihuahua to Mexican hairless."""

Line = tuple[str, int, str]
"""Path, ImageNet class, where it was read."""


def read_lists(card: TaskCard, data_root: Path) -> dict[str, list[Line]]:
    """The three split files. Raises ``DataError`` for a line that is not a path and a class in 0..999."""
    folder = source_folder(card, data_root, "imagenet-lt")
    lists: dict[str, list[Line]] = {}
    for part, name in FILES.items():
        path = find_file(card, folder, [name])
        lists[part] = []
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            image, _, label = line.strip().rpartition(" ")
            if not image or not label.isdigit() or int(label) > 999:
                raise DataError(f"{path}: row {number} should hold a path and a class in 0..999, got {line!r}")
            lists[part].append((image, int(label), f"{name} row {number}"))
    return lists


def tail_and_head(counts: Counter[int], tail_at_most: int, head_at_least: int) -> tuple[set[int], set[int]]:
    """The dog classes with few and with many training images. Those in between are in neither."""
    dogs = {label: count for label, count in counts.items() if FIRST_DOG <= label <= LAST_DOG}
    tail = {label for label, count in dogs.items() if count <= tail_at_most}
    return tail, {label for label, count in dogs.items() if count >= head_at_least}


def collect_dogs(card: TaskCard, data_root: Path) -> list[Example]:
    """Positive: dog classes of at most ``tail_at_most`` training images; negative: of at least ``head_at_least``."""
    lists = read_lists(card, data_root)
    counts = Counter(label for _, label, _ in lists["train"])
    tail, head = tail_and_head(counts, int(card.options["tail_at_most"]), int(card.options["head_at_least"]))
    return _examples(card, data_root, lists, {**dict.fromkeys(head, 0), **dict.fromkeys(tail, 1)})


def collect(card: TaskCard, data_root: Path) -> list[Example]:
    """Every image of the three files, all 1,000 classes."""
    return _examples(card, data_root, read_lists(card, data_root), {label: label for label in range(1000)})


def _examples(card: TaskCard, data_root: Path, lists: dict[str, list[Line]], label_of: dict[int, int]) -> list[Example]:
    root = source_folder(card, data_root, "imagenet")
    wnid_of = {label: Path(image).parent.name for image, label, _ in lists["train"]}
    return [
        Example(id=image, label=label_of[label], content=_file(root, image, wnid_of.get(label)), part=part, where=where)
        for part, lines in lists.items()
        for image, label, where in lines
        if label in label_of
    ]


def _file(root: Path, image: str, wnid: str | None) -> Path:
    path = root / image
    if wnid and image.startswith("val/") and not path.exists():
        # Many copies of ImageNet keep the validation images in one folder a class.
        return root / "val" / wnid / path.name
    return path


def draw(card: TaskCard, index: Index, seed: int) -> Rows:
    """The splits of the files, every image of the classes chosen."""
    return draw_splits(index, card.counts, seed, DrawRule(parts={part: part for part in FILES}))


LOADER = Loader(collect=collect_dogs, draw=draw, image_size=224)
