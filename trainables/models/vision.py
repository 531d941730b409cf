"""Image models: torchvision's, and two whose ImageNet weights come inside a pip package.

One function builds both initialisations: the trunk is always drawn first, and for ``pretrained`` its weights are then
replaced, so that a matched pair differs in the trunk's weights and in nothing else.
"""

from __future__ import annotations

import importlib
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from search_spaces.errors import DataError
from trainables.models.built import BuiltModel, ImageModel, Spec, as_images, draw_seed, linear_head

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
LITE_MEAN, LITE_STD = (127 / 255,) * 3, (128 / 255,) * 3
"""The Lite models were trained on (pixel - 127) / 128."""


def torchvision_model(spec: Spec) -> BuiltModel:
    """ResNet18, ResNet50 or DenseNet121 with a linear head on its pooled features.

    The Places365 file is read as its authors wrote it: a ``state_dict`` with names that start with ``module.``.
    """
    from torchvision import models

    seed = draw_seed()
    trunk = getattr(models, spec.name.removesuffix("-places365"))(weights=None)
    last = "classifier" if spec.name.startswith("densenet") else "fc"
    features = getattr(trunk, last).in_features
    setattr(trunk, last, nn.Identity())
    if spec.pretrained:
        _load(trunk, _without(_renamed(_state(spec.weights)), f"{last}."), spec.weights)
    return _with_head(trunk, linear_head(features, spec.outputs, seed), spec)


def mobilenet_v2(spec: Spec) -> BuiltModel:
    """MobileNetV2; the packaged trunk holds torchvision's 312 tensors in order under other names, and no head."""
    from torchvision import models

    seed = draw_seed()
    trunk = models.mobilenet_v2(weights=None)
    trunk.classifier = nn.Identity()
    if spec.pretrained:
        names, values = list(trunk.state_dict()), list(_state(spec.weights).values())
        if len(names) != len(values):
            raise DataError(f"{spec.weights}: {len(values)} tensors, MobileNetV2 has {len(names)}")
        _load(trunk, dict(zip(names, values, strict=True)), spec.weights)
    return _with_head(trunk, linear_head(1280, spec.outputs, seed, dropout=0.2), spec)


def efficientnet_lite0(spec: Spec) -> BuiltModel:
    """EfficientNet-Lite0 of the package efficientnet-lite-pytorch, batch normalisation momentum 0.1.

    The package's momentum 0.01 suits runs of many epochs; in a run of a hundred updates the running statistics would
    still be those of the initialisation, and evaluation nonsense.
    """
    try:
        package: Any = importlib.import_module("efficientnet_lite_pytorch")
    except ImportError:
        raise DataError(
            "model efficientnet-lite0 needs the package efficientnet-lite-pytorch. "
            "Install: pip install --no-deps efficientnet-lite-pytorch==0.1.0"
        ) from None
    seed = draw_seed()
    trunk = package.EfficientNet.from_name("efficientnet-lite0")
    trunk._fc = nn.Identity()
    for module in trunk.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 0.1
    if spec.pretrained:
        _load(trunk, _without(_state(spec.weights), "_fc."), spec.weights)
    return _with_head(trunk, linear_head(1280, spec.outputs, seed), spec, LITE_MEAN, LITE_STD)


def _with_head(
    trunk: nn.Module,
    head: nn.Module,
    spec: Spec,
    mean: tuple[float, ...] = IMAGENET_MEAN,
    std: tuple[float, ...] = IMAGENET_STD,
) -> BuiltModel:
    module = ImageModel(trunk, head, channels=3, mean=mean, std=std, precision=spec.precision)
    return BuiltModel(module, as_images)


def _state(path: Path) -> dict[str, Tensor]:
    return _read_state(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=4)
def _read_state(path: Path, written: int) -> dict[str, Tensor]:
    # The modification time is part of the key, so that a replaced file is read again.
    try:
        state: Any = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises whatever its unpickler meets
        raise DataError(f"{path}: not readable as weights ({error})") from error
    state = state.get("state_dict", state)
    return {name.removeprefix("module."): value for name, value in state.items()}


def _renamed(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Torchvision's DenseNet file still has the names of 2017, ``norm.1`` for today's ``norm1``."""
    old = re.compile(r"^(.*denselayer\d+\.(?:norm|conv))\.([12]\.\w+)$")
    return {old.sub(r"\1\2", name): value for name, value in state.items()}


def _without(state: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name: value for name, value in state.items() if not name.startswith(prefix)}


def _load(trunk: nn.Module, state: dict[str, Tensor], path: Path) -> None:
    try:
        # num_batches_tracked is missing from files older than torch 0.4; torchvision does not read it either.
        missing = set(trunk.load_state_dict(state, strict=False).missing_keys)
        unknown = sorted(set(state) - set(trunk.state_dict()))
    except RuntimeError as error:
        raise DataError(f"{path}: not the weights of this model ({error})") from error
    missing = {name for name in missing if not name.endswith("num_batches_tracked")}
    if missing or unknown:
        raise DataError(
            f"{path}: not the weights of this model (missing: {', '.join(sorted(missing)[:5]) or 'none'}; "
            f"unknown: {', '.join(unknown[:5]) or 'none'})"
        )
