"""A user's own task: what its file may say, and the card it becomes."""

import json
import os
from pathlib import Path

import pytest
import yaml

from search_spaces.errors import SpaceError
from search_spaces.expand import expand
from search_spaces.own_task import card_path, draft_card, load_own_card, read_own_task, split_sizes, write_card
from search_spaces.own_task_schema import label_text
from search_spaces.space import Space, load_space

FRACTIONS = {"by": "seed", "fractions": {"train": 0.7, "validation": 0.15, "test": 0.15}}
TABLE = {
    "name": "mine",
    "modality": "text",
    "kind": "table",
    "file": "rows.csv",
    "text": "words",
    "label": "y",
    "positive": 1,
    "splits": FRACTIONS,
}
FOLDER = {
    "name": "mine",
    "modality": "image",
    "kind": "folder",
    "folder": "photos",
    "positive": "a",
    "splits": FRACTIONS,
}
COUNTS = {"train": (70, 30), "validation": (15, 6), "test": (15, 7)}


def write(folder: Path, contents: dict, name: str = "mine.yaml") -> Path:
    path = folder / name
    path.write_text(yaml.safe_dump(contents))
    return path


def problems(folder: Path, contents: dict) -> tuple[str, ...]:
    with pytest.raises(SpaceError) as caught:
        read_own_task(write(folder, contents))
    return caught.value.problems


def space_of(folder: Path, tasks: object, **changes) -> Path:
    raw = dict(load_space("quickstart").given["space"]) | {"models": "small-transformer", "tasks": tasks, **changes}
    return write(folder, raw, "space.yaml")


def test_draft_of_a_table(tmp_path):
    card = draft_card(write(tmp_path, TABLE))
    assert (card.name, card.modality, card.loader, card.seeded) == ("mine", "text", "own", True)
    assert (card.positive, card.negative) == ("1", "every other label")
    assert card.options["folder"] == str(tmp_path)
    assert card.options["definition"]["splits"] == FRACTIONS
    assert card.fingerprint is None


@pytest.mark.parametrize(
    ("splits", "seeded"),
    [
        ({"by": "column", "column": "fold"}, False),
        ({"by": "column", "column": "fold", "train": 1, "validation": 2, "test": 3}, False),
        ({"by": "seed", "counts": {s: {"positive": 5, "negative": 9} for s in ("train", "validation", "test")}}, True),
        (FRACTIONS, True),
    ],
)
def test_kinds_of_splits(tmp_path, splits, seeded):
    assert draft_card(write(tmp_path, {**TABLE, "splits": splits})).seeded is seeded


def test_splits_by_files_and_folders(tmp_path):
    files = {key: value for key, value in TABLE.items() if key != "file"}
    files["splits"] = {"by": "files", "train": "a.csv", "validation": "b.csv", "test": "c.csv"}
    assert read_own_task(write(tmp_path, files)).splits.by == "files"
    assert read_own_task(write(tmp_path, {**FOLDER, "splits": {"by": "folders"}})).splits.by == "folders"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"name": "aptos"}, "name: 'aptos' is a built-in task, choose another"),
        ({"name": "a/b"}, "name: should be made of letters, digits, - _ and ."),
        ({"modality": "txt"}, "modality: unknown value 'txt': did you mean text?"),
        ({"kind": "tabel"}, "kind: unknown value 'tabel': did you mean table?"),
        ({"positve": 1}, "positve: unknown key, did you mean positive?"),
        ({"positive": []}, "positive: empty: give at least one"),
        ({"positive": [1, 1.0]}, "positive: given twice: '1'"),
        ({"negative": True, "positive": ["true", "x"]}, "negative: also positive: true"),
        ({"ignore": 1}, "ignore: also positive or negative: 1"),
        ({"file": "rows.xlsx"}, "file: should end in .csv, .tsv or .parquet, got 'rows.xlsx'"),
        ({"file": None}, "file: missing"),
        ({"folder": "photos"}, "folder: has no meaning in a table of texts with splits by seed"),
        ({"image": "path"}, "image: has no meaning in a table of texts with splits by seed"),
        ({"weight": ""}, "weight: should"),
        ({"weight": 0.5}, "weight: should"),
        ({"weight": ["a"]}, "weight: should"),
        ({"wieght": "w"}, "wieght: unknown key, did you mean weight?"),
        ({"kind": "folder", "weight": "w"}, "weight: has no meaning in a folder of texts with splits by seed"),
        ({"kind": "folder"}, "kind: a folder holds images; texts come as a table"),
        ({"image_size": 64}, "image_size: has no meaning for texts"),
        ({"image_size": 0}, "image_size: should be greater than or equal to 8, got 0"),
        ({"splits": None}, "splits: missing, say how the data are split (by: seed, column, files, folders)"),
        ({"splits": {"by": "sed"}}, "splits.by: unknown value 'sed': did you mean seed?"),
        ({"splits": {"by": "seed"}}, "splits.fractions: missing"),
        ({"splits": {"by": "folders"}}, "splits.by: folders is for folders; a table is split by seed, column or files"),
        ({"splits": {"by": "column", "colum": "fold"}}, "splits.colum: unknown key, did you mean column?"),
        (
            {"splits": {"by": "column", "column": "f", "train": 1, "validation": 1}},
            "splits: '1' is given for two splits",
        ),
        (
            {"splits": {"by": "seed", "fractions": {"train": 0.7, "validation": 0.2, "test": 0.2}}},
            "splits.fractions: sum",
        ),
        (
            {"splits": {"by": "seed", "fractions": {"trian": 0.7}}},
            "splits.fractions.trian: unknown key, did you mean train?",
        ),
        ({"splits": {"by": "seed", "counts": {"train": {"positive": 0}}}}, "splits.counts.train.positive: should be"),
    ],
)
def test_wrong_files(tmp_path, changes, expected):
    assert any(problem.startswith(expected) for problem in problems(tmp_path, {**TABLE, **changes}))


def test_a_folder_has_no_weights(tmp_path):
    assert problems(tmp_path, {**FOLDER, "weight": "w"}) == (
        "weight: has no meaning in a folder of images with splits by seed",
    )


def test_a_task_with_weights_says_so(tmp_path):
    plain, weighted = write(tmp_path, TABLE, "plain.yaml"), write(tmp_path, TABLE | {"weight": "w"}, "weighted.yaml")
    assert not draft_card(plain).weighted
    assert draft_card(weighted).weighted
    for path in (plain, weighted):
        write_card(path, COUNTS, "f00d")
    assert not load_own_card(plain).weighted
    assert load_own_card(weighted).weighted
    # Computed at b7a2b2c, before the key: a task without it keeps its revision, and so every trial id.
    assert load_own_card(plain).revision == "966d12e2b43c5f65"
    assert load_own_card(weighted).revision != load_own_card(plain).revision


def test_all_problems_of_a_file_at_once(tmp_path):
    found = problems(
        tmp_path, {**TABLE, "labl": "y", "label": None, "folder": "x", "image_size": 1.5, "splits": {"by": 3}}
    )
    assert {problem.split(":")[0] for problem in found} == {"labl", "image_size", "splits.by"}
    found = problems(tmp_path, {**TABLE, "labl": "y", "label": None, "folder": "x", "image_size": 1.5})
    assert {problem.split(":")[0] for problem in found} == {"labl", "image_size", "label", "folder"}


@pytest.mark.parametrize("text", ["- 1", "a: [", "a: 1\na: 2"])
def test_file_that_is_no_task(tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(SpaceError):
        read_own_task(path)
    with pytest.raises(SpaceError, match="No such file"):
        read_own_task(tmp_path / "other.yaml")


@pytest.mark.parametrize(
    ("value", "text"),
    [(1, "1"), (1.0, "1"), ("1.0", "1"), (True, "true"), ("TRUE", "true"), (" a ", "a"), (0.5, "0.5"), ("nan", "nan")],
)
def test_labels_as_text(value, text):
    assert label_text(value) == text


def test_sizes_by_fractions(tmp_path):
    task = read_own_task(write(tmp_path, TABLE))
    assert split_sizes(task, (999, 488)) == {"train": (699, 342), "validation": (150, 73), "test": (150, 73)}
    with pytest.raises(ValueError, match="validation would have 0 positives"):
        split_sizes(task, (100, 2))


def test_sizes_by_counts(tmp_path):
    counts = {split: {"positive": 5, "negative": 9} for split in ("train", "validation", "test")}
    task = read_own_task(write(tmp_path, {**TABLE, "splits": {"by": "seed", "counts": counts}}))
    assert split_sizes(task, (27, 15)) == {split: (9, 5) for split in counts}
    with pytest.raises(ValueError, match=r"splits\.counts want 15 positives, the data have 14"):
        split_sizes(task, (27, 14))


def test_prepared_card(tmp_path):
    path = write(tmp_path, TABLE)
    written = write_card(path, COUNTS, "f00d")
    assert written == tmp_path / "mine.card.json"
    assert json.loads(written.read_text())["fingerprint"] == "f00d"
    card = load_own_card(path)
    assert card.counts == COUNTS
    assert card.fingerprint == "f00d"
    assert list(tmp_path.glob(".*")) == []


def test_revision_follows_data_and_definition_but_not_place(tmp_path):
    def revision(folder: str, fingerprint: str = "f00d", **changes) -> str:
        (tmp_path / folder).mkdir(exist_ok=True)
        path = write(tmp_path / folder, {**TABLE, **changes})
        write_card(path, COUNTS, fingerprint)
        return load_own_card(path).revision

    first = revision("a")
    assert revision("b") == first
    assert revision("b", file="elsewhere.csv", title="Mine", licence="CC0") == first
    assert revision("b", fingerprint="beef") != first
    assert revision("b", positive=[1, 2]) != first


def test_space_with_an_own_task(tmp_path):
    write_card(write(tmp_path, TABLE), COUNTS, "f00d")
    space = load_space(space_of(tmp_path, ["mine.yaml"]))
    assert space.parts[0].tasks == ("mine",)
    assert space.cards["mine"].counts == COUNTS
    expansion = expand(space)
    trial = next(iter(expansion.trials.values()))
    assert (trial.task, trial.task_revision) == ("mine", space.cards["mine"].revision)
    assert trial.updates_per_epoch == 2
    again = Space.from_dict(json.loads(json.dumps(space.to_dict())))
    assert again == space
    assert list(expand(again).trials) == list(expansion.trials)


def test_own_task_in_an_override_is_relative_to_the_current_folder(tmp_path, monkeypatch):
    write_card(write(tmp_path, TABLE), COUNTS, "f00d")
    monkeypatch.chdir(tmp_path)
    space = load_space("quickstart", ["tasks=mine.yaml", "models=small-transformer"])
    assert space.parts[0].tasks == ("mine",)


def test_unprepared_task_names_the_command(tmp_path):
    path = write(tmp_path, TABLE)
    with pytest.raises(SpaceError) as caught:
        load_space(space_of(tmp_path, "mine.yaml"))
    assert caught.value.problems == (
        f"tasks: task file {path}: its data were never prepared; run: aucsweep data prepare {path}",
    )


def test_changed_task_names_the_command(tmp_path):
    path = write(tmp_path, TABLE)
    write_card(path, COUNTS, "f00d")
    write(tmp_path, {**TABLE, "title": "only words"})
    assert load_own_card(path).title == "only words"
    write(tmp_path, {**TABLE, "positive": 2})
    with pytest.raises(SpaceError, match="changed after its data were prepared; run: aucsweep data prepare"):
        load_own_card(path)


@pytest.mark.parametrize("by_files", [False, True])
def test_changed_tables_are_refused(tmp_path, by_files):
    names = ["a.csv", "b.csv", "c.csv"] if by_files else ["mine.csv"]
    splits = {"by": "files", "train": "a.csv", "validation": "b.csv", "test": "c.csv"}
    table = {key: value for key, value in TABLE.items() if key != "file"} | {"splits": splits}
    path = write(tmp_path, table if by_files else TABLE | {"file": "mine.csv"})
    for name in names:
        (tmp_path / name).write_text("rows")
    write_card(path, COUNTS, "f00d")
    card = load_own_card(path)
    last = tmp_path / names[-1]
    last.write_text("more")
    os.utime(last, ns=(1, 1))
    with pytest.raises(SpaceError) as caught:
        load_own_card(path)
    assert caught.value.problems == (
        f"{last} was changed after the data were prepared; run: aucsweep data prepare {path}",
    )
    last.write_text("rows")  # as it was, at another time
    assert load_own_card(path) == card
    last.unlink()
    assert load_own_card(path) == card
    last.symlink_to(last)  # what cannot be read is as good as gone
    assert load_own_card(path) == card
    last.unlink()
    written = json.loads(card_path(path).read_text())
    assert list(written.pop("tables")) == names
    last.write_text("more")
    card_path(path).write_text(json.dumps(written))  # a card without them
    assert load_own_card(path) == card


CARD = {"definition": "y", "counts": {"train": [1, 2], "validation": [3, 4], "test": [5, 6]}, "fingerprint": "x"}


@pytest.mark.parametrize(
    ("card", "named"),
    [
        ("{", "Expecting property name"),
        ("[" * 100_000, "recursion"),
        ([CARD], "a JSON object with definition, counts and fingerprint"),
        ("text", "Expecting value"),
        ({}, "definition: missing; counts: missing; fingerprint: missing"),
        (CARD | {"fingerprint": None}, "fingerprint: should be a word, got None"),
        (CARD | {"definition": ["y"]}, "definition: should be a word"),
        (CARD | {"counts": [1, 2]}, "counts: should be keys and values, got"),
        (CARD | {"counts": {"train": [1, 2]}}, "counts.validation: missing; counts.test: missing"),
        (CARD | {"counts": CARD["counts"] | {"test": "56"}}, "counts.test: should be a valid tuple"),
        (CARD | {"counts": CARD["counts"] | {"test": [5]}}, "counts.test.1: missing"),
        (CARD | {"counts": CARD["counts"] | {"test": [5, "6"]}}, "counts.test.1: should be a whole number, got '6'"),
        (CARD | {"counts": CARD["counts"] | {"test": [5, -6]}}, "counts.test.1: should be greater than or equal to 0"),
    ],
)
def test_broken_card_names_the_key_and_the_command(tmp_path, card, named):
    path = write(tmp_path, TABLE)
    text = card if isinstance(card, str) else json.dumps(card)
    (tmp_path / "mine.card.json").write_text(text)
    with pytest.raises(SpaceError, match=rf"mine\.card\.json cannot be read: .*({named}).*run: aucsweep data prepare"):
        load_own_card(path)


def test_a_card_of_the_right_shape_is_of_another_definition(tmp_path):
    path = write(tmp_path, TABLE)
    (tmp_path / "mine.card.json").write_text(json.dumps(CARD))
    with pytest.raises(SpaceError, match="changed after its data were prepared"):
        load_own_card(path)


def test_faults_of_task_file_and_space_are_named_together(tmp_path):
    write(tmp_path, {**TABLE, "modality": "txt"})
    with pytest.raises(SpaceError) as caught:
        load_space(space_of(tmp_path, ["mine.yaml", "aptso"], seeds=[]))
    keys = [problem.split(":")[0] for problem in caught.value.problems]
    assert keys == ["tasks", "tasks.0", "seeds"]


def test_two_files_of_one_name(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        write_card(write(tmp_path / folder, TABLE), COUNTS, "f00d")
    with pytest.raises(SpaceError, match="two task files are named 'mine'"):
        load_space(space_of(tmp_path, ["a/mine.yaml", "b/mine.yaml"]))


def test_model_must_read_the_own_task(tmp_path):
    write_card(write(tmp_path, TABLE), COUNTS, "f00d")
    with pytest.raises(SpaceError, match="small-cnn reads images, mine consists of texts"):
        load_space(space_of(tmp_path, "mine.yaml", models="small-cnn"))
