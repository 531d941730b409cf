"""What fits binary, multiclass and multilabel tasks: which losses, which sampling, which scale of the scores."""

from __future__ import annotations

from collections.abc import Sequence

from search_spaces.cards import LossCard, TaskCard
from search_spaces.phase_spec import PHASED
from search_spaces.settings import Settings

SAMPLINGS = {
    "binary": ("stratified", "balanced", "natural"),
    "multiclass": ("balanced", "natural"),
    "multilabel": ("natural",),
}
"""``sampling`` by kind of task: a share of positives means nothing to several classes, classes nothing to labels."""

SCALES = {
    "binary": ("sigmoid", "identity"),
    "multiclass": ("sigmoid", "identity", "log_softmax"),
    "multilabel": ("sigmoid", "identity"),
}
"""``score_scale`` by kind of task."""


def kind_problems(tasks: Sequence[TaskCard], losses: Sequence[LossCard], settings: Settings) -> list[str]:
    """What does not fit, as sentences that begin with the key to change."""
    problems = []
    for task in tasks:
        for loss in losses:
            if task.kind not in loss.kinds:
                kinds = " and ".join(loss.kinds)
                why = "; a phase's loss, pairs or weights are for no others" if PHASED in loss.params else ""
                problems.append(f"losses: {loss.name} is for {kinds} tasks, {task.name} is {task.kind}{why}")
        if settings.sampling not in SAMPLINGS[task.kind]:
            allowed = " or ".join(SAMPLINGS[task.kind])
            problems.append(f"settings.sampling: {settings.sampling}, but {task.name} is {task.kind}: {allowed}")
        elif settings.sampling == "balanced" and not settings.updates_per_epoch and len(task.counts["train"]) == 1:
            problems.append(
                f"settings.updates_per_epoch: needed, the card of {task.name} does not count its training classes"
            )
        scales = SCALES[task.kind]
        if settings.score_scale not in scales and any(loss.pairwise for loss in losses):
            allowed = " or ".join(scales)
            problems.append(f"settings.score_scale: {settings.score_scale}, but {task.name} is {task.kind}: {allowed}")
        if sum(task.counts["validation"]) == 0 and settings.selection != "last":
            problems.append(
                f"settings.selection: {task.name} has no validation split to find a best epoch by; use last"
            )
    return problems
