"""Files of a user's own losses: known where the space is, part of the trial's identity, refused when wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from search_spaces import own_loss
from search_spaces.errors import SpaceError
from search_spaces.expand import Expansion, expand
from search_spaces.losses import LOSSES
from search_spaces.own_loss import revision, use_loss_files
from search_spaces.space import Space, load_space
from trainables.losses import make_loss
from trainables.losses.registry import BUILDERS

DOCS = Path(__file__).parents[2] / "docs"
(GAP,) = re.findall(r"```python\n(.*?)```", (DOCS / "add-a-loss.md").read_text(), re.DOTALL)
CLOSER = GAP.replace("negatives.mean() - positives.mean()", "negatives.max() - positives.min()")
BROKEN = "import math\n\nmath.sqrt(-1)\n"

SPACE: dict[str, Any] = {
    "regime": "quickstart-mnist",
    "loss_files": ["gap.py"],
    "tasks": ["mnist-8-low-shot"],
    "models": ["plain-mlp"],
    "inits": ["random"],
    "losses": ["hinge", "mean_gap(scale=2)"],
    "warmup_ratios": [0.1],
    "margins": [0.5],
    "seeds": [1],
}


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    losses, builders, used = dict(LOSSES), dict(BUILDERS), dict(own_loss._IN_USE)
    yield
    for table, before in ((LOSSES, losses), (BUILDERS, builders), (own_loss._IN_USE, used)):
        table.clear()
        table.update(before)  # type: ignore[arg-type]


def space(folder: Path, text: str | None = GAP, **changes: Any) -> Space:
    folder.mkdir(exist_ok=True)
    if text is not None:
        (folder / "gap.py").write_text(text)
    (folder / "space.yaml").write_text(yaml.safe_dump({**SPACE, **changes}))
    return load_space(folder / "space.yaml")


def of_loss(expansion: Expansion, name: str) -> Any:
    return next(trial for trial in expansion.trials.values() if trial.loss == name)


def test_a_space_can_name_a_loss_of_its_file(tmp_path: Path) -> None:
    found = expand(space(tmp_path))
    assert [cell.loss for cell in found.cells] == ["hinge", "mean_gap(scale=2)"]
    trial = of_loss(found, "mean_gap")
    assert trial.loss_revision == revision(GAP)
    loss = make_loss(trial.loss, margin=trial.margin, **trial.loss_params)
    assert loss(torch.tensor([0.5, 0.1, 0.3]), torch.tensor([1, 0, 0])).item() == pytest.approx(-0.6)


def test_the_space_of_the_page(tmp_path: Path) -> None:
    (written,) = re.findall(r"```yaml\n(.*?)```", (DOCS / "add-a-loss.md").read_text(), re.DOTALL)
    (tmp_path / "gap.py").write_text(GAP)
    (tmp_path / "gap-space.yaml").write_text(written)
    found = expand(load_space(tmp_path / "gap-space.yaml"))
    assert len(found.trials) == len(found.cells) == 3 + 2 * 2 * 3


def test_another_text_is_another_trial_but_not_another_prefix_nor_another_hinge(tmp_path: Path) -> None:
    first, second = (expand(space(tmp_path / name, text)) for name, text in (("a", GAP), ("b", CLOSER)))
    assert of_loss(first, "hinge") == of_loss(second, "hinge")
    one, other = of_loss(first, "mean_gap"), of_loss(second, "mean_gap")
    assert one.trial_id != other.trial_id
    assert one.prefix_id == other.prefix_id == of_loss(first, "hinge").prefix_id
    # and the later text is the one in use: largest negative minus smallest positive
    loss = make_loss("mean_gap", scale=1.0)
    assert loss(torch.tensor([0.5, 0.9, 0.1, 0.3]), torch.tensor([1, 1, 0, 0])).item() == pytest.approx(-0.2)
    assert expand(space(tmp_path / "a", None)).trials.keys() == first.trials.keys()


def test_losses_without_a_file_have_the_ids_they_had(tmp_path: Path) -> None:
    found = expand(space(tmp_path, loss_files=None, losses=["hinge"]))
    assert "loss_revision" not in of_loss(found, "hinge").as_dict()


def test_the_resolved_space_needs_no_file(tmp_path: Path) -> None:
    first = space(tmp_path)
    (tmp_path / "gap.py").unlink()
    del LOSSES["mean_gap"]
    own_loss._IN_USE.clear()
    again = Space.from_dict(first.to_dict())
    assert again.loss_files == {"gap.py": GAP}
    assert expand(again).trials.keys() == expand(first).trials.keys()


def test_a_phase_can_be_such_a_loss(tmp_path: Path) -> None:
    phases = {"soft": [{"loss": "mean_gap", "ce": 0.5}]}
    (trial,) = expand(space(tmp_path, losses=["soft"], margins=[], phases=phases)).trials.values()
    assert trial.loss_revision == revision(GAP)


def test_an_override_names_files_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here.py").write_text(GAP)
    monkeypatch.chdir(tmp_path)
    found = load_space("quickstart", ["loss_files=here.py", "losses=mean_gap", "margins=[]", "seeds=1"])
    assert {trial.loss for trial in expand(found).trials.values()} == {"mean_gap"}


@pytest.mark.parametrize(
    ("text", "files", "message"),
    [
        (None, ["gap.py"], "loss_files: gap.py: there is no such file"),
        (GAP, ["gap.txt"], "loss_files: should be Python files (.py), got 'gap.txt'"),
        (GAP, ["g\0.py"], "loss_files: 'g\\x00.py': embedded null byte"),
        (GAP, [3], "loss_files: should be Python files (.py), got 3"),
        (GAP, ["gap.py", "gap.py"], "loss_files: two files are named 'gap.py'"),
        (BROKEN, ["gap.py"], "loss_files: gap.py: ValueError (line 3): "),
        ("x = (", ["gap.py"], "loss_files: gap.py: SyntaxError (line 1): "),
        ("x = 1", ["gap.py"], "loss_files: gap.py: adds no loss: call trainables.losses.register_loss"),
        (
            GAP.replace('"mean_gap"', '"hinge"'),
            ["gap.py"],
            "loss_files: gap.py: LossError (line 10): there is a loss 'hinge' already",
        ),
    ],
)
def test_wrong_files_are_named_once(tmp_path: Path, text: str | None, files: list[Any], message: str) -> None:
    before = dict(LOSSES)
    with pytest.raises(SpaceError) as caught:
        space(tmp_path, text, loss_files=files, losses=["hinge", "mean_gapp"] if text == GAP else ["hinge", "mean_gap"])
    found = [problem for problem in caught.value.problems if problem.startswith("loss_files")]
    assert len(found) == 1
    assert found[0].replace(f"{tmp_path}/", "").startswith(message)
    if len(files) == 1:
        assert len(caught.value.problems) == 1
        assert before == LOSSES


def test_a_file_that_fails_adds_nothing(tmp_path: Path) -> None:
    with pytest.raises(SpaceError):
        use_loss_files({"gap.py": GAP + BROKEN})
    assert "mean_gap" not in LOSSES
    use_loss_files({"gap.py": GAP})
    assert LOSSES["mean_gap"].revision == revision(GAP)


def test_what_a_file_prints_is_no_part_of_the_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    space(tmp_path, "print('hello')\n" + GAP)
    assert capsys.readouterr() == ("", "hello\n")
