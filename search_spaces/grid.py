"""One part of a space: the axes that are multiplied, and the settings they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo

from search_spaces.batches import class_shares
from search_spaces.cards import LossCard, TaskCard
from search_spaces.errors import nearest
from search_spaces.fields import Axis, FilledAxis, Number, Whole, Word, complaints, one_of
from search_spaces.kinds import kind_problems
from search_spaces.loss_spec import as_written
from search_spaces.models import MODELS, WITH_FROZEN_WEIGHTS
from search_spaces.phase_spec import PhaseList, card_of, most_of_margin, read_phases
from search_spaces.regimes import REGIMES
from search_spaces.settings import Settings
from search_spaces.tasks import TASKS


def _known_task(value: str, info: ValidationInfo) -> str:
    names = [*(info.context or {}).get("tasks", ()), *TASKS]
    if value not in names:
        raise ValueError(f"unknown task {value!r}: {nearest(value, names)}")
    return value


def _known_init(value: str) -> str:
    names = sorted({init for card in MODELS.values() for init in card.inits})
    if value not in names:
        raise ValueError(f"unknown init {value!r}: {nearest(value, names)}")
    return value


def _known_loss(value: str, info: ValidationInfo) -> str:
    context = info.context or {}
    if value in context.get("broken", ()):  # its phases are a problem of their own
        return value
    card = card_of(value, context.get("phases", {}))
    return card.name if card.name in context.get("phases", {}) else as_written(value)


class Grid(BaseModel):
    """Every task x model x init, each with CE per seed and every other loss x warm-up ratio x margin x seed.

    Made by ``read_grid``. ``settings`` are complete: the regime's, changed where the space says so.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    regime: Annotated[Word, one_of(lambda: REGIMES, "regime")]
    tasks: FilledAxis[Annotated[Word, AfterValidator(_known_task)]]
    models: FilledAxis[Annotated[Word, one_of(lambda: MODELS, "model")]]
    inits: FilledAxis[Annotated[Word, AfterValidator(_known_init)]]
    losses: FilledAxis[Annotated[Word, AfterValidator(_known_loss)]]
    warmup_ratios: Axis[Annotated[Number, Field(ge=0, lt=1)]] = ()
    margins: Axis[Annotated[Number, Field(gt=0)]] = ()
    seeds: FilledAxis[Annotated[Whole, Field(ge=0, lt=2**63)]]
    phases: Mapping[str, PhaseList] = Field(default_factory=dict)
    """What ``losses`` may name beside the losses there are (``search_spaces.phase_spec``)."""
    settings: Settings

    def cards(self) -> tuple[LossCard, ...]:
        """The cards of ``losses``, in their order; equal ones where two are the same run (``LossCard.equal``)."""
        return tuple(card_of(spec, self.phases) for spec in self.losses)

    def to_dict(self) -> dict[str, Any]:
        """The fields ready for JSON; ``read_grid`` reads them again."""
        return self.model_dump(mode="json")


@dataclass(frozen=True)
class GridReading:
    """What became of one part: the grid, or None and the problems as sentences that begin with their key."""

    grid: Grid | None
    problems: tuple[str, ...]


def read_grid(raw: Mapping[str, Any], cards: Mapping[str, TaskCard]) -> GridReading:
    """Validate one part as written. ``cards`` are the user's own tasks by name. Never raises for wrong contents."""
    settings, wrong = _read_settings(raw.get("regime"), raw.get("settings"))
    phases, phase_problems = read_phases(raw.get("phases"))
    wrong += phase_problems
    broken = {str(name) for name in raw["phases"]} - set(phases) if isinstance(raw.get("phases"), Mapping) else set()
    given = {key: value for key, value in raw.items() if key not in ("settings", "phases")}
    errors: list[Any] = []
    grid = None
    try:
        # The smoke settings only stand in where the real ones are wrong: then there are problems and no grid.
        stand_in = settings or REGIMES["smoke"].settings
        grid = Grid.model_validate(
            {**given, "phases": phases, "settings": stand_in},
            context={"tasks": cards, "phases": phases, "broken": broken},
        )
    except ValidationError as error:
        errors = error.errors(include_url=False)
        wrong += [f"{key}: {sentence}" for key, sentence in complaints(error, Grid, raw)]
    axes = _surviving(given, errors)
    whole = {str(error["loc"][0]) for error in errors} | ({"losses"} if phase_problems else set())
    wrong += _duplicates(given, errors)
    wrong += _misfits(axes, cards)
    losses = [card_of(spec, phases) for spec in axes.get("losses", ()) if spec not in broken]
    wrong += _margin_problems(axes, losses, whole)
    if settings is not None:
        named = {name: phases[name] for name in (loss.name for loss in losses) if name in phases}
        wrong += _scale_problems(axes, named, settings)
        wrong += _settings_misfits(axes, losses, cards, settings)
        wrong += _weight_problems(axes, losses, named, cards, settings)
        wrong += _optimizer_problems(losses, settings)
    return GridReading(None if wrong else grid, tuple(wrong))


def _read_settings(regime: Any, patch: Any) -> tuple[Settings | None, list[str]]:
    """The complete settings, or the nearest thing that could be made of them, and the problems."""
    known = isinstance(regime, str) and regime in REGIMES
    base = REGIMES[regime if known else "smoke"].settings.model_dump()
    patch = {} if patch is None else patch
    if not isinstance(patch, Mapping):
        return None, ["settings: expected keys and values"]
    changes, problems = dict(patch), []
    try:
        settings = Settings.model_validate(base | changes)
    except ValidationError as error:
        found = complaints(error, Settings, changes)
        problems = [f"settings.{key}: {sentence}" for key, sentence in found]
        bad = {str(detail["loc"][0]) for detail in error.errors(include_url=False)}
        changes = {key: value for key, value in changes.items() if key not in bad}
        settings = Settings.model_validate(base | changes)
    if settings.optimizer == "adamw" and settings.momentum:
        if changes.get("momentum"):
            problems.append(f"settings.momentum: AdamW has none, remove it or set it to 0 (got {settings.momentum:g})")
        settings = settings.model_copy(update={"momentum": 0.0})
    return settings if known else None, problems


def _surviving(given: Mapping[str, Any], errors: Sequence[Any]) -> dict[str, list[Any]]:
    """The values of each axis that are right on their own, to check what can be checked beside the wrong ones."""
    dropped = {(str(error["loc"][0]), *error["loc"][1:2]) for error in errors}
    return {
        key: [value for index, value in enumerate(_as_list(values)) if (key, index) not in dropped]
        for key, values in given.items()
        if (key,) not in dropped
    }


def _as_list(values: Any) -> list[Any]:
    if values is None:
        return []
    return list(values) if isinstance(values, list | tuple) else [values]


def _duplicates(given: Mapping[str, Any], errors: Sequence[Any]) -> list[str]:
    # Pydantic looks for duplicates only when every item is right; this names them beside the wrong items.
    partly_wrong = {str(error["loc"][0]) for error in errors if len(error["loc"]) > 1}
    problems = []
    for key in sorted(partly_wrong):
        values = _as_list(given.get(key))
        twice = sorted({repr(value) for value in values if values.count(value) > 1})
        if twice:
            problems.append(f"{key}: given twice: {', '.join(twice)}")
    return problems


def _misfits(axes: Mapping[str, list[Any]], cards: Mapping[str, TaskCard]) -> list[str]:
    known = {**TASKS, **cards}
    problems = []
    for model in (MODELS[name] for name in axes.get("models", ())):
        for task in (known[name] for name in axes.get("tasks", ())):
            if task.modality != model.modality:
                problems.append(
                    f"models: {model.name} reads {model.modality}s, {task.name} consists of {task.modality}s"
                )
            elif model.tasks and task.name not in model.tasks:
                problems.append(f"models: {model.name} fits only {', '.join(model.tasks)}, not {task.name}")
        for init in axes.get("inits", ()):
            if init not in model.inits:
                problems.append(f"inits: {model.name} has no init {init!r} (allowed: {', '.join(model.inits)})")
    return problems


def _margin_problems(axes: Mapping[str, list[Any]], losses: Sequence[LossCard], wrong: set[str]) -> list[str]:
    problems = []
    with_margin = [card.name for card in losses if card.has_margin]
    pairwise = [card.name for card in losses if card.pairwise]
    if with_margin and "margins" not in wrong and not axes.get("margins"):
        problems.append(f"margins: empty, but {', '.join(with_margin)} need at least one")
    if losses and not with_margin and not wrong & {"losses", "margins"} and axes.get("margins"):
        names = ", ".join(card.name for card in losses)
        problems.append(f"margins: given, but no listed loss has one ({names}); remove them or set margins=[]")
    if pairwise and "warmup_ratios" not in wrong and not axes.get("warmup_ratios"):
        problems.append(f"warmup_ratios: empty, but {', '.join(pairwise)} need at least one (0 is direct training)")
    return problems


def _scale_problems(axes: Mapping[str, list[Any]], phases: Mapping[str, PhaseList], settings: Settings) -> list[str]:
    """Margins that no two sigmoid scores can reach."""
    if settings.score_scale != "sigmoid":
        return []
    hint = "the largest difference of two sigmoid scores (settings.score_scale=identity compares logits)"
    problems = [f"margins: {margin:g} is above 1, {hint}" for margin in axes.get("margins", ()) if margin > 1]
    largest = max((margin for margin in axes.get("margins", ()) if margin <= 1), default=0.0)
    for name, listed in phases.items():
        if (reached := most_of_margin(listed) * largest) > 1:
            problems.append(f"phases.{name}: multiplies the margin {largest:g} to {reached:g}, above 1, {hint}")
    return problems


def _weight_problems(
    axes: Mapping[str, list[Any]],
    losses: Sequence[LossCard],
    phases: Mapping[str, PhaseList],
    cards: Mapping[str, TaskCard],
    settings: Settings,
) -> list[str]:
    """Example weights that a task does not have or a loss does not take."""
    asking = {f"phases.{name}" for name, listed in phases.items() if any(phase.weights == "task" for phase in listed)}
    problems = []
    if settings.example_weights == "task":
        asking.add("settings.example_weights")
        names = ", ".join(card.name for card in losses if not card.weighted)
        if names:
            problems.append(f"settings.example_weights: task, but {names} take none; give those a part of their own")
    known = {**TASKS, **cards}
    without = ", ".join(name for name in axes.get("tasks", ()) if not known[name].weighted)
    if without:
        problems += [
            f"{key}: needs the weights of the task's data, which {without} has not (a task of your own names a column "
            "of its table: weight)"
            for key in sorted(asking)
        ]
    return problems


def _optimizer_problems(losses: Sequence[LossCard], settings: Settings) -> list[str]:
    """PESG trains the variables of ``aucm``, which no other optimizer does, and knows no other loss."""
    names = {card.name for card in losses}
    others = ", ".join(sorted(names - {"aucm"}))
    if settings.optimizer == "pesg" and others:
        return [f"settings.optimizer: pesg trains aucm only, not {others}; give those a part of their own"]
    if settings.optimizer != "pesg" and "aucm" in names:
        return [f"settings.optimizer: aucm needs pesg, got {settings.optimizer}; give it a part of its own"]
    return []


def _settings_misfits(
    axes: Mapping[str, list[Any]], losses: Sequence[LossCard], cards: Mapping[str, TaskCard], settings: Settings
) -> list[str]:
    known = {**TASKS, **cards}
    tasks = [known[name] for name in axes.get("tasks", ())]
    problems = [*_batch_problems(settings), *kind_problems(tasks, losses, settings)]
    modalities = {task.modality for task in tasks}
    if modalities == {"text"} and settings.augmentation != "none":
        problems.append(
            f"settings.augmentation: {settings.augmentation} is for images, the tasks are texts (set it to none)"
        )
    whole = [name for name in axes.get("models", ()) if name not in WITH_FROZEN_WEIGHTS]
    if settings.precision == "bfloat16-autocast" and whole:
        problems.append(
            f"settings.precision: bfloat16-autocast is for models with frozen weights, {', '.join(whole)} has none "
            "(bfloat16 is the same there)"
        )
    if modalities == {"image"} and settings.max_length is not None:
        problems.append("settings.max_length: is for texts, the tasks are images (set it to null)")
    return problems


def _batch_problems(settings: Settings) -> list[str]:
    """Batches that cannot be drawn or cut."""
    if settings.sampling == "natural" and settings.updates_per_epoch is not None:
        return ["settings.updates_per_epoch: an epoch of natural sampling is one pass, leave it out"]
    if settings.sampling != "stratified":
        if settings.accumulation > settings.batch_size // 2:
            return [f"settings.accumulation: a batch of {settings.batch_size} has at most {settings.batch_size // 2}"]
        return []
    try:
        shares = class_shares(settings.batch_size, settings.positive_fraction)
    except ValueError as error:
        return [f"settings.batch_size: {error}"]
    if settings.accumulation > min(shares):
        return [
            f"settings.accumulation: {settings.accumulation} parts of a batch with {shares[1]} positives and "
            f"{shares[0]} negatives leave some part without one of the classes (at most {min(shares)})"
        ]
    return []
