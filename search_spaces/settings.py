"""Settings: how a trial trains, as a regime gives it and a space may change it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from search_spaces.fields import Number, Whole


class Settings(BaseModel):
    """The training settings of one part of a space. Every field but ``eval_batch_size`` changes the numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    epochs: Annotated[Whole, Field(ge=1)]
    """Passes over the training split, counted by the class that takes more batches."""
    batch_size: Annotated[Whole, Field(ge=2)]
    """Examples of one optimizer update."""
    eval_batch_size: Annotated[Whole, Field(ge=1)]
    """Examples scored at once in evaluation; not part of a trial's identity."""
    optimizer: Literal["sgd", "adamw", "pesg"]
    learning_rate: Annotated[Number, Field(gt=0)]
    momentum: Annotated[Number, Field(ge=0, lt=1)] = 0.0
    """Of SGD and PESG; 0 with AdamW."""
    weight_decay: Annotated[Number, Field(ge=0)]
    lr_schedule: Literal["cosine", "constant"] = "cosine"
    lr_warmup_fraction: Annotated[Number, Field(ge=0, lt=1)] = 0.0
    """Share of all updates over which the learning rate first rises linearly."""
    sampling: Literal["stratified", "balanced", "natural"] = "stratified"
    """What a batch holds: a fixed share of positives, every class alike, or the training split as it comes."""
    updates_per_epoch: Annotated[Whole, Field(ge=1)] | None = None
    """Updates counted as an epoch; None is as many as one pass takes. Not with natural sampling."""
    selection: Literal["best", "last"] = "best"
    """The epoch a run is judged by: the best validation metric of all, or the last, the only one evaluated."""
    positive_fraction: Annotated[Number, Field(gt=0, lt=1)] = 0.25
    """Share of positives in every stratified batch."""
    accumulation: Annotated[Whole, Field(ge=1)] = 1
    """Parts a batch is split into; a stratified one needs a positive and a negative in each, others two examples."""
    switch_scale: Annotated[Number, Field(gt=0)] = 0.5
    """Factor on the learning rate from the switch to the pairwise loss on."""
    example_weights: Literal["none", "task"] = "none"
    """Whether every loss of a run, CE included, weighs examples as their task does (confidence in a noisy label)."""
    max_grad_norm: Annotated[Number, Field(gt=0)] | None = None
    score_scale: Literal["sigmoid", "identity", "log_softmax"] = "sigmoid"
    """What the pairwise losses compare: sigmoid(logit), the logit itself, or its log-softmax over the classes."""
    precision: Literal["float32", "bfloat16", "bfloat16-autocast"] = "float32"
    """``bfloat16``: computed in bfloat16, what is trained held in float32, what is frozen in bfloat16;
    ``bfloat16-autocast``: computed in bfloat16, everything held in float32."""
    max_length: Annotated[Whole, Field(ge=4)] | None = None
    """Tokens a text is cut to; None is the model's own limit."""
    augmentation: Literal["none", "paper", "flip", "crop"] = "none"
    """Of training images: paper is random resized crop, flip and RandAugment(2, 9); crop is a shift by up to 4 pixels
    and flip."""
