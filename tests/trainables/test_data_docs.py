import re
from pathlib import Path

from search_spaces.tasks import EXTENSIONS, TASKS

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_lists_every_task_with_its_counts():
    rows = [line for line in (DOCS / "tasks.md").read_text().splitlines() if line.startswith("| `")]
    for name, card in {**TASKS, **EXTENSIONS}.items():
        if card.packages and card.metric != "auc":
            continue
        mine = [row for row in rows if f"`{name}`" in row.split("|")[1]]
        assert mine, name
        train = card.counts["train"]
        if card.metric == "auc" and not card.packages:
            assert f"| {train[0]}/{train[1]} |" in mine[0], name
        if card.metric != "auc":
            assert str(sum(train)) in mine[0], name


def test_the_page_names_every_source_folder():
    text = (DOCS / "tasks.md").read_text()
    for card in {**TASKS, **EXTENSIONS}.values():
        source = card.options.get("source")
        assert source is None or f"`{source}`" in text


def test_the_page_about_adding_a_task_names_things_that_exist():
    text = (DOCS / "add-a-task.md").read_text()
    from trainables.data import examples, loader, sources, splits, tables

    homes = (examples, loader, sources, splits, tables)
    for name in set(re.findall(r"\b(source_folder|find_file|read_table|draw_splits|DrawRule|Example|Loader)\b", text)):
        assert any(hasattr(home, name) for home in homes), name
