"""The report: self-contained, well-formed, and right for stores in every state."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from analysis.errors import AnalysisError
from analysis.report import render_report, write_report
from orchestrator.store import Store
from search_spaces.errors import StoreError
from search_spaces.expand import expand
from search_spaces.space import load_space
from search_spaces.trial import TrialConfig

FillStore = Callable[..., Store]

VOID = {"meta", "link", "br", "img", "hr", "input"}
SECTIONS = ["run", "table", "gain", "curves", "failures", "environment", "resume"]


class Page(HTMLParser):
    """Checks that tags are balanced and ids unique, and collects links and visible text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        assert self.open == []
        assert len(self.ids) == len(set(self.ids))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(str(value))
            if name in ("href", "src", "srcset", "data", "action"):
                self.links.append(str(value))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "svg"} & set(self.open):
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


def checked(text: str, nans: int = 0) -> Page:
    """The page, after checking what holds for every report; ``nans`` failures of that kind may be named."""
    page = Page(text)
    assert [name for name in page.ids if name in SECTIONS] == SECTIONS
    assert all(link.startswith("#") or link == "data:," for link in page.links)
    assert all(link[1:] in page.ids for link in page.links if link.startswith("#") and len(link) > 1)
    assert "http" not in text
    assert "@import" not in text
    assert "<script" not in text
    assert not re.search(r"url\((?!#)", text)
    assert page.text.split().count("nan") == nans
    return page


def test_finished_store(fill_store: FillStore) -> None:
    store = fill_store("quickstart", ONE_TASK)
    text = render_report(store)
    page = checked(text)
    assert "135 / 135" in page.text
    assert "over n = 3 seeds" in page.text
    assert "No trial has failed." in page.text
    assert "CE warm-up has the higher selected test AUC in 5 of 5 settings" in page.text
    assert text.count("<svg") == 2
    assert "Incomplete configurations" not in page.text
    assert "abc123 with uncommitted changes" in page.text
    assert "aucsweep resume" not in page.text


ONE_TASK = ("tasks=mnist-8-low-shot", "warmup_ratios=0,0.05,0.1,0.2")
"""Overrides that make 135 trials of the quickstart's space."""


def half_store(fill_store: FillStore) -> tuple[Store, list[TrialConfig]]:
    configs = list(expand(load_space("quickstart", ONE_TASK)).trials.values())
    kept = {config.trial_id for config in configs[:70]}
    return fill_store("quickstart", ONE_TASK, keep=lambda config: config.trial_id in kept), configs[70:]


def test_partly_finished_store_with_failures_and_a_broken_file(fill_store: FillStore) -> None:
    store, missing = half_store(fill_store)
    store.write_failure(missing[0], "oom", "first attempt", "old traceback", "", attempt=1)
    store.write_failure(missing[0], "nan", "loss is <NaN> & more", "Traceback: <module>", "", attempt=2)
    broken = sorted(Path(store.uri, "runs").glob("*.parquet"))[0]
    broken.write_bytes(broken.read_bytes()[:-20])
    text = render_report(store)
    page = checked(text, nans=1)
    assert "69 / 135" in page.text
    assert f"Treated as absent: {broken.name}" in page.text
    assert "1 trial is failed now: 1 nan." in page.text
    assert "loss is &lt;NaN&gt; &amp; more" in text
    assert "Traceback: &lt;module&gt;" in text
    assert "old traceback" not in text
    assert "66 cells are missing" in page.text
    assert "(failed: nan)" in page.text
    assert f"aucsweep resume --store {store.uri}" in page.text
    assert f"aucsweep retry --store {store.uri}" in page.text


def test_recovered_failure_is_not_listed(fill_store: FillStore) -> None:
    store = fill_store("smoke")
    config = next(iter(expand(load_space("smoke", ())).trials.values()))
    store.write_failure(config, "lost", "worker gone")
    page = checked(render_report(store))
    assert "1 trial failed first and finished later. No trial is failed now." in page.text
    assert "worker gone" not in page.text


@pytest.mark.parametrize(
    "keep",
    [
        lambda config: False,
        lambda config: config.loss == "ce",
        lambda config: config.mode == "direct",
        lambda config: config.mode == "warmup",
        lambda config: config.seed == 123,
        lambda config: config.loss == "logistic" and config.seed == 124,
    ],
    ids=["nothing", "only-ce", "no-warmup", "no-direct", "one-seed", "one-loss-one-seed"],
)
def test_every_partial_state_renders(fill_store: FillStore, keep: Callable[[TrialConfig], bool]) -> None:
    checked(render_report(fill_store("smoke", keep=keep)))


def test_store_of_several_tasks_models_and_inits(fill_store: FillStore) -> None:
    overrides = ("tasks=[aptos, deepweeds, crj700-crj900]", "losses=[ce, hinge]", "margins=[0.1]", "seeds=[123]")
    store = fill_store("cv-resnet50", (*overrides, "inits=[random, pretrained]", "warmup_ratios=[0, 0.1]"))
    text = render_report(store)
    page = checked(text)
    assert text.count("<svg") == 1 + 1 + 6
    assert "Best entry over 6 settings (task, model, initialisation): " in page.text
    assert page.text.index("resnet50 (random)") < page.text.index("resnet50 (pretrained)")
    assert "matched" in page.ids
    assert "#matched" in page.links
    assert "over 3 settings" in page.text


def test_matched_section_is_there_only_with_pairs(fill_store: FillStore) -> None:
    assert "matched" not in checked(render_report(fill_store("smoke"))).ids
    grid = ("losses=[ce, hinge]", "margins=[0.1]", "warmup_ratios=[0, 0.1]")
    overrides = ("tasks=[aptos]", "inits=[random, pretrained]", *grid)
    one_sided = fill_store("cv-resnet50", overrides, keep=lambda config: config.init == "random", name="one-sided")
    assert "matched" not in checked(render_report(one_sided)).ids
    unequal = fill_store(
        "cv-resnet50", overrides, keep=lambda config: config.init == "random" or config.seed == 123, name="unequal"
    )
    page = checked(render_report(unequal))
    assert "No setting is matched." in page.text
    assert "Left out: aptos, resnet50, Hinge: seed 124, 125, 126, 127 only with random." in page.text


def test_write_report(tmp_path: Path, fill_store: FillStore) -> None:
    store = fill_store("smoke")
    path = write_report(store.uri, tmp_path / "report.html")
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [file.name for file in tmp_path.glob("*report*")] == ["report.html"]


def test_no_store_and_no_folder(tmp_path: Path, fill_store: FillStore) -> None:
    with pytest.raises(StoreError, match="no store"):
        write_report(tmp_path / "nothing", tmp_path / "report.html")
    with pytest.raises(AnalysisError, match="it is a folder"):
        write_report(fill_store("smoke"), tmp_path)
    with pytest.raises(AnalysisError, match="there is no folder"):
        write_report(fill_store("smoke"), tmp_path / "missing" / "report.html")


def test_store_without_a_launch(tmp_path: Path) -> None:
    from orchestrator.store import open_store

    page = checked(render_report(open_store(tmp_path / "bare", create=True)))
    assert "The store records no launch." in page.text
    assert "0 / 0" in page.text
