"""Models by name: ``build_model`` makes any of them, random or pretrained, for any task of its modality."""

from __future__ import annotations

import importlib
from pathlib import Path

from search_spaces.cards import TaskCard
from search_spaces.errors import UsageError, nearest
from search_spaces.models import MODELS
from trainables.models.built import PRECISIONS, BuiltModel, Spec
from trainables.models.weights import NEEDS_FOLDER, find_weights, require_weights

__all__ = ["BuiltModel", "build_model", "find_weights"]

_BUILDERS = {
    "plain-mlp": "small:plain_mlp",
    "small-cnn": "small:small_cnn",
    "four-conv-cnn": "small:four_conv_cnn",
    "small-transformer": "small:small_transformer",
    "char-cnn": "characters:char_cnn",
    "resnet18": "vision:torchvision_model",
    "resnet50": "vision:torchvision_model",
    "resnet50-places365": "vision:torchvision_model",
    "densenet121": "vision:torchvision_model",
    "mobilenet-v2": "vision:mobilenet_v2",
    "efficientnet-lite0": "vision:efficientnet_lite0",
    "minilm-l6": "text:lora_model",
    "distilbert-base-uncased": "text:lora_model",
    "qwen2.5-1.5b-instruct": "text:lora_model",
}
# Imported when used: torchvision, transformers and peft take seconds that a worker on small models need not pay.


def build_model(
    name: str,
    init: str,
    *,
    card: TaskCard,
    max_length: int | None = None,
    precision: str = "float32",
    data_root: Path | None = None,
) -> BuiltModel:
    """The model ``name`` for the task ``card``, on the CPU, its random weights drawn from torch's global generator.

    ``init`` is ``random`` or ``pretrained``; a pair of one seed differs in the trunk's weights only. Weights that no
    package ships are looked for under ``data_root / "weights"`` and never downloaded.

    Raises ``UsageError`` for an unknown model, initialisation or precision and for a task of another modality, and
    ``DataError`` when weights are missing or are not this model's.
    """
    if name not in MODELS:
        raise UsageError(f"unknown model {name!r}: {nearest(name, MODELS)}")
    if init not in MODELS[name].inits:
        raise UsageError(f"model {name}: unknown init {init!r} (allowed: {', '.join(MODELS[name].inits)})")
    if precision not in PRECISIONS:
        raise UsageError(f"unknown precision {precision!r} (allowed: {', '.join(PRECISIONS)})")
    if MODELS[name].modality != card.modality:
        raise UsageError(f"model {name} reads {MODELS[name].modality}s, task {card.name} holds {card.modality}s")
    weights = require_weights(name, data_root) if init == "pretrained" or name in NEEDS_FOLDER else None
    outputs = 1 if card.metric == "auc" else int(card.options.get("outputs", card.classes))
    module, _, function = _BUILDERS[name].partition(":")
    builder = getattr(importlib.import_module(f"trainables.models.{module}"), function)
    built: BuiltModel = builder(Spec(name, init, outputs, card, max_length, precision, weights))
    return built
