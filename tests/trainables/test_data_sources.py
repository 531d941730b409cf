import csv
import dataclasses
import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from search_spaces.batches import updates_per_epoch
from search_spaces.cards import SPLITS
from search_spaces.errors import DataError
from search_spaces.regimes import REGIMES
from search_spaces.tasks import EXTENSIONS, TASKS
from search_spaces.trial import TrialConfig
from trainables.context import TrialContext
from trainables.data import check_task, load_task, prepare_task
from trainables.data.imagenet_lt import tail_and_head
from trainables.data.nli import capped, overlap
from trainables.data.profiles import long_tail
from trainables.data.splits import stratified_counts
from trainables.run import run_trial

spec = importlib.util.spec_from_file_location("miniatures", Path(__file__).with_name("miniatures.py"))
miniatures = importlib.util.module_from_spec(spec)
sys.modules["miniatures"] = miniatures
spec.loader.exec_module(miniatures)

ALL = {**TASKS, **EXTENSIONS}
WRITERS = {**miniatures.BINARY, **miniatures.EXTENSIONS}


@pytest.fixture
def mini(tmp_path):
    """The card of a task cut down to its miniature, which is written under ``tmp_path``."""

    def make(name, write=None):
        counts = (write or WRITERS[name])(tmp_path)
        card = ALL[name]
        options = {**card.options, **miniatures.OPTIONS.get(name, {})}
        if card.modality == "image":
            options["image_size"] = 24
        return dataclasses.replace(card, counts=counts, options=options)

    return make


def ids(data, split):
    part = getattr(data, split)
    return set(part.rows.tolist())


@pytest.mark.parametrize("name", list(WRITERS))
def test_check_prepare_and_load(name, mini, tmp_path):
    card = mini(name)
    before = check_task(card, tmp_path)
    assert not before.ok
    assert before.preparable
    assert any("not prepared" in line for line in before.lines), before.lines
    with pytest.raises(DataError, match=f"aucsweep data prepare {name}"):
        load_task(card, seed=0, data_root=tmp_path)
    prepared = prepare_task(card, tmp_path)
    after = check_task(card, tmp_path)
    assert after.ok, after.lines
    assert after.fingerprint == prepared.fingerprint
    assert prepare_task(card, tmp_path) == prepared
    manifest = json.loads((prepared.path / "manifest.json").read_text())
    assert manifest["licence"] == card.licence
    assert manifest["fingerprint"] == prepared.fingerprint
    for seed in (0, 1):
        data = load_task(card, seed=seed, data_root=tmp_path, augmentation="paper")
        rows = [ids(data, split) for split in SPLITS]
        assert sum(map(len, rows)) == len(set.union(*rows))
        for split in SPLITS:
            part = getattr(data, split)
            assert len(part.labels) == sum(card.counts[split])
            if len(card.counts[split]) > 1:
                assert tuple(np.bincount(part.labels)) == card.counts[split]
            if len(part.labels):
                raw = part.fetch(np.arange(2), np.array([3, 4]))
                assert len(raw) == 2
                if card.modality == "image":
                    channels = 1 if "chexpert" in name or name == "fashion-mnist" else 3
                    assert raw.shape == (2, channels, *(2 * [card.options["image_size"]]))
    other = load_task(card, seed=0, data_root=tmp_path)
    assert (ids(other, "train") == ids(data, "train")) == (not card.seeded)


@pytest.mark.parametrize("name", list(miniatures.BINARY))
def test_a_two_epoch_trial_in_the_tasks_own_regime(name, mini, tmp_path):
    card = mini(name)
    prepare_task(card, tmp_path)
    text = card.modality == "text"
    kept = {"imagenet-lt-dogs": "cv-imagenet-lt", "apple-disease": "cv-densenet121"}
    settings = REGIMES["nlp-distilbert" if text else kept.get(name, "cv-resnet50")].settings
    batch, total = 8, 0
    per_epoch = updates_per_epoch(card.counts["train"], batch, settings.positive_fraction)
    total = 2 * per_epoch
    config = TrialConfig(
        task=name,
        task_revision=card.revision,
        model="small-transformer" if text else "small-cnn",
        init="random",
        loss="squared_hinge",
        mode="warmup",
        margin=0.5,
        loss_params={},
        warmup_updates=1,
        seed=123,
        epochs=2,
        updates_per_epoch=per_epoch,
        batch_size=batch,
        positive_fraction=settings.positive_fraction,
        accumulation=1,
        optimizer=settings.optimizer,
        learning_rate=settings.learning_rate,
        momentum=settings.momentum,
        weight_decay=settings.weight_decay,
        lr_schedule=settings.lr_schedule,
        lr_warmup_updates=0,
        switch_scale=settings.switch_scale,
        max_grad_norm=settings.max_grad_norm,
        score_scale="sigmoid",
        precision="float32",
        max_length=settings.max_length,
        augmentation=settings.augmentation,
    )
    assert settings.augmentation == ("none" if text else "paper")
    result = run_trial(config, TrialContext(data_root=tmp_path, cards={name: card}, eval_batch_size=16))
    assert [row["update"] for row in result.rows] == [per_epoch, total]
    assert all(0 <= row["test_auc"] <= 1 for row in result.rows)
    assert result.data_fingerprint == load_task(card, seed=123, data_root=tmp_path).fingerprint


TABLE = {  # Tables 5 and 6: (train, validation, test), each (negatives, positives)
    "imagenet-lt-dogs": ((6586, 202), (720, 360), (1800, 900)),
    "dog-breeds": ((258, 259), (55, 56), (55, 55)),
    "crj700-crj900": ((25, 25), (15, 15), (33, 33)),
    "aptos": ((699, 342), (150, 73), (150, 73)),
    "deepweeds": ((25, 25), (15, 15), (40, 40)),
    "apple-disease": ((25, 25), (15, 15), (40, 40)),
    "rice-disease": ((18, 18), (8, 8), (14, 14)),
    "ham10000": ((4694, 779), (1006, 167), (1005, 167)),
    "ham10000-by-lesion": ((4694, 779), (1006, 167), (1005, 167)),
    "goemotions-annoyance": ((36846, 2223), (4094, 247), (5107, 320)),
    "goemotions-fear": ((38533, 536), (4281, 60), (5349, 78)),
    "anli-r1-en": ((7052, 5371), (333, 334), (333, 334)),
    "anli-r3-cn": ((10000, 10000), (402, 396), (402, 396)),
    "anli-r3-en": ((10000, 10000), (402, 402), (402, 402)),
    "snli-high-overlap": ((10000, 10000), (2000, 2000), (2000, 2000)),
    "wanli-cn": ((10000, 10000), (2000, 1540), (2397, 745)),
    "wanli-en": ((10000, 10000), (2000, 2000), (2000, 1858)),
}


@pytest.mark.parametrize("name", list(TABLE))
def test_the_cards_hold_the_published_counts(name):
    assert tuple(TASKS[name].counts[split] for split in SPLITS) == TABLE[name]


def full_rule(name):
    """Each task's split-size rule applied to its source's full class counts, where those are published."""
    if name == "dog-breeds":
        return stratified_counts((150 + 218, 192 + 178))
    if name == "aptos":
        return stratified_counts((999, 193 + 295))
    if name.startswith("ham10000"):
        return stratified_counts((6705, 1113))
    if name.startswith("goemotions"):
        positives = {"goemotions-annoyance": 2470, "goemotions-fear": 596}[name]
        validation = (round((43410 - positives) / 10), round(positives / 10))
        return {"train": (43410 - positives - validation[0], positives - validation[1]), "validation": validation}
    sources = {
        "anli-r1-en": {"train": (7052, 5371), "validation": (333, 334), "test": (333, 334)},
        "anli-r3-cn": {"train": (40778, 26818), "validation": (402, 396), "test": (402, 396)},
        "anli-r3-en": {"train": (40778, 32863), "validation": (402, 402), "test": (402, 402)},
        "wanli-cn": {"train": (44000, 13862), "validation": (4890, 1540), "test": (2397, 745)},
        "wanli-en": {"train": (44000, 34660), "validation": (4890, 3851), "test": (2397, 1858)},
        "snli-high-overlap": {"train": (182764, 183416), "validation": (3235, 3329), "test": (3219, 3368)},
    }
    caps = {"train": 20_000, "validation": 4_000, "test": 4_000}
    return {split: capped(counts, caps[split]) for split, counts in sources[name].items()}


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in TABLE
        if name not in {"imagenet-lt-dogs", "crj700-crj900", "deepweeds"} | {"apple-disease", "rice-disease"}
    ],
)
def test_the_rules_give_the_published_counts_from_the_sources_full_counts(name):
    for split, counts in full_rule(name).items():
        assert counts == TASKS[name].counts[split], split


def test_long_tail_profiles_have_the_published_totals():
    for name, total in (("airbus-6-lt", 93), ("cifar-mammals-5-lt", 431), ("cifar-vehicles-10-lt", 818)):
        assert sum(EXTENSIONS[name].counts["train"]) == total
    assert EXTENSIONS["airbus-6-lt"].counts["train"] == long_tail(30, 5, 6)
    assert EXTENSIONS["cifar-mammals-5-lt"].counts["train"] == long_tail(200, 10, 5)
    assert EXTENSIONS["cifar-vehicles-10-lt"].counts["train"] == long_tail(200, 10, 10)
    assert [sum(EXTENSIONS["cifar-vehicles-10-lt"].counts[split]) for split in ("validation", "test")] == [500, 500]


IMAGENET_LT_DOGS = (
    "151:53 152:10 153:30 154:77 155:5 157:30 158:100 159:37 160:69 162:26 163:47 164:81 165:100 166:25 167:35 169:35 "
    "170:7 171:35 175:100 178:69 179:42 180:10 181:20 183:49 184:73 185:38 186:56 187:75 188:89 189:24 190:35 193:23 "
    "195:77 196:10 197:59 198:90 199:33 200:26 202:43 203:50 204:18 208:85 209:43 210:11 211:11 214:24 215:54 216:87 "
    "217:39 218:86 220:91 221:52 222:56 223:11 225:48 226:62 227:100 228:41 230:22 231:7 232:50 233:51 234:6 236:29 "
    "237:13 238:36 239:75 242:59 243:56 246:90 248:17 249:53 251:81 252:63 254:45 255:37 256:39 258:71 259:32 260:12 "
    "263:97 264:60 265:14 266:66 267:14 268:6"
)
"""Dog classes of ImageNet-LT with at most 100 training images; the other 32 have more."""


def test_imagenet_lt_has_18_tail_and_36_head_dog_classes():
    counts = dict.fromkeys(range(100, 300), 101)
    counts |= {int(label): int(count) for label, count in (pair.split(":") for pair in IMAGENET_LT_DOGS.split())}
    options = TASKS["imagenet-lt-dogs"].options
    tail, head = tail_and_head(counts, options["tail_at_most"], options["head_at_least"])
    assert (len(tail), len(head)) == (18, 36)
    assert sum(counts[label] for label in tail) == 202
    assert (20 * len(tail), 20 * len(head), 50 * len(tail), 50 * len(head)) == (360, 720, 900, 1800)


def index_column(card, tmp_path, column):
    return pd.read_parquet(tmp_path / "prepared" / card.name / "index.parquet")[column].to_numpy()


@pytest.mark.parametrize("name", ["ham10000-by-lesion", "chexpert-competition-5"])
def test_lesions_and_patients_are_in_one_split(name, mini, tmp_path):
    card = mini(name)
    prepare_task(card, tmp_path)
    groups = index_column(card, tmp_path, "group")
    assert len(set(groups)) < len(groups)
    for seed in range(10):
        data = load_task(card, seed=seed, data_root=tmp_path)
        homes = [{groups[row] for row in ids(data, split)} for split in SPLITS]
        assert not homes[0] & homes[1]
        assert not homes[0] & homes[2]
        assert not homes[1] & homes[2]


def test_the_published_ham10000_split_is_by_image(mini, tmp_path):
    card = mini("ham10000")
    prepare_task(card, tmp_path)
    groups = index_column(card, tmp_path, "group")
    data = load_task(card, seed=0, data_root=tmp_path)
    assert {groups[row] for row in ids(data, "train")} & {groups[row] for row in ids(data, "test")}


def test_chexpert_maps_uncertain_and_missing_to_zero(mini, tmp_path):
    card = mini("chexpert-consolidation-cardiac-2")
    prepare_task(card, tmp_path)
    with (tmp_path / "sources/chexpert/CheXpert-v1.0-small/train.csv").open() as file:
        rows = {row["Path"].partition("/")[2]: row for row in csv.DictReader(file)}
    names = index_column(card, tmp_path, "id")
    data = load_task(card, seed=0, data_root=tmp_path)
    for row, labels in zip(data.train.rows, data.train.labels, strict=True):
        listed = rows[names[row]]
        assert labels.tolist() == [int(listed[name] == "1.0") for name in ("Consolidation", "Cardiomegaly")]


def test_goemotions_counts_a_row_once_whatever_other_labels_it_has(mini, tmp_path):
    card = mini("goemotions-fear")
    prepare_task(card, tmp_path)
    data = load_task(card, seed=0, data_root=tmp_path)
    for split in SPLITS:
        texts = getattr(data, split).fetch(np.arange(len(getattr(data, split).labels)))
        for text, label in zip(texts, getattr(data, split).labels, strict=True):
            assert label == (int(text.split()[2]) % 5 in (2, 3))
    assert all(text.startswith("test") for text in data.test.fetch(np.arange(12)))


def test_both_formats_of_a_source_are_one_data_set(mini, tmp_path):
    fingerprints = []
    for kind in ("parquet", "jsonl"):
        root = tmp_path / kind
        card = dataclasses.replace(TASKS["snli-high-overlap"], counts=miniatures.snli(kind)(root))
        fingerprints.append(prepare_task(card, root).fingerprint)
    assert fingerprints[0] == fingerprints[1]


def test_the_high_overlap_slice_is_the_rows_with_the_largest_overlap(mini, tmp_path):
    card = mini("snli-high-overlap")
    prepare_task(card, tmp_path)
    data = load_task(card, seed=0, data_root=tmp_path)
    chosen = data.train.fetch(np.flatnonzero(data.train.labels == 1))
    source = pd.read_parquet(tmp_path / "sources/snli/train-00000-of-00001.parquet")
    everything = sorted(overlap(a, b) for a, b, label in source.to_numpy() if label == 0)
    assert sorted(overlap(*pair) for pair in chosen) == everything[-9:]


def test_overlap_counts_hypothesis_words():
    assert overlap("A man sleeps.", "a MAN sleeps") == 1
    assert overlap("one two", "three one one two") == 0.75
    assert overlap("one", "") == 0


def test_nli_splits_are_written_down_and_the_same_for_every_seed(mini, tmp_path):
    card = mini("wanli-cn")
    prepare_task(card, tmp_path)
    table = pd.read_parquet(tmp_path / "prepared/wanli-cn/index.parquet")
    assert table.groupby(["part", "label"]).size().to_dict() == {
        ("train", 0): 20, ("train", 1): 20, ("validation", 0): 4, ("validation", 1): 3,
        ("test", 0): 10, ("test", 1): 10,
    }  # fmt: skip
    assert table["where"].str.match(r"(train|test)\.jsonl row \d+").all()
    assert not set(table["text_b"][table["part"] == "train"]) & set(table["text_b"][table["part"] == "validation"])
    rows = [load_task(card, seed=seed, data_root=tmp_path).train.rows.tolist() for seed in (1, 2)]
    assert rows[0] == rows[1]


@pytest.mark.parametrize(
    ("name", "file", "old", "new"),
    [
        ("aptos", "sources/aptos2019/train.csv", "000000000003,3", "000000000003,2"),
        (
            "goemotions-fear",
            "sources/go_emotions/train.tsv",
            "comment 4 about [NAME] …\t3",
            "comment 4 about [NAME] …\t14",
        ),
        ("anli-r3-cn", "sources/anli/anli_v1.0/R3/train.jsonl", '"c"', '"n"'),
    ],
)
def test_one_changed_label_changes_the_fingerprint(name, file, old, new, mini, tmp_path):
    card = mini(name)
    before = prepare_task(card, tmp_path).fingerprint
    path = tmp_path / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(DataError):  # the counts are not the card's any more
        prepare_task(dataclasses.replace(card, revision="2"), tmp_path)
    negatives, positives = card.counts["train"]
    moved = -1 if name == "aptos" or name == "anli-r3-cn" else 1
    if name == "anli-r3-cn":
        counts = card.counts | {"train": (negatives, positives - 1)}
    else:
        counts = card.counts | {"train": (negatives - moved, positives + moved)}
    after = prepare_task(dataclasses.replace(card, counts=counts), tmp_path).fingerprint
    assert after != before


def test_mini_sources_that_are_wrong_are_named_by_file_and_row(mini, tmp_path):
    card = mini("aptos")
    path = tmp_path / "sources/aptos2019/train.csv"
    good = path.read_text()
    path.write_text(good.replace("000000000003,3", "000000000003,7"))
    with pytest.raises(DataError, match=r"train\.csv: row 4: diagnosis is '7' \(allowed: 0, 1, 2, 3, 4\)"):
        prepare_task(card, tmp_path)
    path.write_text(good.replace("id_code", "id"))
    with pytest.raises(DataError, match="no column 'id_code'"):
        prepare_task(card, tmp_path)
    path.write_text(good + good.splitlines()[4] + "\n")
    with pytest.raises(DataError, match=r"duplicate id '000000000003' \(train\.csv row 4 and train\.csv row 61\)"):
        prepare_task(card, tmp_path)
    path.write_text(good)
    cut = tmp_path / "sources/aptos2019/colored_images/Severe/000000000003.png"
    whole = cut.read_bytes()
    cut.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"000000000003\.png: not a readable image .* \(train\.csv row 4\)"):
        prepare_task(card, tmp_path)
    cut.unlink()
    with pytest.raises(DataError, match=r"1 images missing .* such as 000000000003"):
        prepare_task(card, tmp_path)


def test_a_missing_source_says_what_belongs_there(tmp_path):
    check = check_task(TASKS["deepweeds"], tmp_path)
    assert not check.ok
    text = "\n".join(check.lines)
    assert f"no folder {tmp_path}/sources/deepweeds" in text
    assert "labels.csv and images.zip of DeepWeeds" in text


def test_sources_may_be_deleted_once_prepared(mini, tmp_path):
    import shutil

    card = mini("rice-disease")
    prepared = prepare_task(card, tmp_path)
    shutil.rmtree(tmp_path / "sources")
    assert prepare_task(card, tmp_path) == prepared
    load_task(card, seed=0, data_root=tmp_path)


def test_what_the_augmentation_sees_are_the_decoded_pixels_of_the_file(mini, tmp_path):
    card = mini("crj700-crj900")
    prepare_task(card, tmp_path)
    data = load_task(card, seed=0, data_root=tmp_path, augmentation="paper")
    names = index_column(card, tmp_path, "id")
    row = int(data.train.rows[0])
    file = tmp_path / "sources/fgvc-aircraft-2013b/data/images" / f"{names[row]}.jpg"
    assert (data.train.images.pixels(row) == np.asarray(Image.open(file))).all()


def test_evaluation_views_are_made_once_and_are_those_of_the_pixels(mini, tmp_path):
    from trainables.data.augment import evaluation_view

    card = mini("ham10000")
    prepare_task(card, tmp_path)
    data = load_task(card, seed=3, data_root=tmp_path, augmentation="paper")
    assert data.train.views is not None
    batch = data.train.fetch(np.arange(5), None)
    for place in range(5):
        pixels = data.train.images.pixels(int(data.train.rows[place]))
        assert pixels.shape == (45, 60, 3)
        assert (batch[place].permute(1, 2, 0).numpy() == evaluation_view(pixels, 24)).all()


def test_large_tasks_keep_the_files_own_bytes(mini, tmp_path):
    card = mini("inaturalist-2018")
    prepared = prepare_task(card, tmp_path)
    size = sum(path.stat().st_size for path in (tmp_path / "sources/inaturalist-2018").rglob("*.jpg"))
    assert (prepared.path / "images.bin").stat().st_size == size
    data = load_task(card, seed=0, data_root=tmp_path)
    names = index_column(card, tmp_path, "id")
    row = int(data.test.rows[0])
    file = tmp_path / "sources/inaturalist-2018" / names[row]
    assert (data.test.images.pixels(row) == np.asarray(Image.open(file))).all()
