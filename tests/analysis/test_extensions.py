"""The tables of the extensions against means and deviations worked out here."""

from __future__ import annotations

import csv
import html
import json
import re
import statistics
from collections.abc import Callable
from typing import Any

import pytest

from analysis import load_runs, main_table, warmup_gain
from analysis.errors import AnalysisError
from analysis.extensions import deep_auc_table, extension_table, table_of
from analysis.report import render_report
from analysis.tables import gain_table
from orchestrator.store import Store
from search_spaces.tasks import TASKS
from search_spaces.trial import TrialConfig

ROW = {"train_loss": 1.0, "learning_rate_now": 0.1, "seconds": 0.5}


def two_epochs(config: TrialConfig, validation: float, test: float, ovr: float) -> list[dict[str, Any]]:
    """The first epoch is the better one on validation; its values are the ones to report."""
    rows = []
    for epoch in range(1, config.epochs + 1):
        drop = 0.1 * (epoch > 1)
        aucs = {"train_auc": 0.9, "val_auc": validation - drop, "test_auc": test + drop}
        more = {"test_macro_ovr_auc": ovr - drop, "test_average_precision": ovr / 2 + drop}
        rows.append(ROW | {"epoch": epoch, "update": epoch * config.updates_per_epoch} | aucs | more)
    return rows


def made_up(config: TrialConfig) -> list[dict[str, Any]]:
    shift = 0.01 * (config.seed - 123)
    level = {("ce", None): 0.6, ("hinge", 0.5): 0.7, ("hinge", 1.0): 0.75}[config.loss, config.margin]
    level += 0.05 * (config.mode == "warmup")
    return two_epochs(config, level + shift, level - 0.1 + 2 * shift, level - 0.2 + shift)


LARGE = ("losses=ce,hinge", "parts.1.warmup_ratios=0,0.1", "seeds=123,124")


def last_only(config: TrialConfig) -> list[dict[str, Any]]:
    rows = made_up(config)
    if config.selection == "last":
        for row in rows[:-1]:
            row.update(dict.fromkeys(("train_auc", "val_auc", "test_auc"), float("nan")))
    return rows


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


def test_every_task_belongs_to_one_table() -> None:
    assert {table_of(card) for card in TASKS.values()} == {"main", "multiclass", "multilabel", "large"}
    assert {name for name, card in TASKS.items() if table_of(card) == "large"} == {"inaturalist-2018", "imagenet-lt"}


def test_large_has_a_row_per_metric(fill_store: Callable[..., Store]) -> None:
    store = fill_store("large", LARGE, rows=last_only)
    rows = read(extension_table("large", store, "csv"))
    named = {(row["task"], row["metric"]): row for row in rows}
    assert list(named) == [
        ("inaturalist-2018", "Macro-OVO-AUC"),
        ("inaturalist-2018", "Macro-OVR-AUC"),
        ("imagenet-lt", "Macro-OVO-AUC"),
        ("imagenet-lt", "Macro-OVR-AUC"),
    ]
    # ImageNet-LT: epoch 1 of margin 1.0, the larger on validation. Seeds 123 and 124 differ by 2 and 1 points.
    ovo, ovr = (named["imagenet-lt", metric] for metric in ("Macro-OVO-AUC", "Macro-OVR-AUC"))
    assert float(ovo["hinge_direct_mean"]) == pytest.approx(statistics.mean([65.0, 67.0]))
    assert float(ovo["hinge_direct_sd"]) == pytest.approx(statistics.stdev([65.0, 67.0]), abs=1e-3)
    assert float(ovr["hinge_direct_mean"]) == pytest.approx(statistics.mean([55.0, 56.0]))
    assert float(ovr["hinge_warmup_mean"]) == pytest.approx(statistics.mean([60.0, 61.0]))
    assert float(ovr["ce_mean"]) == pytest.approx(statistics.mean([40.0, 41.0]))
    assert (ovo["hinge_warmup_mark"], ovo["hinge_direct_mark"], ovo["ce_mark"]) == ("best", "second", "")
    # iNaturalist: the last epoch is the only one, whatever the others would have been.
    assert float(named["inaturalist-2018", "Macro-OVO-AUC"]["ce_mean"]) == pytest.approx(61.0)


def test_notes_say_what_the_numbers_are(fill_store: Callable[..., Store]) -> None:
    text = extension_table("large", fill_store("large", LARGE, rows=last_only))
    assert "log-softmax" in text
    assert "No validation split: each entry of inaturalist-2018 is the last epoch" in text


def test_the_note_on_absent_classes_names_what_there_is(fill_store: Callable[..., Store]) -> None:
    def ranked(config: TrialConfig) -> list[dict[str, Any]]:
        return [row | {"val_classes_ranked": 5.0, "test_classes_ranked": 4.0} for row in made_up(config)]

    overrides = ("tasks=airbus-6-lt", "losses=ce,hinge", "margins=0.5", "seeds=123", "warmup_ratios=0")
    store = fill_store("multiclass", overrides, rows=ranked)
    (named,) = re.findall(r"JSON column `(\w+)` .* \(`(\w+)`, `(\w+)`\)", extension_table("multiclass", store))
    runs = load_runs(store)
    assert json.loads(runs[named[0]].iloc[0]) == dict(zip(named[1:], (5.0, 4.0), strict=True))


def test_a_table_without_a_task_says_where_the_others_are(fill_store: Callable[..., Store]) -> None:
    nothing = fill_store("smoke", keep=lambda config: False, name="nothing")
    assert extension_table("multilabel", nothing) == "No finished trial yet.\n"
    store = fill_store("smoke", name="others")
    sentence = "No finished trial of a task of this table. Finished: mnist-8-low-shot (`aucsweep table main`)"
    assert extension_table("multilabel", store) == f"{sentence}.\n"
    overrides = ("tasks=airbus-6-lt", "losses=ce,hinge", "margins=0.5", "seeds=123", "warmup_ratios=0")
    fill_store("multiclass", overrides, rows=made_up, name="others")
    assert extension_table("large", store) == f"{sentence}; airbus-6-lt (`aucsweep table multiclass`).\n"
    assert "CE" in extension_table("multiclass", store).splitlines()[0]


def test_a_metric_that_is_lacking_has_no_row(fill_store: Callable[..., Store]) -> None:
    def without(config: TrialConfig) -> list[dict[str, Any]]:
        rows = made_up(config)
        return [{key: value for key, value in row.items() if "average_precision" not in key} for row in rows]

    overrides = ("tasks=airbus-6-lt", "losses=ce,hinge", "margins=0.5", "seeds=123", "warmup_ratios=0")
    rows = read(extension_table("multiclass", fill_store("multiclass", overrides, rows=without), "csv"))
    assert [row["metric"] for row in rows] == ["Macro-OVO-AUC"]
    both = fill_store("multiclass", overrides, rows=made_up, name="both")
    assert [row["metric"] for row in read(extension_table("multiclass", both, "csv"))] == ["Macro-OVO-AUC", "Macro AP"]


def test_whatever_table_they_are_in_the_metric_of_several_classes_and_labels_is_named(
    fill_store: Callable[..., Store],
) -> None:
    overrides = ("losses=ce,hinge", "margins=0.5", "seeds=123", "warmup_ratios=0,0.1")
    store = fill_store("extensions-offline", (*overrides, "parts.1.tasks=reuters-r8"), rows=made_up)
    note = "AUC of mnist-lt, reuters-r8: macro one-vs-one, of log-softmax scores (float32)."
    labels = "AUC of kaomoji-16: the mean over labels, of each label's logits."
    runs = load_runs(store)
    for text in (main_table(runs), gain_table(warmup_gain(runs)), render_report(store)):
        assert note in html.unescape(text)
        assert labels in html.unescape(text)
    binary = main_table(fill_store("quickstart", ("seeds=123", "losses=ce,hinge", "margins=0.5"), name="binary"))
    assert "AUC of" not in binary


def test_deep_auc_against_the_best_of_the_others(fill_store: Callable[..., Store]) -> None:
    overrides = ("parts.1.tasks=imagenet-lt-dogs", "seeds=123,124")
    levels = {"aucm": 0.8, "aucm_closed": 0.82, "hinge": 0.7, "square": 0.9, "ce": 0.75}

    def rows(config: TrialConfig) -> list[dict[str, Any]]:
        level = levels[config.loss] + 0.05 * (config.loss_params.get("variant") == "libauc-2.0.1")
        return two_epochs(config, level + 0.01 * (config.seed - 123), 1 - level, 0.5)

    store = fill_store("deep-auc", overrides, rows=rows)
    fill_store("cv-imagenet-lt", ("losses=ce,hinge,square", "margins=0.5", "warmup_ratios=0,0.1", "seeds=123,124"),
               rows=rows)  # fmt: skip
    (row,) = [row for row in read(deep_auc_table(store, "csv")) if row["task"] == "imagenet-lt-dogs"]
    assert row["other_entry"] == "square direct"  # by validation, although its test AUC is the smallest
    assert float(row["other_mean"]) == pytest.approx(10.0)
    assert float(row["aucm_mean"]) == pytest.approx(20.0)
    assert float(row["aucm(variant=libauc-2.0.1)_mean"]) == pytest.approx(15.0)
    assert float(row["aucm_closed_mean"]) == pytest.approx(18.0)
    assert row["aucm_mark"] == "best"
    text = deep_auc_table(store)
    assert "Deep-AUC (variant=libauc-2.0.1)" in text.splitlines()[0]
    assert "| Square direct |" in text


def test_wrong_names() -> None:
    with pytest.raises(AnalysisError, match="did you mean multiclass"):
        extension_table("multiclas", "nowhere")
    with pytest.raises(AnalysisError, match="unknown table format 'markdown'"):
        deep_auc_table("nowhere", "markdown")
