"""The wider objectives: partial AUC, top-heavy and listwise ranking, Hand-Till, Deep-AUC and hypersimplex.

x is the score of a positive minus that of a negative, m the margin, l the surrogate named by the parameter
``surrogate``. ``docs/losses.md`` has an entry for each, with what to watch for.
"""

from __future__ import annotations

from search_spaces.cards import ALL_KINDS, LossCard
from search_spaces.loss_params import Between, OneOf

WITH_MARGIN = OneOf(("hinge", "square", "squared_hinge"))
WITHOUT_MARGIN = OneOf(("exponential", "logistic"))

FAMILIES = (
    LossCard(
        name="smoothed_indicator",
        title="Smoothed indicator",
        formula="1 / (1 + e^(steepness x))",
        weight="steepness v (1 - v), v the loss",
        has_margin=False,
        pairwise=True,
        source="Yan, Dodier, Mozer, Wolniewicz: Optimizing classifier performance via an approximation to the "
        "Wilcoxon-Mann-Whitney statistic, ICML 2003 (sigmoid form)",
        params={"steepness": 10.0},
        rules={"steepness": Between(0, open_low=True)},
        kinds=ALL_KINDS,
        weighted=True,
    ),
    LossCard(
        name="partial_auc",
        title="Partial AUC",
        formula="mean of l(x) over the hardest max_fpr of negatives and the hardest 1 - min_tpr of positives",
        weight="w(x) of the surrogate inside the block, 0 outside",
        has_margin=True,
        pairwise=True,
        source="Narasimhan, Agarwal: A structural SVM based approach for optimizing partial AUC, ICML 2013 (one-way); "
        "Yang et al.: When all we need is a piece of the pie, ICML 2021 (two-way)",
        params={"surrogate": "squared_hinge", "max_fpr": 0.3, "min_tpr": 0.0},
        rules={
            "surrogate": WITH_MARGIN,
            "max_fpr": Between(0, 1, open_low=True),
            "min_tpr": Between(0, 1, open_high=True),
        },
        weighted=True,
    ),
    LossCard(
        name="top_push",
        title="Top push",
        formula="mean of l(x) over all positives and the k negatives of largest score",
        weight="w(x) of the surrogate for the top negatives, 0 for the others",
        has_margin=True,
        pairwise=True,
        source="Li, Jin, Zhou: Top rank optimization in linear time, NeurIPS 2014 (k = 1)",
        params={"surrogate": "squared_hinge", "k": 1},
        rules={"surrogate": WITH_MARGIN, "k": Between(1, whole=True)},
        weighted=True,
    ),
    LossCard(
        name="p_norm_push",
        title="p-norm push",
        formula="(mean over negatives j of L_j^p)^(1/p), L_j = mean over positives of l(x)",
        weight="w(x) of the surrogate times (L_j / loss)^(p-1)",
        has_margin=False,
        pairwise=True,
        source="Rudin: The p-norm push, JMLR 2009",
        params={"surrogate": "exponential", "p": 4.0},
        rules={"surrogate": WITHOUT_MARGIN, "p": Between(1)},
        weighted=True,
    ),
    LossCard(
        name="incomplete_pairs",
        title="Incomplete pairs",
        formula="mean of l(x) over a balanced design of per_example * max(n+, n-) pairs",
        weight="w(x) of the surrogate for the pairs of the design, 0 for the others",
        has_margin=True,
        pairwise=True,
        source="Clemencon, Colin, Bellet: Scaling-up empirical risk minimization, optimization of incomplete "
        "U-statistics, JMLR 2016; balanced design: Blom 1976",
        params={"surrogate": "squared_hinge", "per_example": 1},
        rules={"surrogate": WITH_MARGIN, "per_example": Between(1, whole=True)},
        weighted=True,
    ),
    LossCard(
        name="semi_hard",
        title="Semi-hard pairs",
        formula="mean of l(x) over the pairs with 0 < x < m",
        weight="w(x) of the surrogate where 0 < x < m, else 0",
        has_margin=True,
        pairwise=True,
        source="Schroff, Kalenichenko, Philbin: FaceNet, CVPR 2015 (semi-hard negatives, for scores)",
        params={"surrogate": "squared_hinge"},
        rules={"surrogate": WITH_MARGIN},
        weighted=True,
        equal=(({"surrogate": "square"}, {"surrogate": "squared_hinge"}),),  # below the margin they are one function
    ),
    LossCard(
        name="listwise",
        title="Listwise",
        formula="log sum_i e^(s_i / tau) - mean over positives of s_i / tau",
        weight="none: every example against the whole list",
        has_margin=False,
        pairwise=True,
        source="Cao et al.: Learning to rank, from pairwise to listwise approach (ListNet, top one), ICML 2007",
        params={"tau": 1.0},
        rules={"tau": Between(0, open_low=True)},
        weighted=True,
    ),
    LossCard(
        name="hand_till",
        title="Hand-Till (multiclass one-vs-one)",
        formula="mean over ordered class pairs (c, d) of the mean of l(s_c(a) - s_c(b)), a of class c, b of class d",
        weight="w(x) of the surrogate / (n_c n_d)",
        has_margin=True,
        pairwise=True,
        source="Hand, Till: A simple generalisation of the AUC, Machine Learning 2001; Yang et al.: Learning with "
        "multiclass AUC, TPAMI 2021",
        params={"surrogate": "squared_hinge"},
        rules={"surrogate": WITH_MARGIN},
        kinds=("multiclass",),
        weighted=True,
    ),
    LossCard(
        name="aucm",
        title="AUC margin (Deep-AUC)",
        formula="min a, b, max alpha >= 0: E+(s-a)^2 + E-(s-b)^2 + 2 alpha (m + E-s - E+s) - alpha^2",
        weight="through a, b and alpha; at their optimum the square loss with a hinged mean gap",
        has_margin=True,
        pairwise=True,
        source="Yuan, Yan, Sonka, Yang: Large-scale robust deep AUC maximization, ICCV 2021; LibAUC 2.0.1",
        params={"version": "v2", "variant": "paper"},
        rules={"version": OneOf(("v1", "v2")), "variant": OneOf(("paper", "libauc-2.0.1"))},
    ),
    LossCard(
        name="aucm_closed",
        title="AUC margin, closed form",
        formula="Var+ + Var- + ((m - E+s + E-s)+)^2",
        weight="none: class means and variances",
        has_margin=True,
        pairwise=True,
        source="AUCM v2 at its saddle over a, b and alpha (this project's control: no auxiliary variable, no PESG)",
        weighted=True,
    ),
    LossCard(
        name="hypersimplex",
        title="Soft binary argmax (hypersimplex)",
        formula="1/2 |P(s / tau) - y|^2, P the projection onto {0 <= v <= 1, sum v = k}",
        weight="none: the batch is projected as a whole",
        has_margin=False,
        pairwise=True,
        source="Soft-Binary-Argmax loss, arXiv 2602.23336",
        params={"tau": 1.5, "k": "labels", "share": 0.5, "reduction": "sum"},
        rules={
            "tau": Between(0, open_low=True),
            "k": OneOf(("expected", "labels", "share")),
            "share": Between(0, 1, open_low=True, open_high=True),
            "reduction": OneOf(("sum", "mean")),
        },
        kinds=ALL_KINDS,
        weighted=True,
        equal=(({"k": "labels"}, {"share": 0.5}), ({"k": "expected"}, {"share": 0.5})),
    ),
    LossCard(
        name="multiclass_hinge",
        title="Multiclass hinge",
        formula="mean over classes c other than y of max(0, 1 - s_y + s_c), over C",
        weight="none: an example's class scores against each other",
        has_margin=False,
        pairwise=False,
        source="Weston, Watkins: Support vector machines for multi-class pattern recognition, ESANN 1999 (torch's "
        "MultiMarginLoss)",
        kinds=("multiclass",),
        weighted=True,
    ),
    LossCard(
        name="softmax_mse",
        title="MSE of the softmax",
        formula="mean over classes c of (softmax(s)_c - [c = y])^2",
        weight="none: not a function of pairs",
        has_margin=False,
        pairwise=False,
        source="squared error baseline of arXiv 2602.23336 (the Brier score over C)",
        kinds=("multiclass",),
        weighted=True,
    ),
)
"""Cards of the wider families, in the order ``aucsweep losses`` lists them."""
