"""Which definition of a loss counts, where a space defines it: by a loss file, or as a named list of phases.

The file or the list can change under the same name, and the runs of both then lie in one store. Only those of the
definition launched last are selected from. ``sweep.json`` records which cells these are; for stores that are older than
the record, it is inferred from the space launched last and from the trials.
"""

from __future__ import annotations

import functools
import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from analysis.errors import AnalysisError
from search_spaces.identity import canonical_json
from search_spaces.losses import LOSSES
from search_spaces.own_loss import revision
from search_spaces.phase_spec import PHASED, Pairs, Phase


def definitions(cells: pd.DataFrame, sweep: Mapping[str, Any], trials: Callable[[], pd.DataFrame]) -> pd.DataFrame:
    """For each row of ``cells``: ``definition`` of its loss (text, equal for equal ones) and ``superseded``.

    ``cells`` has ``loss_params`` as text, ``sweep`` is the content of ``sweep.json``, ``trials`` gives the finished
    trials (``load_trials``) and is called only where the record does not say it. A loss of aucsweep itself has the
    definition ``""``. The user's code is never run.
    """
    found = pd.DataFrame({"definition": "", "superseded": False}, index=cells.index)
    # By loss and cell, the place of the cell's definition. A cell of two definitions, such as one whose phases have no
    # update, is of the later one.
    recorded: dict[str, dict[str, int]] = defaultdict(dict)
    last: dict[str, int] = {}
    for place, entry in enumerate(sweep.get("definitions") or ()):
        recorded[entry["loss"]] |= dict.fromkeys(entry["cells"].split(), place)
        last[entry["loss"]] = place
    known = functools.cache(lambda: _known(trials()))
    for loss in (str(loss) for loss in cells["loss"].unique() if not _built_in(loss)):
        rows = cells[cells["loss"] == loss]
        definition = rows["cell_id"].map(recorded[loss]).fillna(-1).astype("int64")
        if (definition < 0).any():
            inferred, current = _inferred(loss, rows, known(), sweep)
            # What was launched before there was a record is of a recorded definition where their trials agree.
            listed = definition[definition >= 0]
            like = dict(zip(inferred[listed.index], listed, strict=True))
            definition = definition.where(definition >= 0, inferred.map(like).fillna(-1).astype("int64"))
        if loss in last:
            inferred, current = definition.astype("str"), definition == last[loss]
        found.loc[rows.index, "definition"] = inferred
        found.loc[rows.index, "superseded"] = ~current
    return found


def _built_in(loss: str) -> bool:
    card = LOSSES.get(loss.partition("(")[0])
    return card is not None and not card.revision


def _known(trials: pd.DataFrame) -> pd.DataFrame:
    """``revision`` and ``finished_at`` of the finished trials, by trial."""
    columns = [column for column in ("config", "finished_at") if column in trials.columns]
    found = trials.drop_duplicates("trial_id").set_index("trial_id")[columns].reindex(columns=["config", "finished_at"])
    revisions = [json.loads(text).get("loss_revision", "") if isinstance(text, str) else "" for text in found["config"]]
    return found.assign(revision=revisions)


def _inferred(
    loss: str, rows: pd.DataFrame, known: pd.DataFrame, sweep: Mapping[str, Any]
) -> tuple[pd.Series[Any], pd.Series[Any]]:
    """The definition of each of ``rows``, the cells of ``loss``, and whether it is the one launched last.

    The revision of a trial that has not finished is not known: it is taken to be the right one.
    """
    phases = rows["loss_params"].map(lambda text: text if PHASED in json.loads(text) else "")
    revisions = rows["trial_id"].map(known["revision"])
    wanted, files = _last_space(loss, sweep)
    if wanted:
        used = [None if pd.isna(each) else set(each.split("+")) - {""} for each in revisions]
        current = phases.isin(wanted) & pd.Series([each is None or each <= files for each in used], index=rows.index)
    else:
        finished = rows["trial_id"].map(known["finished_at"])
        latest = len(rows) - 1 if finished.isna().all() else int(finished.argmax())
        current = (phases == phases.iloc[latest]) & (revisions.isna() | (revisions == revisions.iloc[latest]))
    return phases + " " + revisions.fillna("?"), current


def _last_space(loss: str, sweep: Mapping[str, Any]) -> tuple[set[str], set[str]]:
    """What ``loss`` is in the space launched last: its phases (text; ``""`` for none), and the revisions of the files.

    Both are empty where the space does not have the loss. Raises ``AnalysisError`` for a space that somebody edited
    into something else.
    """
    phases: set[str] = set()
    try:
        space = (sweep.get("space") or {}).get("resolved") or {}
        files = {revision(text) for text in (space.get("loss_files") or {}).values()}
        for part in space.get("parts") or ():
            if loss in (part.get("losses") or ()):
                listed = (part.get("phases") or {}).get(loss)
                phases.add("" if listed is None else canonical_json({PHASED: [_written(phase) for phase in listed]}))
    except (AttributeError, TypeError, ValueError) as error:
        raise AnalysisError(f"sweep.json: space.resolved is no space that aucsweep wrote ({error!r})") from error
    return phases, files


_PHASE = Phase.model_construct(loss="").model_dump(mode="json")
_PAIRS = Pairs().model_dump(mode="json")


def _written(phase: Mapping[str, Any]) -> dict[str, Any]:
    """A phase of a resolved space as cells have it: without what has its default."""
    kept = {key: value for key, value in phase.items() if value != _PHASE.get(key)}
    if kept.get("pairs"):
        kept["pairs"] = {key: value for key, value in kept["pairs"].items() if value != _PAIRS.get(key)}
    return kept
