"""Matplotlib figures as SVG that can stand inside an HTML page."""

from __future__ import annotations

import re
from html import escape
from io import StringIO

import matplotlib
from matplotlib.figure import Figure

from analysis.figures import INK


def inline_svg(figure: Figure, name: str, description: str) -> str:
    """``figure`` as one ``<svg>`` element without links or metadata, labelled for screen readers.

    ``name`` prefixes every id, so that several figures can share a page. Ink takes the page's text colour, which keeps
    the figure readable in the dark scheme. The same figure gives the same text.
    """
    out = StringIO()
    # Text stays text: smaller, searchable, and drawn in the page's font.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name, "font.family": "sans-serif"}):
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", svg).replace("xlink:href", "href")
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)
    svg = re.sub(re.escape(INK), "currentColor", svg, flags=re.IGNORECASE)
    svg = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font: \1 system-ui, sans-serif", svg)
    # The natural size is a maximum: a narrow screen scales the figure down.
    width = re.search(r'width="([\d.]+)pt"', svg)
    svg = re.sub(r'\s(width|height)="[\d.]+pt"', "", svg, count=2)
    style = f' style="max-width:{float(width.group(1)):.0f}pt"' if width else ""
    return svg.replace("<svg", f'<svg role="img" aria-label="{escape(description)}"{style}', 1).strip()
