"""What went wrong with a trial: the kind of an exception, and the truth about a worker that ended without a word."""

from __future__ import annotations

import dataclasses
import errno
import re
from collections.abc import Iterator

from orchestrator.integrity import BrokenFileError, check
from orchestrator.running import Job, Outcome
from orchestrator.store import Store
from search_spaces.errors import TrialError

_NO_MEMORY = re.compile(
    r"out of memory|can't allocate memory|cannot allocate memory|std::bad_alloc|bad allocation"
    r"|CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED|cudaErrorMemoryAllocation|Unable to allocate",
    re.IGNORECASE,
)
_NOT_FINITE = re.compile(r"returned nan values in its \d+th output", re.IGNORECASE)  # torch's anomaly detection
_BROKEN_CONTEXT = re.compile(
    r"CUDA error|device-side assert|illegal memory access|CUDNN_STATUS_(EXECUTION|INTERNAL)|unspecified launch failure",
    re.IGNORECASE,
)


def classify(error: BaseException) -> str:
    """The failure kind of what a trial raised: oom, nan, data, timeout, lost or error.

    Our own errors know their kind. Memory errors have many classes (Python's, numpy's, torch's for CUDA and for the CPU
    allocator, cuBLAS), so they are told by class or text. The cause of an error that merely wraps another counts too.
    """
    chain = list(_chain(error))
    for link in chain:
        if isinstance(link, TrialError):
            return link.kind
    if any(_is_out_of_memory(link) for link in chain):
        return "oom"
    if any(isinstance(link, FloatingPointError) or _NOT_FINITE.search(str(link)) for link in chain):
        return "nan"
    return "error"


def breaks_process(error: BaseException) -> bool:
    """Whether the process that raised ``error`` can run no further trial.

    After an asynchronous CUDA error every later CUDA call of the process fails, whatever it does. Running out of CUDA
    memory is not of that sort.
    """
    return not any(_is_out_of_memory(link) for link in _chain(error)) and any(
        _BROKEN_CONTEXT.search(str(link)) for link in _chain(error)
    )


def settle_lost(outcome: Outcome, job: Job, store: Store) -> Outcome:
    """What became of a job whose worker ended without a report, and a failure row where there is none.

    A worker writes to the store before it reports, so one that died in between has left the trial's run file or the
    attempt's failure row; only where there is neither is the attempt lost.
    """
    if has_run(store, job.trial_id):
        return dataclasses.replace(outcome, status="done", kind=None, message="")
    recorded = f"{job.trial_id}-{job.attempt:03d}-"
    if any(name.startswith(recorded) for name in store.files.names("failures")):
        kind = store.latest_failures()[job.trial_id].kind
        return dataclasses.replace(outcome, status="failed", kind=kind, message="see its failure row")
    kind = outcome.kind or "lost"
    log = store.read_log(job.trial_id) or ""
    store.write_failure(job.config, kind, outcome.message, log=log, attempt=job.attempt, device=job.device)
    return dataclasses.replace(outcome, status="failed", kind=kind)


def has_run(store: Store, trial_id: str) -> bool:
    """Whether the trial's own file of ``runs`` is there and intact; cheaper than a scan of the store."""
    try:
        return all(group.intact for group in check(store.files.read(f"runs/{trial_id}.parquet")))
    except (FileNotFoundError, BrokenFileError):
        return False


def _is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, RuntimeError) and bool(_NO_MEMORY.search(str(error)))


def _chain(error: BaseException) -> Iterator[BaseException]:
    """``error``, then what it was raised from, and so on."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__
