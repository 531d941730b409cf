"""What stands below a table whose AUCs are not all the plain one: which metric, of which scores, on which split."""

from __future__ import annotations

from collections.abc import Iterable

from search_spaces.tasks import TASKS

_KINDS = {
    "multiclass": (
        "AUC of {tasks}: macro one-vs-one, of log-softmax scores (float32). One-vs-rest depends on that row-wise "
        "normalisation. Classes without an example in a split are left out of its means; the JSON column "
        "`more_metrics` of the runs then has the number that is in them (`val_classes_ranked`, `test_classes_ranked`)."
    ),
    "multilabel": "AUC of {tasks}: the mean over labels, of each label's logits.",
}
_NO_VALIDATION = (
    "No validation split: each entry of {tasks} is the last epoch, and where several configurations were run, the one "
    "shown was selected by the test metric itself."
)


def metric_notes(tasks: Iterable[str]) -> tuple[str, ...]:
    """A sentence for each kind of ``tasks`` that is not binary, and one for those without a validation split."""
    cards = [TASKS[task] for task in dict.fromkeys(tasks) if task in TASKS]
    found = {text: [card.name for card in cards if card.kind == kind] for kind, text in _KINDS.items()}
    found[_NO_VALIDATION] = [card.name for card in cards if sum(card.counts["validation"]) == 0]
    return tuple(text.format(tasks=", ".join(names)) for text, names in found.items() if names)
