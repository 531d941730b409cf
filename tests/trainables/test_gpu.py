"""On CUDA: losses and kernels equal the CPU's, tiny trials run in every precision, and a cut trial goes on.

Everything is compared with the CPU, where the other tests hold it against loops and closed forms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from search_spaces.expand import expand
from search_spaces.losses import LOSSES
from search_spaces.own_task import load_own_card
from search_spaces.space import load_space
from search_spaces.trial import TrialConfig
from tests.trainables.miniatures import TEXT_MODELS, write_text_model
from trainables.checkpoint import TrainState
from trainables.context import TrialContext
from trainables.data import prepare_task
from trainables.device import execution, peak_memory_bytes
from trainables.losses import make_loss
from trainables.losses.kernels import column_sums, row_sums
from trainables.losses.pairwise import PairwiseLoss
from trainables.losses.surrogates import SURROGATES, Surrogate
from trainables.run import TrialResult, advance, prepare_run, result, run_trial

DEVICE = torch.device("cuda:0")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="needs a CUDA device (torch.cuda.is_available() is False)"
    ),
]

CASES = [(card.name, kind) for card in LOSSES.values() for kind in card.kinds]
WEIGHTED = [(name, kind) for name, kind in CASES if LOSSES[name].weighted]
BINARY = [card.name for card in LOSSES.values() if "binary" in card.kinds]
SIZES = {"small": 40, "large": 2000}
"""A tenth of the examples is positive: some 200 pairs take the pair matrix, 360,000 every surrogate's fast method."""


def margin_of(name: str) -> float | None:
    return 0.5 if LOSSES[name].has_margin else None


def batch(kind: str, size: int, *, ties: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Scores, labels and example weights on the CPU, scores in float64; four classes or labels where not binary."""
    random = torch.Generator().manual_seed(size)
    shape = (size,) if kind == "binary" else (size, 4)
    scores = torch.randn(shape, dtype=torch.float64, generator=random)
    if kind == "multiclass":
        labels = torch.randint(0, 4, (size,), generator=random)
    else:
        labels = (torch.rand(shape, generator=random) < 0.1).long()
        labels[:4], labels[4:8] = 1, 0
    weights = 0.1 + torch.rand(size, dtype=torch.float64, generator=random)
    return ((scores * 4).round() / 4 if ties else scores), labels, weights


def evaluated(
    name: str, device: torch.device, scores: Tensor, labels: Tensor, weights: Tensor | None = None
) -> tuple[Tensor, list[Tensor]]:
    """The loss, and its gradients by the scores and by the loss's own variables, all on the CPU in float64."""
    loss: Any = make_loss(name, margin_of(name))
    variables: list[Tensor] = []
    if isinstance(loss, nn.Module):
        loss.to(device)
        variables = list(loss.parameters())
        with torch.no_grad():  # away from zero, where some of their gradients vanish
            for number, variable in enumerate(variables):
                variable.fill_(0.2 + 0.1 * number)
    given = scores.to(device).requires_grad_()
    value = loss(given, labels.to(device), None if weights is None else weights.to(device))
    assert value.device == given.device
    assert value.shape == ()
    value.backward()
    gradients = [given.grad, *(variable.grad for variable in variables)]
    assert all(gradient is not None and gradient.device == given.device for gradient in gradients)
    return value.detach().cpu().double(), [gradient.cpu().double() for gradient in gradients if gradient is not None]


def assert_close(found: list[Tensor], expected: list[Tensor], tolerance: float) -> None:
    """Equal up to ``tolerance``, relative to the largest number of each tensor."""
    for one, other in zip(found, expected, strict=True):
        assert bool(torch.isfinite(other).all())
        largest = float(other.abs().max())
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance * largest)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("name", "kind"), CASES)
class TestLosses:
    @pytest.mark.parametrize("ties", [False, True], ids=["distinct", "ties"])
    def test_in_float64_they_equal_the_cpu(self, name: str, kind: str, size: str, ties: bool) -> None:
        scores, labels, _ = batch(kind, SIZES[size], ties=ties)
        value, gradients = evaluated(name, DEVICE, scores, labels)
        expected, slopes = evaluated(name, torch.device("cpu"), scores, labels)
        # Variables of a loss's own are float32, and so are their gradients.
        assert_close([value, gradients[0]], [expected, slopes[0]], 1e-10)
        assert_close(gradients[1:], slopes[1:], 1e-6)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
    def test_narrow_scores(self, name: str, kind: str, size: str, dtype: torch.dtype) -> None:
        scores, labels, _ = batch(kind, SIZES[size])
        value, gradients = evaluated(name, DEVICE, scores.to(dtype), labels)
        expected, slopes = evaluated(name, torch.device("cpu"), scores.to(dtype), labels)
        assert_close([value], [expected], 1e-5)
        assert_close(gradients, slopes, max(1e-5, 2 * torch.finfo(dtype).eps))

    def test_under_autocast(self, name: str, kind: str, size: str) -> None:
        scores, labels, _ = batch(kind, SIZES[size])
        with torch.autocast(DEVICE.type, torch.bfloat16):
            value, gradients = evaluated(name, DEVICE, scores.bfloat16(), labels)
        expected, slopes = evaluated(name, torch.device("cpu"), scores.bfloat16(), labels)
        assert_close([value], [expected], 1e-2)
        assert_close(gradients, slopes, 2e-2)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("name", "kind"), WEIGHTED)
def test_losses_with_example_weights(name: str, kind: str, size: str) -> None:
    value, gradients = evaluated(name, DEVICE, *batch(kind, SIZES[size]))
    expected, slopes = evaluated(name, torch.device("cpu"), *batch(kind, SIZES[size]))
    assert_close([value, gradients[0]], [expected, slopes[0]], 1e-10)
    unweighted, _ = evaluated(name, DEVICE, *batch(kind, SIZES[size])[:2])
    assert float(unweighted) != float(value)


class TestKernels:
    @pytest.mark.parametrize("sums", [row_sums, column_sums])
    @pytest.mark.parametrize("name", SURROGATES)
    def test_fast_sums_equal_the_matrix_of_the_cpu(self, name: str, sums: Callable[..., list[Tensor]]) -> None:
        random = torch.Generator().manual_seed(3)
        p = torch.randn(700, dtype=torch.float64, generator=random)
        q = (torch.randn(900, dtype=torch.float64, generator=random) * 4).round() / 4
        weights = torch.randn(len(q) if sums is row_sums else len(p), 2, dtype=torch.float64, generator=random)
        surrogate, orders = Surrogate(name, margin_of(name)), (0, 1, 2)
        found = sums(surrogate, orders, p.to(DEVICE), q.to(DEVICE), weights.to(DEVICE), "fast")
        expected = sums(surrogate, orders, p, q, weights, "matrix")
        assert all(part.device.type == DEVICE.type for part in found)
        assert_close([part.cpu() for part in found], expected, 1e-9)

    @pytest.mark.parametrize("method", ["matrix", "fast"])
    @pytest.mark.parametrize("name", SURROGATES)
    def test_hessian_products(self, name: str, method: str) -> None:
        scores, labels, _ = batch("binary", 400)
        along = torch.randn(400, dtype=torch.float64, generator=torch.Generator().manual_seed(4))

        def product(device: torch.device, method: str) -> Tensor:
            given = scores.to(device).requires_grad_()
            loss = PairwiseLoss(LOSSES[name], Surrogate(name, margin_of(name)), method)(given, labels.to(device))
            (gradient,) = torch.autograd.grad(loss, given, create_graph=True)
            (found,) = torch.autograd.grad(gradient, given, along.to(device))
            return found.cpu()

        assert_close([product(DEVICE, method)], [product(torch.device("cpu"), "matrix")], 1e-9)

    @pytest.mark.parametrize("name", SURROGATES)
    def test_large_batches_need_no_pair_matrix(self, name: str) -> None:
        """100,000 examples: 900 million pairs, 7.2 GB as float64."""
        scores, labels, _ = batch("binary", 100_000)
        with execution(DEVICE, 1):
            given = scores.float().to(DEVICE).requires_grad_()
            value = make_loss(name, margin_of(name))(given, labels.to(DEVICE))
            value.backward()
            assert math.isfinite(value.item())
            assert peak_memory_bytes(DEVICE) < 4 * 2**30


# Trials


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A task of small noisy images, bright against dark, and one of short texts with words of praise and blame."""
    from PIL import Image

    root, random = tmp_path_factory.mktemp("films"), np.random.RandomState(0)
    for label, mean in (("bright", 150), ("dark", 110)):
        (root / "images" / label).mkdir(parents=True)
        for number in range(24):
            pixels = random.normal(mean, 40, (32, 32, 3)).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(root / "images" / label / f"{number}.png")
    splits = "splits: {by: seed, fractions: {train: 0.5, validation: 0.25, test: 0.25}}\n"
    (root / "films.yaml").write_text(
        "name: films\nmodality: image\nkind: folder\nfolder: images\nimage_size: 32\npositive: bright\n" + splits
    )
    words = {"good": ("fine", "great", "lovely"), "bad": ("dull", "poor", "weak")}
    lines = [
        f"{' '.join(random.choice([*words[label], 'film', 'the', 'plot'], 4 + number % 5))} {number},{label}"
        for label in words
        for number in range(24)
    ]
    (root / "reviews.csv").write_text("text,label\n" + "\n".join(lines) + "\n")
    (root / "reviews.yaml").write_text(
        "name: reviews\nmodality: text\nkind: table\nfile: reviews.csv\nlabel: label\ntext: text\npositive: good\n"
        + splits
    )
    for task in ("films", "reviews"):
        prepare_task(root / f"{task}.yaml", root)
    return root


def trials(root: Path, task: str, regime: str, model: str, settings: str, init: str = "random") -> list[TrialConfig]:
    space = root / f"{task}-space.yaml"
    space.write_text(
        f"regime: {regime}\ntasks: [{task}.yaml]\nmodels: [{model}]\ninits: [{init}]\nseeds: [3]\nmargins: [0.5]\n"
        "losses: [ce, squared_hinge, logistic]\nwarmup_ratios: [0, 0.5]\n"
        f"settings: {{epochs: 2, batch_size: 8, learning_rate: 0.002{settings}}}\n"
    )
    return list(expand(load_space(space)).trials.values())


def run_on(device: torch.device, root: Path, config: TrialConfig, **options: Any) -> TrialResult:
    cards = {task: load_own_card(root / f"{task}.yaml") for task in ("films", "reviews")}
    return run_trial(config, TrialContext(data_root=root, cards=cards, device=str(device), **options))


def check_rows(outcome: TrialResult, epochs: int = 2) -> None:
    assert [row["epoch"] for row in outcome.rows] == list(range(1, epochs + 1))
    for row in outcome.rows:
        assert math.isfinite(row["train_loss"])
        assert all(0 <= row[name] <= 1 for name in ("train_auc", "val_auc", "test_auc"))
        assert row["peak_memory_bytes"] > 0
        if DEVICE.type == "cuda":
            assert row["gpu_seconds"] == row["seconds"] > 0
            assert row["device"] == torch.cuda.get_device_name(DEVICE)
    assert all(np.isfinite(values).all() for values in outcome.scores.values())


class TestTrials:
    @pytest.mark.parametrize("precision", ["float32", "bfloat16"])
    def test_the_smoke_space(self, tmp_path: Path, precision: str) -> None:
        space = load_space("smoke", ["seeds=[123]", f"settings.precision={precision}"])
        configs = list(expand(space).trials.values())
        assert len(configs) == 5
        for config in configs:
            outcome = run_trial(config, TrialContext(data_root=tmp_path, device=str(DEVICE)))
            check_rows(outcome)
            on_cpu = run_trial(config, TrialContext(data_root=tmp_path))
            tolerance = 1e-3 if precision == "float32" else 5e-2
            for row, other in zip(outcome.rows, on_cpu.rows, strict=True):
                assert row["train_loss"] == pytest.approx(other["train_loss"], rel=tolerance, abs=tolerance)
                assert row["test_auc"] == pytest.approx(other["test_auc"], abs=tolerance)

    @pytest.mark.parametrize(
        "options",
        [{}, {"channels_last": True}, {"workers": 1}, {"compiled": True}],
        ids=["plain", "channels-last", "workers", "compiled"],
    )
    @pytest.mark.parametrize("precision", ["float32", "bfloat16"])
    def test_images(self, films: Path, precision: str, options: dict[str, Any]) -> None:
        configs = trials(films, "films", "cv-resnet50", "small-cnn", f", precision: {precision}")
        for config in configs if not options.get("compiled") else configs[:1]:
            check_rows(run_on(DEVICE, films, config, **options))

    def test_a_large_image_model(self, films: Path) -> None:
        config = trials(films, "films", "cv-resnet50", "resnet18", ", precision: bfloat16")[0]
        check_rows(run_on(DEVICE, films, config, channels_last=True))

    @pytest.mark.parametrize("precision", ["float32", "bfloat16"])
    def test_texts(self, films: Path, precision: str) -> None:
        for config in trials(films, "reviews", "drug-reviews", "small-transformer", f", precision: {precision}"):
            check_rows(run_on(DEVICE, films, config))

    @pytest.mark.parametrize("precision", ["float32", "bfloat16", "bfloat16-autocast"])
    @pytest.mark.parametrize("model", TEXT_MODELS)
    def test_adapters_in_a_language_model(self, films: Path, model: str, precision: str) -> None:
        """LoRA; the layers of Qwen's architecture are computed again in the backward pass."""
        if not (films / "weights" / model).exists():
            write_text_model(model, films)
        more = f", precision: {precision}, max_length: 12"
        config = trials(films, "reviews", "drug-reviews", model, more, init="pretrained")[-1]
        outcome = run_on(DEVICE, films, config)
        check_rows(outcome)
        assert 0 < outcome.trainable_parameters < outcome.parameters

    def test_float32_on_the_gpu_learns_as_on_the_cpu(self, films: Path) -> None:
        for config in trials(films, "films", "cv-resnet50", "small-cnn", ""):
            ours, expected = (run_on(device, films, config) for device in (DEVICE, torch.device("cpu")))
            for row, other in zip(ours.rows, expected.rows, strict=True):
                # dropout draws other masks on a GPU, and TensorFloat-32 may be used in convolutions
                assert row["train_loss"] == pytest.approx(other["train_loss"], rel=0.2, abs=0.05)
            assert ours.parameters == expected.parameters

    @pytest.mark.parametrize("name", BINARY)
    def test_every_loss_trains(
        self, name: str, config_of: Callable[..., TrialConfig], toy: Any, tmp_path: Path, ce_fields: dict[str, Any]
    ) -> None:
        fields: dict[str, Any] = {"loss": name, "margin": margin_of(name)}
        if not LOSSES[name].pairwise:
            fields = ce_fields | {"loss": name}
        if name == "aucm":
            fields |= {"optimizer": "pesg", "learning_rate": 0.05}
        check_rows(run_trial(config_of(**fields), toy.context(tmp_path, device=str(DEVICE))), epochs=3)


class TestCheckpoints:
    @pytest.mark.parametrize(
        "changes",
        [
            {"accumulation": 2, "max_grad_norm": 0.05},
            {"optimizer": "adamw", "momentum": 0.0, "learning_rate": 0.01, "lr_warmup_updates": 3},
            {"optimizer": "pesg", "loss": "aucm", "margin": 1.0, "learning_rate": 0.05},
        ],
        ids=["sgd", "adamw", "pesg"],
    )
    @pytest.mark.parametrize("cut", [1, 5, 7, 12])
    def test_a_run_cut_and_continued_equals_the_uncut_run(
        self, config_of: Callable[..., TrialConfig], toy: Any, tmp_path: Path, changes: dict[str, Any], cut: int
    ) -> None:
        toy.make_deep()
        config, context = config_of(**changes), toy.context(tmp_path, device=str(DEVICE))
        with execution(DEVICE, 1):
            whole = prepare_run(config, context)
            advance(whole, config.total_updates)
            first = prepare_run(config, context)
            advance(first, cut)
            state = TrainState.from_bytes(first.state().to_bytes())
            assert all(value.device.type == "cpu" for value in state.model.values())
            second = prepare_run(config, context, state)
            parameters = list(second.model.module.parameters())
            assert all(parameter.device.type == DEVICE.type for parameter in parameters)
            torch.manual_seed(5)  # the generators' state between building and training must not matter
            advance(second, config.total_updates)
        expected, found = result(whole), result(second)
        check_rows(found, epochs=3)
        for row, other in zip(found.rows, expected.rows, strict=True):
            assert row["train_loss"] == pytest.approx(other["train_loss"], rel=1e-5)
            assert row["test_auc"] == pytest.approx(other["test_auc"], abs=2 / 800)  # 40 x 20 pairs
        for name, values in whole.state().model.items():
            torch.testing.assert_close(second.state().model[name], values, rtol=1e-4, atol=1e-5)

    def test_a_state_moves_between_the_cpu_and_the_gpu(
        self, config_of: Callable[..., TrialConfig], toy: Any, tmp_path: Path
    ) -> None:
        config = config_of()  # no dropout: its masks differ between devices
        here, there = torch.device("cpu"), DEVICE
        expected = run_trial(config, toy.context(tmp_path))
        for start, end in ((here, there), (there, here)):
            with execution(start, 1):
                run = prepare_run(config, toy.context(tmp_path, device=str(start)))
                advance(run, 8)
                state = TrainState.from_bytes(run.state().to_bytes())
            found = run_trial(config, toy.context(tmp_path, device=str(end)), state)
            for row, other in zip(found.rows, expected.rows, strict=True):
                assert row["train_loss"] == pytest.approx(other["train_loss"], rel=1e-4)
