"""``doctor``: is this machine ready?"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
from pathlib import Path
from typing import Any

import typer

from aucsweep.cli.options import DEFAULT_DATA_ROOT, DataRoot, JsonFlag, emit_columns, emit_json, size

_PACKAGES = ("torch", "torchvision", "ray", "transformers", "peft", "pandas", "pyarrow", "scikit-learn", "optuna")
_LOW_DISK_BYTES = 5e9


def doctor(data_root: DataRoot = DEFAULT_DATA_ROOT, json: JsonFlag = False) -> None:
    """Check this machine: Python, packages, GPUs, Ray, disk, data and weights. Exit code 1 if something is missing."""
    checks = [*_software(), _torch(), _ray(), _disk(data_root), *_data(data_root), *_weights(data_root)]
    faulty = [check for check in checks if check["ok"] is False]
    if json:
        emit_json({"ok": not faulty, "checks": checks})
    else:
        mark = {True: "ok", False: "MISSING", None: "-"}
        emit_columns([mark[check["ok"]], check["what"], check["found"]] for check in checks)
    raise typer.Exit(1 if faulty else 0)


def _check(what: str, ok: bool | None, found: str) -> dict[str, Any]:
    """One line; ``ok`` None is a fact that can be either way (no GPU, a data set not fetched)."""
    return {"what": what, "ok": ok, "found": found}


def _software() -> list[dict[str, Any]]:
    checks = [_check("python", True, f"{platform.python_version()} on {platform.platform()}")]
    for package in _PACKAGES:
        try:
            checks.append(_check(package, True, importlib.metadata.version(package)))
        except importlib.metadata.PackageNotFoundError:
            checks.append(_check(package, False, f"pip install {package}"))
    return checks


def _torch() -> dict[str, Any]:
    try:
        import torch
    except ImportError as error:
        return _check("CUDA", False, f"torch does not import: {error}")
    if not torch.cuda.is_available():
        return _check("CUDA", None, f"no GPU visible; trials run on {os.cpu_count()} CPU cores")
    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return _check("CUDA", True, f"{torch.version.cuda}: {', '.join(names)}")


def _ray() -> dict[str, Any]:
    try:
        import ray  # noqa: F401
        from ray import tune  # noqa: F401
    except ImportError as error:
        return _check("Ray Tune", False, f"does not import: {error}")
    return _check("Ray Tune", True, "imports")


def _disk(data_root: Path) -> dict[str, Any]:
    existing = next(path for path in (data_root, *data_root.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    return _check("disk", free > _LOW_DISK_BYTES, f"{size(free)} free at {existing}")


def _data(data_root: Path) -> list[dict[str, Any]]:
    from search_spaces.tasks import TASKS
    from trainables.data import can_load, task_state

    checks = []
    for name, card in TASKS.items():
        if can_load(card):
            state = task_state(card, data_root)
            ready = state in {"prepared", "packaged"}
            checks.append(_check(f"data {name}", ready or None, state if ready else f"{state}: {card.get}"))
    return checks


def _weights(data_root: Path) -> list[dict[str, Any]]:
    from search_spaces.models import MODELS
    from trainables.models import find_weights

    checks = []
    for name, card in MODELS.items():
        if "pretrained" in card.inits:
            path = find_weights(card, data_root)
            checks.append(_check(f"weights {name}", True if path else None, str(path) if path else card.weights))
    return checks
