"""execute: one trial in this process, from job to stored result or recorded failure. Runs in every worker."""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import logging
import os
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TextIO

from orchestrator.failures import breaks_process, classify
from orchestrator.running import Job, Outcome
from orchestrator.scores import score_frame
from orchestrator.store import Store
from search_spaces.errors import UsageError
from search_spaces.own_loss import use_loss_files
from trainables.context import EpochRow, TrialContext

LOG_LIMIT = 50_000
"""Characters of a log that a failure row keeps, the last ones; the whole log is in ``STORE/logs``."""


def execute(job: Job, store: Store, on_epoch: Callable[[EpochRow], None] | None = None) -> Outcome:
    """Train ``job`` and write its rows, or its failure, to the store before returning.

    No ``Exception`` of the trial leaves here: it becomes a failure row with kind, message, traceback and log. What is
    raised comes from a store that cannot be written.
    """
    started, began = time.perf_counter(), time.monotonic()
    where = f"{socket.gethostname()}:{os.getpid()}"
    config = job.config
    with _log_of(job, store) as log:
        layout = "".join(f", {name}" for name in ("channels_last", "compiled") if getattr(job, name))
        _say(log, f"trial {job.trial_id}, attempt {job.attempt}, on {where}, {job.device}{layout}")
        _say(log, " ".join(f"{key}={value}" for key, value in config.as_dict().items()))

        def epoch_done(row: EpochRow) -> None:
            _say(log, _epoch_line(row, config.epochs))
            if on_epoch is not None:
                on_epoch(row)

        context = TrialContext(
            data_root=job.data_root,
            device=job.device,
            threads=job.threads,
            workers=job.loaders,
            eval_batch_size=job.eval_batch_size,
            channels_last=job.channels_last,
            compiled=job.compiled,
            cards=dict(job.cards),
            fingerprints=dict(job.fingerprints),
            deadline=None if job.timeout is None else began + job.timeout,
            on_epoch=epoch_done,
        )
        try:
            with _captured(log):
                use_loss_files(job.loss_files)
                result = _resolve(job.body)(config, context)
                store.record_fingerprint(config.task, result.data_fingerprint)
            best = float(result.rows[result.selected_epoch - 1]["val_auc"])
            if job.save_scores:  # before the run: a trial that is done has its scores
                _save_scores(result.scores, job, store, log)
            store.write_run(
                config,
                result.rows,
                {
                    "device": result.rows[-1].get("device") or job.device,
                    "selected_epoch": result.selected_epoch,
                    "parameters": result.parameters,
                    "trainable_parameters": result.trainable_parameters,
                    "data_fingerprint": result.data_fingerprint,
                    "attempt": job.attempt,
                },
            )
        except Exception as error:
            seconds = time.perf_counter() - started
            kind, message = classify(error), _message(error)
            text = "".join(traceback.format_exception(error))
            _say(log, f"failed after {seconds:.1f} s ({kind}): {message}\n{text}")
            broken = breaks_process(error)
            store.write_failure(
                config,
                kind,
                message,
                text,
                log.tail(LOG_LIMIT),
                job.attempt,
                seconds=seconds,
                device=job.device,
            )
            outcome = Outcome(
                job.trial_id, "failed", kind, message[:500], job.attempt, seconds, config.loss, None, where, broken
            )
        else:
            seconds = time.perf_counter() - started
            _say(log, f"done in {seconds:.1f} s, best validation AUC {best:.4f} (epoch {result.selected_epoch})")
            outcome = Outcome(job.trial_id, "done", None, "", job.attempt, seconds, config.loss, best, where)
    if outcome.kind == "oom" or job.device != "cpu":
        _free_memory()
    return outcome


def _save_scores(scores: Mapping[str, Any], job: Job, store: Store, log: _Log) -> None:
    frame = score_frame(scores)
    if frame.empty:
        _say(log, "no scores saved: there are too many of them")
        return
    store.write_scores(job.trial_id, frame)


def prepare_worker(threads: int, gpus: float) -> None:
    """Set up a worker process, before it imports torch: its threads, no GPU unless it was given one, no hub access."""
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(threads)
    if gpus == 0:
        # Ray leaves the variable alone for a worker without a GPU, which would then see all of them.
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE"):
        os.environ.setdefault(name, "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


class _Log:
    """A trial's log: in the store's file as it grows where the store is a local folder, else in memory to the end."""

    def __init__(self, stream: TextIO, read: Callable[[], str]):
        self.stream = stream
        self._read = read

    def tail(self, limit: int) -> str:
        """The last ``limit`` characters."""
        self.stream.flush()
        text = self._read()
        return text if len(text) <= limit else f"[... {len(text) - limit} characters left out]\n{text[-limit:]}"


@contextlib.contextmanager
def _log_of(job: Job, store: Store) -> Iterator[_Log]:
    if store.files.local is not None:
        path = store.files.local / "logs" / f"{job.trial_id}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8", errors="backslashreplace", buffering=1) as stream:
            yield _Log(stream, lambda: path.read_text(encoding="utf-8"))
        return
    memory = io.StringIO()
    try:
        yield _Log(memory, memory.getvalue)
    finally:
        store.write_log(job.trial_id, memory.getvalue())


@contextlib.contextmanager
def _captured(log: _Log) -> Iterator[None]:
    """Send what the body prints, warns and logs to ``log``."""
    handler = logging.StreamHandler(log.stream)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        with contextlib.redirect_stdout(log.stream), contextlib.redirect_stderr(log.stream):
            yield
    finally:
        root.removeHandler(handler)


def _say(log: _Log, text: str) -> None:
    log.stream.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")


def _epoch_line(row: EpochRow, epochs: int) -> str:
    aucs = " ".join(f"{name} {row[f'{name}_auc']:.4f}" for name in ("train", "val", "test"))
    return f"epoch {row['epoch']}/{epochs} update {row['update']} loss {row['train_loss']:.6g} auc {aucs}"


def _message(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _resolve(body: str) -> Callable[..., Any]:
    module, _, name = body.partition(":")
    try:
        function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"cannot import the trial function {body!r}: {error}") from error
    return function


def _free_memory() -> None:
    """Give memory back: to the other workers that share the GPU, and to the trial after one that ran out of it."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
