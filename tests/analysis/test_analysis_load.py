"""Reading stores: cells share trials, broken files are named, partial stores work."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from analysis import check_completeness, load_runs, load_trials, main_table, select
from analysis.errors import AnalysisError, BrokenRunWarning
from analysis.load import load_cells
from orchestrator.store import Store
from search_spaces.errors import StoreError

FillStore = Callable[..., Store]


def test_one_row_per_cell_and_epoch(fill_store: FillStore) -> None:
    store = fill_store("smoke")
    runs, cells, trials = load_runs(store), store.read_cells(), load_trials(store)
    epochs = int(trials["epochs"].iloc[0])
    assert len(runs) == len(cells) * epochs
    assert not runs.duplicated(["cell_id", "epoch"]).any()
    assert set(cells.columns) <= set(runs.columns)
    assert set(runs["seeds_planned"]) == {2}
    # Values are those of the cell's trial.
    joined = runs.merge(trials, on=["trial_id", "epoch"], suffixes=("", "_trial"))
    assert (joined["val_auc"] == joined["val_auc_trial"]).all()
    assert len(joined) == len(runs)


def test_cell_of_a_ratio_that_rounds_to_no_update_has_the_direct_trial(fill_store: FillStore) -> None:
    # The smoke regime makes so few updates that 0.001 of them rounds to none.
    store = fill_store("smoke", ("warmup_ratios=[0, 0.001]",))
    runs = load_runs(store)
    direct, warmup = (runs[runs["mode"] == mode] for mode in ("direct", "warmup"))
    assert len(direct) == len(warmup) > 0
    assert set(direct["trial_id"]) == set(warmup["trial_id"])
    assert set(warmup["warmup_updates"]) == {0}
    chosen = select(runs).set_index(["loss", "mode"])["test_mean"]
    assert chosen["logistic", "direct"] == chosen["logistic", "warmup"]


def test_path_uri_and_open_store_are_the_same(fill_store: FillStore) -> None:
    store = fill_store("smoke")
    for source in (store.uri, Path(store.uri), store):
        pd.testing.assert_frame_equal(load_runs(source), load_runs(store))


def test_cells_false_gives_trials(fill_store: FillStore) -> None:
    store = fill_store("smoke")
    pd.testing.assert_frame_equal(load_runs(store, cells=False), load_trials(store))


def test_no_store_is_a_store_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no store"):
        load_runs(tmp_path / "nothing")


def test_broken_file_is_named_and_absent(fill_store: FillStore) -> None:
    store = fill_store("smoke")
    file = sorted(Path(store.uri, "runs").glob("*.parquet"))[0]
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 0xFF
    file.write_bytes(bytes(content))
    with pytest.warns(BrokenRunWarning, match=file.name):
        runs = load_runs(store)
    assert file.stem not in set(runs["trial_id"])
    with pytest.warns(BrokenRunWarning):
        state = check_completeness(store)
    assert set(state.missing["trial_id"]) == {file.stem}


def test_truncated_file_is_named_and_absent(fill_store: FillStore) -> None:
    store = fill_store("smoke")
    file = sorted(Path(store.uri, "runs").glob("*.parquet"))[0]
    file.write_bytes(file.read_bytes()[:100])
    with pytest.warns(BrokenRunWarning, match=file.name):
        assert file.stem not in set(load_runs(store)["trial_id"])


def test_trial_without_all_epochs_is_named_and_absent() -> None:
    class Half:
        uri = "memory"

        def read_runs(self) -> tuple[pd.DataFrame, tuple[object, ...]]:
            rows = {"trial_id": ["a", "a", "b"], "epoch": [1, 2, 1], "epochs": [2, 2, 2]}
            return pd.DataFrame(rows), ()

        def read_cells(self) -> pd.DataFrame:
            return pd.DataFrame()

    with pytest.warns(BrokenRunWarning, match="trial b has 1 of 2 epochs"):
        assert load_trials(Half())["trial_id"].tolist() == ["a", "a"]


def test_intact_store_gives_no_warning(fill_store: FillStore) -> None:
    store = fill_store("smoke")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_runs(store)


def test_empty_store(fill_store: FillStore) -> None:
    store = fill_store("smoke", keep=lambda config: False)
    assert load_runs(store).empty
    assert select(store).empty
    assert main_table(store) == "No finished trial yet.\n"


def test_other_settings_are_never_averaged(fill_store: FillStore) -> None:
    # Weight decay has no column in `runs`; two launches that differ in it are two configurations.
    fill_store("smoke")
    store = fill_store("smoke", ("settings.weight_decay=0.5",))
    chosen = select(store)
    assert set(chosen["n"]) == {2}
    assert set(chosen["candidates"]) == {2}


def test_settings_by_name(fill_store: FillStore) -> None:
    fill_store("smoke")
    store = fill_store("smoke", ("settings.weight_decay=0.5",))
    runs = load_runs(store, settings=["weight_decay", "example_weights", "epochs"])
    assert set(runs["weight_decay"]) == {0.0001, 0.5}
    # A field that earlier trials did not have yet has the value they had.
    assert set(runs["example_weights"]) == {"none"}
    pd.testing.assert_frame_equal(runs.drop(columns=["weight_decay", "example_weights"]), load_runs(store))
    for value, part in runs.groupby("weight_decay"):
        alone = fill_store("smoke", (f"settings.weight_decay={value}",), name=f"alone-{value}")
        assert select(part).equals(select(alone))
    assert set(load_runs(store, cells=False, settings="weight_decay")["weight_decay"]) == {0.0001, 0.5}
    with pytest.raises(AnalysisError, match="unknown setting 'weigth_decay': did you mean weight_decay"):
        load_runs(store, settings=["weigth_decay"])


def test_planned_seeds_count_over_every_launch(fill_store: FillStore) -> None:
    fill_store("smoke")
    store = fill_store("smoke", ("seeds=[125]",), keep=lambda config: False)
    assert set(load_cells(store)["seeds_planned"]) == {3}
    assert select(store)["incomplete"].all()


def test_pandas_reads_the_runs_alone(fill_store: FillStore) -> None:
    store = fill_store("smoke")
    alone = pq.read_table(Path(store.uri, "runs")).to_pandas()
    assert len(alone) == len(load_trials(store))


def test_analysis_imports_neither_torch_nor_ray() -> None:
    code = (
        "import sys, analysis\n"
        "assert 'matplotlib' not in sys.modules\n"
        "import analysis.report, analysis.figures, analysis.paper, orchestrator.store\n"
        "assert not {'torch', 'ray', 'sklearn'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


def test_wrong_format_is_named_before_the_store_is_read(tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match="did you mean latex"):
        main_table(tmp_path / "nothing", "latx")
