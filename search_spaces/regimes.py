"""The training regimes by name: those of the paper's Table 7, and small ones for the offline tasks.

Of Table 7 come epochs, batch sizes, optimizer, learning rate, weight decay, schedule, positive fraction, switch scale,
length and gradient norm; the sigmoid score scale is implied there (``docs/protocol-notes.md``).
"""

from __future__ import annotations

from dataclasses import dataclass

from search_spaces.settings import Settings


@dataclass(frozen=True)
class Regime:
    """Named training settings and where they come from."""

    name: str
    title: str
    source: str
    settings: Settings


_TABLE_7 = "the paper's Table 7"
_B6 = "the paper's section B.6; batch size, optimizer and what else it does not say: ours (docs/protocol-notes.md)"
_OWN = "ours, for the offline tasks"

_CV = {
    "epochs": 10,
    "eval_batch_size": 128,
    "optimizer": "adamw",
    "learning_rate": 1e-4,
    "weight_decay": 1e-4,
    "augmentation": "paper",
}
_NLP = {
    "epochs": 4,
    "optimizer": "adamw",
    "weight_decay": 0.01,
    "lr_warmup_fraction": 0.05,
    "max_grad_norm": 1.0,
}
_B6_COMMON = {
    "sampling": "natural",
    "optimizer": "adamw",
    "learning_rate": 1e-4,
    "weight_decay": 1e-4,
    "augmentation": "paper",
}
_QUICK = {
    "epochs": 4,
    "batch_size": 64,
    "eval_batch_size": 1024,
    "optimizer": "adamw",
    "learning_rate": 1e-3,
    "weight_decay": 1e-4,
}

# These runs are too short to make up for a halved rate after the switch: 1 by validation AUC (docs/protocol-notes.md).
_SHORT = _QUICK | {"switch_scale": 1.0}
_BALANCED = _SHORT | {"learning_rate": 3e-3, "sampling": "balanced", "updates_per_epoch": 24}


def _regime(name: str, title: str, source: str, **settings: object) -> Regime:
    return Regime(name, title, source, Settings.model_validate(settings))


REGIMES: dict[str, Regime] = {
    regime.name: regime
    for regime in (
        _regime(
            "cv-imagenet-lt",
            "ResNet50 on ImageNet-LT Dogs",
            _TABLE_7,
            epochs=20,
            batch_size=128,
            eval_batch_size=256,
            optimizer="sgd",
            momentum=0.9,
            learning_rate=0.05,
            weight_decay=1e-4,
            switch_scale=1.0,
            augmentation="paper",
        ),
        _regime("cv-resnet50", "ResNet50 on the other image tasks", _TABLE_7, **_CV, batch_size=64),
        _regime("cv-densenet121", "DenseNet121", _TABLE_7, **_CV, batch_size=48),
        _regime(
            "nlp-distilbert",
            "DistilBERT with LoRA",
            _TABLE_7,
            **_NLP,
            batch_size=32,
            eval_batch_size=64,
            learning_rate=2e-4,
            max_length=128,
        ),
        _regime(
            "nlp-qwen",
            "Qwen2.5-1.5B-Instruct with LoRA",
            _TABLE_7,
            **_NLP,
            batch_size=24,
            eval_batch_size=48,
            learning_rate=8e-5,
            max_length=256,
            precision="bfloat16",
        ),
        _regime(
            "multiclass-resnet18",
            "ResNet18 on the long-tailed multiclass tasks, 10 epochs of 24 batches",
            _B6,
            **_B6_COMMON | {"learning_rate": 2e-3, "sampling": "balanced", "score_scale": "identity"},
            epochs=10,
            batch_size=60,
            eval_batch_size=256,
            updates_per_epoch=24,
        ),
        _regime(
            "chexpert-densenet121",
            "DenseNet121 on CheXpert, natural batches",
            _B6,
            **_B6_COMMON,
            epochs=8,
            batch_size=64,
            eval_batch_size=128,
        ),
        _regime(
            "inaturalist-resnet50",
            "ResNet50 on iNaturalist 2018, natural batches, evaluated at the end",
            _B6,
            **_B6_COMMON | {"score_scale": "identity"},
            epochs=3,
            batch_size=128,
            eval_batch_size=128,
            selection="last",
        ),
        _regime(
            "imagenet-lt-resnet50",
            "ResNet50 from Places365 on ImageNet-LT, natural batches",
            _B6,
            **_B6_COMMON | {"score_scale": "identity"},
            epochs=4,
            batch_size=128,
            eval_batch_size=256,
        ),
        _regime(
            "large-batch",
            "small CNN on 32 x 32 images, the batch size swept",
            "arXiv 2602.23336 (its code); validation images: ours (docs/tasks.md)",
            epochs=600,
            batch_size=128,
            eval_batch_size=2048,
            optimizer="adamw",
            learning_rate=1e-4,
            weight_decay=0.0,
            lr_schedule="constant",
            sampling="natural",
            score_scale="identity",
            augmentation="crop",
        ),
        _regime(
            "quickstart-mnist", "plain MLP on low-shot MNIST, 188 updates", _OWN, **_QUICK | {"learning_rate": 1e-2}
        ),
        _regime(
            "solar-cell",
            "photographs of 64 x 64, 100 updates",
            _OWN,
            **_QUICK | {"batch_size": 32, "eval_batch_size": 128, "augmentation": "flip"},
        ),
        _regime(
            "drug-reviews",
            "short texts with LoRA, 132 updates",
            _OWN,
            **_NLP,
            batch_size=16,
            eval_batch_size=64,
            learning_rate=1e-3,
            max_length=96,
        ),
        _regime(
            "mnist-lt",
            "plain MLP on MNIST-LT, 192 updates of class-balanced batches",
            _OWN,
            **_BALANCED | {"epochs": 8, "batch_size": 60, "score_scale": "log_softmax"},
        ),
        _regime(
            "reuters",
            "small transformer on the first 24 words of news, 96 updates of class-balanced batches",
            _OWN,
            **_BALANCED | {"score_scale": "log_softmax", "max_length": 24},
        ),
        _regime(
            "kaomoji",
            "character CNN on emoticons, 408 updates of natural batches",
            _OWN,
            **_SHORT | {"epochs": 6, "learning_rate": 1e-2, "sampling": "natural"},
        ),
        _regime("smoke", "a few updates, for tests", _OWN, **_QUICK | {"epochs": 2, "batch_size": 512}),
    )
}
"""Every regime, the paper's first."""
