"""A loss of one's own from a plain function of the two classes' scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from search_spaces.cards import LossCard
from trainables.losses.common import LossError, check_vectors, no_weights, result_dtype, split_classes, widen


@dataclass(frozen=True)
class OwnLoss:
    """``function(positives (n+,), negatives (n-,), **given)`` in float64, checked like every pairwise loss."""

    card: LossCard
    function: Callable[..., Tensor]
    given: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, scores: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
        """The loss of ``scores`` (n,) and ``labels`` (n,) in {0, 1}; raises as every pairwise loss does.

        Raises ``LossError`` too for a function that returns anything but a tensor of one number.
        """
        check_vectors(scores, labels, weights)
        no_weights(weights, self.card.name)
        positives, negatives = split_classes(labels)
        wide = widen(scores)
        value: object = self.function(wide[positives], wide[negatives], **self.given)
        if not isinstance(value, Tensor) or value.numel() != 1:
            what = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
            raise LossError(f"the function of loss {self.card.name} should return a tensor of one number, got {what}")
        return value.reshape(()).to(result_dtype(scores))


def on_classes(function: Callable[..., Tensor]) -> Callable[[LossCard, float | None, Mapping[str, Any]], OwnLoss]:
    """A builder for ``register_loss``: ``function`` gets both classes' scores, a margin if any, and parameters."""

    def build(card: LossCard, margin: float | None, params: Mapping[str, Any]) -> OwnLoss:
        return OwnLoss(card, function, {**params, **({"margin": margin} if card.has_margin else {})})

    return build
