"""Transformer encoders with LoRA, from a local folder in the Hugging Face layout. The hub is never asked.

Adapters (rank 16, alpha 32, dropout 0.05) sit on the query and value projections of every layer: the choice of the
LoRA paper and PEFT's default for these architectures; the AUC paper names rank, alpha and dropout but no modules.
The head is trained whole. With ``random`` the trunk is drawn from the same configuration and, as with ``pretrained``,
only adapters and head are trained, so that a matched pair differs in the trunk's weights and in nothing else.
"""

from __future__ import annotations

import copy
import importlib
import os
import warnings
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # a forked loader process would warn and switch it off anyway

import torch
from torch import Tensor, nn

from search_spaces.errors import DataError
from trainables.data.types import Raw
from trainables.device import Inputs
from trainables.models.built import BuiltModel, Spec, draw_seed, mixed, squeezed, tensors
from trainables.models.small import mean_pool

RANK, ALPHA, DROPOUT = 16, 32, 0.05

QUERY_AND_VALUE = {
    "bert": ["query", "value"],
    "distilbert": ["q_lin", "v_lin"],
    "qwen2": ["q_proj", "v_proj"],
}
"""The adapted modules by ``model_type`` of the folder's config.json."""

OWN_HEAD = {"distilbert": ["pre_classifier", "classifier"], "qwen2": ["score"]}
"""Modules of the stock classification head, trained whole; an architecture not listed gets the mean-pool head."""

CHECKPOINTED = frozenset({"qwen2"})
"""Architectures whose layers are computed again in the backward pass: the same numbers from the same dropout masks, in
more time but with far less memory for the activations of 24 texts of 256 tokens."""

KEPT_TEXTS = 400_000
"""How many tokenised texts a process keeps per tokenizer and length."""


def lora_model(spec: Spec) -> BuiltModel:
    """The architecture in ``spec.weights`` with LoRA: a stock sequence-classification head for DistilBERT and Qwen2,
    a linear head on the mean over tokens for MiniLM (its stock pooler head trains poorly).
    """
    folder, seed = Path(spec.weights), draw_seed()
    config = _config(folder)
    kind = config.model_type
    if kind not in QUERY_AND_VALUE:
        raise DataError(f"{folder}: model_type {kind!r} (known: {', '.join(sorted(QUERY_AND_VALUE))})")
    encoder = TextEncoder(folder, spec.max_length)
    outputs = spec.outputs if kind in OWN_HEAD else 0
    trunk = copy.deepcopy(_pretrained(folder, outputs)) if spec.pretrained else _random(folder, outputs)
    trunk.config.pad_token_id = encoder.pad
    trunk.requires_grad_(False)
    if kind in CHECKPOINTED:
        trunk.config.use_cache = False
        # Named so in newer releases of transformers 5; the older name goes with version 6.
        enable = getattr(trunk, "activation_checkpointing_enable", None) or trunk.gradient_checkpointing_enable
        enable({"use_reentrant": False})
    if spec.precision == "bfloat16":
        trunk.to(torch.bfloat16)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        module: nn.Module
        if kind in OWN_HEAD:
            for name in OWN_HEAD[kind]:
                _draw_again(getattr(trunk, name), config.initializer_range)
            module = StockHead(_adapted(trunk, kind), spec.precision)
        else:
            head = nn.Linear(config.hidden_size, spec.outputs)
            module = MeanPoolHead(_adapted(trunk, kind), head, spec.precision)
    for parameter in module.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    return BuiltModel(module, encoder)


class StockHead(nn.Module):
    """A sequence-classification model as the library defines it."""

    def __init__(self, model: nn.Module, precision: str):
        super().__init__()
        self.model = model
        self.precision = precision

    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Logits (n,) or (n, outputs), float32."""
        named = tensors(inputs)
        with mixed(self.precision, named["input_ids"].device):
            logits = self.model(**named).logits
        return squeezed(logits)


class MeanPoolHead(nn.Module):
    """A linear head on the mean over the tokens of an encoder."""

    def __init__(self, trunk: nn.Module, head: nn.Module, precision: str):
        super().__init__()
        self.trunk = trunk
        self.head = head
        self.precision = precision

    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Logits (n,) or (n, outputs), float32."""
        named = tensors(inputs)
        with mixed(self.precision, named["input_ids"].device):
            hidden = self.trunk(**named).last_hidden_state
            logits = self.head(mean_pool(hidden, named["attention_mask"]))
        return squeezed(logits)


class TextEncoder:
    """Texts or pairs to token numbers, padded to the batch's longest, cut to ``max_length`` (pairs: the longer first).

    Every text is tokenised once per process. ``seen`` counts the texts encoded, ``truncated`` those that were cut.
    """

    def __init__(self, folder: Path, max_length: int | None):
        self._tokenizer = _tokenizer(folder)
        limit = min(max_length or 512, int(getattr(_config(folder), "max_position_embeddings", 512)))
        self._known = _token_cache(folder, limit)
        self.max_length = limit
        self.pad: int = self._tokenizer.pad_token_id
        self.seen = 0
        self.truncated = 0

    def __call__(self, raw: Raw) -> Inputs:
        """int64 ``input_ids`` and ``attention_mask`` (n, length), and ``token_type_ids`` where the model reads them."""
        if isinstance(raw, Tensor):
            raise TypeError("a text model got a batch of images")
        new = [text for text in dict.fromkeys(raw) if text not in self._known]
        if new:
            self._tokenise(new)
        rows = [self._known[text] for text in raw]
        self.seen += len(rows)
        self.truncated += sum(cut for _, cut in rows)
        length = max(len(fields["input_ids"]) for fields, _ in rows)
        fill = {"input_ids": self.pad}
        return {
            name: torch.tensor([row[name] + [fill.get(name, 0)] * (length - len(row[name])) for row, _ in rows])
            for name in rows[0][0]
        }

    def _tokenise(self, texts: list[Any]) -> None:
        if len(self._known) + len(texts) > KEPT_TEXTS:
            self._known.clear()
        batch = self._tokenizer(*_columns(texts), truncation=True, max_length=self.max_length)
        full = [place for place in range(len(texts)) if len(batch["input_ids"][place]) == self.max_length]
        # Only a text that fills the limit can have been cut; whether it was shows when it is tokenised whole.
        whole = self._tokenizer(*_columns([texts[place] for place in full]))["input_ids"] if full else []
        cut = {place for place, ids in zip(full, whole, strict=True) if len(ids) > self.max_length}
        for place, text in enumerate(texts):
            self._known[text] = ({name: list(batch[name][place]) for name in batch}, place in cut)


def _columns(texts: list[Any]) -> tuple[list[str], list[str] | None]:
    """Texts as the tokenizer takes them: first texts, and second ones when they are pairs."""
    if isinstance(texts[0], tuple):
        return [first for first, _ in texts], [second for _, second in texts]
    return texts, None


def _adapted(trunk: Any, kind: str) -> nn.Module:
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=RANK,
        lora_alpha=ALPHA,
        lora_dropout=DROPOUT,
        # Copies: PEFT adds names of its own to the lists it is given.
        target_modules=list(QUERY_AND_VALUE[kind]),
        modules_to_save=list(OWN_HEAD[kind]) if kind in OWN_HEAD else None,
        task_type="SEQ_CLS" if kind in OWN_HEAD else "FEATURE_EXTRACTION",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PEFT asks transformers 5 by a name that 6 will drop
        adapted: nn.Module = get_peft_model(trunk, config)
    return adapted


def _draw_again(layer: nn.Linear, spread: float) -> None:
    """Give a head's layer fresh weights as the library draws them: normal weights, zero bias."""
    nn.init.normal_(layer.weight, std=spread)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


def _random(folder: Path, outputs: int) -> Any:
    config = copy.deepcopy(_config(folder))
    if not outputs:
        return _transformers().AutoModel.from_config(config)
    config.num_labels = outputs
    return _transformers().AutoModelForSequenceClassification.from_config(config)


@lru_cache(maxsize=2)
def _pretrained(folder: Path, outputs: int) -> Any:
    """The model of ``folder`` in float32, read once per process; callers copy it. 0 outputs: without a head."""
    library = _transformers()
    logging = library.utils.logging
    logging.set_verbosity_error()  # it would report the new head as a problem
    logging.disable_progress_bar()
    options: dict[str, Any] = {"local_files_only": True, "dtype": torch.float32}
    with torch.random.fork_rng(devices=[]):  # the library draws the new head; ours is drawn later, from its own seed
        try:
            if not outputs:
                return library.AutoModel.from_pretrained(folder, **options)
            return library.AutoModelForSequenceClassification.from_pretrained(folder, num_labels=outputs, **options)
        except (OSError, ValueError, RuntimeError) as error:
            raise DataError(f"{folder}: the pretrained model cannot be read ({error})") from error


def _transformers() -> Any:
    # By name, so that mypy gives the same verdict with every version of a library that is typed in parts.
    return importlib.import_module("transformers")


@lru_cache(maxsize=4)
def _config(folder: Path) -> Any:
    try:
        return _transformers().AutoConfig.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as error:
        raise DataError(f"{folder}: no readable config.json ({error})") from error


@lru_cache(maxsize=4)
def _tokenizer(folder: Path) -> Any:
    try:
        tokenizer = _transformers().AutoTokenizer.from_pretrained(folder, local_files_only=True, use_fast=True)
    except (OSError, ValueError) as error:
        raise DataError(f"{folder}: no readable tokenizer ({error})") from error
    if tokenizer.pad_token is None:
        # Causal models come without one; what stands in padded places is masked, so any known token will do.
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.padding_side = "right"
    return tokenizer


@lru_cache(maxsize=4)
def _token_cache(folder: Path, max_length: int) -> dict[Any, tuple[dict[str, list[int]], bool]]:
    return {}
