"""Every file of a store against its digest, its schema and the plan."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from orchestrator import attempts, runs
from orchestrator.schema import SCHEMA_VERSION
from search_spaces.errors import StoreError
from search_spaces.identity import canonical_json, content_id
from search_spaces.trial import TrialConfig

if TYPE_CHECKING:
    from orchestrator.store import Store
    from search_spaces.expand import Expansion

_FRACTIONS = ("train_auc", "val_auc", "test_auc")
_SHARED = ("task", "model", "init", "seed")
"""Columns that a cell and the rows of its trial must agree on. The others may differ, since many cells can name one
trial (a tiny ratio is a direct run, a loss with parameters is written with them, phases can amount to a plain loss);
that the trial is the cell's own is in the cell's id."""


@dataclass(frozen=True)
class Finding:
    """Something ``verify`` has to say about ``where``, a file relative to the store, or a trial.

    A fault means that results are damaged or contradict each other; a note does not.
    """

    where: str
    message: str
    is_fault: bool = True

    def __str__(self) -> str:
        return f"{'fault' if self.is_fault else 'note'}: {self.where}: {self.message}"


def verify_store(store: Store, expansion: Expansion | None = None) -> list[Finding]:
    """Check every file of ``store``, faults first. ``expansion`` is the plan to check against, by default its cells."""
    rows, scan = runs.read_rows(store.files)
    frame: pd.DataFrame = rows.to_pandas()
    findings = [Finding(file.path, file.reason) for file in scan.broken]
    findings += [Finding(file.path, file.reason) for file in attempts.latest_failures(store.files)[1]]
    differing = {copy.name: copy for copy in runs.differing_copies(store.files, scan)}
    for copy in scan.duplicates:
        place, kept = f"{runs.FOLDER}/{copy.name}", scan.records[copy.trial_id].name
        if differing.get(copy.name) == copy:
            findings.append(Finding(place, f"holds another result for trial {copy.trial_id} than {kept}, which counts"))
        else:
            findings.append(
                Finding(place, f"trial {copy.trial_id} is also in {kept}: `compact` tidies", is_fault=False)
            )
    findings += [
        Finding(f"{runs.FOLDER}/{scan.records[trial_id].name}", f"trial {trial_id}: {problem}")
        for trial_id, problem in (*_row_problems(frame), *_configuration_problems(frame))
    ]
    findings += _against_cells(store, frame, expansion)
    findings += _fingerprints(store, frame)
    findings += _leftovers(store)
    return sorted(findings, key=lambda finding: not finding.is_fault)


def _row_problems(frame: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Trials whose rows are no complete, plausible curve; all are looked at together, only bad ones one by one."""
    trials = frame.groupby("trial_id", sort=False)
    bad = (
        (frame["epoch"] != trials.cumcount() + 1)
        | (frame["epochs"] != trials["epoch"].transform("size"))
        | (frame["update"] != frame["updates_per_epoch"] * frame["epoch"])
        | ~np.isfinite(frame["train_loss"])
        | (frame["schema_version"] != SCHEMA_VERSION)
    )
    # A run with ``selection: last`` is evaluated once.
    skipped = frame["config"].str.contains('"selection":"last"', regex=False) & (frame["epoch"] < frame["epochs"])
    for name in _FRACTIONS:
        bad |= ~frame[name].between(0.0, 1.0) & ~(skipped & frame[name].isna())
    for key, trial in frame[frame["trial_id"].isin(frame.loc[bad, "trial_id"])].groupby("trial_id", sort=False):
        trial_id, epochs, planned = str(key), trial["epoch"].tolist(), trial["epochs"].iloc[0]
        if epochs != list(range(1, planned + 1)):
            yield trial_id, f"has the epochs {epochs}, expected 1..{planned}"
        expected = (trial["updates_per_epoch"] * trial["epoch"]).tolist()
        if trial["update"].tolist() != expected:
            yield trial_id, f"counts the updates {trial['update'].tolist()}, expected {expected}"
        for name in _FRACTIONS:
            if not (trial[name].between(0.0, 1.0) | (skipped[trial.index] & trial[name].isna())).all():
                yield trial_id, f"{name} is outside 0..1: {trial[name].tolist()}"
        if not np.isfinite(trial["train_loss"]).all():
            yield trial_id, f"train_loss is not finite: {trial['train_loss'].tolist()}"
        if (trial["schema_version"] != SCHEMA_VERSION).any():
            yield trial_id, f"schema version {trial['schema_version'].iloc[0]}, expected {SCHEMA_VERSION}"


def _configuration_problems(frame: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Trials whose columns are not those of the configuration that their id is the hash of."""
    names = [field.name for field in dataclasses.fields(TrialConfig) if field.name in frame]
    for row in frame[["trial_id", "config", *names]].drop_duplicates().to_dict("records"):
        trial_id, config = str(row["trial_id"]), json.loads(row["config"])
        # Hashed as it stands, not through TrialConfig: rows of an older protocol stay valid.
        if content_id(config) != trial_id:
            yield trial_id, f"its configuration is that of trial {content_id(config)}"
            continue
        expected = config | {"loss_params": canonical_json(config["loss_params"])}
        for name in names:
            if name in expected and not _same(row[name], expected[name]):
                yield trial_id, f"{name} is {row[name]!r} in its rows and {expected[name]!r} in its configuration"


def _against_cells(store: Store, frame: pd.DataFrame, expansion: Expansion | None) -> list[Finding]:
    try:
        cells = store.read_cells()
    except StoreError as error:
        return [Finding("cells.parquet", str(error))]
    findings = []
    for cell in cells.to_dict("records"):
        nominal = {name: _plain(value) for name, value in cell.items() if name != "cell_id"}
        nominal["loss_params"] = json.loads(str(cell["loss_params"]))
        if content_id(nominal) != cell["cell_id"]:
            findings.append(Finding("cells.parquet", f"cell {cell['cell_id']}: its columns are those of another cell"))
    firsts = frame.drop_duplicates("trial_id").set_index("trial_id")[list(_SHARED)]
    joined = cells.drop_duplicates(["trial_id", *_SHARED]).join(firsts.add_suffix("_run"), on="trial_id", how="inner")
    for cell in joined.to_dict("records"):
        for name in _SHARED:
            if not _same(cell[name], cell[f"{name}_run"]):
                findings.append(
                    Finding(
                        f"trial {cell['trial_id']}",
                        f"{name} is {cell[f'{name}_run']!r} in its rows and {cell[name]!r} in cell {cell['cell_id']}",
                    )
                )
    known = set(cells["trial_id"]) if expansion is None else set(expansion.trials)
    for trial_id in sorted(set(firsts.index) - known):
        what = "no cell of this store" if expansion is None else "no cell of this space"
        findings.append(Finding(f"trial {trial_id}", f"stored, but {what} names it", is_fault=False))
    missing = len(known - set(firsts.index))
    if missing:
        findings.append(Finding(runs.FOLDER, f"{missing} of {len(known)} planned trials are not done", is_fault=False))
    return findings


def _fingerprints(store: Store, frame: pd.DataFrame) -> list[Finding]:
    recorded, broken = store.read_fingerprints()
    findings = [Finding(file.path, file.reason) for file in broken]
    for (task, found), trials in frame.dropna(subset=["data_fingerprint"]).groupby(["task", "data_fingerprint"]):
        expected = recorded.get(str(task))
        if expected is None:
            message = "its trials name the data they were trained on, but none are recorded"
            findings.append(Finding(f"task {task}", message, is_fault=False))
        elif found != expected:
            count = trials["trial_id"].nunique()
            findings.append(Finding(f"task {task}", f"{count} trials were trained on data {found}, not on {expected}"))
    return findings


def _leftovers(store: Store) -> list[Finding]:
    findings = [
        Finding(f"quarantine/{name}", "a file that was replaced; yours to inspect or delete", is_fault=False)
        for name in store.files.names("quarantine")
    ]
    for folder in ("", runs.FOLDER, attempts.FOLDER):
        for name in store.files.names(folder, hidden=True):
            if name.endswith(".tmp"):
                place = f"{folder}/{name}".lstrip("/")
                findings.append(Finding(place, "left by a writer that was killed, or being written", is_fault=False))
    return findings


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and value != value else value


def _same(left: Any, right: Any) -> bool:
    return bool(_plain(left) == _plain(right))
