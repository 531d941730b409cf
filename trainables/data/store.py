"""The prepared form of a task on disk: a folder written once, whole, and then read by every trial of the node.

    prepared/<task>/manifest.json   what it is, fingerprint, counts, conversions, versions
    prepared/<task>/index.parquet   id, label, part, group, digest; weights; texts; offsets and shapes of images
    prepared/<task>/images.bin      all images one after the other, uint8, memory-mapped
    prepared/<task>/views.bin       their evaluation views, all of one size (empty when the images are that already)

Two processes may prepare one task at once: each takes the folder's lock, and a folder appears by one rename.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock
from numpy.typing import NDArray

from search_spaces.errors import DataError
from search_spaces.prepared import MANIFEST
from trainables.data.content import ArrayImages, Images, PackedImages
from trainables.data.examples import Index

FORMAT = 1
INDEX, IMAGES, VIEWS = "index.parquet", "images.bin", "views.bin"

_KEYS: dict[str, tuple[type, str]] = {
    "recipe": (str, "a text"),
    "fingerprint": (str, "a text"),
    "notes": (list, "a list"),
}
_IMAGE_KEYS = ("bytes", "channels", "view_size")


@dataclass(frozen=True)
class Pool:
    """All examples of a task, ready to be split: images or texts, and the columns splits need."""

    index: Index
    images: Images | None
    texts: list[str] | list[tuple[str, str]] | None
    fingerprint: str
    notes: tuple[str, ...] = ()
    views: NDArray[np.uint8] | None = None


@contextmanager
def preparing(final: Path) -> Iterator[Path]:
    """A temporary folder that becomes ``final`` when the block ends well and vanishes when it does not.

    The caller must hold ``lock_of(final)``.
    """
    final.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{final.name}-", dir=final.parent))
    try:
        yield temporary
        old = temporary.with_name(temporary.name + "-old")
        if final.exists():
            # Readers that have the old files mapped keep them; new readers find the new folder.
            os.replace(final, old)
        os.replace(temporary, final)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def lock_of(final: Path) -> FileLock:
    """The lock that whoever prepares ``final`` holds."""
    final.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(final.parent / f".{final.name}.lock")


def write_index(folder: Path, index: Index, columns: dict[str, Any]) -> None:
    """Write the index with ``columns`` (texts, or offsets and shapes) beside it; ``weight`` where there are weights."""
    labels: Any = index.labels.tolist()
    weights = {} if index.weights is None else {"weight": pa.array(index.weights, pa.float64())}
    table = pa.table(
        {
            "id": pa.array(index.ids, pa.string()),
            "label": pa.array(labels, pa.list_(pa.int64()) if index.labels.ndim == 2 else pa.int64()),
            "part": pa.array(index.parts, pa.string()),
            "group": pa.array(index.groups, pa.string()),
            "digest": pa.array(index.digests, pa.string()),
            **weights,
            **columns,
        }
    )
    pq.write_table(table, folder / INDEX)


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest; the format version is added."""
    text = json.dumps({"format": FORMAT} | manifest, indent=2, ensure_ascii=False, sort_keys=True)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest, or None when nothing is prepared there. Raises ``DataError`` when it cannot be read."""
    path = folder / MANIFEST
    if not path.exists():
        return None
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: not readable ({error}); delete {folder} and prepare the task again") from error
    if not isinstance(manifest, dict):
        raise DataError(f"{path}: expected a JSON object; delete {folder} and prepare the task again")
    if manifest.get("format") != FORMAT:
        raise DataError(
            f"{path}: format {manifest.get('format')!r}, this version reads {FORMAT}; prepare the task again"
        )
    images = {key: (int, "a whole number") for key in _IMAGE_KEYS if (folder / IMAGES).exists()}
    for key, (kind, expected) in (_KEYS | images).items():
        if not isinstance(manifest.get(key), kind) or isinstance(manifest[key], bool):
            raise DataError(
                f"{path}: {key} should be {expected}, got {manifest.get(key)!r}; delete {folder} and prepare the task "
                "again"
            )
    return manifest


def read_pool(folder: Path, manifest: dict[str, Any]) -> Pool:
    """The pool stored in ``folder``. Images are memory-mapped, so the processes of a node share them.

    Raises ``DataError`` when a file is missing or of the wrong size, or the index is not the manifest's.
    """
    try:
        table = pq.read_table(folder / INDEX)
    except (OSError, pa.ArrowInvalid) as error:
        raise DataError(f"{folder / INDEX}: not readable ({error}); prepare the task again") from error
    index = Index(
        ids=tuple(table["id"].to_pylist()),
        labels=np.array(table["label"].to_pylist(), dtype=np.int64),
        parts=tuple(table["part"].to_pylist()),
        groups=tuple(table["group"].to_pylist()),
        digests=tuple(table["digest"].to_pylist()),
        weights=table["weight"].to_numpy().astype(np.float64) if "weight" in table.column_names else None,
    )
    fingerprint = index.fingerprint()
    if fingerprint != manifest["fingerprint"]:
        raise DataError(f"{folder / INDEX}: not the rows the manifest describes; prepare the task again")
    notes = tuple(manifest["notes"])
    if "text" in table.column_names:
        texts = table["text"].to_pylist()
        if "text_b" in table.column_names:
            return Pool(index, None, list(zip(texts, table["text_b"].to_pylist(), strict=True)), fingerprint, notes)
        return Pool(index, None, texts, fingerprint, notes)
    shapes = np.stack([table[name].to_numpy() for name in ("height", "width", "channels")], axis=1)
    offsets = np.concatenate([table["offset"].to_numpy(), [manifest["bytes"]]]).astype(np.int64)
    views = None
    if manifest["view_size"]:
        shape = (len(shapes), manifest["view_size"], manifest["view_size"], int(manifest["channels"]))
        views = _mapped(folder / VIEWS, int(np.prod(shape))).reshape(shape)
    return Pool(index, _open_images(folder, offsets, shapes, manifest), None, fingerprint, notes, views)


def _mapped(path: Path, expected: int) -> NDArray[np.uint8]:
    size = path.stat().st_size if path.exists() else -1
    if size != expected:
        raise DataError(f"{path}: {size} bytes where the manifest says {expected}; prepare the task again")
    return np.memmap(path, dtype=np.uint8, mode="r")


def _open_images(folder: Path, offsets: Any, shapes: Any, manifest: dict[str, Any]) -> Images:
    flat = _mapped(folder / IMAGES, manifest["bytes"])
    if len(shapes) and shapes[0, 0] > 0 and (shapes == shapes[0]).all():
        return ArrayImages(flat.reshape(len(shapes), *(int(side) for side in shapes[0])))
    return PackedImages(flat, offsets, shapes, int(manifest["channels"]))
