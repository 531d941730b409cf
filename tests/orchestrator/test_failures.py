"""Kinds of failures: our own errors, and what torch, CUDA, numpy and Python raise."""

from __future__ import annotations

import errno

import numpy as np
import pytest
import torch

from orchestrator.failures import breaks_process, classify
from search_spaces.errors import (
    FAILURE_KINDS,
    DataError,
    NonFiniteError,
    TrialError,
    TrialTimeout,
    UsageError,
    WorkerLost,
)

CUDA_OOM = "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has 23.69 GiB of which 12.00 MiB is free."
ASSERT = "CUDA error: device-side assert triggered\nCUDA kernel errors might be asynchronously reported"
ILLEGAL = "CUDA error: an illegal memory access was encountered"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (DataError("no file"), "data"),
        (NonFiniteError("loss is nan"), "nan"),
        (TrialTimeout("out of time"), "timeout"),
        (WorkerLost("gone"), "lost"),
        (TrialError("odd"), "error"),
        (torch.OutOfMemoryError(CUDA_OOM), "oom"),
        (torch.cuda.OutOfMemoryError(CUDA_OOM), "oom"),
        (RuntimeError("CUDA error: out of memory"), "oom"),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), "oom"),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), "oom"),
        (RuntimeError("std::bad_alloc"), "oom"),
        (MemoryError(), "oom"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "oom"),
        (OSError(errno.ENOSPC, "No space left on device"), "error"),
        (FloatingPointError("invalid value encountered in log"), "nan"),
        (RuntimeError("Function 'LogBackward0' returned nan values in its 0th output."), "nan"),
        (RuntimeError(ASSERT), "error"),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied (8x4 and 5x2)"), "error"),
        (ValueError("a text about memory: out of memory"), "error"),
        (UsageError("wrong call"), "error"),
        (KeyError("x"), "error"),
        (TimeoutError("a server did not answer"), "error"),
    ],
)  # fmt: skip
def test_kind(error: Exception, kind: str) -> None:
    assert classify(error) == kind
    assert kind in FAILURE_KINDS


def test_what_torch_and_numpy_really_raise_without_memory() -> None:
    with pytest.raises(RuntimeError) as raised:
        torch.empty(2**55, dtype=torch.uint8)  # 32 PiB: DefaultCPUAllocator
    assert classify(raised.value) == "oom"
    with pytest.raises(MemoryError) as of_numpy:
        np.zeros(2**55, dtype=np.uint8)
    assert classify(of_numpy.value) == "oom"


def test_a_cause_counts_and_a_context_does_not() -> None:
    wrapped = RuntimeError("evaluation failed")
    wrapped.__cause__ = DataError("one class only")
    assert classify(wrapped) == "data"
    handled = ValueError("while cleaning up")
    handled.__context__ = MemoryError()
    assert classify(handled) == "error"
    loop = RuntimeError("a")
    loop.__cause__ = loop
    assert classify(loop) == "error"


@pytest.mark.parametrize(
    ("error", "broken"),
    [
        (RuntimeError(ASSERT), True),
        (RuntimeError(ILLEGAL), True),
        (RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"), True),
        (torch.OutOfMemoryError(CUDA_OOM), False),
        (RuntimeError("CUDA error: out of memory"), False),
        (DataError("no file"), False),
        (RuntimeError("shape mismatch"), False),
    ],
)
def test_which_errors_a_process_survives(error: Exception, broken: bool) -> None:
    assert breaks_process(error) is broken
