"""The machine a trial runs on: device, threads, deterministic algorithms, and how much memory was used."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

Inputs = Tensor | Mapping[str, Tensor]
"""What a model reads: one tensor (n, ...), or tensors by name."""


@contextlib.contextmanager
def execution(device: torch.device, threads: int) -> Iterator[None]:
    """Run the body with ``threads`` CPU threads and deterministic algorithms, then put the settings back.

    On the CPU results are equal to the last bit from run to run. On CUDA every operation that has a deterministic
    form uses it and the others warn, so that a model is not refused for one of them. TensorFloat-32 is left at
    torch's defaults (convolutions may use it, matrix products do not).
    """
    # cuBLAS reads this once, when its first handle is made; without it matrix products may differ between runs.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    options: Any = torch.utils.deterministic  # a module of another class, which type checkers do not know
    before = (
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.backends.cudnn.benchmark,
        options.fill_uninitialized_memory,
    )
    try:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(True, warn_only=device.type != "cpu")
        torch.backends.cudnn.benchmark = False
        options.fill_uninitialized_memory = False  # costs time; nothing here reads memory it did not write
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        yield
    finally:
        torch.set_num_threads(before[0])
        torch.use_deterministic_algorithms(before[1], warn_only=before[2])
        torch.backends.cudnn.benchmark = before[3]
        options.fill_uninitialized_memory = before[4]


def place(module: nn.Module, device: torch.device, *, channels_last: bool = False, compiled: bool = False) -> None:
    """Move ``module`` to ``device`` and set how it computes there; its parameters keep their names.

    ``channels_last`` changes the memory layout of four-dimensional parameters (convolutions), and thereby of what they
    compute; a text model has none. ``compiled`` compiles the forward pass on its first call (``torch.compile``).
    """
    module.to(device)
    if channels_last:
        module.to(memory_format=torch.channels_last)
    if compiled:
        module.compile()


def to_device(inputs: Inputs, device: torch.device) -> Inputs:
    """``inputs`` on ``device``."""
    if isinstance(inputs, Tensor):
        return inputs.to(device, non_blocking=True)
    return {name: value.to(device, non_blocking=True) for name, value in inputs.items()}


def device_name(device: torch.device) -> str:
    """What the rows call the device: the GPU's product name, or ``cpu``."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def peak_memory_bytes(device: torch.device) -> int:
    """The most memory in use so far: of the trial's tensors on a GPU, or of the whole process (resident) on a CPU.

    A worker process serves many trials, so the CPU figure is an upper bound for any but its first.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024  # ru_maxrss: bytes on macOS, KiB on Linux
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
