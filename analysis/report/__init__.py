"""The report: one self-contained HTML file that needs no network, readable on a phone and in print."""

from __future__ import annotations

import warnings
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from analysis.errors import AnalysisError, BrokenRunWarning
from analysis.load import Source, open_for_reading
from analysis.report.content import gather

__all__ = ["render_report", "write_report"]


def render_report(store: Source) -> str:
    """The report of ``store`` as HTML text. Works on a store that is empty, running or finished.

    Files that cannot be read are named at the top of the page. Raises ``StoreError`` when there is no store.
    """
    opened = open_for_reading(store)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", BrokenRunWarning)
        content = gather(opened)
    notices = list(dict.fromkeys(str(item.message) for item in caught if issubclass(item.category, BrokenRunWarning)))
    content.notices.extend(notice[:1].upper() + notice[1:] for notice in notices)
    here = files("analysis.report")
    # StrictUndefined: a misspelt name in the template fails a test instead of leaving a hole in the page.
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=False)
    template = environment.from_string(here.joinpath("report.html.j2").read_text(encoding="utf-8"))
    css = here.joinpath("style.css").read_text(encoding="utf-8")
    return template.render(r=content, css=Markup(css))  # our own file, not input


def write_report(store: Source, path: str | Path) -> Path:
    """Write ``render_report(store)`` to ``path`` (whole or not at all) and return the path.

    Raises ``StoreError`` when there is no store and ``AnalysisError`` when the folder does not exist.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise AnalysisError(f"cannot write {target}: there is no folder {target.parent}")
    if target.is_dir():
        raise AnalysisError(f"cannot write {target}: it is a folder")
    text = render_report(store)
    partial = target.with_name(f".{target.name}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(target)
    return target
