"""From a source's examples to a pool: every image decoded and checked once, in memory or into the prepared folder."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from search_spaces.cards import SPLITS, TaskCard
from search_spaces.errors import DataError
from search_spaces.identity import content_id
from trainables.data.augment import evaluation_view
from trainables.data.content import ArrayImages
from trainables.data.examples import Example, Index, digest, in_order, index_of
from trainables.data.faults import SHOWN, Faults
from trainables.data.images import decode, resize
from trainables.data.loader import Loader, Rows, image_size
from trainables.data.store import IMAGES, VIEWS, Pool, preparing, write_index, write_manifest
from trainables.data.types import Progress

CHUNK = 256


@dataclass(frozen=True)
class _Read:
    digest: str
    stored: NDArray[np.uint8] | None
    shape: tuple[int, int, int]
    note: str | None
    view: NDArray[np.uint8] | None = None


def recipe_of(card: TaskCard) -> str:
    """Identifies how a task is prepared: a prepared folder of another recipe is not used."""
    if card.fingerprint is not None:
        return card.revision  # of a user's own task: the hash of its definition and data
    recipe = {"revision": card.revision, "loader": card.loader, "options": dict(card.options)}
    if not card.seeded:
        recipe["counts"] = {split: list(card.counts[split]) for split in SPLITS}  # what is drawn is written down
    return content_id(recipe)


def listed(card: TaskCard, loader: Loader, data_root: Path) -> list[Example]:
    """The source's examples in order; for a task whose splits do not depend on the seed, those drawn, with the split
    as their part.

    Raises ``DataError`` when the source lacks something or its counts are not the card's.
    """
    return placed(card, loader, loader.collect(card, data_root))


def placed(card: TaskCard, loader: Loader, collected: list[Example]) -> list[Example]:
    """``collected`` in order, or for a task whose splits are fixed those drawn, as ``listed`` says."""
    examples = in_order(collected)
    rows = loader.draw(card, index_of(examples, [""] * len(examples)), 0)
    if card.seeded:
        return examples
    split_of = {int(row): split for split in SPLITS for row in rows[split]}
    return [dataclasses.replace(examples[row], part=split_of[row]) for row in sorted(split_of)]


def rows_of(card: TaskCard, loader: Loader, pool: Pool, seed: int) -> Rows:
    """The rows of each split for ``seed``."""
    if card.seeded:
        return loader.draw(card, pool.index, seed)
    return {
        split: np.array([row for row, part in enumerate(pool.index.parts) if part == split], dtype=np.int64)
        for split in SPLITS
    }


def pool_in_memory(card: TaskCard, loader: Loader, examples: list[Example]) -> Pool:
    """The pool of a packaged task, nothing written. Images must come out in one size."""
    if card.modality == "text":
        return _text_pool(examples)
    reads = list(_read_all(card, loader, examples, None))
    index = index_of(examples, [read.digest for read in reads])
    array = np.stack([read.stored for read in reads if read.stored is not None])
    return Pool(index, ArrayImages(array), None, index.fingerprint(), _notes(reads))


def write_pool(
    card: TaskCard,
    loader: Loader,
    examples: list[Example],
    final: Path,
    progress: Progress | None,
    source_revision: str | None = None,
) -> dict[str, Any]:
    """Write the prepared folder ``final`` and give its manifest. The caller holds the folder's lock."""
    with preparing(final) as folder:
        if card.modality == "text":
            pool = _text_pool(examples)
            index, notes, columns = pool.index, pool.notes, _text_columns(examples)
            more: dict[str, Any] = {}
        else:
            index, columns, notes, more = _write_images(card, loader, examples, folder, progress)
        manifest = {
            "task": card.name,
            "recipe": recipe_of(card),
            "revision": card.revision,
            "source": card.source,
            "source_revision": source_revision,
            "licence": card.licence,
            "counts": {split: list(card.counts[split]) for split in SPLITS},
            "examples": len(examples),
            "fingerprint": index.fingerprint(),
            "notes": list(notes),
            **more,
        }
        write_index(folder, index, {"where": pa.array([example.where for example in examples]), **columns})
        write_manifest(folder, manifest)
    return manifest


def read_through(card: TaskCard, loader: Loader, examples: list[Example], progress: Progress | None) -> Pool:
    """Every example read and checked, nothing kept but the index and the notes."""
    if card.modality == "text":
        return _text_pool(examples)
    reads = [dataclasses.replace(read, stored=None, view=None) for read in _read_all(card, loader, examples, progress)]
    index = index_of(examples, [read.digest for read in reads])
    return Pool(index, None, None, index.fingerprint(), _notes(reads))


def fingerprint_of(examples: list[Example]) -> str:
    """The fingerprint the pool of these examples would have, from the sources' bytes alone.

    Raises ``DataError`` naming every file that cannot be read.
    """
    faults = Faults("sources")

    def read(example: Example) -> str:
        try:
            return digest(example.content)
        except OSError as error:
            faults.add(f"{example.content}: {error.strerror or error}{_place(example)}")
            return ""

    with ThreadPoolExecutor(max_workers=_threads()) as threads:
        fingerprint = index_of(examples, threads.map(read, examples)).fingerprint()
    faults.raise_if_any()
    return fingerprint


def _write_images(
    card: TaskCard, loader: Loader, examples: list[Example], folder: Path, progress: Progress | None
) -> tuple[Index, dict[str, Any], tuple[str, ...], dict[str, Any]]:
    reads = []
    offsets, end = [], 0
    view_size = 0
    with (folder / IMAGES).open("wb") as images, (folder / VIEWS).open("wb") as views:
        for read in _read_all(card, loader, examples, progress):
            assert read.stored is not None
            images.write(read.stored.tobytes())
            offsets.append(end)
            end += read.stored.size
            if read.view is not None:
                view_size = read.view.shape[0]
                views.write(read.view.tobytes())
            reads.append(dataclasses.replace(read, stored=None, view=None))
        for file in (images, views):
            file.flush()
            os.fsync(file.fileno())
    shapes = np.array([read.shape for read in reads], dtype=np.int32)
    columns = {
        "offset": pa.array(offsets, pa.int64()),
        "height": shapes[:, 0],
        "width": shapes[:, 1],
        "channels": shapes[:, 2],
    }
    more = {"bytes": end, "channels": loader.channels, "storage": _storage(card, loader), "view_size": view_size}
    return index_of(examples, [read.digest for read in reads]), columns, _notes(reads), more


def _read_all(card: TaskCard, loader: Loader, examples: list[Example], progress: Progress | None) -> Iterator[_Read]:
    """Every image read, checked and brought to its stored form, in order; all unreadable ones are named together."""
    read_one = _reader(card, loader)
    faults = Faults(f"task {card.name}")
    with ThreadPoolExecutor(max_workers=_threads()) as threads:
        for start in range(0, len(examples), CHUNK):
            for outcome in threads.map(read_one, examples[start : start + CHUNK]):
                if isinstance(outcome, DataError):
                    faults.add(str(outcome))
                elif not faults.sentences:
                    yield outcome
            if len(faults.sentences) >= SHOWN:
                break
            if progress is not None:
                progress(min(start + CHUNK, len(examples)), len(examples))
    faults.raise_if_any()


def _reader(card: TaskCard, loader: Loader) -> Callable[[Example], _Read | DataError]:
    size = image_size(card, loader)
    storage = _storage(card, loader)

    def read_one(example: Example) -> _Read | DataError:
        content = example.content
        try:
            if isinstance(content, np.ndarray):
                return _Read(digest(content), content, _shape(content), None)
            assert isinstance(content, Path)
            try:
                blob = content.read_bytes()
            except OSError as error:
                raise DataError(f"{content}: {error.strerror or error}") from error
            pixels, note = decode(blob, channels=loader.channels, name=str(content))
            name = hashlib.sha256(blob).hexdigest()
            if storage == "resized" and size is not None:
                pixels = np.ascontiguousarray(resize(pixels, size))
                return _Read(name, pixels, _shape(pixels), note)
            # Every epoch evaluates every example in the same view: made once here, it is as fast as reading memory.
            view = None if size is None else evaluation_view(pixels, size)
            if storage == "encoded":
                return _Read(name, np.frombuffer(blob, dtype=np.uint8), (0, 0, 0), note, view)
            return _Read(name, pixels, _shape(pixels), note, view)
        except DataError as error:
            return DataError(f"{error}{_place(example)}")

    return read_one


def _storage(card: TaskCard, loader: Loader) -> str:
    return str(card.options.get("storage", loader.storage))


def _place(example: Example) -> str:
    return f" ({example.where})" if example.where else ""


def _shape(pixels: NDArray[np.uint8]) -> tuple[int, int, int]:
    height, width, channels = pixels.shape
    return height, width, channels


def _text_pool(examples: list[Example]) -> Pool:
    index = index_of(examples, [digest(example.content) for example in examples])
    texts: Any = [example.content for example in examples]
    return Pool(index, None, texts, index.fingerprint(), _repeated(index.digests))


def _text_columns(examples: list[Example]) -> dict[str, Any]:
    if examples and isinstance(examples[0].content, tuple):
        pairs = [example.content for example in examples]
        return {"text": pa.array([pair[0] for pair in pairs]), "text_b": pa.array([pair[1] for pair in pairs])}  # type: ignore[index]
    return {"text": pa.array([example.content for example in examples], pa.string())}


def _notes(reads: list[_Read]) -> tuple[str, ...]:
    counted = Counter(read.note for read in reads if read.note)
    converted = tuple(f"{count} images converted from {note}" for note, count in sorted(counted.items()))
    return converted + _repeated(tuple(read.digest for read in reads))


def _repeated(digests: tuple[str, ...]) -> tuple[str, ...]:
    more = len(digests) - len(set(digests))
    return (f"{more} examples repeat the content of another one",) if more else ()


def _threads() -> int:
    return min(16, os.cpu_count() or 1)
