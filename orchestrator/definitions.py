"""Which cells belong to which definition of a loss that a space defines: by a loss file, or as a named list of phases.

The file or the list can change under the same name. Its runs are other trials then, and ``sweep.json`` says which
cells are of the definition that was launched last.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from search_spaces.identity import canonical_json, content_id
from search_spaces.loss_spec import loss_card, loss_spec
from search_spaces.space import Space
from search_spaces.trial import Cell


def add_definitions(before: Iterable[Mapping[str, Any]], space: Space, cells: Iterable[Cell]) -> list[dict[str, str]]:
    """The ``definitions`` of ``sweep.json`` once ``space``, which amounts to ``cells``, is launched.

    One entry per loss and definition: ``loss``, ``id`` and ``cells`` (the ids of every cell launched with it, with
    spaces between). The last entry of a loss is its definition launched last.
    """
    entries = {(entry["loss"], entry["id"]): dict(entry) for entry in before}
    named = defaultdict(list)
    for cell in cells:
        named[cell.loss].append(cell.cell_id)
    for loss, definition in _definitions(space).items():
        earlier = entries.pop((loss, definition), {"cells": ""})["cells"].split()
        together = " ".join(dict.fromkeys([*earlier, *named[loss]]))
        entries[loss, definition] = {"loss": loss, "id": definition, "cells": together}
    return list(entries.values())


def _definitions(space: Space) -> dict[str, str]:
    """The id of the definition of each loss that ``space`` defines, by the loss as its cells name it."""
    found: dict[str, set[str]] = defaultdict(set)
    for part in space.parts:
        for card in part.cards():
            phases = part.phases.get(card.name, ())
            revisions = sorted({card.revision, *(loss_card(phase.loss).revision for phase in phases)} - {""})
            if phases or revisions:
                found[loss_spec(card)].add(canonical_json([card.params, revisions]))
    # Two parts may have different lists of one name: both are then what the name stands for.
    return {loss: content_id(sorted(texts)) for loss, texts in found.items()}
