"""The AUC margin objective of Deep-AUC (Yuan et al. 2021), versions v1 and v2, and its closed form.

With p the share of positives in the batch, m the margin and s the scores:

    v1  (1-p) E[(s-a)^2 1+] + p E[(s-b)^2 1-] + 2 alpha (p(1-p) m + E[p s 1- - (1-p) s 1+]) - p(1-p) alpha^2
    v2  E+ (s-a)^2 + E- (s-b)^2 + 2 alpha (m + E- s - E+ s) - alpha^2

to be minimised over the model, a and b and maximised over alpha >= 0, by ``trainables.pesg.Pesg``. The value of a
min-max objective says nothing about progress; look at the AUC. The saddle of v2 over a, b and alpha is
``AucMarginClosed``: the square loss of the pairs, with the mean gap hinged.

``variant="libauc-2.0.1"`` is what that package computes: a misplaced parenthesis in v2 makes the cross term
(1-p) E- s - E+ s, so that negatives get (1-p) of their gradient through alpha, and class means are divided by the
number of *non-zero* terms, so that a score equal to a, b or 0 changes the mean (all of them: NaN). v1 is the same in
both.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from search_spaces.cards import LossCard
from trainables.losses.common import check_vectors, class_shares, no_weights, result_dtype, split_classes, widen

VARIANTS = ("paper", "libauc-2.0.1")


class AucMargin(nn.Module):
    """The objective with its auxiliary variables ``a``, ``b`` and ``alpha`` (parameters, 0 at first).

    Its ``state_dict`` has to be saved with the optimizer's: resuming without it is another run.
    """

    def __init__(self, card: LossCard, margin: float, version: str = "v2", variant: str = "paper"):
        super().__init__()
        self.card, self.margin, self.version, self.variant = card, margin, version, variant
        self.a = nn.Parameter(torch.zeros(1))
        self.b = nn.Parameter(torch.zeros(1))
        self.alpha = nn.Parameter(torch.zeros(1))

    def forward(self, scores: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
        """The objective of ``scores`` (n,) and ``labels`` (n,) in {0, 1}; raises as every pairwise loss does."""
        check_vectors(scores, labels, weights)
        no_weights(weights, self.card.name)
        positives, negatives = split_classes(labels)
        if self.version == "v1":
            value = self._with_prior(scores, positives, negatives)
        elif self.variant == "paper":
            value = self._without_prior(scores, positives, negatives)
        else:
            value = self._as_shipped(scores, labels)
        return value.to(result_dtype(scores)).squeeze()

    def _with_prior(self, scores: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
        s, n = widen(scores), scores.numel()
        a, b, alpha = widen(self.a), widen(self.b), widen(self.alpha)
        p = positives.numel() / n
        spread = (1 - p) * (s[positives] - a).square().sum() / n + p * (s[negatives] - b).square().sum() / n
        cross = p * (1 - p) * self.margin + (p * s[negatives].sum() - (1 - p) * s[positives].sum()) / n
        return spread + 2 * alpha * cross - p * (1 - p) * alpha.square()

    def _without_prior(self, scores: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
        s = widen(scores)
        a, b, alpha = widen(self.a), widen(self.b), widen(self.alpha)
        up, down = s[positives], s[negatives]
        gap = self.margin + down.mean() - up.mean()
        return (up - a).square().mean() + (down - b).square().mean() + 2 * alpha * gap - alpha.square()

    def _as_shipped(self, scores: Tensor, labels: Tensor) -> Tensor:
        s = scores.to(torch.promote_types(scores.dtype, torch.float32))
        up, down = (labels == 1).to(s.dtype), (labels == 0).to(s.dtype)

        def mean(values: Tensor) -> Tensor:
            return values.sum() / torch.count_nonzero(values)

        spread = mean((s - self.a) ** 2 * up) + mean((s - self.b) ** 2 * down)
        return spread + 2 * self.alpha * (self.margin + mean(s * down - mean(s * up))) - self.alpha**2


@dataclass(frozen=True)
class AucMarginClosed:
    """Var+ s + Var- s + ((m - E+ s + E- s)+)^2: AUCM v2 at its saddle, with no auxiliary variable to tune.

    Equals the pairwise square loss while the mean gap is below the margin, and stops pushing the means apart beyond it.
    With ``weights`` means and variances are weighted.
    """

    card: LossCard
    margin: float

    def __call__(self, scores: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
        """The loss of ``scores`` (n,) and ``labels`` (n,) in {0, 1}; raises as every pairwise loss does."""
        check_vectors(scores, labels, weights)
        s = widen(scores)
        (up, spread_up), (down, spread_down) = (_moments(s, of_class, weights) for of_class in split_classes(labels))
        gap = (self.margin - up + down).clamp(min=0)
        return (spread_up + spread_down + gap.square()).to(result_dtype(scores))


def _moments(scores: Tensor, positions: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Mean and variance of the scores at ``positions``, by their weights."""
    chosen = scores[positions]
    if weights is None:
        return chosen.mean(), chosen.var(correction=0)
    shares = class_shares(weights[positions])
    mean = shares @ chosen
    return mean, shares @ (chosen - mean).square()
