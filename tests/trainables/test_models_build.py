import dataclasses
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from search_spaces.errors import DataError, UsageError
from search_spaces.models import MODELS
from search_spaces.tasks import TASKS
from trainables.models import build_model, find_weights
from trainables.models.small import WordHasher

MNIST, SOLAR, REVIEWS = TASKS["mnist-8-low-shot"], TASKS["solar-cell-defects"], TASKS["drug-reviews"]
TEXTS = ["Good stuff, no doubt.", "bad", ""]


def pixels(*shape):
    return torch.from_numpy(np.random.RandomState(0).randint(0, 256, shape, dtype=np.uint8))


def built(name, card, seed=5, init="random", **options):
    torch.manual_seed(seed)
    return build_model(name, init, card=card, **options)


RANDOM = [
    ("plain-mlp", MNIST, pixels(3, 1, 28, 28)),
    ("small-cnn", SOLAR, pixels(3, 1, 20, 24)),
    ("resnet18", SOLAR, pixels(3, 3, 64, 64)),
    ("small-transformer", REVIEWS, TEXTS),
]


@pytest.mark.parametrize(("name", "card", "raw"), RANDOM, ids=[row[0] for row in RANDOM])
def test_a_model_is_a_function_of_torchs_seed(name, card, raw):
    first, again, other = built(name, card), built(name, card), built(name, card, seed=6)
    logits = []
    for model in (first, again, other):
        model.module.eval()
        with torch.no_grad():
            logits.append(model.module(model.encode(raw)))
    assert logits[0].shape == (3,)
    assert logits[0].dtype == torch.float32
    assert torch.equal(logits[0], logits[1])
    assert not torch.equal(logits[0], logits[2])


@pytest.mark.parametrize(("name", "card", "raw"), RANDOM, ids=[row[0] for row in RANDOM])
def test_every_parameter_gets_a_gradient_and_the_card_counts_them(name, card, raw):
    model = built(name, card)
    model.module(model.encode(raw)).square().sum().backward()
    for key, parameter in model.module.named_parameters():
        assert parameter.grad is not None, key
    assert sum(parameter.numel() for parameter in model.module.parameters()) == MODELS[name].parameters


@pytest.mark.parametrize("name", ["resnet50", "densenet121", "mobilenet-v2"])
def test_full_size_parameter_counts_are_the_cards(name):
    model = built(name, SOLAR)
    assert sum(parameter.numel() for parameter in model.module.parameters()) == MODELS[name].parameters


def test_plain_mlp_is_784_128x6_1_with_relu():
    model = built("plain-mlp", MNIST)
    layers = [module for module in model.module.modules() if isinstance(module, nn.Linear)]
    assert [(layer.in_features, layer.out_features) for layer in layers] == [(784, 128)] + [(128, 128)] * 5 + [(128, 1)]
    hidden = pixels(2, 1, 28, 28).double().flatten(1) / 255
    for layer in layers[:-1]:
        hidden = (hidden @ layer.weight.double().T + layer.bias.double()).clamp(min=0)
    expected = hidden @ layers[-1].weight.double().T + layers[-1].bias.double()
    assert torch.allclose(model.module(pixels(2, 1, 28, 28)).double(), expected[:, 0], atol=1e-6)


def test_pixels_are_normalised_as_imagenet_was_and_grey_is_repeated():
    model = built("resnet18", SOLAR)
    seen = []
    model.module.trunk.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    model.module.eval()
    grey = pixels(2, 1, 32, 32)
    with torch.no_grad():
        model.module(grey)
        model.module(grey.expand(-1, 3, -1, -1))
        model.module(grey.float() / 255)
    expected = (grey[0, 0].numpy() / 255 - 0.456) / 0.224
    assert np.allclose(seen[0][0, 1].numpy(), expected, atol=1e-5)
    assert torch.equal(seen[0], seen[1])
    assert torch.equal(seen[0], seen[2])


def test_tasks_with_more_outputs_get_a_logit_each():
    card = dataclasses.replace(
        SOLAR, metric="macro_ovo_auc", counts={split: (5, 5, 5) for split in ("train", "validation", "test")}
    )
    assert built("small-cnn", card).module(pixels(2, 3, 16, 16)).shape == (2, 3)


def test_bfloat16_keeps_float32_parameters_and_logits():
    model = built("small-cnn", SOLAR, precision="bfloat16")
    exact = built("small-cnn", SOLAR)
    images = pixels(4, 1, 24, 24)
    assert all(parameter.dtype == torch.float32 for parameter in model.module.parameters())
    logits = model.module(images)
    assert logits.dtype == torch.float32
    assert torch.allclose(logits, exact.module(images), atol=0.05)
    assert not torch.equal(logits, exact.module(images))


def test_words_are_hashed_padded_and_cut():
    encode = WordHasher(4)
    inputs = encode(["One two", "one TWO three four five", ""])
    assert inputs["input_ids"].shape == (3, 4)
    assert inputs["input_ids"][0, :2].tolist() == inputs["input_ids"][1, :2].tolist()
    assert inputs["attention_mask"].tolist() == [[1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]]
    assert (encode.seen, encode.truncated) == (3, 1)
    pair = WordHasher(9)([("one", "two")])
    assert pair["input_ids"].tolist() == [[inputs["input_ids"][0, 0], 1, inputs["input_ids"][0, 1]]]


def test_padding_does_not_change_a_score():
    model = built("small-transformer", REVIEWS)
    model.module.eval()
    with torch.no_grad():
        together = model.module(model.encode(["bad", "a much longer text than that"]))
        alone = model.module(model.encode(["bad"]))
    assert torch.allclose(together[:1], alone, atol=1e-6)


def test_wrong_requests_are_refused():
    with pytest.raises(UsageError, match="did you mean resnet50"):
        build_model("resnet5", "random", card=SOLAR)
    with pytest.raises(UsageError, match=r"unknown init 'pretrained' \(allowed: random"):
        build_model("plain-mlp", "pretrained", card=MNIST)
    with pytest.raises(UsageError, match="unknown precision"):
        build_model("small-cnn", "random", card=SOLAR, precision="float16")
    with pytest.raises(UsageError, match="reads texts, task solar-cell-defects holds images"):
        build_model("small-transformer", "random", card=SOLAR)
    with pytest.raises(TypeError, match="batch of images"):
        built("small-transformer", REVIEWS).encode(pixels(1, 1, 4, 4))
    with pytest.raises(TypeError, match="image model got list"):
        built("small-cnn", SOLAR).encode(["text"])


def test_missing_weights_name_the_file_and_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    with pytest.raises(DataError, match=r"resnet50-0676ba61\.pth not found .*curl .*download\.pytorch\.org"):
        build_model("resnet50", "pretrained", card=SOLAR, data_root=tmp_path)
    with pytest.raises(DataError, match=r"hf download Qwen/Qwen2\.5-1\.5B-Instruct --local-dir"):
        build_model("qwen2.5-1.5b-instruct", "random", card=REVIEWS, data_root=tmp_path)
    assert find_weights(MODELS["resnet50"], tmp_path) is None
    assert find_weights(MODELS["plain-mlp"], tmp_path) is None


def test_a_small_model_imports_none_of_the_heavy_libraries():
    code = (
        "import sys, torch; from search_spaces.tasks import TASKS; from trainables.models import build_model;"
        "build_model('plain-mlp', 'random', card=TASKS['mnist-8-low-shot']);"
        "print([m for m in ('torchvision', 'transformers', 'peft', 'sklearn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
