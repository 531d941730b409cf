"""Bytes by name below one root: the only module that knows whether a store is a folder or a bucket.

Names are relative and use "/". A write is whole or not there at all: locally a hidden temporary file in the same
folder, synced and renamed; on an object store one put. Locally plain ``os`` calls are used, since one file through
fsspec costs several times the read itself; everything else goes through fsspec (or, when the scheme's fsspec package is
missing, through the file system that pyarrow ships).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import fsspec

from search_spaces.errors import StoreError

_MUTEX = ".mutex"

_BATCH = 512
"""Objects fetched together from an object store; fsspec reads them concurrently."""


class Files:
    """The files below ``uri``. Cheap to make; holds no open handle.

    ``uri`` is absolute afterwards (a plain path for local folders), so that it means the same in a worker.
    ``local`` is the folder, or None for anything that is not the local file system.
    """

    def __init__(self, uri: str | Path):
        text = str(uri)
        if not text.strip():
            raise StoreError("a store needs a path or a URI, got an empty text")
        self.local: Path | None = None
        self._fs: Any = None
        scheme = text.split("://", 1)[0] if "://" in text else ""
        if scheme in ("", "file", "local"):
            self.local = Path(text.removeprefix(f"{scheme}://") if scheme else text).expanduser().absolute()
            self.uri = str(self.local)
            return
        self.uri = text.rstrip("/")
        self._fs, root = _remote(self.uri)
        self._root = root.rstrip("/")

    def path(self, name: str) -> str:
        """The full path of ``name``, for messages."""
        return f"{self.uri}/{name}"

    def read(self, name: str) -> bytes:
        """The bytes of ``name``; raises ``FileNotFoundError``."""
        if self.local is not None:
            return _read_local(os.path.join(self.local, name))
        return bytes(self._fs.cat_file(self._key(name)))

    def read_many(self, names: Iterable[str]) -> Iterator[tuple[str, bytes | OSError | None]]:
        """``(name, bytes)`` for each name in order; None for one that is gone by now, its error for one not readable.

        On object stores such an error is raised: there it is one of the service, not of a file.
        """
        if self.local is not None:
            root = str(self.local) + os.sep
            for name in names:
                try:
                    yield name, _read_local(root + name)
                except FileNotFoundError:
                    yield name, None
                except OSError as error:
                    yield name, error
            return
        wanted = list(names)
        for start in range(0, len(wanted), _BATCH):
            batch = wanted[start : start + _BATCH]
            found = self._fs.cat([self._key(name) for name in batch], on_error="return")
            for name in batch:
                data = found[self._key(name)]
                if isinstance(data, BaseException) and not isinstance(data, FileNotFoundError):
                    raise data
                yield name, None if isinstance(data, FileNotFoundError) else bytes(data)

    def write(self, name: str, data: bytes) -> None:
        """Replace ``name`` by ``data``, whole or not at all."""
        if self.local is None:
            self._put(name, data)
            return
        target = self.local / name
        temporary = _synced_temporary(target, data)
        try:
            os.replace(temporary, target)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(target.parent)

    def create(self, name: str, data: bytes) -> None:
        """Write ``name`` if nothing has that name, else raise ``FileExistsError``.

        Exclusive on the local file system (a hard link, which NFS honours too). On object stores it is as exclusive as
        the service's conditional put: callers that need certainty read back what they wrote.
        """
        if self.local is None:
            self._fs.invalidate_cache()
            if self._fs.exists(self._key(name)):
                raise FileExistsError(self.path(name))
            self._put(name, data)
            return
        target = self.local / name
        temporary = _synced_temporary(target, data)
        try:
            os.link(temporary, target)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links: exclusive still, though a reader may see it half written
            with open(target, "xb") as file:
                file.write(data)
        finally:
            temporary.unlink()
        _sync_folder(target.parent)

    def names(self, folder: str, hidden: bool = False) -> list[str]:
        """Sorted names of the files directly in ``folder`` (without it), or of the hidden ones; [] if it is missing.

        A folder that is named like a Parquet file is among them, so that who reads it can say that it is none. Raises
        ``StoreError`` when ``folder`` is no folder, or may not be read.
        """
        if self.local is not None:
            try:
                with os.scandir(self.local / folder) as entries:
                    found = [entry.name for entry in entries if entry.is_file() or entry.name.endswith(".parquet")]
            except FileNotFoundError:
                return []
            except OSError as error:
                raise StoreError(f"{self.path(folder)} cannot be listed: {error.strerror or error}") from error
        else:
            self._fs.invalidate_cache()
            try:
                listed = self._fs.ls(self._key(folder), detail=True)
            except FileNotFoundError:
                return []
            found = [entry["name"].rsplit("/", 1)[-1] for entry in listed if entry["type"] == "file"]
        return sorted(name for name in found if name.startswith(".") == hidden)

    def stamps(self, folder: str) -> dict[str, Any]:
        """``names(folder)``, each with a value that is another one once the file was written again.

        Locally size, time of writing (ns) and inode; on object stores all that a listing tells, ETag included. None
        for a file that has gone meanwhile.
        """
        names = self.names(folder)
        if self.local is None:
            listed = self._fs.ls(self._key(folder), detail=True) if names else []
            told = {entry["name"].rsplit("/", 1)[-1]: repr(sorted(entry.items())) for entry in listed}
            return {name: told.get(name) for name in names}
        stamps: dict[str, Any] = dict.fromkeys(names)
        root = os.path.join(self.local, folder, "")
        for name in names:
            with contextlib.suppress(OSError):
                found = os.stat(root + name)
                stamps[name] = found.st_size, found.st_mtime_ns, found.st_ino
        return stamps

    def exists(self, name: str) -> bool:
        """Whether a file or folder ``name`` is there."""
        if self.local is not None:
            return (self.local / name).exists()
        self._fs.invalidate_cache()
        return bool(self._fs.exists(self._key(name)))

    def make_folder(self, name: str) -> None:
        """Make a folder where folders exist; object stores have none."""
        if self.local is not None:
            (self.local / name).mkdir(parents=True, exist_ok=True)

    def absent(self, folders: Iterable[str]) -> tuple[Path, ...]:
        """Of ``folders``, the root, the folders above it and our mutex: those not there, inner ones first."""
        if self.local is None:
            return ()
        places = [self.local / _MUTEX, *(self.local / name for name in folders), self.local, *self.local.parents]
        return tuple(place for place in places if not place.exists())

    def remove_empty(self, places: Iterable[Path]) -> None:
        """Remove those of ``absent`` that are there by now, unless something lies in them."""
        for place in places:
            with contextlib.suppress(OSError):
                if place.is_dir():
                    place.rmdir()
                else:
                    place.unlink()

    def remove(self, name: str) -> None:
        """Remove the file ``name`` if it is there."""
        with contextlib.suppress(FileNotFoundError):
            if self.local is not None:
                (self.local / name).unlink()
            else:
                self._fs.rm_file(self._key(name))

    def move(self, name: str, to: str) -> None:
        """Rename a file; on object stores a copy and a removal, in that order, so that the bytes are never lost."""
        if self.local is not None:
            (self.local / to).parent.mkdir(parents=True, exist_ok=True)
            os.replace(self.local / name, self.local / to)
        else:
            self.write(to, self.read(name))
            self.remove(name)

    def remove_old_temporaries(self, folder: str, older_than: float) -> int:
        """Remove what killed writers left in ``folder``: hidden temporaries older than ``older_than`` seconds."""
        if self.local is None:
            return 0
        count = 0
        for name in self.names(folder, hidden=True):
            path = self.local / folder / name
            with contextlib.suppress(FileNotFoundError):
                if name.endswith(".tmp") and time.time() - path.stat().st_mtime > older_than:
                    path.unlink()
                    count += 1
        return count

    @contextlib.contextmanager
    def mutex(self) -> Iterator[None]:
        """Keep other processes out for the few milliseconds of a read-modify-replace.

        An advisory file lock, released by the kernel when a process dies. Object stores and file systems without
        locks have none: there the store's lock (``orchestrator.lock``) alone keeps launchers apart.
        """
        if self.local is None:
            yield
            return
        import fcntl

        handle = os.open(self.local / _MUTEX, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            with contextlib.suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _put(self, name: str, data: bytes) -> None:
        key = self._key(name)
        try:
            self._fs.pipe_file(key, data)
        except FileNotFoundError:  # a file system with folders, such as HDFS
            self._fs.makedirs(key.rsplit("/", 1)[0], exist_ok=True)
            self._fs.pipe_file(key, data)

    def _key(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root


def _remote(uri: str) -> tuple[Any, str]:
    try:
        fs, root = fsspec.core.url_to_fs(uri)
        return fs, str(root)
    except (ImportError, ValueError) as missing:
        import pyarrow as pa
        from fsspec.implementations.arrow import ArrowFSWrapper
        from pyarrow.fs import FileSystem

        try:
            arrow, root = FileSystem.from_uri(uri)
        except (pa.ArrowException, OSError, ValueError):
            raise StoreError(f"cannot open {uri}: {missing}") from missing
        return ArrowFSWrapper(arrow), str(root)


def _read_local(path: str) -> bytes:
    handle = os.open(path, os.O_RDONLY)
    try:
        size = os.fstat(handle).st_size
        data = os.read(handle, size + 1)
        while len(data) < size:  # a single read stops at 2 GiB and on signals
            more = os.read(handle, size - len(data))
            if not more:
                break
            data += more
        return data
    finally:
        os.close(handle)


def _synced_temporary(target: Path, data: bytes) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.parent / f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp"
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _sync_folder(folder: Path) -> None:
    # The rename itself survives a power cut only once the folder is synced; not every file system allows that.
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
