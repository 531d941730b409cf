"""The downloaded sources under ``data_root/sources``: finding them, and saying what is missing and what brings it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from search_spaces.cards import TaskCard
from search_spaces.errors import DataError
from trainables.data.images import IMAGE_SUFFIXES

SOURCES = "sources"


def source_folder(card: TaskCard, data_root: Path, name: str) -> Path:
    """``data_root/sources/name``. Raises ``DataError`` that says what belongs there and where to get it."""
    folder = data_root / SOURCES / name
    if not folder.is_dir():
        raise DataError(f"task {card.name}: no folder {folder}. It should hold: {card.get}")
    return folder


def find_file(card: TaskCard, folder: Path, names: Sequence[str]) -> Path:
    """The only file of one of ``names`` (patterns allowed) anywhere under ``folder``, an earlier name first.

    Raises ``DataError`` when there is none or when a pattern fits several.
    """
    for name in names:
        found = sorted(path for path in folder.rglob(name) if path.is_file())
        if len(found) == 1:
            return found[0]
        if found:
            listed = ", ".join(path.relative_to(folder).as_posix() for path in found[:5])
            raise DataError(f"task {card.name}: {folder} holds more than one {name}: {listed}")
    raise DataError(f"task {card.name}: no {' or '.join(names)} in {folder}. It should hold: {card.get}")


def images_by_name(card: TaskCard, folder: Path, wanted: Iterable[str]) -> dict[str, Path]:
    """The image file of each wanted name (without or with its suffix) anywhere under ``folder``.

    Raises ``DataError`` naming up to five images that are missing or lie there twice with
    other contents (a copy does no harm; some releases hold every image twice).
    """
    names = set(wanted)
    found: dict[str, Path] = {}
    twice = set()
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() in IMAGE_SUFFIXES:
            for name in {path.name, path.stem} & names:
                if name in found and found[name].read_bytes() != path.read_bytes():
                    twice.add(name)
                found[name] = path
    if twice:
        raise DataError(f"task {card.name}: {folder} holds, with other contents, twice: {', '.join(sorted(twice)[:5])}")
    missing = sorted(names - set(found))
    if missing:
        raise DataError(
            f"task {card.name}: {len(missing)} images missing in {folder}, such as {', '.join(missing[:5])}. "
            f"It should hold: {card.get}"
        )
    return found


def images_in(folder: Path) -> list[Path]:
    """The image files directly in ``folder``, sorted."""
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in IMAGE_SUFFIXES)
