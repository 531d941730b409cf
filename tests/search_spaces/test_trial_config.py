"""TrialConfig and Cell: what is part of an id and what is not."""

import dataclasses
import json

import pytest

from search_spaces.expand import expand
from search_spaces.space import load_space
from search_spaces.trial import Cell, TrialConfig


@pytest.fixture(scope="module")
def trials():
    return list(expand(load_space("smoke")).trials.values())


def test_dict_and_json_round_trip(trials):
    for trial in trials:
        again = TrialConfig.from_dict(json.loads(json.dumps(trial.as_dict())))
        assert again == trial
        assert again.trial_id == trial.trial_id
        assert len(trial.trial_id) == 16


def test_every_field_is_part_of_the_id(trials):
    trial = next(trial for trial in trials if trial.mode == "warmup" and trial.loss == "squared_hinge")
    for field in dataclasses.fields(trial):
        value = getattr(trial, field.name)
        other = (
            "x"
            if isinstance(value, str)
            else {"a": 1}
            if field.name == "loss_params"
            else 7
            if value is None
            else value + 1
        )
        assert dataclasses.replace(trial, **{field.name: other}).trial_id != trial.trial_id, field.name


def test_prefix_is_shared_by_what_differs_after_the_switch(trials):
    by_seed = {}
    for trial in trials:
        by_seed.setdefault(trial.seed, set()).add(trial.prefix_id)
        assert (trial.prefix_key == trials[0].prefix_key) == (trial.prefix_id == trials[0].prefix_id)
    assert {seed: len(ids) for seed, ids in by_seed.items()} == {123: 1, 124: 1}
    assert by_seed[123] != by_seed[124]
    changed = dataclasses.replace(trials[0], learning_rate=0.5)
    assert changed.prefix_id != trials[0].prefix_id


def test_unknown_field_is_refused(trials):
    with pytest.raises(TypeError, match="unexpected"):
        TrialConfig.from_dict(trials[0].as_dict() | {"gpu": 1})


def test_cell_id_is_of_the_nominal_point():
    cell = Cell("t" * 16, "aptos", "resnet50", "pretrained", "hinge", "warmup", 0.1, 0.5, {}, 123, "cv-resnet50")
    assert cell.cell_id == dataclasses.replace(cell, margin=0.50, warmup_ratio=1e-1).cell_id
    assert cell.cell_id != dataclasses.replace(cell, warmup_ratio=0.2).cell_id
    assert cell.nominal()["loss_params"] == {}
