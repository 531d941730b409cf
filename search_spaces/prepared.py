"""Where the prepared data of a task lie, and whether there are any, without reading them (or importing torch)."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from search_spaces.cards import TaskCard

MANIFEST = "manifest.json"
"""The file of a prepared folder that says what it is."""


def prepared_folder(card: TaskCard, data_root: Path) -> Path:
    """Where the prepared data of a task are. A user's own task carries its revision: two may have one name."""
    name = card.name if card.fingerprint is None else f"{card.name}-{card.revision}"
    return data_root / "prepared" / name


def has_data(card: TaskCard, data_root: Path) -> bool:
    """Whether something is prepared for the task, or a package that brings its data is installed.

    ``aucsweep data check`` says whether they are right.
    """
    return (prepared_folder(card, data_root) / MANIFEST).is_file() or any(map(_installed, card.packages))


def _installed(package: str) -> bool:
    try:
        metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return False
    return True
