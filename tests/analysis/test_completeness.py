"""Missing cells by name and configurations that lack seeds."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from analysis.completeness import cell_name, check_completeness, completeness
from orchestrator.store import Store
from search_spaces.trial import TrialConfig

FillStore = Callable[..., Store]


def cells(*rows: dict[str, object]) -> pd.DataFrame:
    base = {"task": "t", "model": "m", "init": "random", "loss": "hinge", "mode": "direct", "warmup_ratio": 0.0}
    base |= {"margin": 0.5, "loss_params": "{}", "seed": 1}
    return pd.DataFrame([base | row for row in rows])


def test_complete_store(fill_store: FillStore) -> None:
    state = check_completeness(fill_store("smoke"))
    assert state.complete
    assert (state.planned, state.present) == (10, 10)
    assert state.lines() == ["10 of 10 cells present (10 of 10 trials), 0 configurations lack seeds"]


def test_missing_cells_are_named_with_their_reason(fill_store: FillStore) -> None:
    def keep(config: TrialConfig) -> bool:
        return not (config.loss == "squared_hinge" and config.mode == "direct" and config.seed == 124)

    store = fill_store("smoke", keep=keep)
    state = check_completeness(store)
    assert (state.planned, state.present, state.complete) == (10, 9, False)
    assert state.lines()[1:] == [
        "missing: mnist-8-low-shot, plain-mlp (random), squared_hinge direct, margin 0.5, seed 124 (not run)"
    ]
    lacking = state.lacking.iloc[0]
    assert len(state.lacking) == 1
    assert (lacking["loss"], lacking["mode"], lacking["seeds_present"], lacking["seeds_missing"]) == (
        *("squared_hinge", "direct"),
        *("123", "124"),
    )


def test_latest_attempt_says_why() -> None:
    failures = pd.DataFrame({"trial_id": ["b", "b"], "attempt": [1, 2], "kind": ["oom", "nan"]})
    state = completeness(cells({"trial_id": "a"}, {"trial_id": "b", "seed": 2}), {"a"}, failures)
    assert state.missing["reason"].tolist() == ["failed: nan"]


def test_cells_that_share_a_trial_are_missing_together() -> None:
    planned = cells({"trial_id": "a"}, {"trial_id": "a", "mode": "warmup", "warmup_ratio": 0.01})
    state = completeness(planned, set())
    assert (state.planned, state.trials_planned, state.present) == (2, 1, 0)
    assert len(state.lacking) == 2


def test_long_lists_are_cut() -> None:
    planned = cells(*({"trial_id": str(seed), "seed": seed} for seed in range(9)))
    assert completeness(planned, set()).lines(limit=2)[-1] == "and 7 more missing cells"


def test_cell_names() -> None:
    assert cell_name(cells({}).iloc[0]) == "t, m (random), hinge direct, margin 0.5, seed 1"
    warm = cells({"mode": "warmup", "warmup_ratio": 0.025, "margin": None, "loss": "logistic"}).iloc[0]
    assert cell_name(warm) == "t, m (random), logistic warmup 0.025, seed 1"
    assert cell_name(cells({"mode": "ce", "loss": "ce", "margin": None}).iloc[0]) == "t, m (random), ce, seed 1"


def test_empty_plan() -> None:
    state = completeness(cells().reindex(columns=[*cells({}).columns, "trial_id"]), set())
    assert (state.planned, state.present, len(state.lacking)) == (0, 0, 0)
