"""A surrogate that changes over the updates of its phase: a margin curriculum, and CE faded in or out beside it.

    loss(t) = c(t) CE(z) + (1 - c(t)) mean over pairs of l_{m(t)}(x)

With t the share of the phase that is over (0 at the switch), m(t) rises linearly from ``margin_from`` times the margin
to the margin, and c(t) goes linearly from ``ce_from`` to ``ce_to``, both until t = ``until``; then they stay. A
function of the update alone: a cut run needs nothing saved.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from search_spaces.cards import LossCard
from search_spaces.losses import LOSSES
from trainables.losses.common import no_weights
from trainables.losses.cross_entropy import CrossEntropy
from trainables.losses.pairwise import PairwiseLoss
from trainables.losses.surrogates import Surrogate


@dataclass(frozen=True)
class ScheduledLoss:
    """The schedule; ``at`` gives what holds at one moment. Called as a loss, it is what holds at the end."""

    card: LossCard
    surrogate: str
    margin: float
    margin_from: float
    ce_from: float
    ce_to: float
    until: float

    def at(self, share: float) -> tuple[float, PairwiseLoss]:
        """The weight of CE and the pairwise loss when ``share`` (0 to 1) of the phase is over."""
        ramp = min(1.0, share / self.until)
        margin = self.margin * (self.margin_from + (1 - self.margin_from) * ramp)
        weight = self.ce_from + (self.ce_to - self.ce_from) * ramp
        return weight, PairwiseLoss(self.card, Surrogate(self.surrogate, margin))

    def value(self, share: float, logits: Tensor, scores: Tensor, labels: Tensor) -> Tensor:
        """The loss at ``share``: CE of ``logits`` and the surrogate of ``scores``, the same on another scale."""
        weight, pairwise = self.at(share)
        if weight == 0:
            return pairwise(scores, labels)
        cross_entropy = CrossEntropy(LOSSES["ce"])(logits, labels)
        return cross_entropy if weight == 1 else weight * cross_entropy + (1 - weight) * pairwise(scores, labels)

    def __call__(self, scores: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
        """The loss at the end of the phase, with ``scores`` both as logits and as scores."""
        no_weights(weights, self.card.name)
        return self.value(1.0, scores, scores, labels)
