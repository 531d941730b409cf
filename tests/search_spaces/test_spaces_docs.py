"""Every example of docs/spaces.md does what the page says."""

import re
import shlex
from pathlib import Path

import pytest

from search_spaces.cards import SPLITS
from search_spaces.expand import expand
from search_spaces.own_task import read_own_task, write_card
from search_spaces.regimes import REGIMES
from search_spaces.settings import Settings
from search_spaces.space import load_space

PAGE = (Path(__file__).parents[2] / "docs" / "spaces.md").read_text()
FILES = dict(re.findall(r"```yaml\n# file: (\S+)\n(.*?)```", PAGE, re.DOTALL))
COMMANDS = re.findall(r"^\$ aucsweep plan (.*)$", PAGE, re.MULTILINE)


@pytest.fixture
def folder(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_every_block_is_tested():
    assert len(FILES) == PAGE.count("```yaml")
    assert len(COMMANDS) == 7


@pytest.mark.parametrize("name", [name for name, text in FILES.items() if "data prepare" in text])
def test_task_files(folder, name):
    assert read_own_task(folder / name).name == name.removesuffix(".yaml")


@pytest.mark.parametrize(
    ("name", "cells", "product"),
    [
        ("my-space.yaml", 21, 27),
        ("two-parts.yaml", 4 * (3 + 6) + (3 + 6), 45),
        ("easy-to-hard.yaml", 3 + 3 * 2 * 2 * 3, 39),
        ("complaints-space.yaml", 2 * (5 + 15), 40),
    ],
)
def test_space_files(folder, name, cells, product):
    write_card(folder / "complaints.yaml", dict.fromkeys(SPLITS, (100, 50)), "f00d")
    expansion = expand(load_space(folder / name))
    assert (len(expansion.cells), len(expansion.trials), expansion.product) == (cells, cells, product)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands(command):
    source, *words = shlex.split(command)
    overrides = [word for word in words if word != "-o"]
    assert expand(load_space(source, overrides)).trials


def test_a_space_of_several_parts_is_reduced_to_one_in_two_ways():
    reduced = expand(load_space("extensions-offline", ["parts.1=null", "parts.2=null"]))
    assert "`extensions-offline` to `mnist-lt`, 15 trials" in PAGE
    assert (len(reduced.trials), reduced.product) == (15, 15)
    merged = expand(load_space("extensions-offline", ["regime=mnist-lt", "tasks=mnist-lt", "models=plain-mlp"]))
    assert (list(merged.trials), merged.cells) == (list(reduced.trials), reduced.cells)
    assert merged.product == 45


def test_every_setting_and_regime_is_described():
    described = set(re.findall(r"`([\w-]+)`", PAGE))
    assert set(Settings.model_fields) <= described
    assert set(REGIMES) <= described


def test_python_example(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(code, {})
    first, second = capsys.readouterr().out.splitlines()
    assert first.split()[:2] == ["46", "46"]  # 2 tasks x (CE + 3 margin losses x 2 x 3 + 2 others x 2)
    assert second.split()[1:] == ["ce", "0", "188"]


def test_figures_of_the_page(paper):
    assert f"{paper.product:,} runs" in PAGE
    assert f"{len(paper.cells):,} cells" in PAGE
    assert f"{len(paper.trials):,} trials" in PAGE
    assert f"{paper.updates_with_shared_prefixes / 1e6:.1f} million" in PAGE
    assert f"{paper.updates_product / 1e6:.1f} million" in PAGE
