"""The objectives by name: what they are, not how they are computed (``trainables.losses`` does that).

x is the score of a positive minus the score of a negative, m the margin, w(x) = -loss'(x) the weight of the pair.
"""

from __future__ import annotations

from search_spaces.cards import ALL_KINDS, LossCard
from search_spaces.loss_families import FAMILIES

LOSSES: dict[str, LossCard] = {
    card.name: card
    for card in (
        LossCard(
            name="ce",
            title="CE",
            formula="mean of log(1 + e^-z) over positives' and log(1 + e^z) over negatives' logits",
            weight="none: not a function of pairs",
            has_margin=False,
            pairwise=False,
            source="binary cross entropy on the logit, mean over the batch",
            kinds=ALL_KINDS,
            weighted=True,
        ),
        LossCard(
            name="square",
            title="Square",
            formula="(m - x)^2",
            weight="2 (m - x)",
            has_margin=True,
            pairwise=True,
            source="Gao, Jin, Zhu, Zhou: One-pass AUC optimization, ICML 2013",
            kinds=ALL_KINDS,
            weighted=True,
        ),
        LossCard(
            name="hinge",
            title="Hinge",
            formula="max(m - x, 0)",
            weight="1 if x < m else 0",
            has_margin=True,
            pairwise=True,
            source="Herbrich, Graepel, Obermayer: Large margin rank boundaries for ordinal regression, 2000",
            kinds=ALL_KINDS,
            weighted=True,
        ),
        LossCard(
            name="squared_hinge",
            title="Squared hinge",
            formula="max(m - x, 0)^2",
            weight="2 max(m - x, 0)",
            has_margin=True,
            pairwise=True,
            source="Zhao, Hoi, Jin, Yang: Online AUC maximization, ICML 2011 (hinge family)",
            kinds=ALL_KINDS,
            weighted=True,
        ),
        LossCard(
            name="logistic",
            title="Logistic",
            formula="log(1 + e^-x)",
            weight="1 / (1 + e^x)",
            has_margin=False,
            pairwise=True,
            source="Burges et al.: Learning to rank using gradient descent, ICML 2005",
            kinds=ALL_KINDS,
            weighted=True,
        ),
        LossCard(
            name="exponential",
            title="Exponential",
            formula="e^-x",
            weight="e^-x",
            has_margin=False,
            pairwise=True,
            source="Freund, Iyer, Schapire, Singer: RankBoost, an efficient boosting algorithm, JMLR 2003",
            kinds=ALL_KINDS,
            weighted=True,
        ),
        *FAMILIES,
    )
}
"""Every loss, CE first, in the order tables list them."""
