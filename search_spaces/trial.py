"""TrialConfig: the effective configuration of one training run, and the cell that names it.

Everything that changes the numbers of a trial is a field here; nothing else is (paths, devices, workers and logging
live in ``trainables.context``). The trial's id is the hash of these fields.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any

from search_spaces.identity import content_id

PROTOCOL_VERSION = 1
"""Raised whenever the code gives other numbers for the same configuration, so that old rows are never mistaken."""

MODES = ("ce", "direct", "warmup")

_ADDED = {"sampling": "stratified", "selection": "best", "example_weights": "none", "loss_revision": ""}
"""Fields added after the first results, with the value every earlier run had: at that value they are left out of a
configuration as it is hashed and stored, so that those runs keep their ids."""

_OWN_LOSS = ("loss", "loss_params", "loss_revision", "margin", "score_scale")
_NOT_IN_PREFIX = (*_OWN_LOSS, "mode", "warmup_updates", "switch_scale")


@dataclass(frozen=True)
class TrialConfig:
    """One training run. Made by ``search_spaces.expand``, which keeps equal runs equal:

    a loss without a margin has ``margin=None``; a run without a switch has ``switch_scale=None``; a CE run has
    neither, nor a ``score_scale``.

    ``epochs * updates_per_epoch`` optimizer updates are made, the first ``warmup_updates`` of them with CE.
    ``batch_size`` counts the examples of one optimizer update; ``accumulation`` splits them into that many parts.
    ``lr_warmup_updates`` is the linear learning-rate ramp, not to be confused with the CE warm-up.
    ``positive_fraction`` is None unless ``sampling`` is ``stratified``. ``selection`` is ``best`` (evaluated after
    every epoch, judged by the best one) or ``last`` (evaluated once, at the end). ``example_weights`` is ``task`` where
    the examples have the weights their task gives them. A run with phases of its own has ``loss`` ``phases`` and the
    list in ``loss_params`` (``search_spaces.phase_spec``). ``loss_revision`` is set for losses of a user's own file.
    """

    task: str
    task_revision: str
    model: str
    init: str
    loss: str
    mode: str
    margin: float | None
    loss_params: Mapping[str, Any]
    warmup_updates: int
    seed: int
    epochs: int
    updates_per_epoch: int
    batch_size: int
    positive_fraction: float | None
    accumulation: int
    optimizer: str
    learning_rate: float
    momentum: float
    weight_decay: float
    lr_schedule: str
    lr_warmup_updates: int
    switch_scale: float | None
    max_grad_norm: float | None
    score_scale: str | None
    precision: str
    max_length: int | None
    augmentation: str
    protocol: int = PROTOCOL_VERSION
    sampling: str = "stratified"
    selection: str = "best"
    example_weights: str = "none"
    loss_revision: str = ""

    @property
    def total_updates(self) -> int:
        """T, the number of optimizer updates of the run."""
        return self.epochs * self.updates_per_epoch

    @cached_property
    def trial_id(self) -> str:
        """16 hexadecimal digits, equal for equal configurations on every machine."""
        return content_id(self.as_dict())

    @cached_property
    def prefix_id(self) -> str:
        """Id of the CE phase this run shares with every run that differs only in what follows the switch."""
        return content_id(_without_added(dict(zip(_PREFIX_FIELDS, self.prefix_key, strict=True))))

    @property
    def prefix_key(self) -> tuple[Any, ...]:
        """What ``prefix_id`` is the hash of: equal for equal CE phases, and cheaper."""
        values: tuple[Any, ...] = _prefix_values(self)
        return values

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, ready for JSON; those of ``_ADDED`` only where they have another value than at first."""
        values = _without_added(dict(zip(_TRIAL_FIELDS, _trial_values(self), strict=True)))
        values["loss_params"] = dict(self.loss_params)
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrialConfig:
        """The inverse of ``as_dict``; raises ``TypeError`` for missing or unknown fields."""
        return cls(**values)


def _without_added(values: dict[str, Any]) -> dict[str, Any]:
    for name, first in _ADDED.items():
        if values.get(name) == first:
            del values[name]
    return values


_TRIAL_FIELDS = tuple(field.name for field in dataclasses.fields(TrialConfig))
_PREFIX_FIELDS = tuple(name for name in _TRIAL_FIELDS if name not in _NOT_IN_PREFIX)
_trial_values = attrgetter(*_TRIAL_FIELDS)
_prefix_values = attrgetter(*_PREFIX_FIELDS)


@dataclass(frozen=True)
class Cell:
    """One nominal grid point, as a table of the paper would name it. Many cells can name one trial.

    ``mode`` is the nominal one: a warm-up ratio so small that it rounds to no update is a ``warmup`` cell of a
    ``direct`` trial. ``warmup_ratio`` is 0 for CE. ``margin`` is None where the loss has none.
    """

    trial_id: str
    task: str
    model: str
    init: str
    loss: str
    mode: str
    warmup_ratio: float
    margin: float | None
    loss_params: Mapping[str, Any]
    seed: int
    regime: str

    @cached_property
    def cell_id(self) -> str:
        """16 hexadecimal digits, equal for equal nominal grid points of one trial."""
        return content_id(self.nominal())

    def nominal(self) -> dict[str, Any]:
        """The fields by name, ready for JSON."""
        values = dict(zip(_CELL_FIELDS, _cell_values(self), strict=True))
        values["loss_params"] = dict(self.loss_params)
        return values


_CELL_FIELDS = tuple(field.name for field in dataclasses.fields(Cell))
_cell_values = attrgetter(*_CELL_FIELDS)
