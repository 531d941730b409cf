"""The order in which trials are launched."""

from __future__ import annotations

from collections.abc import Iterable

from search_spaces.trial import TrialConfig


def launch_order(trials: Iterable[TrialConfig]) -> list[TrialConfig]:
    """CE first (all seeds), then seed by seed across all configurations.

    A sweep stopped halfway so has every baseline, and whole seeds of every configuration rather than all seeds of some.
    Seeds come in the order they first appear, trials of one seed in the order given.
    """
    given = list(trials)
    rank = {seed: position for position, seed in enumerate(dict.fromkeys(trial.seed for trial in given))}
    return sorted(given, key=lambda trial: (trial.mode != "ce", rank[trial.seed]))
