"""Images listed by a csv file of labels: APTOS, DeepWeeds, HAM10000.

Options of the card: ``source`` (folder under sources), ``table`` (names of the csv file), ``image`` and ``label``
(columns), ``classes`` (for each class the label values that make it), ``group`` (a column), ``leftover``, ``grouped``.
"""

from __future__ import annotations

from pathlib import Path

from search_spaces.cards import TaskCard
from search_spaces.own_task_schema import label_text
from trainables.data.examples import Example, Index
from trainables.data.faults import Faults
from trainables.data.loader import Loader, Rows
from trainables.data.sources import find_file, images_by_name, source_folder
from trainables.data.splits import DrawRule, draw_splits
from trainables.data.tables import plain, read_table


def collect(card: TaskCard, data_root: Path) -> list[Example]:
    """The rows whose label belongs to a class; an image's id is its name without suffix."""
    options = card.options
    folder = source_folder(card, data_root, options["source"])
    table = find_file(card, folder, options["table"])
    class_of = {label_text(value): label for label, values in enumerate(options["classes"]) for value in values}
    allowed = {label_text(value) for value in options["labels"]}
    group = options.get("group")
    faults = Faults(str(table))
    rows = []
    columns = [options["image"], options["label"], *([group] if group else [])]
    for number, cells in enumerate(read_table(table, columns), start=1):
        name, label = str(plain(cells[0])).strip(), label_text(plain(cells[1]))
        if label not in allowed:
            faults.add(f"row {number}: {options['label']} is {label!r} (allowed: {', '.join(sorted(allowed))})")
        elif label in class_of:
            rows.append((number, name, class_of[label], str(cells[2]) if group else ""))
    faults.raise_if_any()
    images = images_by_name(card, folder, (name for _, name, _, _ in rows))
    return [
        Example(
            id=Path(name).stem if name == images[name].name else name,
            label=label,
            content=images[name],
            group=lesion,
            where=f"{table.name} row {number}",
        )
        for number, name, label, lesion in rows
    ]


def draw(card: TaskCard, index: Index, seed: int) -> Rows:
    """The card's counts by seed, whole groups when it says so."""
    rule = DrawRule(leftover=bool(card.options.get("leftover")), grouped=bool(card.options.get("grouped")))
    return draw_splits(index, card.counts, seed, rule)


LOADER = Loader(collect=collect, draw=draw, image_size=224)
