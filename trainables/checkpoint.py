"""TrainState: everything a run cut at any update needs to go on bit-equal, and nothing else.

Random numbers, batches and the learning rate are functions of the update number (``seeding``, ``sampling``,
``schedule``), so no generator, sampler or scheduler is saved. Frozen parameters are not either: the builder makes
them again from the seed or the pretrained weights.
"""

from __future__ import annotations

import copy
import io
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from search_spaces.errors import TrialError
from search_spaces.trial import TrialConfig
from trainables.context import EpochRow
from trainables.phases import ce_updates

FORMAT = 1


@dataclass(eq=False)
class Progress:
    """How far a run has come. ``update`` counts the updates made.

    ``loss_sum``, ``seconds`` and ``without_pair`` (updates whose batch had no pair) are those of the unfinished epoch.
    ``scores`` are the validation and test scores at the best epoch so far (see ``trainables.run.TrialResult``).
    """

    update: int = 0
    loss_sum: float = 0.0
    seconds: float = 0.0
    without_pair: int = 0
    rows: list[EpochRow] = field(default_factory=list)
    scores: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class TrainState:
    """A run after ``progress.update`` updates. It shares no memory with the run it was taken from.

    ``config`` is the run's, so that a state cannot be continued by a run it does not belong to.
    """

    config: TrialConfig
    progress: Progress
    model: dict[str, Tensor]
    optimizer: dict[str, Any]
    loss: dict[str, Tensor] = field(default_factory=dict)
    """The variables of a loss that has its own."""

    def to_bytes(self) -> bytes:
        """The state as ``torch.save`` writes it."""
        buffer = io.BytesIO()
        content = {
            "format": FORMAT,
            "config": self.config.as_dict(),
            "progress": vars(self.progress),
            "model": self.model,
            "optimizer": self.optimizer,
            "loss": self.loss,
        }
        torch.save(content, buffer)
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> TrainState:
        """The inverse of ``to_bytes``, on the CPU. Runs no code from the file.

        Raises ``TrialError`` when ``content`` is truncated, corrupt or of another format.
        """
        try:
            values = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
            if values["format"] != FORMAT:
                raise TrialError(f"a train state of format {values['format']}; this version reads format {FORMAT}")
            config = TrialConfig.from_dict(values["config"])
            progress = Progress(**values["progress"])
            return cls(config, progress, values["model"], values["optimizer"], values["loss"])
        except TrialError:
            raise
        except Exception as error:  # torch raises many classes for a damaged archive
            raise TrialError(f"not a readable train state ({type(error).__name__}: {error})") from error

    def save(self, path: Path) -> None:
        """Write to ``path``, whole or not at all: another process never reads half a state."""
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(self.to_bytes())
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    @classmethod
    def load(cls, path: Path) -> TrainState:
        """Read what ``save`` wrote. Raises ``FileNotFoundError``, or ``TrialError`` as ``from_bytes`` does."""
        return cls.from_bytes(path.read_bytes())


def capture(
    config: TrialConfig, progress: Progress, module: nn.Module, optimizer: Optimizer, loss: nn.Module | None = None
) -> TrainState:
    """The state of a run between two updates, copied."""
    variables = {} if loss is None else loss.state_dict()
    return TrainState(config, *copy.deepcopy((progress, _changing(module), optimizer.state_dict(), variables)))


def restore(
    state: TrainState, config: TrialConfig, module: nn.Module, optimizer: Optimizer, loss: nn.Module | None = None
) -> Progress:
    """Bring a freshly built module and optimizer to ``state`` and return its progress, copied.

    Raises ``TrialError`` when a run of ``config`` would not have come through this state, or when the state is of
    another model.
    """
    check_continues(state, config)
    # Optimizers keep the very tensors they load, so that two runs forked from one state would share their moments.
    progress, changing, moments = copy.deepcopy((state.progress, state.model, state.optimizer))
    shapes = {name: value.shape for name, value in _changing(module).items()}
    differing = shapes.items() ^ {name: value.shape for name, value in changing.items()}.items()
    if differing:
        names = ", ".join(sorted({name for name, _ in differing})[:5])
        raise TrialError(f"the state is of another model than {config.model!r} (first differing tensors: {names})")
    module.load_state_dict(changing, strict=False)
    optimizer.load_state_dict(moments)
    if loss is not None:
        loss.load_state_dict(state.loss)
    return progress


def check_continues(state: TrainState, config: TrialConfig) -> None:
    """Raise ``TrialError`` unless a run of ``config`` comes through ``state``.

    It does when the state is its own, or one of a run with the same prefix (``TrialConfig.prefix_id``) and both have
    made nothing but CE updates up to there.
    """
    if state.config.trial_id == config.trial_id:
        return
    shared = min(ce_updates(state.config), ce_updates(config))
    if state.config.prefix_id != config.prefix_id:
        raise TrialError(
            f"trial {config.trial_id} cannot continue a state of trial {state.config.trial_id}: their CE phases differ "
            f"(prefixes {config.prefix_id} and {state.config.prefix_id})"
        )
    if state.progress.update > shared:
        raise TrialError(
            f"trial {config.trial_id} cannot continue a state of trial {state.config.trial_id} at update "
            f"{state.progress.update}: they part after update {shared}"
        )


def _changing(module: nn.Module) -> dict[str, Tensor]:
    parameters = module.named_parameters(remove_duplicate=False)
    frozen = {name for name, parameter in parameters if not parameter.requires_grad}
    return {name: value for name, value in module.state_dict().items() if name not in frozen}
