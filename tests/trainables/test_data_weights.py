import dataclasses
import json
import re
import shutil
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from PIL import Image

from search_spaces.cards import SPLITS
from search_spaces.errors import DataError
from search_spaces.own_task import load_own_card
from search_spaces.tasks import TASKS
from trainables.data import check_task, load_task, prepare_task
from trainables.data.examples import Example, index_of

LEGACY = Path(__file__).parents[1] / "legacy" / "own_task_v1"
TASK = "name: noisy\nmodality: text\nkind: table\ntext: words\nlabel: kind\nweight: confidence\npositive: ['yes']\n"
BY_SEED = "splits: {by: seed, fractions: {train: 0.5, validation: 0.25, test: 0.25}}\n"
BY_COLUMN = "splits: {by: column, column: fold}\n"
BY_FILES = "splits: {by: files, train: train.csv, validation: validation.csv, test: test.csv}\n"
BY_COUNTS = (
    "splits: {by: seed, counts: {train: {positive: 3, negative: 5}, validation: {positive: 1, negative: 2}, "
    "test: {positive: 1, negative: 2}}}\n"
)
FOLDS = ["train"] * 12 + ["validation"] * 8 + ["test"] * 4


def table(n=24):
    """Every fourth example positive; weights 0.25, 0.375, ... all different."""
    words = [f"text {i}" for i in range(n)]
    kinds = ["yes" if i % 4 == 0 else "no" for i in range(n)]
    return pd.DataFrame({"words": words, "kind": kinds, "confidence": [0.25 + i / 8 for i in range(n)]})


def write(folder, frame, splits=BY_SEED, file="a.csv", task=TASK):
    folder.mkdir(parents=True, exist_ok=True)
    if file.endswith(".parquet"):
        frame.to_parquet(folder / file)
    else:
        frame.to_csv(folder / file, index=False)
    (folder / "a.yaml").write_text(task + (f"file: {file}\n" if splits != BY_FILES else "") + splits)
    return folder / "a.yaml"


def pairs(split):
    """(text, weight) of each example."""
    return set(zip(split.fetch(np.arange(len(split.labels))), split.weights.tolist(), strict=True))


def prepared(path, root, seed=0):
    prepare_task(path, root)
    return load_task(load_own_card(path), seed=seed, data_root=root)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("splits", [BY_SEED, BY_COLUMN, BY_FILES, BY_COUNTS])
def test_weights_follow_their_examples_through_every_split(tmp_path, splits, seed):
    frame = table().assign(fold=FOLDS)
    path = write(tmp_path, frame, splits)
    for name in SPLITS:
        frame[frame.fold == name].to_csv(tmp_path / f"{name}.csv", index=False)
    data = prepared(path, tmp_path / "d", seed)
    weight_of = dict(zip(frame.words, frame.confidence, strict=True))
    seen = set()
    for name in SPLITS:
        split = getattr(data, name)
        assert split.weights.dtype == np.float64
        assert split.weights.shape == split.labels.shape
        texts = split.fetch(np.arange(len(split.labels)))
        assert split.weights.tolist() == [weight_of[text] for text in texts]
        seen |= pairs(split)
    whole = set(weight_of.items())
    assert seen < whole if splits == BY_COUNTS else seen == whole
    if splits in (BY_COLUMN, BY_FILES):
        assert pairs(data.validation) == {(f"text {i}", 0.25 + i / 8) for i in range(12, 20)}
    assert data.card.weighted


def test_the_draw_by_seed_is_that_of_the_task_without_weights(tmp_path):
    with_weights = prepared(write(tmp_path / "a", table()), tmp_path / "d", seed=3)
    without = prepared(
        write(tmp_path / "b", table(), task=TASK.replace("weight: confidence\n", "")), tmp_path / "d", seed=3
    )
    for name in SPLITS:
        assert getattr(without, name).weights is None
        assert getattr(with_weights, name).rows.tolist() == getattr(without, name).rows.tolist()


def test_weights_of_images_and_pairs(tmp_path):
    random = np.random.RandomState(0)
    for i in range(24):
        Image.fromarray(random.randint(0, 256, (16, 16, 3), dtype=np.uint8)).save(tmp_path / f"{i:02d}.png")
    frame = table().assign(words=[f"{i:02d}.png" for i in range(24)])
    task = TASK.replace("text: words", "image: words\nimage_size: 16").replace("modality: text", "modality: image")
    data = prepared(write(tmp_path, frame, task=task), tmp_path / "d", seed=1)
    weight_of = {}
    for name, weight in zip(frame.words, frame.confidence, strict=True):
        weight_of[np.asarray(Image.open(tmp_path / name)).transpose(2, 0, 1).tobytes()] = weight
    for name in SPLITS:
        split = getattr(data, name)
        images = split.fetch(np.arange(len(split.labels))).numpy()
        assert split.weights.tolist() == [weight_of[image.tobytes()] for image in images]

    two = TASK.replace("text: words", "text: words\ntext_pair: second")
    second = prepared(write(tmp_path / "p", table().assign(second="b"), task=two), tmp_path / "d")
    assert (("text 5", "b"), 0.875) in pairs(second.train) | pairs(second.validation) | pairs(second.test)


def test_the_fingerprint_sees_one_weight_and_no_row_order(tmp_path):
    def fingerprint(name, frame):
        return prepare_task(write(tmp_path / name, frame), tmp_path / name / "d").fingerprint

    base = fingerprint("a", table())
    assert fingerprint("b", table()[::-1]) == base
    # The same numbers written otherwise: 0.25 as text, as "2.5e-1", in Parquet.
    assert fingerprint("c", table().assign(confidence=[f" {0.25 + i / 8:.4e}" for i in range(24)])) == base
    assert prepare_task(write(tmp_path / "p", table(), file="a.parquet"), tmp_path / "d").fingerprint == base
    changed = table()
    changed.loc[7, "confidence"] += 1e-9
    assert fingerprint("d", changed) != base
    swapped = table()
    swapped.loc[[1, 2], "confidence"] = swapped.loc[[2, 1], "confidence"].to_numpy()
    assert fingerprint("e", swapped) != base


def test_equal_texts_of_other_weights_are_kept_and_row_order_means_nothing(tmp_path):
    more = pd.DataFrame({"words": ["text 3"] * 3, "kind": ["no"] * 3, "confidence": [9.0, 5.0, 7.0]})
    frame = pd.concat([table(), more])
    first = prepared(write(tmp_path / "a", frame, BY_SEED), tmp_path / "d")
    weights = sorted(weight for name in SPLITS for text, weight in pairs(getattr(first, name)) if text == "text 3")
    assert weights == [0.625, 5.0, 7.0, 9.0]
    second = prepared(write(tmp_path / "b", frame[::-1], BY_SEED), tmp_path / "e")
    assert second.fingerprint == first.fingerprint
    assert pairs(second.train) == pairs(first.train)


def test_a_changed_weight_is_another_task(tmp_path):
    path = write(tmp_path, table())
    before = prepared(path, tmp_path / "d").card
    changed = table()
    changed.loc[0, "confidence"] = 40.0
    write(tmp_path, changed)
    check = check_task(path, tmp_path / "d")
    assert not check.ok
    assert "a.csv was changed after the data were prepared; run: aucsweep data prepare" in check.lines[-1]
    after = prepared(path, tmp_path / "d")
    assert after.card.revision != before.revision
    assert sorted(np.concatenate([getattr(after, name).weights for name in SPLITS]))[-1] == 40.0
    # Both are prepared, each in its own folder: the old card still reads the old weights.
    old = load_task(before, seed=0, data_root=tmp_path / "d")
    assert sorted(np.concatenate([getattr(old, name).weights for name in SPLITS])) == table().confidence.tolist()


def test_check_says_what_the_weights_are(tmp_path):
    path = write(tmp_path, table())
    prepare_task(path, tmp_path / "d")
    check = check_task(path, tmp_path / "d")
    assert check.ok
    assert "weights: column confidence, 0.25 to 3.125" in check.lines


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("", "is empty"),
        ("  ", "is empty"),
        ("0", "is '0'"),
        ("-0.0", "is '-0.0'"),
        ("-1", "is '-1'"),
        ("high", "is 'high'"),
        ("0,5", "is '0,5'"),
        ("1_000", "is '1_000'"),
        ("nan", "is 'nan'"),
        ("inf", "is 'inf'"),
        ("1e999", "is '1e999'"),
        ("1e-999", "is '1e-999'"),
        ("True", "is 'True'"),
    ],
)
def test_a_bad_cell_of_a_csv_is_named_by_its_row(tmp_path, cell, said):
    frame = table().astype(str)
    frame.loc[[4, 6], "confidence"] = [cell, "0.5"]
    path = write(tmp_path, frame)
    expected = (
        f"a.csv: row 5: confidence {said} (allowed: a finite number above 0; to leave an example out, give it a label "
        "listed in ignore)"
    )
    with pytest.raises(DataError, match=re.escape(expected)):
        prepare_task(path, tmp_path / "d")
    check = check_task(path, tmp_path / "d")
    assert not check.ok
    assert expected in "\n".join(check.lines)
    assert not (tmp_path / "a.card.json").exists()


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ([1.0, float("nan")] * 12, "row 2: confidence is empty"),
        ([1.0, float("inf")] * 12, "row 2: confidence is inf"),
        ([1.0, None] * 12, "row 2: confidence is empty"),
        (pd.array([1, None] * 12, dtype="Int64"), "row 2: confidence is empty"),
        (["1", None] * 12, "row 2: confidence is empty"),
        ([1, 0] * 12, "row 2: confidence is 0 "),
        ([True, False] * 12, "row 1: confidence is True"),
        ([Decimal("0.50"), Decimal("-0.50")] * 12, r"row 2: confidence is Decimal\('-0.50'\)"),
        (pd.to_datetime(["2020-01-01"] * 24), "row 1: confidence is Timestamp"),
        ([b"1"] * 24, "row 1: confidence is b'1'"),
    ],
)
def test_a_bad_cell_of_a_parquet_file_is_named_by_its_row(tmp_path, column, said):
    path = write(tmp_path, table().assign(confidence=column), file="a.parquet")
    with pytest.raises(DataError, match=said):
        prepare_task(path, tmp_path / "d")


@pytest.mark.parametrize(
    "column",
    [
        np.float32([0.5, 2.0] * 12),
        ["0.5", "2"] * 12,
        [Decimal("0.5"), Decimal("2.0")] * 12,
        pd.array([0.5, 2.0] * 12, dtype="Float64"),
    ],
)
def test_numbers_of_any_type_in_parquet(tmp_path, column):
    data = prepared(write(tmp_path, table().assign(confidence=column), file="a.parquet"), tmp_path / "d")
    every = set().union(*(pairs(getattr(data, name)) for name in SPLITS))
    assert every == {(f"text {i}", (0.5, 2.0)[i % 2]) for i in range(24)}


def test_every_bad_row_is_named_and_ignored_rows_need_no_weight(tmp_path):
    frame = table().astype(str)
    frame.loc[[1, 2, 3], "confidence"] = ["x", "0", ""]
    path = write(tmp_path, frame)
    with pytest.raises(DataError, match=r"3 faults\n  - row 2: .*\n  - row 3: .*\n  - row 4: "):
        prepare_task(path, tmp_path / "d")
    frame.loc[[1, 2, 3], "kind"] = "unclear"
    data = prepared(write(tmp_path, frame, task=TASK + "ignore: unclear\n"), tmp_path / "d")
    left_out = {"text 1", "text 2", "text 3"}
    assert {text for name in SPLITS for text, _ in pairs(getattr(data, name))} == set(table().words) - left_out


def test_a_missing_weight_column_is_named_with_those_there(tmp_path):
    path = write(tmp_path, table().rename(columns={"confidence": "trust"}))
    with pytest.raises(DataError, match=r"no column 'confidence' \(the columns are: words, kind, trust\)"):
        prepare_task(path, tmp_path / "d")


def test_a_prepared_weight_that_was_changed_is_refused(tmp_path):
    data = prepared(write(tmp_path, table()), tmp_path / "d")
    index = next((tmp_path / "d").glob("prepared/noisy-*/index.parquet"))
    stored = pq.read_table(index)
    doubled = stored.set_column(
        stored.column_names.index("weight"), "weight", [np.asarray(stored["weight"].to_numpy() * 2)]
    )
    for damaged in (doubled, stored.drop_columns(["weight"])):
        pq.write_table(damaged, index)
        # Another modification time, so that the pool kept by this process is not used.
        manifest = index.with_name("manifest.json")
        manifest.write_text(manifest.read_text() + " ")
        with pytest.raises(DataError, match="not the rows the manifest describes; prepare the task again"):
            load_task(data.card, seed=0, data_root=tmp_path / "d")


def test_a_task_prepared_before_there_were_weights_is_still_read(tmp_path):
    """The folder was written at b7a2b2c, before tasks could have weights: same revision, fingerprint and rows."""
    shutil.copytree(LEGACY, tmp_path / "old")
    path = tmp_path / "old" / "a.yaml"
    card = load_own_card(path)
    assert card.revision == "3ee68dbf782372f1"
    assert card.fingerprint == "d64c8b9e730d3f4946399046f3db257f77a6606a167263be50748d29cd826b4a"
    assert not card.weighted
    assert check_task(path, tmp_path / "old").ok
    data = load_task(card, seed=0, data_root=tmp_path / "old")
    texts = [text for name in SPLITS for text in getattr(data, name).fetch(np.arange(len(getattr(data, name).labels)))]
    assert sorted(texts) == sorted(table().words)
    assert data.train.weights is None
    # Prepared now, it is the same task, and the same columns are written.
    again = prepare_task(path, tmp_path / "new")
    assert again.fingerprint == card.fingerprint
    written = json.loads(path.with_name("a.card.json").read_text())
    assert list(written.pop("tables")) == ["a.csv"]
    assert written == json.loads((LEGACY / "a.card.json").read_text())
    (old,) = LEGACY.glob("prepared/*/index.parquet")
    (new,) = (tmp_path / "new").glob("prepared/*/index.parquet")
    assert new.parent.name == old.parent.name
    assert pq.read_table(new).equals(pq.read_table(old))


def test_no_built_in_task_has_weights():
    assert [card.name for card in TASKS.values() if card.weighted] == []


def test_examples_have_weights_all_or_none():
    one, two = Example("a", 0, "x", weight=0.5), Example("b", 1, "y")
    with pytest.raises(ValueError, match="1 of 2 examples have a weight; all must, or none"):
        index_of([one, two], ["", ""])
    assert index_of([two], [""]).weights is None
    index = index_of([one, dataclasses.replace(two, weight=2)], ["", ""])
    assert index.weights is not None
    assert index.weights.tolist() == [0.5, 2.0]
