"""The learning rate of every update, as a pure function of the configuration."""

from __future__ import annotations

import math

from search_spaces.errors import TrialError
from search_spaces.trial import TrialConfig


def learning_rate(config: TrialConfig, update: int) -> float:
    """The learning rate of the update made after ``update`` others (0-based; ``update = T``: the value at the end).

    With w = ``lr_warmup_updates`` and T = ``total_updates``:

    - linear ramp, u < w: ``lr * u / w``, so that the first update has rate 0, as in Hugging Face's
      ``get_cosine_schedule_with_warmup``;
    - ``cosine``, u >= w: ``lr * (1 + cos(pi (u - w) / (T - w))) / 2``, which is 0 at T;
    - ``constant``, u >= w: ``lr``.

    From the switch from CE to the pairwise loss on (u >= ``warmup_updates`` of a warm-up run), the rate is multiplied
    by ``switch_scale``. CE and direct runs have no switch and are not scaled: the text gives rates of a direct run,
    0.025 at update 690 of 1380 from 0.05 and 5e-5 at update 110 of 220 from 1e-4, that exclude it.

    Raises ``TrialError`` for another ``lr_schedule`` and ``ValueError`` for an update outside 0 .. T.
    """
    total, ramp = config.total_updates, config.lr_warmup_updates
    if not 0 <= update <= total:
        raise ValueError(f"update {update} is outside 0..{total}")
    if update < ramp:
        factor = update / ramp
    elif config.lr_schedule == "cosine":
        factor = 0.5 * (1.0 + math.cos(math.pi * (update - ramp) / max(1, total - ramp)))
    elif config.lr_schedule == "constant":
        factor = 1.0
    else:
        raise TrialError(f"unknown lr_schedule {config.lr_schedule!r} (allowed: constant, cosine)")
    switched = config.mode == "warmup" and update >= config.warmup_updates
    scale = config.switch_scale if switched and config.switch_scale is not None else 1.0
    return config.learning_rate * factor * scale
