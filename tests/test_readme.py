"""What README and the docs say exists, exists, and their examples run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
import typer.main
import yaml

from aucsweep.cli import app
from search_spaces.expand import expand
from search_spaces.losses import LOSSES
from search_spaces.space import load_space
from trainables import metrics
from trainables.losses.registry import BUILDERS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_their_options_exist(page: Path) -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for line in "\n".join(blocks(page.read_text(), "console")).splitlines():
        call = re.match(r"\$ aucsweep (\w[\w-]*)( [^#]*)?", line)
        if call is None:
            continue
        assert call[1] in commands, f"{page.name}: {line}"
        command = commands[call[1]]
        words = (call[2] or "").split()
        if hasattr(command, "commands"):
            command = command.commands[words[0]]
        known = {option for parameter in command.params for option in parameter.opts}
        for option in re.findall(r"(?:^| )(--?[a-z][\w-]*)", call[2] or ""):
            assert option in known, f"{page.name}: {line}"


def test_every_command_is_in_the_list_of_commands() -> None:
    section = README.split("## Commands")[1].split("\n## ")[0]
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        names = [f"{name} {inner}" for inner in command.commands] if hasattr(command, "commands") else [name]
        assert all(f"`{listed}`" in section for listed in names), name


def test_counts_in_the_readme() -> None:
    paper = expand(load_space("paper"))
    assert f"{paper.product:,} runs" in README
    assert f"{len(paper.cells):,} cells" in README
    assert f"{len(paper.trials):,} trials" in README
    assert f"{len(expand(load_space('quickstart')).trials)} trials" in README


def test_own_task_in_the_readme_is_the_one_of_the_docs() -> None:
    (text,) = [block for block in blocks(README, "yaml") if "modality" in block]
    documented = [yaml.safe_load(block) for block in blocks((ROOT / "docs" / "spaces.md").read_text(), "yaml")]
    assert yaml.safe_load(text) in documented


def test_phases_in_the_readme(tmp_path: Path) -> None:
    (text,) = [block for block in blocks(README, "yaml") if "phases" in block]
    grid = yaml.safe_load((ROOT / "search_spaces" / "presets" / "quickstart.yaml").read_text())
    (tmp_path / "space.yaml").write_text(yaml.safe_dump({**grid, **yaml.safe_load(text)}))
    trials = expand(load_space(tmp_path / "space.yaml", ["seeds=1", "margins=0.5", "warmup_ratios=0"])).trials.values()
    assert sorted({trial.loss for trial in trials}) == ["ce", "phases", "squared_hinge"]


def test_own_loss_in_the_readme(monkeypatch: pytest.MonkeyPatch) -> None:
    for table in (LOSSES, BUILDERS):  # undone after the test
        monkeypatch.setitem(table, "mean_gap", None)
        monkeypatch.delitem(table, "mean_gap")
    (code,) = [block for block in blocks(README, "python") if "register_loss" in block]
    names: dict[str, object] = {}
    exec(code, names)
    loss = names["loss"]
    scores = torch.tensor([0.5, 2.0, 1.0, 3.0], requires_grad=True)
    value = loss(scores, torch.tensor([0, 1, 0, 1]))  # type: ignore[operator]
    value.backward()
    assert float(value.detach()) == 0.75 - 2.5
    assert scores.grad is not None
    assert scores.grad.tolist() == [0.5, -0.5, 0.5, -0.5]


def test_example_and_list_of_the_metrics() -> None:
    text = (ROOT / "docs" / "metrics.md").read_text()
    (code,) = blocks(text, "python")
    names: dict[str, Any] = {}
    exec(code, names)
    assert (names["auc"], names["worst"], names["ovo"]) == (0.75, 0.5, 1.0)
    assert names["interval"].low < 0.75 < names["interval"].high
    functions = [name for name in metrics.__all__ if name[0].islower() and name != "roc_points"]
    assert [name for name in functions if f"`{name}" not in text] == []
