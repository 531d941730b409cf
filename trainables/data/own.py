"""A user's own task: its examples from a table or from class folders, and its card once they are known."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from search_spaces.cards import SPLITS, TaskCard
from search_spaces.errors import DataError
from search_spaces.own_task import draft_card, prepared_card, read_own_task, split_sizes
from search_spaces.own_task_schema import ColumnSplits, FileSplits, FolderSplits, OwnTask, label_text
from trainables.data.examples import Example, Index
from trainables.data.faults import Faults
from trainables.data.images import IMAGE_SUFFIXES
from trainables.data.loader import Loader, Rows
from trainables.data.own_table import label_of, table_examples
from trainables.data.splits import DrawRule, draw_splits


def own_examples(path: Path) -> list[Example]:
    """Every example of the task in the YAML file ``path``, its split as its part where the files give one.

    Raises ``DataError`` naming the rows and files that cannot be used.
    """
    task, base = read_own_task(path), path.resolve().parent
    splits = task.splits
    if isinstance(splits, FileSplits):
        return [
            dataclasses.replace(example, id=f"{part}/{example.id}")
            for part in SPLITS
            for example in table_examples(task, base, getattr(splits, part), part, None)
        ]
    if isinstance(splits, FolderSplits):
        root = base / str(task.folder)
        return [
            example for part in SPLITS for example in _folder_examples(task, root, root / getattr(splits, part), part)
        ]
    if task.kind == "folder":
        root = base / str(task.folder)
        return _folder_examples(task, root, root, "")
    if isinstance(splits, ColumnSplits):
        return _by_column(splits, table_examples(task, base, str(task.file), "", splits.column), str(task.file))
    return table_examples(task, base, str(task.file), "", None)


def counted_card(path: Path, examples: list[Example]) -> TaskCard:
    """The draft card with the counts these examples give. Raises ``DataError`` when a class is empty somewhere."""
    task, draft = read_own_task(path), draft_card(path)
    totals = [sum(example.label == label for example in examples) for label in (0, 1)]
    for label, word, names in ((1, "positive", task.positive), (0, "negative", task.negative)):
        if totals[label] == 0:
            listed = ", ".join(names) if names else "every other label"
            raise DataError(f"{path}: no {word} examples ({listed})")
    if draft.seeded:
        try:
            counts = split_sizes(task, (totals[0], totals[1]))
        except ValueError as error:
            raise DataError(f"{path}: {error}") from error
    else:
        counts = {}
        for split in SPLITS:
            labels = [example.label for example in examples if example.part == split]
            counts[split] = (labels.count(0), labels.count(1))
            if 0 in counts[split]:
                negatives, positives = counts[split]
                raise DataError(f"{path}: {split} has {positives} positives and {negatives} negatives; both are needed")
    return dataclasses.replace(draft, counts=counts)


def final_card(path: Path, card: TaskCard, fingerprint: str) -> TaskCard:
    """The card trials use: ``card`` with the fingerprint of its data and the revision that follows from it."""
    return prepared_card(path, card.counts, fingerprint)


def draw(card: TaskCard, index: Index, seed: int) -> Rows:
    """The splits the task's file asks for: drawn by seed, or as given."""
    splits = card.options["definition"]["splits"]
    given = {} if card.seeded else {split: split for split in SPLITS}
    return draw_splits(index, card.counts, seed, DrawRule(parts=given, leftover="counts" in splits))


def _by_column(splits: ColumnSplits, examples: list[Example], file: str) -> list[Example]:
    names = {getattr(splits, split): split for split in SPLITS}
    faults = Faults(file)
    placed = []
    for example in examples:
        split = names.get(example.part)
        if split is None:
            faults.add(f"{example.where}: {splits.column} is {example.part!r} (allowed: {', '.join(names)})")
        else:
            placed.append(dataclasses.replace(example, part=split))
    faults.raise_if_any()
    return placed


def _folder_examples(task: OwnTask, root: Path, folder: Path, part: str) -> list[Example]:
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder")
    faults = Faults(str(folder))
    examples = []
    there = sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    wanted = {*task.positive, *(task.negative or ())}
    absent = sorted(wanted - {label_text(entry.name) for entry in there})
    if absent:
        found = ", ".join(entry.name for entry in there) or "none"
        raise DataError(f"{folder}: no class folder {', '.join(map(repr, absent))} (found: {found})")
    for entry in there:
        label = label_of(task, entry.name)
        if isinstance(label, str):
            faults.add(f"folder {entry.name}: {label}")
        elif label is not None:
            images = [file for file in sorted(entry.rglob("*")) if file.suffix.lower() in IMAGE_SUFFIXES]
            if not images:
                faults.add(f"folder {entry.name}: no images")
            examples += [
                Example(id=file.relative_to(root).as_posix(), label=label, content=file, part=part) for file in images
            ]
    faults.raise_if_any()
    return examples


def _collect(card: TaskCard, data_root: Path) -> list[Example]:
    raise DataError(f"task {card.name} is a task of your own: prepare it by its file ({card.get})")


LOADER = Loader(collect=_collect, draw=draw, storage="resized")
