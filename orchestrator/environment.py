"""What a sweep ran on: versions, code, host and GPUs, without importing torch or Ray."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import platform
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

PACKAGES = (
    "aucsweep",
    "torch",
    "torchvision",
    "ray",
    "transformers",
    "peft",
    "datasets",
    "numpy",
    "pandas",
    "pyarrow",
    "scikit-learn",
    "optuna",
)

_OURS = ("search_spaces", "trainables", "orchestrator", "analysis", "aucsweep")
_ROOT = Path(__file__).resolve().parent.parent


def capture() -> dict[str, Any]:
    """Versions, code state, host and GPUs as JSON-able values; what cannot be found out is None or empty.

    Keys: python, platform, packages {name: version}, code {version, git_commit, git_dirty, source_sha256}, hostname,
    cpus (usable by this process), memory_bytes, gpus [{name, memory_bytes, uuid}], driver.
    """
    gpus, driver = _gpus()
    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "packages": {name: version for name in PACKAGES if (version := package_version(name)) is not None},
        "code": code_state(),
        "hostname": socket.gethostname(),
        "cpus": _cpus(),
        "memory_bytes": _memory(),
        "gpus": gpus,
        "driver": driver,
    }


def package_version(name: str) -> str | None:
    """The installed version of a package, None when it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


@functools.cache
def code_state() -> dict[str, Any]:
    """Which code this is: {version, git_commit, git_dirty, source_sha256}.

    The commit is taken only from a repository whose root holds these packages: an installation inside somebody else's
    repository is not that repository's code. ``source_sha256`` covers the packages' Python files either way.
    """
    commit, dirty = None, None
    top = _output("git", "-C", str(_ROOT), "rev-parse", "--show-toplevel")
    if top is not None and Path(top).resolve() == _ROOT and (_ROOT / "pyproject.toml").exists():
        commit = _output("git", "-C", str(_ROOT), "rev-parse", "HEAD")
        changes = _output("git", "-C", str(_ROOT), "status", "--porcelain", "--", *_OURS)
        dirty = None if changes is None else bool(changes)
    digest = hashlib.sha256()
    for package in _OURS:
        for path in sorted((_ROOT / package).rglob("*.py")):
            digest.update(f"{path.relative_to(_ROOT).as_posix()}\0".encode() + path.read_bytes())
    return {
        "version": package_version("aucsweep") or "unknown",
        "git_commit": commit,
        "git_dirty": dirty,
        "source_sha256": digest.hexdigest(),
    }


def code_version() -> str:
    """One short text for the column ``code_version``: version, ``+g<commit>`` and ``.dirty`` where they apply."""
    state = code_state()
    commit = f"+g{state['git_commit'][:12]}" if state["git_commit"] else ""
    return f"{state['version']}{commit}{'.dirty' if commit and state['git_dirty'] else ''}"


def _gpus() -> tuple[list[dict[str, Any]], str | None]:
    listed = _output("nvidia-smi", "--query-gpu=name,memory.total,uuid,driver_version", "--format=csv,noheader,nounits")
    gpus: list[dict[str, Any]] = []
    driver = None
    for line in (listed or "").splitlines():
        fields = [part.strip() for part in line.split(",")]
        if len(fields) == 4:
            memory = int(fields[1]) * 2**20 if fields[1].isdigit() else None
            gpus.append({"name": fields[0], "memory_bytes": memory, "uuid": fields[2]})
            driver = fields[3]
    return gpus, driver


def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _output(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
