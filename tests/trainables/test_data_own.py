import json
import multiprocessing
import shutil

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from search_spaces.cards import SPLITS
from search_spaces.errors import DataError, SpaceError
from search_spaces.own_task import load_own_card
from trainables.data import check_task, load_task, prepare_task

SEED_SPLIT = "splits: {by: seed, fractions: {train: 0.6, validation: 0.2, test: 0.2}}\n"
TEXT_TASK = "name: mine\nmodality: text\nkind: table\nfile: a.csv\ntext: words\nlabel: kind\npositive: ['yes']\n"


def write_texts(folder, rows, yaml=TEXT_TASK + SEED_SPLIT):
    folder.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows, columns=["words", "kind"]).to_csv(folder / "a.csv", index=False)
    (folder / "a.yaml").write_text(yaml)
    return folder / "a.yaml"


def rows(n=50):
    return [(f'text {i}, "quoted"\nand broken', "yes" if i % 5 == 0 else "no") for i in range(n)]


def everything(split):
    return split.fetch(np.arange(len(split.labels)))


def test_a_csv_of_texts_end_to_end(tmp_path):
    path = write_texts(tmp_path, rows())
    assert not check_task(path, tmp_path / "d").ok
    prepared = prepare_task(path, tmp_path / "d")
    assert prepared.counts == {"train": (24, 6), "validation": (8, 2), "test": (8, 2)}
    check = check_task(path, tmp_path / "d")
    assert check.ok, check.lines
    card = load_own_card(path)
    assert card.fingerprint == prepared.fingerprint
    data = load_task(card, seed=1, data_root=tmp_path / "d")
    label_of = {text: int(kind == "yes") for text, kind in rows()}
    seen = []
    for split in SPLITS:
        texts = everything(getattr(data, split))
        assert getattr(data, split).labels.tolist() == [label_of[text] for text in texts]
        seen += texts
    assert sorted(seen) == sorted(label_of)
    assert data.train.rows.tolist() != load_task(card, seed=2, data_root=tmp_path / "d").train.rows.tolist()


def test_the_fingerprint_ignores_place_and_row_order_and_sees_one_label_or_letter(tmp_path):
    def fingerprint(name, table):
        return prepare_task(write_texts(tmp_path / name, table), tmp_path / name / "d").fingerprint

    base = fingerprint("here", rows())
    assert fingerprint("there/deep", rows()[::-1]) == base
    changed = rows()
    changed[7] = (changed[7][0], "yes")
    assert fingerprint("label", changed) != base
    changed = rows()
    changed[7] = (changed[7][0] + "!", "no")
    assert fingerprint("letter", changed) != base


def test_equal_texts_are_kept_and_counted(tmp_path):
    table = [*rows(), rows()[3], rows()[3], (rows()[3][0], "yes")]
    first = prepare_task(write_texts(tmp_path / "a", table), tmp_path / "d")
    assert sum(map(sum, first.counts.values())) == 53
    assert "3 examples repeat the content of another one" in first.notes
    second = prepare_task(write_texts(tmp_path / "b", table[::-1]), tmp_path / "e")
    assert second.fingerprint == first.fingerprint


def test_pairs_from_parquet_with_splits_by_column(tmp_path):
    table = pd.DataFrame(
        {
            "a": [f"a{i}" for i in range(30)],
            "b": [f"b{i}" for i in range(30)],
            "y": [float(i % 2) for i in range(30)],
            "s": (["train"] * 14 + ["dev"] * 8 + ["test"] * 8),
        }
    )
    table.to_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.yaml").write_text(
        "name: pairs\nmodality: text\nkind: table\nfile: t.parquet\ntext: a\ntext_pair: b\nlabel: y\npositive: [1]\n"
        "negative: [0]\nsplits: {by: column, column: s, validation: dev}\n"
    )
    prepare_task(tmp_path / "t.yaml", tmp_path)
    data = load_task(load_own_card(tmp_path / "t.yaml"), seed=9, data_root=tmp_path)
    assert sorted(everything(data.validation)) == sorted((f"a{i}", f"b{i}") for i in range(14, 22))
    assert data.train.labels.sum() == 7
    table.loc[20, "s"] = "later"
    table.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match="row 21: s is 'later'"):
        prepare_task(tmp_path / "t.yaml", tmp_path)


def test_one_file_a_split(tmp_path):
    for split, size in (("train", 20), ("validation", 10), ("test", 10)):
        pd.DataFrame(rows(size), columns=["words", "kind"]).to_csv(tmp_path / f"{split}.tsv", index=False, sep="\t")
    (tmp_path / "a.yaml").write_text(
        TEXT_TASK.replace("file: a.csv\n", "")
        + "splits: {by: files, train: train.tsv, validation: validation.tsv, test: test.tsv}\n"
    )
    assert prepare_task(tmp_path / "a.yaml", tmp_path).counts["train"] == (16, 4)


def write_images(folder, count=12):
    random = np.random.RandomState(0)
    for name in ("cat", "dog"):
        (folder / "images" / name).mkdir(parents=True)
        for i in range(count):
            pixels = random.randint(0, 256, (30 + i, 40, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / "images" / name / f"{i:02d}.png")
    (folder / "pets.yaml").write_text(
        "name: pets\nmodality: image\nkind: folder\nfolder: images\nimage_size: 16\npositive: [cat]\n"
        "splits: {by: seed, counts: {train: {positive: 4, negative: 5}, validation: {positive: 2, negative: 3}, "
        "test: {positive: 2, negative: 3}}}\n"
    )
    return folder / "pets.yaml"


def test_a_folder_per_class_end_to_end(tmp_path):
    path = write_images(tmp_path)
    shutil.copy(tmp_path / "images/cat/00.png", tmp_path / "images/cat/notes.txt")
    Image.open(tmp_path / "images/dog/03.png").convert("P").save(tmp_path / "images/dog/03.png")
    calls = []
    prepared = prepare_task(path, tmp_path / "d", progress=lambda done, total: calls.append((done, total)))
    assert calls == [(24, 24)]
    assert prepared.counts["train"] == (5, 4)
    assert prepared.notes == ("1 images converted from P to RGB",)
    data = load_task(load_own_card(path), seed=0, data_root=tmp_path / "d", augmentation="flip")
    assert everything(data.train).shape == (9, 3, 16, 16)
    shutil.rmtree(tmp_path / "images")
    assert (everything(data.test) == everything(load_task(data.card, seed=0, data_root=tmp_path / "d").test)).all()


def test_preparing_again_changes_nothing_and_a_changed_pixel_is_another_task(tmp_path):
    path = write_images(tmp_path)
    first = prepare_task(path, tmp_path)
    before = {file: file.stat().st_mtime_ns for file in first.path.iterdir()}
    card = load_own_card(path)
    assert prepare_task(path, tmp_path) == first
    assert {file: file.stat().st_mtime_ns for file in first.path.iterdir()} == before
    image = tmp_path / "images/cat/05.png"
    pixels = np.array(Image.open(image))
    pixels[3, 4, 1] ^= 1
    Image.fromarray(pixels).save(image)
    stale = check_task(path, tmp_path)
    assert not stale.ok
    assert any("changed after the task was prepared" in line for line in stale.lines)
    assert prepare_task(path, tmp_path).fingerprint != first.fingerprint
    assert load_own_card(path).revision != card.revision
    assert load_task(card, seed=0, data_root=tmp_path).fingerprint == first.fingerprint


def _prepare(path, root, queue):
    queue.put(prepare_task(path, root).fingerprint)


def test_two_processes_may_prepare_at_once(tmp_path):
    path = write_images(tmp_path, 30)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    processes = [context.Process(target=_prepare, args=(path, tmp_path / "d", queue)) for _ in range(3)]
    for process in processes:
        process.start()
    fingerprints = {queue.get(timeout=60) for _ in processes}
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert fingerprints == {load_own_card(path).fingerprint}
    assert [entry.name for entry in (tmp_path / "d/prepared").iterdir() if not entry.name.startswith(".")] == [
        f"pets-{load_own_card(path).revision}"
    ]
    assert not [entry for entry in (tmp_path / "d/prepared").iterdir() if entry.is_dir() and entry.name[0] == "."]


def test_a_damaged_store_is_named(tmp_path):
    path = write_images(tmp_path)
    folder = prepare_task(path, tmp_path).path
    card = load_own_card(path)
    manifest = json.loads((folder / "manifest.json").read_text())
    whole = (folder / "images.bin").read_bytes()
    (folder / "images.bin").write_bytes(whole[:-1])
    with pytest.raises(DataError, match=r"images\.bin: \d+ bytes where the manifest says"):
        load_task(card, seed=0, data_root=tmp_path)
    (folder / "images.bin").write_bytes(whole)
    (folder / "index.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"index\.parquet: not readable"):
        load_task(card, seed=0, data_root=tmp_path)
    (folder / "manifest.json").write_text("{")
    with pytest.raises(DataError, match=r"manifest\.json: not readable"):
        load_task(card, seed=0, data_root=tmp_path)
    for content, named in (
        ([manifest], "expected a JSON object"),
        (manifest | {"format": 0}, "format 0, this version reads 1"),
        (manifest | {"recipe": None}, "recipe should be a text, got None"),
        (manifest | {"notes": "none"}, "notes should be a list, got 'none'"),
        (manifest | {"bytes": "12"}, "bytes should be a whole number, got '12'"),
    ):
        (folder / "manifest.json").write_text(json.dumps(content))
        with pytest.raises(DataError, match=rf"manifest\.json: {named}"):
            load_task(card, seed=0, data_root=tmp_path)
    shutil.rmtree(folder)
    with pytest.raises(DataError, match=r"is not prepared under .* aucsweep data prepare pets"):
        load_task(card, seed=0, data_root=tmp_path)


def test_unreadable_images_are_all_named(tmp_path):
    path = write_images(tmp_path)
    jpeg = tmp_path / "images/cat/x.jpg"
    Image.open(tmp_path / "images/cat/00.png").save(jpeg)
    jpeg.write_bytes(jpeg.read_bytes()[:-300])
    (tmp_path / "images/dog/01.png").write_bytes(b"")
    with pytest.raises(DataError, match="2 faults") as raised:
        prepare_task(path, tmp_path / "d")
    assert "x.jpg: not a readable image" in str(raised.value)
    assert "01.png: not a readable image" in str(raised.value)
    assert not list((tmp_path / "d").glob("prepared/pets*"))
    assert not (tmp_path / "pets.card.json").exists()


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ([*rows(), ("more", "maybe")], "row 51: label 'maybe' is neither positive nor negative"),
        ([*rows(), ("more", None)], "row 51: no label"),
        ([*rows(), ("  ", "no")], "row 51: words is empty"),
        ([("only", "no")] * 9, "no positive examples"),
        ([("a", "yes"), ("b", "no")], "would have"),
    ],
)
def test_bad_tables_are_refused_by_row(tmp_path, table, why):
    path = write_texts(tmp_path, table, TEXT_TASK + "negative: ['no']\n" + SEED_SPLIT)
    with pytest.raises(DataError, match=why):
        prepare_task(path, tmp_path / "d")
    check = check_task(path, tmp_path / "d")
    assert not check.ok
    assert why in "\n".join(check.lines)


def test_labels_to_ignore_are_left_out(tmp_path):
    path = write_texts(tmp_path, [*rows(), ("more", "maybe")], TEXT_TASK + "ignore: [maybe]\n" + SEED_SPLIT)
    assert sum(map(sum, prepare_task(path, tmp_path).counts.values())) == 50


def test_wrong_columns_encodings_and_shapes_of_a_file(tmp_path):
    path = write_texts(tmp_path, rows())
    (tmp_path / "a.csv").write_text("text,kind\nx,yes\n")
    with pytest.raises(DataError, match=r"no column 'words' \(the columns are: text, kind\)"):
        prepare_task(path, tmp_path)
    (tmp_path / "a.csv").write_bytes(b"words,kind\nok,yes\ncaf\xe9,no\n")
    with pytest.raises(DataError, match=r"a\.csv: line 3 is not UTF-8"):
        prepare_task(path, tmp_path)
    (tmp_path / "a.csv").write_text("words,kind\nok,yes\na,b,c,d\n")
    with pytest.raises(DataError, match="not a readable table"):
        prepare_task(path, tmp_path)
    (tmp_path / "a.csv").unlink()
    with pytest.raises(DataError, match=r"a\.csv: no such file"):
        prepare_task(path, tmp_path)


def test_image_paths_in_a_table(tmp_path):
    write_images(tmp_path)
    table = [(f"cat/{i:02d}.png", 1) for i in range(12)] + [(f"dog/{i:02d}.png", 0) for i in range(12)]
    yaml = (
        "name: listed\nmodality: image\nkind: table\nfile: a.csv\nimage: path\nimages: images\nlabel: y\n"
        "image_size: 12\npositive: [1]\n" + SEED_SPLIT.replace("0.6", "0.5").replace("test: 0.2", "test: 0.3")
    )
    (tmp_path / "a.yaml").write_text(yaml)
    pd.DataFrame(table, columns=["path", "y"]).to_csv(tmp_path / "a.csv", index=False)
    assert sum(map(sum, prepare_task(tmp_path / "a.yaml", tmp_path).counts.values())) == 24
    pd.DataFrame([*table, ("cat/03.png", 0)], columns=["path", "y"]).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(DataError, match=r"duplicate id 'cat/03.png' \(a.csv row 4 and a.csv row 25\)"):
        prepare_task(tmp_path / "a.yaml", tmp_path)
    pd.DataFrame([*table, ("cat/99.png", 0)], columns=["path", "y"]).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(DataError, match=r"99.png.*row 25"):
        prepare_task(tmp_path / "a.yaml", tmp_path)


def test_class_folders_that_are_missing_empty_or_unlabelled(tmp_path):
    path = write_images(tmp_path)
    (tmp_path / "images/bird").mkdir()
    with pytest.raises(DataError, match="folder bird: no images"):
        prepare_task(path, tmp_path)
    path.write_text(path.read_text().replace("positive: [cat]", "positive: [cat]\nnegative: [dog]"))
    with pytest.raises(DataError, match="folder bird: label 'bird' is neither"):
        prepare_task(path, tmp_path)
    path.write_text(path.read_text().replace("negative: [dog]", "negative: [wolf]"))
    with pytest.raises(DataError, match=r"no class folder 'wolf' \(found: bird, cat, dog\)"):
        prepare_task(path, tmp_path)


def test_a_changed_definition_asks_to_prepare_again(tmp_path):
    path = write_texts(tmp_path, rows())
    prepare_task(path, tmp_path)
    written = json.loads((tmp_path / "a.card.json").read_text())
    assert set(written) == {"definition", "counts", "fingerprint", "tables"}
    path.write_text(path.read_text().replace("'yes'", "'no'"))
    with pytest.raises(SpaceError, match="changed after its data were prepared"):
        load_own_card(path)
    assert not check_task(path, tmp_path).ok
