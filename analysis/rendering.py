"""One table, four formats: Markdown, CSV, LaTeX (booktabs) and HTML."""

from __future__ import annotations

import csv
import html
import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from analysis.errors import AnalysisError
from search_spaces.errors import nearest

DAGGER = "†"
ABSENT = "\u2013"

Mark = Literal["", "best", "second"]


@dataclass(frozen=True)
class Value:
    """A mean with its spread, in percent or percentage points.

    ``sd`` is NaN for n = 1 and then not shown. ``count`` is how n is shown beside the value, empty when the caption
    says it.
    """

    mean: float
    sd: float
    n: int
    mark: Mark = ""
    incomplete: bool = False
    count: str = ""
    signed: bool = False

    @property
    def mean_text(self) -> str:
        """The mean to two decimals; with its sign when ``signed``."""
        return f"{self.mean:+.2f}" if self.signed else f"{self.mean:.2f}"

    @property
    def sd_text(self) -> str:
        """The deviation to two decimals, empty when there is none."""
        return "" if math.isnan(self.sd) else f"{self.sd:.2f}"

    @property
    def suffix(self) -> str:
        """Count and dagger, as far as they are shown."""
        return (f" ({self.count})" if self.count else "") + (DAGGER if self.incomplete else "")


Entry = str | Value | None


@dataclass(frozen=True)
class Column:
    """What stands in a column.

    ``role``: ``block`` (heads a group of rows), ``data`` (in CSV only), ``group`` (not repeated on consecutive rows),
    ``text`` or ``value`` (in CSV five columns: mean, sd, n, mark, incomplete). ``key`` names the column in CSV, which
    leaves out columns without one.
    """

    key: str
    title: str
    role: Literal["block", "data", "group", "text", "value"]


@dataclass(frozen=True)
class Table:
    """What every format prints. ``rows[i][j]`` belongs to ``columns[j]``; None is an entry that does not exist."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Entry, ...], ...]
    caption: str
    notes: tuple[str, ...] = ()
    rule: str = ""

    def positions(self, *roles: str) -> list[int]:
        """The indices of the columns with these roles."""
        return [position for position, column in enumerate(self.columns) if column.role in roles]

    def starts(self, index: int, column: int) -> bool:
        """Whether row ``index`` begins a new value of ``column`` (or of a column before it)."""
        return index == 0 or self.rows[index][: column + 1] != self.rows[index - 1][: column + 1]


def render(table: Table, format: str = "md") -> str:
    """``table`` as text in ``format`` (md, csv, latex, html). Raises ``AnalysisError`` for another format."""
    try:
        return _FORMATS[format](table)
    except KeyError:
        raise AnalysisError(f"unknown table format {format!r}: {nearest(str(format), _FORMATS)}") from None


def _markdown(table: Table) -> str:
    if not table.rows:
        return table.caption + "\n"
    shown = table.positions("block", "group", "text", "value")
    lines = [[table.columns[position].title for position in shown]]
    for index, row in enumerate(table.rows):
        cells = []
        for position in shown:
            repeated = table.columns[position].role in ("block", "group") and not table.starts(index, position)
            cells.append("" if repeated else _markdown_entry(row[position]))
        lines.append(cells)
    widths = [max(3, *(len(line[place]) for line in lines)) for place in range(len(shown))]
    right = [table.columns[position].role == "value" for position in shown]
    rule = [("-" * (width - 1) + ":") if end else "-" * width for width, end in zip(widths, right, strict=True)]
    text = []
    for line in [lines[0], rule, *lines[1:]]:
        places = zip(line, widths, right, strict=True)
        padded = [cell.rjust(width) if end else cell.ljust(width) for cell, width, end in places]
        text.append(f"| {' | '.join(padded)} |")
    return "\n".join([*text, "", table.caption, *(f"\n{note}" for note in table.notes)]) + "\n"


def _markdown_entry(entry: Entry) -> str:
    if entry is None:
        return ABSENT
    if isinstance(entry, str):
        return entry.replace("|", "\\|")
    text = entry.mean_text + (f" ± {entry.sd_text}" if entry.sd_text else "")
    # GitHub shows <ins> underlined and drops <u>.
    marked = {"best": f"**{text}**", "second": f"<ins>{text}</ins>", "": text}[entry.mark]
    return marked + entry.suffix


def _csv(table: Table) -> str:
    header: list[str] = []
    shown = [position for position, column in enumerate(table.columns) if column.key]
    for column in (table.columns[position] for position in shown):
        parts = ("mean", "sd", "n", "mark", "incomplete")
        header += [f"{column.key}_{part}" for part in parts] if column.role == "value" else [column.key]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*header, *(["selection_rule"] if table.rule else [])])
    for row in table.rows:
        cells: list[object] = []
        for column, entry in ((table.columns[position], row[position]) for position in shown):
            if isinstance(entry, Value):
                sd = "" if math.isnan(entry.sd) else f"{entry.sd:.4f}"
                cells += [f"{entry.mean:.4f}", sd, entry.n, entry.mark, str(entry.incomplete).lower()]
            else:
                cells += [entry or ""] + [""] * (4 if column.role == "value" else 0)
        writer.writerow([*cells, *([table.rule] if table.rule else [])])
    return out.getvalue()


def _latex(table: Table) -> str:
    blocks, shown = table.positions("block"), table.positions("group", "text", "value")
    spec = "".join("r" if table.columns[position].role == "value" else "l" for position in shown)
    titles = " & ".join(_escape_latex(table.columns[position].title) for position in shown)
    lines = ["% needs \\usepackage{booktabs}", "\\begin{table}", "\\centering"]
    lines.append(f"\\caption{{{_escape_latex(table.caption)}}}")
    lines += [f"\\begin{{tabular}}{{{spec}}}", "\\toprule", f"{titles} \\\\"]
    for index, row in enumerate(table.rows):
        if index == 0 or any(table.starts(index, position) for position in blocks):
            lines.append("\\midrule")
            for position in blocks:
                name = _escape_latex(str(row[position]))
                lines.append(f"\\multicolumn{{{len(shown)}}}{{l}}{{\\textit{{{name}}}}} \\\\")
        cells = []
        for position in shown:
            repeated = table.columns[position].role == "group" and not table.starts(index, position)
            cells.append("" if repeated else _latex_entry(row[position]))
        lines.append(" & ".join(cells) + " \\\\")
    lines += ["\\bottomrule", "\\end{tabular}"]
    lines += [f"\\par\\smallskip\\footnotesize {_escape_latex(note)}" for note in table.notes]
    return "\n".join([*lines, "\\end{table}"]) + "\n"


def _latex_entry(entry: Entry) -> str:
    if entry is None:
        return "--"
    if isinstance(entry, str):
        return _escape_latex(entry)
    mean = entry.mean_text.replace("-", "$-$")
    body = mean + (f"$_{{\\pm {entry.sd_text}}}$" if entry.sd_text else "")
    marked = {"best": f"\\textbf{{{body}}}", "second": f"\\underline{{{body}}}", "": body}[entry.mark]
    return marked + (f" ({entry.count})" if entry.count else "") + ("$^{\\dagger}$" if entry.incomplete else "")


_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{"~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "\\": "\\textbackslash{}", "<": "$<$", ">": "$>$"},
    **{DAGGER: "$^{\\dagger}$", "±": "$\\pm$", "\u2013": "--"},
}


def _escape_latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


def _html(table: Table) -> str:
    blocks, shown = table.positions("block"), table.positions("group", "text", "value")
    head = "".join(
        f'<th scope="col"{_value_class(table.columns[position])}>{html.escape(table.columns[position].title)}</th>'
        for position in shown
    )
    lines = ['<table class="results">', f"<thead><tr>{head}</tr></thead>"]
    for index, row in enumerate(table.rows):
        if index == 0 or any(table.starts(index, position) for position in blocks):
            lines += [*(["</tbody>"] if index else []), "<tbody>"]
            for position in blocks:
                name = html.escape(str(row[position]))
                lines.append(f'<tr class="block"><th scope="rowgroup" colspan="{len(shown)}">{name}</th></tr>')
        cells = []
        for position in shown:
            column = table.columns[position]
            if column.role != "group":
                cells.append(f"<td{_value_class(column)}>{_html_entry(row[position])}</td>")
            elif table.starts(index, position):
                span = _run_length(table, index, position)
                spanned = f' rowspan="{span}"' if span > 1 else ""
                cells.append(f'<th scope="row"{spanned}>{_html_entry(row[position])}</th>')
        groups = [position for position in shown if table.columns[position].role == "group"]
        first = ' class="first"' if not groups or table.starts(index, groups[0]) else ""
        lines.append(f"<tr{first}>{''.join(cells)}</tr>")
    lines += [*(["</tbody>"] if table.rows else []), "</table>", f'<p class="caption">{html.escape(table.caption)}</p>']
    lines += [f'<p class="caption">{html.escape(note)}</p>' for note in table.notes]
    return "\n".join(lines) + "\n"


def _value_class(column: Column) -> str:
    return ' class="value"' if column.role == "value" else ""


def _run_length(table: Table, index: int, position: int) -> int:
    end = index + 1
    while end < len(table.rows) and not table.starts(end, position):
        end += 1
    return end - index


def _html_entry(entry: Entry) -> str:
    if entry is None:
        return f'<span class="absent">{ABSENT}</span>'
    if isinstance(entry, str):
        return html.escape(entry)
    body = entry.mean_text.replace("-", "\u2212")
    body = {"best": f"<strong>{body}</strong>", "second": f"<u>{body}</u>", "": body}[entry.mark]
    spread = f' <span class="sd">± {entry.sd_text}</span>' if entry.sd_text else ""
    extra = f'<span class="count">{html.escape(entry.suffix)}</span>' if entry.suffix else ""
    return f"{body}{spread}{extra}"


_FORMATS: dict[str, Callable[[Table], str]] = {"md": _markdown, "csv": _csv, "latex": _latex, "html": _html}
FORMATS = tuple(_FORMATS)
