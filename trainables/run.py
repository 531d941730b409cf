"""run_trial: one training run from its configuration, top to bottom."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from search_spaces.cards import SPLITS, TaskCard
from search_spaces.errors import DataError, NonFiniteError, TrialError, TrialTimeout
from search_spaces.tasks import task_card
from search_spaces.trial import TrialConfig
from trainables.checkpoint import Progress, TrainState, capture, restore
from trainables.context import EpochRow, TrialContext
from trainables.data import Split, TaskData, load_task
from trainables.device import Inputs, device_name, execution, peak_memory_bytes, to_device
from trainables.evaluate import auc, require_both_classes, score_split, selected_epoch
from trainables.models import BuiltModel, build_model
from trainables.optim import after_update, clip_gradients, make_optimizer, set_learning_rate
from trainables.phases import Phases, make_phases
from trainables.prefetch import prefetch
from trainables.sampling import Batch, BatchSampler, make_sampler
from trainables.schedule import learning_rate
from trainables.seeding import seed_torch


@dataclass(frozen=True)
class TrialResult:
    """What a finished trial has to say.

    ``rows`` holds one row per epoch (see ``epoch_row``). ``scores`` holds the raw logits at the selected epoch and the
    labels, in the order of the split: ``validation``, ``validation_labels``, ``test``, ``test_labels``, each (n,).
    """

    rows: list[EpochRow]
    selected_epoch: int
    data_fingerprint: str
    parameters: int
    trainable_parameters: int
    scores: dict[str, NDArray[Any]]


@dataclass
class Run:
    """A run in progress: what ``prepare_run`` made, and ``progress``, which ``advance`` moves on."""

    config: TrialConfig
    context: TrialContext
    device: torch.device
    data: TaskData
    model: BuiltModel
    optimizer: torch.optim.Optimizer
    sampler: BatchSampler
    phases: Phases
    progress: Progress

    def state(self) -> TrainState:
        """The state between two updates: ``prepare_run(config, context, state)`` goes on from it bit-equal."""
        return capture(self.config, self.progress, self.model.module, self.optimizer, self.phases.module)


def run_trial(config: TrialConfig, context: TrialContext, state: TrainState | None = None) -> TrialResult:
    """Train ``config`` to the end, from the start or from ``state``, and evaluate it after every epoch.

    Raises ``DataError`` (data missing, other than the card's, or of one class), ``NonFiniteError`` (loss, gradient or
    score), ``TrialTimeout`` (past ``context.deadline``), ``TrialError`` or ``UsageError`` for a configuration that
    cannot be run, and whatever torch raises when memory runs out.
    """
    with execution(torch.device(context.device), context.threads):
        run = prepare_run(config, context, state)
        advance(run, config.total_updates)
        return result(run)


def prepare_run(config: TrialConfig, context: TrialContext, state: TrainState | None = None) -> Run:
    """Load and check the data, build the model from the trial's seed and, given a ``state``, go to where it was.

    Call it and ``advance`` within ``trainables.device.execution``, as ``run_trial`` does. Raises as ``run_trial``, and
    ``TrialError`` for a state that is not this run's.
    """
    device = torch.device(context.device)
    card = task_card(config.task, context.cards)
    data = load_task(card, seed=config.seed, data_root=context.data_root, augmentation=config.augmentation)
    check_data(data, card, context.fingerprints.get(config.task))
    phases = make_phases(config)
    sampler = make_sampler(
        data.train.labels,
        batch_size=config.batch_size,
        positive_fraction=config.positive_fraction,
        updates_per_epoch=config.updates_per_epoch,
        seed=config.seed,
        accumulation=config.accumulation,
    )
    seed_torch("init", config.seed)
    model = build_model(
        config.model,
        config.init,
        card=card,
        max_length=config.max_length,
        precision=config.precision,
        data_root=context.data_root,
    )
    model.module.to(device)
    if phases.module is not None:
        phases.module.to(device)
    optimizer = make_optimizer(model.module.parameters(), config, phases.module)
    progress = Progress() if state is None else restore(state, config, model.module, optimizer, phases.module)
    return Run(config, context, device, data, model, optimizer, sampler, phases, progress)


def advance(run: Run, until: int) -> None:
    """Make updates until ``until`` have been made in all, evaluating at the end of every epoch on the way.

    Where a run is cut does not change its numbers: ``advance(run, 3); advance(run, 9)`` equals ``advance(run, 9)``.
    """
    config, progress = run.config, run.progress

    def fetch(update: int) -> list[tuple[Inputs, Batch]]:
        batches = run.sampler.micro_batches(update)
        return [(run.model.encode(run.data.train.fetch(batch.indices, batch.draws)), batch) for batch in batches]

    mark = time.perf_counter()
    for batches in prefetch(fetch, range(progress.update, until), run.context.workers):
        check_deadline(run)
        progress.loss_sum += make_update(run, batches)
        progress.update += 1
        epoch_ends = progress.update % config.updates_per_epoch == 0
        aucs = evaluate(run) if epoch_ends else {}
        now = time.perf_counter()
        progress.seconds += now - mark
        mark = now
        if epoch_ends:
            row = epoch_row(run, aucs)
            progress.rows.append(row)
            progress.loss_sum = progress.seconds = 0.0
            if run.context.on_epoch is not None:
                run.context.on_epoch(row)


def make_update(run: Run, batches: list[tuple[Inputs, Batch]]) -> float:
    """One optimizer update from its micro-batches. Returns the loss before it.

    Under accumulation the loss is the mean of the micro-batches' losses, by size: for CE that of the undivided batch,
    for a pairwise loss not, since only examples of one micro-batch are compared (it is the mean of their pair means).
    """
    config, update = run.config, run.progress.update
    name, objective = run.phases.at(update)
    run.model.module.train()
    run.optimizer.zero_grad(set_to_none=True)
    set_learning_rate(run.optimizer, learning_rate(config, update))
    seed_torch("dropout", config.seed, update)
    total = 0.0
    for inputs, batch in batches:
        logits = run.model.module(to_device(inputs, run.device))
        labels = torch.from_numpy(batch.labels).to(run.device)
        if logits.shape != labels.shape:
            raise TrialError(f"model {config.model!r} gave logits of shape {tuple(logits.shape)}, not {(len(labels),)}")
        loss = objective(logits, labels) * (len(labels) / config.batch_size)
        loss.backward()  # type: ignore[no-untyped-call]
        total += loss.item()
    where = f"at update {update + 1} of {config.total_updates}"
    if not math.isfinite(total):
        raise NonFiniteError(f"the {name} loss is {total} {where}")
    norm = clip_gradients(run.optimizer, config.max_grad_norm)
    if not math.isfinite(norm):
        raise NonFiniteError(f"the gradient norm of the {name} loss is {norm} {where} (loss {total})")
    run.optimizer.step()
    after_update(run.optimizer, update + 1, config.total_updates)
    return total


def evaluate(run: Run) -> dict[str, float]:
    """AUC of each split by name, and the validation and test scores kept when the validation AUC is the best so far.

    The training split is scored with the evaluation view, whole, not with the batches it was trained on.
    """
    epoch = run.progress.update // run.config.updates_per_epoch
    scores, aucs = {}, {}
    for name in SPLITS:
        split: Split = getattr(run.data, name)
        scores[name] = score_split(
            run.model,
            split,
            name=name,
            epoch=epoch,
            batch_size=run.context.eval_batch_size,
            device=run.device,
            workers=run.context.workers,
            before_batch=lambda: check_deadline(run),
        )
        aucs[name] = auc(scores[name], split.labels, name)
    if all(aucs["validation"] > row["val_auc"] for row in run.progress.rows):
        run.progress.scores = {name: torch.from_numpy(scores[name]) for name in ("validation", "test")}
    return aucs


def epoch_row(run: Run, aucs: dict[str, float]) -> EpochRow:
    """The row of the epoch that has just ended.

    ``train_loss`` is the mean of the epoch's update losses, each taken before its update, in training mode; in the
    epoch of the switch it therefore mixes CE and the pairwise loss. ``learning_rate_now`` is the rate of
    the epoch's last update: the next one's would differ between runs that part there. ``seconds`` is the wall time of
    the epoch, its evaluation included, loading and building excluded; ``gpu_seconds`` the same on a GPU, else 0.
    """
    config, progress = run.config, run.progress
    return {
        "epoch": progress.update // config.updates_per_epoch,
        "update": progress.update,
        "train_loss": progress.loss_sum / config.updates_per_epoch,
        "train_auc": aucs["train"],
        "val_auc": aucs["validation"],
        "test_auc": aucs["test"],
        "learning_rate_now": learning_rate(config, progress.update - 1),
        "seconds": progress.seconds,
        "gpu_seconds": progress.seconds if run.device.type == "cuda" else 0.0,
        "peak_memory_bytes": peak_memory_bytes(run.device),
        "device": device_name(run.device),
    }


def result(run: Run) -> TrialResult:
    """The result of a run that has made all its updates."""
    parameters = list(run.model.module.parameters())
    scores = {name: values.numpy() for name, values in run.progress.scores.items()}
    labels = {f"{name}_labels": np.asarray(getattr(run.data, name).labels) for name in scores}
    return TrialResult(
        rows=run.progress.rows,
        selected_epoch=selected_epoch(run.progress.rows),
        data_fingerprint=run.data.fingerprint,
        parameters=sum(parameter.numel() for parameter in parameters),
        trainable_parameters=sum(parameter.numel() for parameter in parameters if parameter.requires_grad),
        scores=scores | labels,
    )


def check_data(data: TaskData, card: TaskCard, recorded: str | None) -> None:
    """Raise ``DataError`` unless the data are those the configuration was planned for.

    Counts per split and class must be the card's, every split must hold both classes, and the fingerprint must be the
    one on the card (a user's own task) and the one ``recorded`` in the store, where there is one.
    """
    for name in SPLITS:
        labels = getattr(data, name).labels
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
        require_both_classes(labels, name)
    for source, expected in (("its task card", card.fingerprint), ("this store", recorded)):
        if expected is not None and expected != data.fingerprint:
            raise DataError(
                f"the data of task {card.name!r} are not those recorded in {source} "
                f"(fingerprint {data.fingerprint}, recorded {expected})"
            )


def check_deadline(run: Run) -> None:
    """Raise ``TrialTimeout`` once ``context.deadline`` has passed."""
    if run.context.deadline is not None and time.monotonic() > run.context.deadline:
        raise TrialTimeout(
            f"out of time after {run.progress.update} of {run.config.total_updates} updates "
            f"({len(run.progress.rows)} epochs evaluated)"
        )
