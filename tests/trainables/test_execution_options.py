"""channels_last, torch.compile and evaluation by length: the same results by another route."""

from __future__ import annotations

from functools import partialmethod
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from search_spaces.expand import expand
from search_spaces.own_task import load_own_card
from search_spaces.space import load_space
from trainables.context import TrialContext
from trainables.data import prepare_task
from trainables.data.content import TextSplit
from trainables.device import place
from trainables.evaluate import evaluation_order, score_split
from trainables.models import BuiltModel
from trainables.run import run_trial


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A task of small noisy images: bright against dark."""
    from PIL import Image

    root = tmp_path_factory.mktemp("films")
    random = np.random.RandomState(0)
    for label, mean in (("bright", 150), ("dark", 110)):
        (root / "images" / label).mkdir(parents=True)
        for number in range(24):
            pixels = random.normal(mean, 40, (12, 12, 3)).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(root / "images" / label / f"{number}.png")
    (root / "films.yaml").write_text(
        "name: films\nmodality: image\nkind: folder\nfolder: images\nimage_size: 12\npositive: bright\n"
        "splits: {by: seed, fractions: {train: 0.5, validation: 0.25, test: 0.25}}\n"
    )
    prepare_task(root / "films.yaml", root)
    return root


def trial(films: Path, **options: Any) -> Any:
    (films / "space.yaml").write_text(
        "regime: cv-resnet50\ntasks: [films.yaml]\nmodels: [small-cnn]\ninits: [random]\nlosses: [squared_hinge]\n"
        "warmup_ratios: [0.25]\nmargins: [0.5]\nseeds: [3]\nsettings: {epochs: 2, batch_size: 8, learning_rate: 0.01}\n"
    )
    (config,) = expand(load_space(films / "space.yaml")).trials.values()
    context = TrialContext(data_root=films, cards={"films": load_own_card(films / "films.yaml")}, **options)
    return run_trial(config, context)


@pytest.fixture(scope="module")
def plain(films: Path) -> Any:
    return trial(films)


def assert_equal_but_for_rounding(found: Any, expected: Any) -> None:
    for split in ("validation", "test"):
        assert found.scores[split] == pytest.approx(expected.scores[split], abs=1e-3)
    for a, b in zip(found.rows, expected.rows, strict=True):
        assert a["train_loss"] == pytest.approx(b["train_loss"], rel=1e-4)
        assert a["test_auc"] == pytest.approx(b["test_auc"], abs=1 / 36)  # one pair of 6 x 6 may change places


def test_channels_last_gives_the_same_results(films: Path, plain: Any) -> None:
    assert_equal_but_for_rounding(trial(films, channels_last=True), plain)


def test_channels_last_reaches_the_convolutions_and_names_stay() -> None:
    module = nn.Sequential(nn.Conv2d(4, 8, 3), nn.Flatten(), nn.Linear(8, 1))
    names, images = list(module.state_dict()), torch.randn(2, 4, 3, 3)
    expected = module(images)
    place(module, torch.device("cpu"), channels_last=True)
    assert module[0].weight.is_contiguous(memory_format=torch.channels_last)
    assert module[0](images).is_contiguous(memory_format=torch.channels_last)
    assert list(module.state_dict()) == names
    assert torch.allclose(module(images), expected, atol=1e-6)


def test_compiled_trial_gives_the_same_results(films: Path, plain: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Traced by dynamo and differentiated ahead of time; the code generator is left out, it needs minutes and a C++
    compiler."""
    graphs = []

    def keep(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Any:
        graphs.append(graph)
        return graph.forward

    monkeypatch.setattr(nn.Module, "compile", partialmethod(nn.Module.compile, backend=keep))
    found = trial(films, compiled=True)
    assert graphs
    assert_equal_but_for_rounding(found, plain)
    assert found.parameters == plain.parameters


def texts(pairs: bool = False) -> tuple[TextSplit, list[Any]]:
    words = ["a", "a much longer text", "some text", "", "middle"]
    held = [(word, "x" * index) for index, word in enumerate(words)] if pairs else words
    rows = np.array([4, 1, 0, 3, 2])
    return TextSplit(np.array([0, 1, 0, 1, 1]), rows, held), [held[row] for row in rows]


@pytest.mark.parametrize("pairs", [False, True])
def test_lengths_are_those_of_the_splits_own_rows(pairs: bool) -> None:
    split, shown = texts(pairs)
    assert split.lengths.tolist() == [len("".join(text)) for text in shown]


def test_texts_are_scored_longest_first_and_returned_in_order() -> None:
    split, shown = texts()
    asked: list[list[str]] = []

    def encode(raw: Any) -> Tensor:
        asked.append(raw)
        return torch.tensor([float(len(text)) for text in raw])

    model, device = BuiltModel(nn.Identity(), encode), torch.device("cpu")
    scores = score_split(model, split, name="test", epoch=1, batch_size=2, device=device)
    assert scores.tolist() == [len(text) for text in shown]
    assert asked == [["a much longer text", "some text"], ["middle", "a"], [""]]
    some = score_split(model, split, name="test", epoch=1, batch_size=2, device=device, rows=np.array([3, 0]))
    assert some.tolist() == [len(shown[3]), len(shown[0])]


def test_order_of_what_has_no_lengths_is_its_own() -> None:
    class Images:
        labels: NDArray[np.int64] = np.array([0, 1, 1])

        def fetch(self, indices: NDArray[np.int64], draws: NDArray[np.int64] | None = None) -> Tensor:
            return torch.zeros(len(indices))

    assert evaluation_order(Images(), np.array([5, 2, 9])).tolist() == [0, 1, 2]


def test_sorting_by_length_does_not_change_an_auc(tmp_path: Path) -> None:
    """A text trial with sorted batches against one whose split hides its lengths."""
    rows = [("word " * (1 + i * 7 % 11) + f"t{i % 5}", i % 3 == 0) for i in range(48)]
    pd.DataFrame(rows, columns=["t", "y"]).to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "t.yaml").write_text(
        "name: lines\nmodality: text\nkind: table\nfile: t.csv\ntext: t\nlabel: y\npositive: true\n"
        "splits: {by: seed, fractions: {train: 0.5, validation: 0.25, test: 0.25}}\n"
    )
    prepare_task(tmp_path / "t.yaml", tmp_path)
    (tmp_path / "space.yaml").write_text(
        "regime: drug-reviews\ntasks: [t.yaml]\nmodels: [small-transformer]\ninits: [random]\nlosses: [ce]\n"
        "seeds: [3]\nsettings: {epochs: 1, batch_size: 8}\n"
    )
    (config,) = expand(load_space(tmp_path / "space.yaml")).trials.values()
    context = TrialContext(tmp_path, cards={"lines": load_own_card(tmp_path / "t.yaml")}, eval_batch_size=5)
    by_length = run_trial(config, context)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trainables.evaluate.evaluation_order", lambda split, rows: np.arange(len(rows)))
        in_order = run_trial(config, context)
    assert by_length.scores["test"] == pytest.approx(in_order.scores["test"], abs=1e-5)
    assert by_length.rows[0]["test_auc"] == pytest.approx(in_order.rows[0]["test_auc"], abs=0.03)
