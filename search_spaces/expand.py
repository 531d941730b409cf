"""From a space to cells and trials: the grid multiplied out, equal runs merged, and everything counted.

Needs no data, no torch and no pandas; the paper's 24,640 cells take about a second.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from search_spaces.batches import balanced_updates, natural_updates, updates_per_epoch, warmup_updates
from search_spaces.cards import LossCard, ModelCard, TaskCard
from search_spaces.grid import Grid
from search_spaces.loss_spec import loss_spec
from search_spaces.losses import LOSSES
from search_spaces.models import MODELS
from search_spaces.order import launch_order
from search_spaces.phase_spec import PHASED, effective_loss, losses_of, weights_throughout
from search_spaces.settings import Settings
from search_spaces.space import Space
from search_spaces.tasks import task_card
from search_spaces.trial import Cell, TrialConfig


@dataclass(frozen=True)
class Expansion:
    """What a space amounts to. ``trials`` is in launch order, ``cells`` in the order the space lists them.

    ``product`` counts the plain product: every pairwise loss x warm-up ratio x margin x seed (margins repeated for
    losses that have none) and CE per seed. The three ``updates`` are optimizer updates: of the product, of the
    trials, and of the trials when each seed's CE phase is trained once and forked.
    """

    cells: tuple[Cell, ...]
    trials: dict[str, TrialConfig]
    product: int
    updates_product: int
    updates_trials: int
    updates_with_shared_prefixes: int
    plan_hash: str
    eval_batch_sizes: dict[str, int]


@dataclass
class _Collected:
    cells: dict[tuple[Any, ...], Cell] = field(default_factory=dict)
    trials: dict[str, TrialConfig] = field(default_factory=dict)
    eval_batch_sizes: dict[str, int] = field(default_factory=dict)
    product: int = 0
    updates_product: int = 0


def expand(space: Space) -> Expansion:
    """Multiply out ``space``. A cell or trial that several parts name is kept once."""
    found = _Collected()
    for part in space.parts:
        for task in part.tasks:
            for model in part.models:
                for init in part.inits:
                    _add_setting(found, part, task_card(task, space.cards), MODELS[model], init)
    ordered = launch_order(found.trials.values())
    cells = tuple(found.cells.values())
    return Expansion(
        cells=cells,
        trials={trial.trial_id: trial for trial in ordered},
        product=found.product,
        updates_product=found.updates_product,
        updates_trials=sum(trial.total_updates for trial in ordered),
        updates_with_shared_prefixes=_updates_with_shared_prefixes(ordered),
        plan_hash=_plan_hash(found.cells),
        eval_batch_sizes=found.eval_batch_sizes,
    )


def _add_setting(found: _Collected, part: Grid, task: TaskCard, model: ModelCard, init: str) -> None:
    """Add every cell of one (task, model, init) of ``part``."""
    base = _base_fields(part, task, model, init)
    total = base["epochs"] * base["updates_per_epoch"]
    losses = part.cards()
    pairwise = sum(card.pairwise for card in losses)
    points = pairwise * len(part.warmup_ratios) * max(len(part.margins), 1) + (len(losses) - pairwise)
    found.product += points * len(part.seeds)
    found.updates_product += points * len(part.seeds) * total

    made: dict[tuple[Any, ...], TrialConfig] = {}
    for seed in part.seeds:
        for loss, ratio, margin in _nominal_points(part, losses):
            effective = _effective_fields(loss, ratio, margin, total, part)
            key = (
                seed,
                effective["loss"],
                repr(effective["loss_params"]),
                effective["margin"],
                effective["warmup_updates"],
                effective.get("example_weights"),
            )
            if key not in made:
                trial = TrialConfig(**(base | effective), seed=seed)
                made[key] = found.trials.setdefault(trial.trial_id, trial)
                found.eval_batch_sizes.setdefault(trial.trial_id, part.settings.eval_batch_size)
            trial_id = made[key].trial_id
            mode = "ce" if not loss.pairwise else "warmup" if ratio else "direct"
            named = (trial_id, loss_spec(loss), mode, ratio, margin, part.regime)
            if named not in found.cells:
                found.cells[named] = Cell(
                    trial_id=trial_id,
                    task=task.name,
                    model=model.name,
                    init=init,
                    loss=loss_spec(loss),
                    mode=mode,
                    warmup_ratio=ratio,
                    margin=margin,
                    loss_params=loss.params,
                    seed=seed,
                    regime=part.regime,
                )


def _nominal_points(part: Grid, losses: Iterable[LossCard]) -> Iterator[tuple[LossCard, float, float | None]]:
    for loss in losses:
        for ratio in part.warmup_ratios if loss.pairwise else (0.0,):
            for margin in part.margins if loss.has_margin else (None,):
                yield loss, ratio, margin


def _base_fields(part: Grid, task: TaskCard, model: ModelCard, init: str) -> dict[str, Any]:
    """The fields of ``TrialConfig`` that loss, warm-up, margin and seed do not touch."""
    settings = part.settings
    per_epoch = settings.updates_per_epoch or _one_pass(task.counts["train"], settings)
    return {
        "task": task.name,
        "task_revision": task.revision,
        "model": model.name,
        "init": init,
        "epochs": settings.epochs,
        "updates_per_epoch": per_epoch,
        "batch_size": settings.batch_size,
        "positive_fraction": settings.positive_fraction if settings.sampling == "stratified" else None,
        "accumulation": settings.accumulation,
        "optimizer": settings.optimizer,
        "learning_rate": settings.learning_rate,
        "momentum": settings.momentum,
        "weight_decay": settings.weight_decay,
        "lr_schedule": settings.lr_schedule,
        "lr_warmup_updates": warmup_updates(settings.lr_warmup_fraction, settings.epochs * per_epoch),
        "max_grad_norm": settings.max_grad_norm,
        "precision": settings.precision,
        "max_length": settings.max_length,
        "augmentation": settings.augmentation,
        "sampling": settings.sampling,
        "selection": settings.selection,
        "example_weights": settings.example_weights,
    }


def _one_pass(counts: Sequence[int], settings: Settings) -> int:
    """Updates of one epoch over training ``counts`` by class (natural sampling: by class or in all)."""
    if settings.sampling == "natural":
        return natural_updates(sum(counts), settings.batch_size)
    if settings.sampling == "balanced":
        return balanced_updates(counts, settings.batch_size)
    return updates_per_epoch(counts, settings.batch_size, settings.positive_fraction)


def _effective_fields(loss: LossCard, ratio: float, margin: float | None, total: int, part: Grid) -> dict[str, Any]:
    """The fields of ``TrialConfig`` that follow from a nominal point; what is meaningless there is None."""
    updates = warmup_updates(ratio, total)
    if not loss.pairwise or updates == total:
        return _baseline_fields(LOSSES["ce"] if loss.pairwise else loss, margin)
    name, params = loss.name, loss.params
    weights: str = part.settings.example_weights
    if name in part.phases:
        if not updates:
            weights = weights_throughout(part.phases[name], total, weights)
        name, params, factor = effective_loss(part.phases[name], total - updates, weights)
        margin = None if margin is None else margin * factor
        if name == "ce":  # what is left of the list once phases without an update are left out
            if not updates or part.settings.switch_scale == 1:
                return _baseline_fields(LOSSES["ce"], None) | {"example_weights": weights}
            name, params = PHASED, {PHASED: [{"updates": total - updates, "loss": "ce", "params": {}}]}
        if not any(LOSSES[each].has_margin for each in losses_of(name, params)):
            margin = None
    return {
        "loss": name,
        "mode": "warmup" if updates else "direct",
        "margin": margin,
        "loss_params": params,
        "warmup_updates": updates,
        "switch_scale": part.settings.switch_scale if updates else None,
        "score_scale": part.settings.score_scale,
        "example_weights": weights,
        "loss_revision": "+".join(sorted({LOSSES[each].revision for each in losses_of(name, params)} - {""})),
    }


def _baseline_fields(loss: LossCard, margin: float | None) -> dict[str, Any]:
    """Those of a run without a switch: CE, or another baseline."""
    return {
        "loss": loss.name,
        "mode": "ce",
        "margin": margin if loss.has_margin else None,
        "loss_params": loss.params,
        "warmup_updates": 0,
        "switch_scale": None,
        "score_scale": None,
        "loss_revision": loss.revision,
    }


def _updates_with_shared_prefixes(trials: Iterable[TrialConfig]) -> int:
    """Updates when trials that share a CE phase train it once: as far as the longest of them needs it."""
    longest: dict[tuple[Any, ...], int] = {}
    rest = 0
    for trial in trials:
        is_ce = trial.loss == "ce"
        own_ce = trial.total_updates if is_ce else trial.warmup_updates
        rest += trial.total_updates - own_ce
        longest[trial.prefix_key] = max(longest.get(trial.prefix_key, 0), own_ce)
    return rest + sum(longest.values())


def _plan_hash(cells: Mapping[tuple[Any, ...], Cell]) -> str:
    """Equal for spaces that name the same cells, in whatever order."""
    lines = sorted(repr(key) for key in cells)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
