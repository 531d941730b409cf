"""Every file of a folder of the store; given a memory, a file is read again only when it has changed.

Files of ``runs`` and ``failures`` are never changed, only added, replaced as a whole and removed. Whoever looks again
and again (``status --watch``) keeps a memory; everything that decides what to run reads every byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from orchestrator.files import Files

Found = TypeVar("Found")
Memory = dict[str, dict[str, tuple[Any, Any]]]
"""By folder and file name: the file's stamp (``Files.stamps``) and what was found in it. Starts as ``{}``."""

_ROUNDS = 5


def each_file(
    files: Files, folder: str, find: Callable[[str, bytes | OSError], Found], memory: Memory | None = None
) -> Iterator[tuple[str, Found]]:
    """``(name, find(name, its bytes))`` of every file directly in ``folder``, each once, names in order.

    ``find`` gets the error of a file that cannot be read. A file that vanishes meanwhile was merged by ``compact`` into
    one that a new listing shows. What is found in a file is kept in ``memory`` under the stamp it had before it was
    read, so that one that changes while it is read is read again the next time.
    """
    known = {} if memory is None else memory.setdefault(folder, {})
    seen: set[str] = set()
    for _ in range(_ROUNDS):
        stamps = dict.fromkeys(files.names(folder)) if memory is None else files.stamps(folder)
        for name in known.keys() - stamps.keys():
            del known[name]
        changed = []
        for name in [name for name in stamps if name not in seen]:
            remembered = known.get(name)
            if remembered is not None and remembered[0] == stamps[name]:
                seen.add(name)
                yield name, remembered[1]
            else:
                changed.append(name)
        vanished = False
        for path, data in files.read_many([f"{folder}/{name}" for name in changed]):
            if data is None:
                vanished = True
                continue
            name = path.removeprefix(f"{folder}/")
            seen.add(name)
            found = find(name, data)
            if stamps[name] is not None and not isinstance(data, OSError):
                known[name] = stamps[name], found
            yield name, found
        if not vanished:
            return
