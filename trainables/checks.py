"""Whether loaded data are those a trial was planned for."""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray

from search_spaces.cards import SPLITS, TaskCard
from search_spaces.errors import DataError
from trainables.data import TaskData
from trainables.evaluate import absent_note, require_rankable, training_rows


def check_data(data: TaskData, card: TaskCard, recorded: str | None) -> None:
    """Raise ``DataError`` unless the data are those the configuration was planned for.

    Counts per split and class must be the card's (a split the card counts in all: the whole split's), every split must
    have classes to rank, and the fingerprint must be the one on the card (a user's own task) and the one ``recorded``
    in the store, where there is one.
    """
    for name in SPLITS:
        labels = getattr(data, name).labels
        if len(card.counts[name]) == 1:
            check_whole(labels, card, name)
            continue
        for label, wanted in enumerate(card.counts[name]):
            found = int((labels == label).sum())
            if found != wanted:
                raise DataError(
                    f"task {card.name!r}, {name} split, class {label}: {found} examples found, "
                    f"the task card says {wanted}"
                )
        if len(labels) != sum(card.counts[name]):
            others = sorted(set(labels.tolist()) - set(range(card.classes)))
            raise DataError(f"task {card.name!r}, {name} split: labels {others} are not classes of the task card")
        require_rankable(card, labels, name)
    for source, expected in (("its task card", card.fingerprint), ("this store", recorded)):
        if expected is not None and expected != data.fingerprint:
            raise DataError(
                f"the data of task {card.name!r} are not those recorded in {source} "
                f"(fingerprint {data.fingerprint}, recorded {expected})"
            )


def check_whole(labels: NDArray[np.int64], card: TaskCard, name: str) -> None:
    """Raise ``DataError`` unless a split that is counted in all has the card's number of examples and known labels."""
    (wanted,) = card.counts[name]
    if len(labels) != wanted:
        raise DataError(f"task {card.name!r}, {name} split: {len(labels)} examples found, the task card says {wanted}")
    if not wanted:
        return
    shape = (wanted, card.outputs) if card.kind == "multilabel" else (wanted,)
    if labels.shape != shape or labels.min() < 0 or labels.max() >= (2 if card.kind == "multilabel" else card.outputs):
        raise DataError(f"task {card.name!r}, {name} split: labels that are not those of {card.outputs} outputs")
    require_rankable(card, labels, name)


def say_what_is_left_out(data: TaskData, card: TaskCard) -> None:
    """Log, once a run, which classes or labels the metrics of a split leave out."""
    for name in SPLITS:
        labels = getattr(data, name).labels
        if card.kind != "binary" and len(labels):
            chosen = labels[training_rows(len(labels), card.outputs)] if name == "train" else labels
            if note := absent_note(card, chosen, name):
                logging.getLogger(__name__).warning(note)
