"""A loss that changes under its name: only the definition launched last is selected from, whichever that is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from analysis import (
    check_completeness,
    gain_table,
    load_cells,
    load_runs,
    main_table,
    matched_gain,
    matched_table,
    run_results,
    select,
    warmup_gain,
)
from analysis.report import render_report
from orchestrator.store import Store
from search_spaces import own_loss
from search_spaces.losses import LOSSES
from search_spaces.trial import TrialConfig
from trainables.losses.registry import BUILDERS

FillStore = Callable[..., Store]

OWN = """
from search_spaces.cards import LossCard
from trainables.losses import on_classes, register_loss

register_loss(
    LossCard("mean_gap", "Mean gap", "E- s - E+ s", "1", has_margin=True, pairwise=True, source="here"),
    on_classes(lambda positives, negatives, margin: {factor} * (negatives.mean() - positives.mean())),
)
"""
SPACE: dict[str, Any] = {
    "regime": "smoke",
    "tasks": ["mnist-8-low-shot"],
    "models": ["plain-mlp"],
    "inits": ["random"],
    "losses": ["ce", "hinge"],
    "warmup_ratios": [0, 0.25],
    "margins": [0.5],
    "seeds": [1, 2],
}


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    losses, builders, used = dict(LOSSES), dict(BUILDERS), dict(own_loss._IN_USE)
    yield
    for table, before in ((LOSSES, losses), (BUILDERS, builders), (own_loss._IN_USE, used)):
        table.clear()
        table.update(before)  # type: ignore[arg-type]


class Versions:
    """``launch(1)``, ``launch(2)``: the same space with another definition of ``loss``, on one store."""

    def __init__(self, kind: str, folder: Path, fill: FillStore) -> None:
        self.kind, self.folder, self.fill = kind, folder, fill
        self.loss = {"file": "mean_gap", "phases": "easy-to-hard", "both": "through-a-file"}[kind]
        self.of: dict[str, int] = {}

    def launch(self, version: int, name: str = "store", keep: Callable[..., bool] | None = None, **more: Any) -> Store:
        changes: dict[str, Any] = {"losses": ["ce", "hinge", self.loss]} | more
        if self.kind != "phases":
            (self.folder / "gap.py").write_text(OWN.format(factor=version))
            changes["loss_files"] = ["gap.py"]
        if self.kind == "both":
            changes["phases"] = {self.loss: [{"loss": "mean_gap", "ce": 0.5}]}
        if self.kind == "phases":
            changes["phases"] = {
                self.loss: [
                    {"share": 0.5, "loss": "hinge", "margin": {"from": 1, "to": 1 / version}},
                    {"loss": "hinge", "pairs": {"hard_negatives": 2 * version, "budget": 3}},
                ]
            }
        path = self.folder / "space.yaml"
        path.write_text(yaml.safe_dump(SPACE | changes))

        def rows(config: TrialConfig) -> list[dict[str, Any]]:
            """Version 1 is the better one of direct training, version 2 of warm-up, to mix the two in a selection."""
            self.of.setdefault(config.trial_id, version)
            first = (config.loss in ("ce", "hinge")) or self.of[config.trial_id] == 1
            level = 0.8 if first == (config.mode != "warmup") else 0.7
            level += 0.01 * config.seed
            found = []
            for epoch in range(1, config.epochs + 1):
                aucs = {"train_auc": 0.9, "val_auc": level, "test_auc": level - 0.1}
                fixed = {"train_loss": 1.0, "learning_rate_now": 0.1, "seconds": 0.5}
                found.append({"epoch": epoch, "update": epoch * config.updates_per_epoch, **aucs, **fixed})
            return found

        kept = keep or (lambda config: True)
        store: Store = self.fill(str(path), rows=rows, name=name, keep=kept)
        return store


@pytest.fixture(params=["file", "phases", "both"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def versions(kind: str, tmp_path: Path, fill_store: FillStore) -> Versions:
    return Versions(kind, tmp_path, fill_store)


def same(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(found, expected)


def test_only_the_definition_launched_last_is_selected_from(versions: Versions) -> None:
    versions.launch(1)
    store = versions.launch(2)
    chosen = select(store).set_index(["loss", "mode"])
    # Version 2 alone: direct 0.7, warm-up 0.8; the better direct runs are those of version 1.
    assert chosen.loc[(versions.loss, "direct"), "val_mean"] == pytest.approx(0.715)
    assert chosen.loc[(versions.loss, "warmup"), "val_mean"] == pytest.approx(0.815)
    assert set(chosen["candidates"]) == {1}
    gain = warmup_gain(store).set_index("loss")["gain"]
    assert gain[versions.loss] == pytest.approx(0.1)
    assert gain["hinge"] == pytest.approx(-0.1)
    alone = versions.launch(2, "alone")
    same(select(store), select(alone))
    same(warmup_gain(store), warmup_gain(alone))
    assert check_completeness(store).lines() == check_completeness(alone).lines()


def test_launching_an_old_space_again_makes_it_the_current_one(versions: Versions) -> None:
    versions.launch(1)
    versions.launch(2)
    store = versions.launch(1)  # nothing is trained
    same(select(store), select(versions.launch(1, "alone")))


def test_the_captions_say_what_is_left_out(versions: Versions) -> None:
    versions.launch(1)
    store = versions.launch(2)
    sentence = f"Left out: 4 runs of earlier definitions of the loss {versions.loss}; only the definition launched last"
    gains = warmup_gain(store)
    assert main_table(store).count(sentence) == 1
    assert sentence in main_table(store, "csv")
    assert sentence in gain_table(gains)
    assert sentence in render_report(store).partition('id="run"')[0]
    alone = versions.launch(2, "alone")
    for text in (main_table(alone), gain_table(warmup_gain(alone)), render_report(alone)):
        assert "Left out" not in text


def test_all_runs_stay_in_the_frame(versions: Versions) -> None:
    versions.launch(1)
    store = versions.launch(2)
    runs = load_runs(store)
    old = runs[runs["superseded"]]
    assert set(old["loss"]) == {versions.loss}
    assert {versions.of[trial] for trial in old["trial_id"]} == {1}
    assert {versions.of[trial] for trial in set(runs["trial_id"]) - set(old["trial_id"])} >= {2}
    # To look at the old ones after all:
    chosen = select(old.assign(superseded=False)).set_index("mode")
    assert chosen.loc["direct", "val_mean"] == pytest.approx(0.815)
    assert len(run_results(runs.assign(superseded=False))) == len(run_results(runs)) + 4


def test_seeds_of_an_earlier_definition_are_no_part_of_the_plan(versions: Versions) -> None:
    versions.launch(1, seeds=[1, 2, 3])
    store = versions.launch(2)
    chosen = select(store).set_index(["loss", "mode"])
    assert chosen.loc[(versions.loss, "direct"), ["n", "n_planned"]].tolist() == [2, 2]
    assert chosen.loc[("hinge", "direct"), "n_planned"] == 3
    assert set(load_cells(store).query(f"loss == '{versions.loss}' and not superseded")["seeds_planned"]) == {2}


def test_a_space_without_the_loss_leaves_its_definition_as_it_was(versions: Versions) -> None:
    versions.launch(1)
    store = versions.launch(2)
    before = select(store)
    versions.launch(2, losses=["ce", "hinge"], seeds=[1])
    same(select(store), before)


def test_more_seeds_of_one_definition_are_launched_in_two_steps(versions: Versions) -> None:
    versions.launch(1)
    versions.launch(2)
    store = versions.launch(2, seeds=[3])
    chosen = select(store).set_index(["loss", "mode"])
    assert chosen.loc[(versions.loss, "direct"), "n"] == 3
    assert not chosen["incomplete"].any()


def test_a_task_that_is_launched_with_one_definition_only_keeps_it(versions: Versions) -> None:
    """Its runs of an earlier definition are the only ones there are: nothing newer says otherwise."""
    versions.launch(1, tasks=["mnist-8-low-shot", "mnist-8-low-shot-12"])
    store = versions.launch(2)
    kept = load_cells(store).query(f"loss == '{versions.loss}' and not superseded")
    assert set(zip(kept["task"], kept["trial_id"].map(versions.of), strict=True)) == {
        ("mnist-8-low-shot", 2),
        ("mnist-8-low-shot-12", 1),
    }


def of_loss(versions: Versions, version: int) -> pd.DataFrame:
    """What is selected of the loss where there is only that version."""
    alone = select(versions.launch(version, "alone"))
    return alone[alone["loss"] == versions.loss].reset_index(drop=True)


def test_unfinished_cells_of_an_earlier_definition_are_not_missing(
    kind: str, tmp_path: Path, fill_store: FillStore
) -> None:
    versions = Versions(kind, tmp_path, fill_store)
    store = versions.launch(1, seeds=[1, 2, 3], keep=lambda config: config.loss in ("ce", "hinge"))
    assert not check_completeness(store).complete
    lost = load_cells(store).query(f"loss == '{versions.loss}'")["trial_id"]
    versions.launch(2)
    assert check_completeness(store).complete
    assert select(store).set_index("loss").loc[versions.loss, "n_planned"].tolist() == [2, 2]
    # Whose failure is over with them.
    config = TrialConfig.from_dict(json.loads(store.read_runs()[0]["config"].iloc[0]))
    object.__setattr__(config, "trial_id", lost.iloc[0])
    store.write_failure(config, "oom", "of the earlier definition")
    assert "of the earlier definition" not in render_report(store)


def test_matched_takes_the_current_definition(versions: Versions) -> None:
    settings = {"inits": ["random", "pretrained"], "tasks": ["aptos"], "models": ["resnet50"]}
    versions.launch(1, **settings)
    store = versions.launch(2, **settings)
    found = matched_gain(store)
    assert found.pairs.set_index("loss").loc[versions.loss, ["random", "pretrained"]].tolist() == pytest.approx(
        [0.1, 0.1]
    )
    assert f"Left out: 8 runs of earlier definitions of the loss {versions.loss};" in matched_table(found)


def test_built_in_losses_with_other_parameters_stay_apart(fill_store: FillStore) -> None:
    overrides = ("losses=[partial_auc(max_fpr=0.1)]", "seeds=[1]")
    fill_store("smoke", overrides)
    store = fill_store("smoke", ("losses=[partial_auc]", "seeds=[1]"))
    assert set(select(store)["loss"]) == {"partial_auc", "partial_auc(max_fpr=0.1)"}
    assert not load_runs(store)["superseded"].any()
