"""One folder of images a class: Stanford Dogs, D-KAP apple leaves, Rice Leaf Diseases.

Options of the card: ``source`` (folder under sources), ``classes`` (for each class the folder names that make it; a
name stands for the one folder whose name contains it, case and ``_-`` aside), ``leftover``.
"""

from __future__ import annotations

from pathlib import Path

from search_spaces.cards import TaskCard
from search_spaces.errors import DataError
from trainables.data.examples import Example, Index
from trainables.data.loader import Loader, Rows
from trainables.data.sources import images_in, source_folder
from trainables.data.splits import DrawRule, draw_splits


def collect(card: TaskCard, data_root: Path) -> list[Example]:
    """The images of the named folders, wherever they lie under the source; ids are class/file name."""
    root = source_folder(card, data_root, card.options["source"])
    folders = [path for path in sorted(root.rglob("*")) if path.is_dir() and images_in(path)]
    examples = []
    for label, names in enumerate(card.options["classes"]):
        for name in names:
            folder = _folder(card, root, folders, name)
            examples += [
                Example(id=f"{name}/{path.name}", label=label, content=path, where=folder.name)
                for path in images_in(folder)
            ]
    return examples


def _folder(card: TaskCard, root: Path, folders: list[Path], name: str) -> Path:
    found = [folder for folder in folders if _plain(name) in _plain(folder.name)]
    if len(found) != 1:
        there = ", ".join(folder.relative_to(root).as_posix() for folder in (found or folders)[:12]) or "none"
        problem = "no folder of images" if not found else "more than one folder"
        raise DataError(f"task {card.name}: {problem} named like {name!r} in {root} (found: {there})")
    return found[0]


def _plain(name: str) -> str:
    return " ".join(name.lower().replace("_", " ").replace("-", " ").split())


def draw(card: TaskCard, index: Index, seed: int) -> Rows:
    """The card's counts by seed."""
    return draw_splits(index, card.counts, seed, DrawRule(leftover=bool(card.options.get("leftover"))))


LOADER = Loader(collect=collect, draw=draw, image_size=224)
