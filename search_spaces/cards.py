"""What a task, a model and a loss are, as plain facts: enough to validate and count a space without torch or data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from search_spaces.loss_params import Rule

SPLITS = ("train", "validation", "test")

KIND_OF_METRIC = {"auc": "binary", "macro_ovo_auc": "multiclass", "multilabel_macro_auc": "multilabel"}
"""What kind of task a primary metric (``TaskCard.metric``) is for."""

ALL_KINDS = tuple(KIND_OF_METRIC.values())


@dataclass(frozen=True)
class TaskCard:
    """A task: where its data come from and what they must look like.

    ``counts[split][label]`` is the number of examples of class ``label`` (binary: 0 negative, 1 positive). A split of a
    task with more classes or labels may be counted in all, as one number; an empty validation split means that the test
    split is evaluated in its place.
    ``revision`` changes whenever the construction does and is part of every trial's identity.
    ``split`` says in words where the splits come from; ``seeded`` whether they depend on the seed.
    ``loader`` names the function of ``trainables.data`` that reads it and ``options`` are its arguments.
    ``fingerprint`` is set for a user's own task only (the data are part of its card).
    ``packages`` are the pip packages that ship the data, if any; ``get`` says how to obtain them otherwise.
    """

    name: str
    title: str
    modality: str
    revision: str
    source: str
    licence: str
    construction: str
    positive: str
    negative: str
    counts: Mapping[str, tuple[int, ...]]
    split: str
    seeded: bool
    loader: str | None
    options: Mapping[str, Any] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    get: str = ""
    metric: str = "auc"
    fingerprint: str | None = None

    @property
    def classes(self) -> int:
        """Number of classes."""
        return len(self.counts["train"])

    @property
    def kind(self) -> str:
        """``binary``, ``multiclass`` (one of several classes) or ``multilabel`` (any of several labels)."""
        return KIND_OF_METRIC[self.metric]

    @property
    def weighted(self) -> bool:
        """Whether the data give each example a weight (a user's own task with a ``weight`` column)."""
        return "weight" in self.options.get("definition", {})

    @property
    def outputs(self) -> int:
        """Logits a model gives per example: 1 for a binary task, else the number of classes or labels."""
        return 1 if self.kind == "binary" else int(self.options.get("outputs", self.classes))


@dataclass(frozen=True)
class ModelCard:
    """A model: what it reads, which initialisations it has, and what it costs.

    ``flops`` is the cost of one forward pass of one example (multiply-adds counted twice), used to estimate a plan
    before anything was measured. ``weights`` says where the pretrained weights come from.
    """

    name: str
    title: str
    modality: str
    inits: tuple[str, ...]
    parameters: int
    flops: float
    source: str
    licence: str
    weights: str = ""
    packages: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    """Task names this model is limited to (its input has their shape); empty means every task of its modality."""


@dataclass(frozen=True)
class LossCard:
    """An objective: formula, weight, parameters and source, as ``aucsweep losses`` prints them.

    ``params`` maps each parameter beyond the margin to its default and ``rules`` to the values it may have.
    ``pairwise`` is False for CE-like baselines, which run in mode ``ce``. ``kinds`` are the kinds of task it can train
    (``TaskCard.kind``). ``weighted`` says whether it takes example weights.
    ``equal`` lists which parameters are the same run, to the last bit: where those of the first mapping have its
    values, the others may as well have those of the second (``search_spaces.loss_spec`` writes them so).
    ``revision`` is set for a loss of a user's own file only (``search_spaces.own_loss``): it changes with the file.
    """

    name: str
    title: str
    formula: str
    weight: str
    has_margin: bool
    pairwise: bool
    source: str
    params: Mapping[str, Any] = field(default_factory=dict)
    rules: Mapping[str, Rule] = field(default_factory=dict)
    kinds: tuple[str, ...] = ("binary",)
    weighted: bool = False
    revision: str = ""
    equal: tuple[tuple[Mapping[str, Any], Mapping[str, Any]], ...] = ()
