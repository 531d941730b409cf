"""Tables against hand-made golden files and a naive recomputation of the marks."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

from analysis import gain_table, main_table, matched_gain, matched_table, select, warmup_gain
from analysis.errors import AnalysisError
from analysis.extensions import build_deep_auc_table
from analysis.paper import published, published_binary
from analysis.rendering import Column, Table, Value, render
from analysis.tables import build_main_table, mark_best

Frame = Callable[..., pd.DataFrame]


def test_golden_markdown(golden: Path, golden_runs: pd.DataFrame) -> None:
    assert main_table(golden_runs) == (golden / "main_table.md").read_text()


def test_golden_csv(golden: Path, golden_runs: pd.DataFrame) -> None:
    found = list(csv.DictReader(main_table(golden_runs, "csv").splitlines()))
    rules = {row.pop("selection_rule") for row in found}
    assert found == list(csv.DictReader((golden / "main_table.csv").read_text().splitlines()))
    assert len(rules) == 1
    assert "largest mean validation AUC" in rules.pop()


def test_golden_latex(golden: Path, golden_runs: pd.DataFrame) -> None:
    text = main_table(golden_runs, "latex")
    assert (golden / "main_table_body.tex").read_text() in text
    assert text.count("\\begin{") == text.count("\\end{") == 2
    assert "Test AUC (\\%)" in text


def test_golden_html(golden_runs: pd.DataFrame) -> None:
    text = main_table(golden_runs, "html")
    assert '<strong>81.50</strong> <span class="sd">± 0.71</span>' in text
    assert '<u>71.00</u> <span class="sd">± 1.41</span>' in text
    assert '65.00<span class="count"> (1/2)†</span>' in text
    assert text.count("<strong>") == text.count("<u>") == 1
    assert '<th scope="row" rowspan="2">toy-task</th>' in text


def test_golden_gain_table(golden: Path, golden_runs: pd.DataFrame) -> None:
    text = gain_table(warmup_gain(golden_runs), "md")
    # The logistic setting has no gain yet: its entries are absent, not zero.
    assert text.startswith((golden / "gain.md").read_text())


def test_columns_layout(golden_runs: pd.DataFrame) -> None:
    lines = main_table(golden_runs, layout="columns").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[:3]]
    titles = ["CE", "Hinge direct", "Hinge warm-up", "Logistic direct", "Logistic warm-up"]
    assert cells[0] == ["Model", "Task", *titles]
    values = ["68.50 ± 3.54 (2)", "<ins>71.00 ± 1.41</ins> (2)", "**81.50 ± 0.71** (2)", "65.00 (1/2)†", "–"]  # noqa: RUF001
    assert cells[2] == ["plain-mlp (random)", "toy-task", *values]


def test_common_n_is_said_once(frame: Frame) -> None:
    rows = [
        {"loss": loss, "margin": float("nan"), "val": 0.8, "test": test, "seed": seed}
        for loss, test in (("logistic", 0.7), ("exponential", 0.6))
        for seed in (1, 2)
    ]
    text = main_table(frame(*rows))
    assert "over n = 2 seeds" in text
    assert "**70.00 ± 0.00** |" in text


def test_one_seed_has_no_deviation(frame: Frame) -> None:
    text = main_table(frame({"val": 0.8, "test": 0.7}))
    assert "70.00 |" in text
    assert "±" not in text
    assert "n = 1 seed." in text


def test_one_of_several_planned_seeds(frame: Frame) -> None:
    text = main_table(
        frame(
            {"val": 0.8, "test": 0.7, "seeds_planned": 3},
            {"loss": "square", "val": 0.8, "test": 0.6, "seeds_planned": 3},
        )
    )
    assert "**70.00**†" in text
    assert "n = 1 seed of 3 planned" in text


def test_only_ce(frame: Frame) -> None:
    text = main_table(frame({"loss": "ce", "mode": "ce", "margin": float("nan"), "val": 0.8, "test": 0.7}))
    assert [cell.strip() for cell in text.splitlines()[2].strip("|").split("|")] == [
        "plain-mlp (random)",
        "toy-task",
        "CE",
        "70.00",
    ]


def test_unlisted_losses_follow_by_name(frame: Frame) -> None:
    runs = frame(*({"loss": loss, "val": 0.8, "test": 0.7} for loss in ("zeta", "alpha_beta", "square")))
    header = [cell.strip() for cell in main_table(runs).splitlines()[0].strip("|").split("|")]
    assert header == ["Model", "Task", "Mode", "Square", "alpha beta", "zeta"]


def test_a_loss_has_one_name_everywhere(frame: Frame) -> None:
    names = ["squared_hinge", "aucm", "aucm_closed", "aucm(variant=libauc-2.0.1)", "partial_auc(max_fpr=0.1)"]
    titles = ["Sq.-hinge", "Deep-AUC", "Deep-AUC closed form", "Deep-AUC (variant=libauc-2.0.1)"]
    titles.append("partial auc (max_fpr=0.1)")
    rows = [
        {"loss": loss, "mode": mode, "init": init, "warmup_ratio": float(mode == "warmup"), "val": 0.8, "test": 0.7}
        for loss in names
        for mode in ("direct", "warmup")
        for init in ("random", "pretrained")
    ]
    runs = frame(*rows)
    deep = render(build_deep_auc_table(select(runs)))
    for text in (main_table(runs), gain_table(warmup_gain(runs)), matched_table(matched_gain(runs))):
        assert all(re.search(rf"\| +{re.escape(title)} +\|", text) for title in titles)
        assert not any(name in text for name in names)
    assert all(f"| {title} |" in re.sub(r" +", " ", deep) for title in titles[1:4])
    assert "Sq.-hinge direct" in deep or "partial auc (max_fpr=0.1) direct" in deep
    columns = main_table(runs, layout="columns")
    assert all(f"{title} {mode} |" in columns for title in titles for mode in ("direct", "warm-up"))


def test_the_caption_says_what_was_selected_over(frame: Frame) -> None:
    row = {"val": 0.8, "test": 0.7, "settings": "a"}
    always = "(warm-up ratio, margin, epochs, batch size, learning rate{})"
    for others, more in (
        ([{"margin": 0.1, "settings": "b"}], ""),
        ([{"loss_params": '{"tau": 2}', "settings": "b"}], ", loss parameters"),
        ([{"settings": "b"}], ", other settings"),
        ([{"settings": "b"}, {"loss_params": '{"tau": 2}', "settings": "c"}], ", loss parameters, other settings"),
        ([{"task": "other", "loss_params": '{"tau": 2}', "settings": "b"}], ""),
    ):
        runs = frame(row, *({**row, **other} for other in others))
        assert always.format(more) in main_table(runs)
        assert always.format(more) in gain_table(warmup_gain(runs))


def test_models_and_inits_are_separate_blocks(frame: Frame) -> None:
    rows = [
        {"init": init, "loss": loss, "val": 0.8, "test": test}
        for init, tests in (("random", (0.5, 0.6)), ("pretrained", (0.7, 0.8)))
        for loss, test in zip(("hinge", "square"), tests, strict=True)
    ]
    text = main_table(frame(*rows))
    assert text.count("**") == 4
    assert text.index("plain-mlp (random)") < text.index("plain-mlp (pretrained)")


@pytest.mark.parametrize("name", ["latx", "markdown", "LATEX", ""])
def test_unknown_format(golden_runs: pd.DataFrame, name: str) -> None:
    with pytest.raises(AnalysisError, match=r"unknown table format.*allowed: csv, html, latex, md"):
        main_table(golden_runs, name)


def test_unknown_layout(golden_runs: pd.DataFrame) -> None:
    with pytest.raises(AnalysisError, match="did you mean columns"):
        main_table(golden_runs, layout="column")  # type: ignore[arg-type]


def value(mean: float, **other: object) -> Value:
    return Value(mean, 0.1, 3, **other)  # type: ignore[arg-type]


def marks(*values: Value) -> list[str]:
    return [found.mark for found in mark_best({("loss", str(i)): v for i, v in enumerate(values)}).values()]


def test_equal_looking_entries_share_a_mark() -> None:
    assert marks(value(70.001), value(70.004), value(69.0), value(69.004), value(1.0)) == [
        "best",
        "best",
        "second",
        "second",
        "",
    ]


def test_incomplete_entries_are_ranked_only_among_themselves() -> None:
    assert marks(value(90.0, incomplete=True), value(70.0), value(60.0)) == ["", "best", "second"]
    assert marks(value(90.0, incomplete=True), value(70.0, incomplete=True)) == ["best", "second"]


def test_single_entry_is_not_marked() -> None:
    assert marks(value(70.0)) == [""]


def test_special_characters_are_escaped() -> None:
    name = r"a|b_c & <d> 50% {x} \y #1 $ ^ ~"
    table = Table(
        (Column("task", "Task", "group"), Column("x", "x_y", "value")), ((name, value(1.0)),), f"About {name}"
    )
    assert r"a\|b_c" in render(table, "md").splitlines()[2]
    latex = render(table, "latex")
    escaped = r"a|b\_c \& $<$d$>$ 50\% \{x\} \textbackslash{}y \#1 \$ \textasciicircum{} \textasciitilde{}"
    assert latex.count(escaped) == 2
    assert "<d>" not in render(table, "html")
    assert next(iter(csv.DictReader(render(table, "csv").splitlines())))["task"] == name


class Balanced(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        if tag in ("td", "th"):
            self.cells += int(dict(attrs).get("rowspan") or 1) * int(dict(attrs).get("colspan") or 1)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_html_is_balanced_and_every_row_is_full() -> None:
    parser = Balanced()
    parser.feed(render(build_main_table(published_binary()), "html"))
    assert parser.open == []
    # Header, four model headings, and two rows for each of 25 settings, eight columns each.
    assert parser.cells == 8 * (1 + 4 + 2 * 25)


def test_marks_of_the_published_table_equal_a_naive_recomputation() -> None:
    printed: dict[tuple[str, str], list[tuple[float, str, str]]] = defaultdict(list)
    for row in published("binary").to_dict("records"):
        printed[row["model"], row["task"]].append((row["mean_auc_percent"], row["loss"], row["mode"]))
    expected = []
    for entries in printed.values():
        ranked = sorted({mean for mean, _, _ in entries}, reverse=True)
        expected += [(mean, loss, mode, "best") for mean, loss, mode in entries if mean == ranked[0]]
        expected += [(mean, loss, mode, "second") for mean, loss, mode in entries if mean == ranked[1]]
    found = []
    for line in csv.DictReader(render(build_main_table(published_binary()), "csv").splitlines()):
        for column, mark in line.items():
            if column.endswith("_mark") and mark:
                loss = column.removesuffix("_mark")
                mode = "ce" if loss == "ce" else line["mode"]
                found.append((float(line[f"{loss}_mean"]), loss, mode, mark))
    assert sorted(found) == sorted(expected)
    assert len([mark for *_, mark in found if mark == "best"]) >= 25


def test_every_published_value_is_printed() -> None:
    text = render(build_main_table(published_binary()), "md")
    found = re.findall(r"(\d+\.\d\d) ± (\d+\.\d\d)", text)
    expected = [
        (f"{row.mean_auc_percent:.2f}", f"{row.sample_std_percent:.2f}") for row in published("binary").itertuples()
    ]
    assert sorted(found) == sorted(expected)
    assert len(found) == 275


def test_select_frame_is_what_the_table_shows(fill_store: Callable[..., object]) -> None:
    store = fill_store("smoke")
    line = next(csv.DictReader(main_table(store, "csv").splitlines()))  # type: ignore[arg-type]
    chosen = select(store).set_index(["loss", "mode"])  # type: ignore[arg-type]
    for loss in ("logistic", "squared_hinge"):
        assert float(line[f"{loss}_mean"]) == pytest.approx(100 * chosen.loc[(loss, "direct"), "test_mean"], abs=1e-4)
