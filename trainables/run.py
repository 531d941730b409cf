"""run_trial: one training run from its configuration, top to bottom."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from search_spaces.cards import SPLITS, TaskCard
from search_spaces.errors import DataError, NonFiniteError, TrialError, TrialTimeout
from search_spaces.phase_spec import losses_of
from search_spaces.tasks import task_card
from search_spaces.trial import TrialConfig
from trainables.checkpoint import Progress, TrainState, capture, restore
from trainables.checks import check_data, say_what_is_left_out
from trainables.context import EpochRow, TrialContext
from trainables.data import Split, TaskData, load_task
from trainables.device import Inputs, device_name, execution, peak_memory_bytes, place, to_device
from trainables.evaluate import (
    KEPT_AT_MOST,
    metrics_of,
    score_split,
    selected_epoch,
    training_rows,
)
from trainables.losses.common import OneClassError
from trainables.models import BuiltModel, build_model
from trainables.optim import after_update, clip_gradients, make_optimizer, set_learning_rate
from trainables.phases import Phases, make_phases
from trainables.prefetch import prefetch
from trainables.samplers import Sampler, expected_shares, sampler_of
from trainables.sampling import Batch
from trainables.schedule import learning_rate
from trainables.seeding import seed_torch
from trainables.thresholds import threshold_metrics

SHORT = ("train", "val", "test")
"""The splits' names in the columns of a row, in the order of ``SPLITS``."""


@dataclass(frozen=True)
class TrialResult:
    """What a finished trial has to say.

    ``rows`` holds one row per epoch (see ``epoch_row``). ``scores`` holds the raw logits at the selected epoch and the
    labels, in the order of the split: ``validation``, ``validation_labels``, ``test``, ``test_labels``, each (n,).
    Multiclass tasks have log-softmax scores (n, C), multilabel ones logits and labels (n, L). It is empty where there
    are more than ``trainables.evaluate.KEPT_AT_MOST`` numbers.
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
    card: TaskCard
    data: TaskData
    model: BuiltModel
    optimizer: torch.optim.Optimizer
    sampler: Sampler
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
    say_what_is_left_out(data, card)
    sampler = sampler_of(config, data.train.labels, card.outputs)
    phases = make_phases(config, expected_shares(config, data.train.labels, card.outputs))
    seed_torch("init", config.seed)
    model = build_model(
        config.model,
        config.init,
        card=card,
        max_length=config.max_length,
        precision=config.precision,
        data_root=context.data_root,
    )
    place(model.module, device, channels_last=context.channels_last, compiled=context.compiled)
    if phases.module is not None:
        phases.module.to(device)
    optimizer = make_optimizer(model.module.parameters(), config, phases.module)
    progress = Progress() if state is None else restore(state, config, model.module, optimizer, phases.module)
    return Run(config, context, device, card, data, model, optimizer, sampler, phases, progress)


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
        metrics = evaluate(run) if epoch_ends else {}
        now = time.perf_counter()
        progress.seconds += now - mark
        mark = now
        if epoch_ends:
            row = epoch_row(run, metrics)
            progress.rows.append(row)
            progress.loss_sum = progress.seconds = 0.0
            progress.without_pair = 0
            if run.context.on_epoch is not None:
                run.context.on_epoch(row)


def make_update(run: Run, batches: list[tuple[Inputs, Batch]]) -> float:
    """One optimizer update from its micro-batches. Returns the loss before it.

    Under accumulation the loss is the mean of the micro-batches' losses, by size: for CE that of the undivided batch,
    for a pairwise loss not, since only examples of one micro-batch are compared (it is the mean of their pair means).
    Where examples have weights, a micro-batch's size is the sum of its weights. A natural batch may hold no pair at
    all: such a micro-batch adds nothing, and without any the update makes no step.
    """
    config, update = run.config, run.progress.update
    name, objective, weighted = run.phases.at(update)
    run.model.module.train()
    run.optimizer.zero_grad(set_to_none=True)
    set_learning_rate(run.optimizer, learning_rate(config, update))
    seed_torch("dropout", config.seed, update)
    weights = [_weights(run, batch) if weighted else None for _, batch in batches]
    sizes = [
        float(len(batch.labels) if some is None else some.sum())
        for some, (_, batch) in zip(weights, batches, strict=True)
    ]
    total, pairs = 0.0, False
    for (inputs, batch), of_examples, size in zip(batches, weights, sizes, strict=True):
        logits = run.model.module(to_device(inputs, run.device))
        labels = torch.from_numpy(batch.labels).to(run.device)
        shape = (len(labels),) if run.card.outputs == 1 else (len(labels), run.card.outputs)
        if logits.shape != shape:
            raise TrialError(f"model {config.model!r} gave logits of shape {tuple(logits.shape)}, not {shape}")
        try:
            loss = objective(logits, labels, of_examples) * (size / sum(sizes))
        except OneClassError:
            if config.sampling != "natural":
                raise
            continue
        loss.backward()  # type: ignore[no-untyped-call]
        total += loss.item()
        pairs = True
    if not pairs:
        run.progress.without_pair += 1
        return 0.0
    where = f"at update {update + 1} of {config.total_updates}"
    if not math.isfinite(total):
        raise NonFiniteError(f"the {name} loss is {total} {where}")
    norm = clip_gradients(run.optimizer, config.max_grad_norm)
    if not math.isfinite(norm):
        raise NonFiniteError(f"the gradient norm of the {name} loss is {norm} {where} (loss {total})")
    run.optimizer.step()
    after_update(run.optimizer, update + 1, config.total_updates)
    return total


def _weights(run: Run, batch: Batch) -> Tensor:
    """The weights (n,) in float64 that the task gives the examples of ``batch``, on the run's device."""
    if run.data.train.weights is None:
        raise DataError(f"example_weights is task, but the data of task {run.config.task!r} have no weights")
    return torch.from_numpy(run.data.train.weights[batch.indices]).to(run.device)


def _cut(model: BuiltModel) -> int:
    """How many texts the model's encoder has cut so far, in this process."""
    return int(getattr(model.encode, "truncated", 0))


def evaluate(run: Run) -> dict[str, float]:
    """The row's metrics of the epoch that has just ended; scores are kept while its validation metric is the best.

    ``train_auc``, ``val_auc`` and ``test_auc`` are the task's primary metric, ``val_<name>`` and ``test_<name>`` all
    metrics by name (``trainables.evaluate.metrics_of``). The training split is scored with the evaluation view, whole
    (up to ``training_rows``), not with the batches it was trained on. A task without a validation split has the test
    split's values for both. Hypersimplex runs add the thresholds of the training scores (``trainables.thresholds``),
    models of texts how many of each split were cut to ``max_length`` (``train_truncated`` and so on; not counted when
    other processes encode). Under ``selection: last`` the epochs before the last are not evaluated: their metrics are
    NaN.
    """
    config, progress = run.config, run.progress
    if config.selection == "last" and progress.update < config.total_updates:
        return dict.fromkeys(("train_auc", "val_auc", "test_auc"), math.nan)
    scores: dict[str, NDArray[Any]] = {}
    truth: dict[str, NDArray[np.int64]] = {}
    metrics: dict[str, dict[str, float]] = {}
    truncated: dict[str, float] = {}
    counts_cuts = hasattr(run.model.encode, "truncated") and not run.context.workers
    for name, short in zip(SPLITS, SHORT, strict=True):
        split: Split = getattr(run.data, name)
        if not len(split.labels):
            continue
        rows = training_rows(len(split.labels), run.card.outputs) if name == "train" else None
        before = _cut(run.model)
        scores[name] = score_split(
            run.model,
            split,
            name=name,
            epoch=progress.update // config.updates_per_epoch,
            batch_size=run.context.eval_batch_size,
            device=run.device,
            rows=rows,
            log_softmax=run.card.kind == "multiclass",
            workers=run.context.workers,
            before_batch=lambda: check_deadline(run),
        )
        if counts_cuts:
            truncated[f"{short}_truncated"] = float(_cut(run.model) - before)
        truth[name] = split.labels if rows is None else split.labels[rows]
        metrics[name] = metrics_of(run.card, scores[name], truth[name], name, primary=name == "train")
    projects = "hypersimplex" in losses_of(config.loss, config.loss_params)
    by_threshold = threshold_metrics(run.card, scores, truth) if projects else {}
    scores.pop("train")
    metrics.setdefault("validation", metrics["test"])
    found = {f"{short}_auc": next(iter(metrics[name].values())) for name, short in zip(SPLITS, SHORT, strict=True)}
    for name, short in (("validation", "val"), ("test", "test")):
        found |= {f"{short}_{metric}": value for metric, value in metrics[name].items() if metric != "auc"}
    found |= by_threshold | truncated
    best = all(found["val_auc"] > row["val_auc"] for row in progress.rows if not math.isnan(row["val_auc"]))
    if best and sum(values.size for values in scores.values()) <= KEPT_AT_MOST:
        progress.scores = {name: torch.from_numpy(values) for name, values in scores.items()}
    return found


def epoch_row(run: Run, metrics: dict[str, float]) -> EpochRow:
    """The row of the epoch that has just ended, its ``metrics`` included.

    ``train_loss`` is the mean of the epoch's update losses, each taken before its update, in training mode; in the
    epoch of the switch it therefore mixes CE and the pairwise loss. ``learning_rate_now`` is the rate of
    the epoch's last update: the next one's would differ between runs that part there. ``seconds`` is the wall time of
    the epoch, its evaluation included, loading and building excluded; ``gpu_seconds`` the same on a GPU, else 0.
    """
    config, progress = run.config, run.progress
    row = {
        "epoch": progress.update // config.updates_per_epoch,
        "update": progress.update,
        "train_loss": progress.loss_sum / config.updates_per_epoch,
        **metrics,
        "learning_rate_now": learning_rate(config, progress.update - 1),
        "seconds": progress.seconds,
        "gpu_seconds": progress.seconds if run.device.type == "cuda" else 0.0,
        "peak_memory_bytes": peak_memory_bytes(run.device),
        "device": device_name(run.device),
    }
    return row | {"train_updates_without_pair": progress.without_pair} if config.sampling == "natural" else row


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


def check_deadline(run: Run) -> None:
    """Raise ``TrialTimeout`` once ``context.deadline`` has passed."""
    if run.context.deadline is not None and time.monotonic() > run.context.deadline:
        raise TrialTimeout(
            f"out of time after {run.progress.update} of {run.config.total_updates} updates "
            f"({len(run.progress.rows)} epochs evaluated)"
        )
