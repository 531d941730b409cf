"""aucsweep: sweeps for deep AUC optimisation.

The Python facade: ``load_space`` reads what to run, ``make_plan`` counts it, ``launch`` runs what a store lacks, and
``open_store`` reads what is there. Nothing heavy is imported before it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from orchestrator.launching import launch
    from orchestrator.plan import make_plan
    from orchestrator.store import open_store
    from search_spaces.space import load_space

__all__ = ["__version__", "launch", "load_space", "make_plan", "open_store"]

_HOMES = {
    "load_space": "search_spaces.space",
    "make_plan": "orchestrator.plan",
    "launch": "orchestrator.launching",
    "open_store": "orchestrator.store",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
