"""What every loss shares: its interface, its errors, and the split of a batch into the two classes."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from search_spaces.cards import LossCard
from search_spaces.errors import DataError, UsageError


class LossError(UsageError, ValueError):
    """A loss called with a name, parameter, shape or label it does not know."""


class OneClassError(ValueError, DataError):
    """A batch that holds one class only, or only one whose weights are not 0, so that no pair exists: kind ``data``."""


class Loss(Protocol):
    """A training objective: ``loss(scores, labels, weights=None)`` gives a scalar tensor to call ``backward`` on.

    A loss with parameters of its own (``aucm``) is a ``torch.nn.Module`` besides: the loop trains and saves them.
    """

    @property
    def card(self) -> LossCard:
        """Formula, parameters and source."""
        ...

    def __call__(self, scores: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
        """The loss of one batch."""
        ...


def check_vectors(scores: Tensor, labels: Tensor, weights: Tensor | None) -> None:
    """Raise ``LossError`` unless ``scores`` is a floating (n,) tensor and the others have its shape."""
    if scores.dim() != 1:
        raise LossError(f"scores must have shape (n,), got {tuple(scores.shape)}")
    if not scores.is_floating_point():
        raise LossError(f"scores must be floating point, got {scores.dtype}")
    if labels.shape != scores.shape:
        raise LossError(f"labels must have the shape of the scores {tuple(scores.shape)}, got {tuple(labels.shape)}")
    check_weights(weights, scores.numel())


def check_weights(weights: Tensor | None, count: int) -> None:
    """Raise ``LossError`` unless ``weights`` are None or (count,), finite and not negative.

    Raises ``OneClassError`` when all are zero: examples of weight 0 are absent.
    """
    if weights is None:
        return
    if weights.shape != (count,):
        raise LossError(f"weights must have shape ({count},), one an example, got {tuple(weights.shape)}")
    if not bool(torch.isfinite(weights).all()) or bool((weights < 0).any()):
        raise LossError("weights must be finite and not negative")
    if not bool((weights > 0).any()):
        raise OneClassError(f"all {count} examples of a batch have weight 0: there is nothing to learn from")


def split_classes(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Positions of the positives (n+,) and of the negatives (n-,), each in batch order.

    Raises ``LossError`` for a label outside {0, 1} and ``OneClassError`` when a class is missing.
    """
    positives = (labels == 1).nonzero().squeeze(1)
    negatives = (labels == 0).nonzero().squeeze(1)
    n_pos, n_neg = positives.numel(), negatives.numel()
    if n_pos + n_neg != labels.numel():
        wrong = labels[(labels != 0) & (labels != 1)].tolist()
        raise LossError(f"labels must be 0 or 1, got {wrong[:5]}")
    if n_pos == 0 or n_neg == 0:
        missing = "positive" if n_pos == 0 else "negative"
        raise OneClassError(f"a batch of {labels.numel()} examples has no {missing} example: no pair can be formed")
    return positives, negatives


def weighted_classes(labels: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor] | None]:
    """``split_classes``, and the shares (n+,), (n-,) that ``weights`` (n,), checked before, give within each class.

    Examples of weight 0 are left out, so that they bring no inf * 0 into a sum. Without weights there are no shares.
    Raises as ``split_classes`` and ``class_shares`` do.
    """
    positives, negatives = split_classes(labels)
    if weights is None:
        return positives, negatives, None
    positives, negatives = positives[weights[positives] > 0], negatives[weights[negatives] > 0]
    return positives, negatives, (class_shares(weights[positives]), class_shares(weights[negatives]))


def widen(tensor: Tensor) -> Tensor:
    """``tensor`` in float64, where every sum of this package is taken."""
    return tensor.to(torch.float64)


def result_dtype(scores: Tensor) -> torch.dtype:
    """The loss's own dtype: that of the scores, but float32 for half precision, which cannot hold a mean."""
    return torch.float32 if scores.dtype in (torch.float16, torch.bfloat16) else scores.dtype


def with_nan(loss: Tensor, scores: Tensor) -> Tensor:
    """``loss``, or NaN when one of ``scores`` is: of those that the loss left out too, so that no fault is hidden."""
    return torch.where(scores.detach().isnan().any(), torch.nan, loss)


def class_shares(weights: Tensor) -> Tensor:
    """``weights`` (n,), checked as ``check_weights`` does, in float64 and scaled to sum to 1.

    Raises ``OneClassError`` when all are zero: the weights of a class, or of the part of it that a loss selects. A NaN
    (of a selection by NaN scores) is passed on.
    """
    wide = widen(weights.detach())
    if not bool((wide != 0).any()):
        raise OneClassError(
            "all examples of a class, or all that a loss selects of it, have weight 0: no pair can be formed"
        )
    wide = wide / wide.max()  # 1e308 twice is no number
    return wide / wide.sum()


def no_weights(weights: Tensor | None, name: str) -> None:
    """Raise ``LossError`` when a loss that knows no example weights is given some."""
    if weights is not None:
        raise LossError(f"loss {name} takes no example weights")
