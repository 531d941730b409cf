"""Which definition of a loss counts, where a space defines it: by a loss file, or as a named list of phases.

The file or the list can change under the same name, and the runs of both then lie in one store. Only those of the
definition launched last for a task are selected from. ``sweep.json`` records which cells these are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd


def definition_of(cells: pd.DataFrame, sweep: Mapping[str, Any]) -> pd.Series[int]:
    """The place in ``sweep.json`` of the definition each of ``cells`` is of; -1 for a loss of aucsweep itself.

    A cell of two definitions, such as one whose phases have no update, is of the later one.
    """
    places: dict[str, int] = {}
    for place, entry in enumerate(sweep.get("definitions") or ()):
        places |= dict.fromkeys(entry["cells"].split(), place)
    return cells["cell_id"].map(places).fillna(-1).astype("int64")


def superseded(cells: pd.DataFrame, definition: pd.Series[int]) -> pd.Series[bool]:
    """Whether another definition of the cell's loss was launched later on the cell's task."""
    last = definition.groupby([cells["loss"], cells["task"]]).transform("max")
    return (definition >= 0) & (definition < last)
