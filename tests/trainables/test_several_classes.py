"""Tasks of several classes or labels through run_trial: the paper's eight in miniature, and the offline ones."""

import dataclasses
import importlib.util
import logging
import math
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import nn

from search_spaces import space as spaces
from search_spaces.cards import SPLITS
from search_spaces.errors import DataError
from search_spaces.expand import expand
from search_spaces.space import load_space
from search_spaces.tasks import BINARY, EXTENSIONS
from trainables import evaluate
from trainables.checkpoint import TrainState
from trainables.context import TrialContext
from trainables.data import load_task, prepare_task
from trainables.device import execution
from trainables.evaluate import metrics_of, training_rows
from trainables.models import build_model
from trainables.run import advance, prepare_run, run_trial

if "miniatures" not in sys.modules:
    spec = importlib.util.spec_from_file_location("miniatures", Path(__file__).with_name("miniatures.py"))
    sys.modules["miniatures"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["miniatures"])
miniatures = sys.modules["miniatures"]
PRESET = {
    "airbus-6-lt": "multiclass",
    "cifar-mammals-5-lt": "multiclass",
    "cifar-vehicles-10-lt": "multiclass",
    "chexpert-competition-5": "multilabel",
    "chexpert-cardiac-fluid-4": "multilabel",
    "chexpert-consolidation-cardiac-2": "multilabel",
    "inaturalist-2018": "large",
    "imagenet-lt": "large",
}


@pytest.fixture
def mini(tmp_path, monkeypatch):
    """``mini(name, loss, **settings)``: a trial of the task's own preset on its miniature, and its context."""

    def make(name, loss="squared_hinge", *, ratio=0.25, seed=123, **settings):
        counts = miniatures.EXTENSIONS[name](tmp_path)
        options = {**EXTENSIONS[name].options, "image_size": 24}
        card = dataclasses.replace(EXTENSIONS[name], counts=counts, options=options)
        prepare_task(card, tmp_path)
        monkeypatch.setattr("search_spaces.expand.task_card", lambda *_: card)
        space = load_space(PRESET[name])
        grid = next(part for part in space.parts if name in part.tasks)
        few = {"epochs": 2, "batch_size": 6} | ({"updates_per_epoch": 3} if PRESET[name] == "multiclass" else {})
        grid = grid.model_copy(
            update={
                "tasks": (name,), "models": ("small-cnn",), "inits": ("random",), "losses": (loss,), "margins": (0.5,),
                "warmup_ratios": (ratio,), "seeds": (seed,),
                "settings": grid.settings.model_copy(update=few | settings),
            }
        )  # fmt: skip
        (config,) = expand(dataclasses.replace(space, parts=(grid,))).trials.values()
        return config, TrialContext(data_root=tmp_path, cards={name: card}, eval_batch_size=7)

    return make


def reference(card, scores, labels):
    """The metrics by scikit-learn on the classes (labels) that can be ranked."""
    if card.kind == "multilabel":
        kept = [c for c in range(card.outputs) if 0 < labels[:, c].sum() < len(labels)]
        auc = np.mean([roc_auc_score(labels[:, c], scores[:, c]) for c in kept])
        return auc, None, np.mean([average_precision_score(labels[:, c], scores[:, c]) for c in kept])
    kept = sorted(set(labels.tolist()))
    pairs = [
        roc_auc_score(labels[(labels == a) | (labels == b)] == a, scores[(labels == a) | (labels == b), a])
        for a in kept
        for b in kept
        if a != b
    ]
    ovr = np.mean([roc_auc_score(labels == c, scores[:, c]) for c in kept])
    return np.mean(pairs), ovr, np.mean([average_precision_score(labels == c, scores[:, c]) for c in kept])


@pytest.mark.parametrize("name", list(PRESET))
def test_a_two_epoch_trial_in_the_tasks_own_regime(name, mini):
    config, context = mini(name)
    card = context.cards[name]
    result = run_trial(config, context)
    assert [row["epoch"] for row in result.rows] == [1, 2]
    row = result.rows[result.selected_epoch - 1]
    for split, short in (("validation", "val"), ("test", "test")):
        source = split if split in result.scores else "test"
        scores, labels = result.scores[source], result.scores[f"{source}_labels"]
        auc, ovr, precision = reference(card, scores, labels)
        by_name = "macro_ovo_auc" if card.kind == "multiclass" else "multilabel_macro_auc"
        assert row[f"{short}_auc"] == row[f"{short}_{by_name}"] == pytest.approx(auc, abs=1e-12)
        assert row[f"{short}_average_precision"] == pytest.approx(precision, abs=1e-12)
        assert row.get(f"{short}_macro_ovr_auc") == (None if ovr is None else pytest.approx(ovr, abs=1e-12))
        if card.kind == "multiclass":
            assert scores.shape == (len(labels), card.outputs)
            assert np.allclose(np.exp(scores.astype(np.float64)).sum(axis=1), 1, atol=1e-4)
    assert ("train_updates_without_pair" in row) == (config.sampling == "natural")


@pytest.mark.parametrize("loss", ["ce", "hinge", "logistic", "hand_till", "hypersimplex"])
def test_other_losses_on_several_classes(loss, mini):
    config, context = mini("cifar-mammals-5-lt", loss, score_scale="log_softmax")
    assert all(0 <= row["val_auc"] <= 1 and math.isfinite(row["train_loss"]) for row in run_trial(config, context).rows)


def test_last_epoch_only(mini):
    config, context = mini("inaturalist-2018", epochs=3)
    assert config.selection == "last"
    result = run_trial(config, context)
    assert [math.isnan(row["val_auc"]) for row in result.rows] == [True, True, False]
    assert result.selected_epoch == 3
    assert result.rows[2]["val_auc"] == result.rows[2]["test_auc"]
    assert "validation" not in result.scores


def test_what_is_left_out_is_said(mini, caplog):
    config, context = mini("inaturalist-2018")
    with caplog.at_level(logging.WARNING):
        row = run_trial(config, context).rows[-1]
    assert row["test_classes_ranked"] == 3
    assert "test split: 8139 of 8142 classes left out of its metrics, without an example there: 1, 2, 3" in caplog.text


@pytest.mark.parametrize("name", ["chexpert-competition-5", "imagenet-lt", "cifar-mammals-5-lt"])
@pytest.mark.parametrize("cut", [1, 3, 4])
def test_a_run_cut_anywhere_goes_on_bit_for_bit(name, cut, mini):
    config, context = mini(name, augmentation="flip")
    whole = run_trial(config, context)
    with execution(torch.device("cpu"), 1):
        run = prepare_run(config, context)
        advance(run, cut)
        state = TrainState.from_bytes(run.state().to_bytes())
    rest = run_trial(config, context, state)
    for a, b in zip(whole.rows, rest.rows, strict=True):
        same = set(a) - {"seconds", "peak_memory_bytes"}
        assert {key: a[key] for key in same} == {key: b[key] for key in same}
    assert all((whole.scores[key] == rest.scores[key]).all() for key in whole.scores)


def test_a_batch_without_a_pair_makes_no_step(toy, config_of, direct_fields, tmp_path):
    toy.module = lambda: nn.Sequential(nn.Linear(6, 1), nn.Flatten(0))
    toy.counts = {"train": (60, 2), "validation": (30, 12), "test": (40, 20)}
    toy.data = type(toy.data)(toy.counts)
    config = config_of(
        **direct_fields, sampling="natural", positive_fraction=None, batch_size=4, updates_per_epoch=16, epochs=1
    )
    (row,) = run_trial(config, toy.context(tmp_path)).rows
    assert row["train_updates_without_pair"] in (14, 15)  # two positives are in one or two of the sixteen batches
    with pytest.raises(DataError):  # stratified batches always have both: there it is an error
        run_trial(config_of(**direct_fields, batch_size=4, positive_fraction=0.1), toy.context(tmp_path))


def test_counts_other_than_the_cards_are_refused(mini):
    config, context = mini("chexpert-competition-5")
    card = context.cards[config.task]
    from trainables.checks import check_data

    data = load_task(card, seed=123, data_root=context.data_root)
    wrong = dataclasses.replace(card, counts={**card.counts, "test": (8,)})
    with pytest.raises(DataError, match="9 examples found, the task card says 8"):
        check_data(data, wrong, None)
    with pytest.raises(DataError, match="labels that are not those of 4 outputs"):
        check_data(data, dataclasses.replace(card, options={**card.options, "outputs": 4}), None)


def test_a_large_training_split_is_scored_on_fixed_rows(monkeypatch):
    assert len(training_rows(437_513, 8142)) == 2**27 // 8142
    assert training_rows(115_846, 1000).tolist() == list(range(115_846))
    monkeypatch.setattr(evaluate, "SCORES_AT_MOST", 50)
    rows = training_rows(40, 5)
    assert len(rows) == 10
    assert rows.tolist() == sorted(set(rows.tolist())) == training_rows(40, 5).tolist()


def test_large_scores_are_not_kept(mini, monkeypatch):
    monkeypatch.setattr("trainables.run.KEPT_AT_MOST", 10)
    config, context = mini("cifar-mammals-5-lt")
    assert run_trial(config, context).scores == {}


@pytest.mark.parametrize("classes", [2, 5])
def test_metrics_of_random_scores(classes):
    random = np.random.RandomState(classes)
    card = dataclasses.replace(EXTENSIONS["mnist-lt"], options={"outputs": classes})
    labels = random.randint(0, classes, 60)
    scores = random.randn(60, classes).round(1)  # with ties
    found = metrics_of(card, scores, labels, "test")
    auc, ovr, precision = reference(card, scores, labels)
    assert found["macro_ovo_auc"] == pytest.approx(auc, abs=1e-12)
    assert found["macro_ovr_auc"] == pytest.approx(ovr, abs=1e-12)
    assert found["average_precision"] == pytest.approx(precision, abs=1e-12)
    assert "classes_ranked" not in found
    assert metrics_of(card, scores, labels, "train", primary=True) == {"macro_ovo_auc": found["macro_ovo_auc"]}


OFFLINE = {  # name: (examples of each split, a text or image to look at)
    "mnist-lt": (700, 1000, 1500),
    "reuters-r8": (4338, 1085, 2172),
    "reuters-r52": (5159, 1291, 2547),
    "kaomoji-16": (4343, 1200, 1800),
}


@pytest.mark.parametrize("name", list(OFFLINE))
def test_offline_tasks(name, tmp_path):
    card = EXTENSIONS[name]
    for package in card.packages:
        try:
            metadata.distribution(package)
        except metadata.PackageNotFoundError:
            pytest.skip(f"package {package} is not installed (make installs it)")
    for seed in (0, 123):
        data = load_task(card, seed=seed, data_root=tmp_path)
        parts = [getattr(data, split) for split in SPLITS]
        assert tuple(len(part.labels) for part in parts) == OFFLINE[name]
        rows = np.concatenate([part.rows for part in parts])
        assert len(set(rows.tolist())) == len(rows)
        if card.kind == "multiclass":
            for split, part in zip(SPLITS, parts, strict=True):
                assert tuple(np.bincount(part.labels, minlength=card.outputs)) == card.counts[split]
        if card.modality == "text":
            texts = [text for part in parts for text in part.fetch(np.arange(len(part.labels)))]
            assert len(set(texts)) == len(texts)  # nothing can be in two splits
    if name == "kaomoji-16":
        happy = card.options["labels"].index("happy")
        texts = data.train.fetch(np.flatnonzero(data.train.labels[:, happy])[:50])
        assert len(texts) == 50
        assert all(part.labels.any(axis=1).all() for part in parts)


def test_character_model_ignores_padding():
    built = build_model("char-cnn", "random", card=EXTENSIONS["kaomoji-16"])
    built.module.eval()
    alone = built.module(built.encode(["(^_^)"]))
    beside = built.module(built.encode(["(^_^)", "x" * 40, ""]))
    assert alone.shape == (1, 16)
    assert torch.allclose(alone[0], beside[0], atol=1e-6)
    assert torch.allclose(beside[2], built.module.head.bias)
    binary = build_model("char-cnn", "random", card=BINARY["drug-reviews"]).module
    assert sum(parameter.numel() for parameter in binary.parameters()) == 51_393
    with pytest.raises(TypeError, match="batch of images"):
        built.encode(torch.zeros(1, 3, 4, 4))


def test_the_offline_presets_smallest_part_in_process(tmp_path):
    from orchestrator.launching import launch
    from orchestrator.store import open_store

    pytest.importorskip("mlxtend")
    preset = spaces.load_space("extensions-offline")
    first = preset.parts[0]
    fewer = {"seeds": (123,), "losses": ("ce", "hinge"), "settings": first.settings.model_copy(update={"epochs": 3})}
    space = dataclasses.replace(preset, parts=(first.model_copy(update=fewer),))
    assert [part.tasks for part in space.parts] == [("mnist-lt",)]
    done = launch(space, tmp_path / "store", data_root=tmp_path / "data", runner="local", progress=False)
    assert (done.exit_code, done.done, done.failed) == (0, 3, 0)
    runs, broken = open_store(tmp_path / "store").read_runs()
    assert broken == ()
    best = runs.groupby("trial_id")["val_auc"].max()
    assert (best > 0.85).all()
    assert runs["val_macro_ovr_auc"].notna().all()
    assert (runs["val_macro_ovo_auc"] == runs["val_auc"]).all()
