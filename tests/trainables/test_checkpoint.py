"""A run cut at any update, or forked from a shared CE prefix, equals the uncut run to the last bit."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from search_spaces.errors import TrialError
from search_spaces.trial import TrialConfig
from trainables import checkpoint
from trainables.checkpoint import TrainState
from trainables.context import TrialContext
from trainables.device import execution
from trainables.run import TrialResult, advance, prepare_run, result, run_trial

Make = Callable[..., TrialConfig]
MEASURED = ("seconds", "gpu_seconds", "peak_memory_bytes")

SGD = {"accumulation": 2, "max_grad_norm": 0.05}
ADAMW = {"optimizer": "adamw", "momentum": 0.0, "learning_rate": 0.01, "lr_warmup_updates": 3}
PESG = {"optimizer": "pesg", "loss": "aucm", "margin": 1.0, "learning_rate": 0.05}
AS_SHIPPED = {"loss_params": {"version": "v2", "variant": "libauc-2.0.1"}}


@pytest.fixture(autouse=True)
def _deterministic() -> Any:
    with execution(torch.device("cpu"), 1):
        yield


def numbers(outcome: TrialResult) -> tuple[Any, ...]:
    """Everything of a result that must not depend on where a run was cut."""
    rows = [{key: value for key, value in row.items() if key not in MEASURED} for row in outcome.rows]
    return rows, outcome.selected_epoch, {name: values.tolist() for name, values in outcome.scores.items()}


def assert_same(one: Any, other: Any) -> None:
    """Equal to the last bit, through nested states."""
    if isinstance(one, torch.Tensor):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            assert_same(left, right)
    else:
        assert one == other


def finished(config: TrialConfig, context: TrialContext, state: TrainState | None = None) -> tuple[Any, TrainState]:
    run = prepare_run(config, context, state)
    torch.manual_seed(5)  # the global generator's state must not matter between building and training
    advance(run, config.total_updates)
    return numbers(result(run)), run.state()


@pytest.mark.parametrize(
    "changes",
    [SGD, ADAMW, PESG, PESG | AS_SHIPPED],
    ids=["sgd-clipped-accumulated", "adamw-ramp", "pesg", "pesg-as-shipped"],
)
def test_a_run_cut_at_any_update_and_continued_is_bit_equal(
    config_of: Make, toy: Any, tmp_path: Path, changes: dict[str, Any]
) -> None:
    toy.make_deep()
    config, context = config_of(**changes), toy.context(tmp_path)
    expected, last = finished(config, context)
    walked = prepare_run(config, context)
    for update in range(config.total_updates + 1):  # epochs end at 5, 10 and 15; the switch is at 7
        advance(walked, update)
        state = TrainState.from_bytes(walked.state().to_bytes())
        assert state.progress.update == update
        continued, end = finished(config, context, state)
        assert continued == expected
        assert_same(end.model, last.model)
        assert_same(end.optimizer, last.optimizer)
        assert_same(end.loss, last.loss)


def test_the_toy_run_really_uses_dropout_clipping_momentum_and_augmentation(
    config_of: Make, toy: Any, tmp_path: Path
) -> None:
    """Guards the test above: each ingredient changes the numbers, so forgetting its state would show."""
    toy.make_deep()
    context = toy.context(tmp_path)
    reference = finished(config_of(**SGD), context)[0]
    for changes in ({"max_grad_norm": None}, {"momentum": 0.0}, {"accumulation": 1}, {"seed": 124}):
        assert finished(config_of(**(SGD | changes)), context)[0] != reference
    toy.make_deep(noise=0.0)
    assert finished(config_of(**SGD), context)[0] != reference
    toy.make_deep()
    module = toy.module
    toy.module = lambda: nn.Sequential(*(layer for layer in module() if not isinstance(layer, nn.Dropout)))
    assert finished(config_of(**SGD), context)[0] != reference


def test_losses_forked_from_one_ce_prefix_equal_their_unforked_runs(
    config_of: Make, ce_fields: dict[str, Any], toy: Any, tmp_path: Path
) -> None:
    toy.make_deep()
    context = toy.context(tmp_path)
    prefix = prepare_run(config_of(**(SGD | ce_fields)), context)
    forks = [
        {"warmup_updates": 4, "loss": "logistic", "margin": None},
        {"warmup_updates": 5, "margin": 0.1},  # the switch at an epoch's end
        {"warmup_updates": 7, "loss": "hinge", "margin": 0.3, "switch_scale": 1.0},
        {"warmup_updates": 7, "loss": "square", "score_scale": "identity"},
    ]
    for fork in forks:
        config = config_of(**(SGD | fork))
        advance(prefix, config.warmup_updates)
        state = prefix.state()
        expected, last = finished(config, context)
        for _ in range(2):  # the state serves again: a fork must not write into it
            forked, end = finished(config, context, state)
            assert forked == expected
            assert_same(end.model, last.model)
            assert_same(end.optimizer, last.optimizer)
    advance(prefix, 15)  # and the prefix itself, cut at every fork, is a CE run
    assert numbers(result(prefix)) == finished(config_of(**(SGD | ce_fields)), context)[0]


def test_a_captured_state_does_not_change_while_the_run_goes_on(config_of: Make, toy: Any, tmp_path: Path) -> None:
    toy.make_deep()
    run = prepare_run(config_of(), toy.context(tmp_path))
    advance(run, 6)
    state = run.state()
    before = copy.deepcopy(state)
    advance(run, 15)
    assert_same(state.model, before.model)
    assert_same(state.optimizer, before.optimizer)
    assert_same(vars(state.progress), vars(before.progress))


def test_a_state_of_another_run_is_refused(
    config_of: Make, ce_fields: dict[str, Any], toy: Any, tmp_path: Path
) -> None:
    context = toy.context(tmp_path)
    run = prepare_run(config_of(), context)
    advance(run, 8)
    state = run.state()
    with pytest.raises(TrialError, match="prefixes"):
        prepare_run(config_of(seed=124), context, state)
    for other in (config_of(margin=0.7), config_of(**ce_fields)):
        with pytest.raises(TrialError, match="part after update 7"):
            prepare_run(other, context, state)
    early = prepare_run(config_of(), context)
    advance(early, 6)  # all with CE, but the other has switched by then
    with pytest.raises(TrialError, match="part after update 5"):
        prepare_run(config_of(warmup_updates=5), context, early.state())
    with pytest.raises(TrialError, match="part after update 0"):
        prepare_run(config_of(mode="direct", warmup_updates=0, switch_scale=None), context, early.state())


def test_a_state_of_another_model_is_refused(config_of: Make, toy: Any, tmp_path: Path) -> None:
    context = toy.context(tmp_path)
    state = prepare_run(config_of(), context).state()
    toy.make_deep()
    with pytest.raises(TrialError, match="another model than 'toy-model'"):
        prepare_run(config_of(), context, state)


def test_frozen_parameters_are_left_out_and_buffers_kept(config_of: Make, toy: Any, tmp_path: Path) -> None:
    toy.make_deep()
    deep = toy.module

    def frozen() -> nn.Module:
        module = deep()
        module[0].requires_grad_(False)
        return module

    toy.module = frozen
    config, context = config_of(), toy.context(tmp_path)
    run = prepare_run(config, context)
    advance(run, 6)
    state = run.state()
    assert not any(name.startswith("0.") for name in state.model)
    assert "1.running_mean" in state.model
    assert finished(config, context, state)[0] == finished(config, context)[0]


def test_files_are_written_whole_or_not_at_all(
    config_of: Make, toy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = prepare_run(config_of(), toy.context(tmp_path))
    advance(run, 6)
    path = tmp_path / "states" / "one.pt"
    run.state().save(path)
    assert [entry.name for entry in path.parent.iterdir()] == ["one.pt"]
    loaded = TrainState.load(path)
    assert_same(loaded.model, run.state().model)
    assert loaded.config == run.config
    assert_same(vars(loaded.progress), vars(run.progress))

    advance(run, 9)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint.os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk")))
        with pytest.raises(OSError, match="disk"):
            run.state().save(path)
    assert [entry.name for entry in path.parent.iterdir()] == ["one.pt"]
    assert TrainState.load(path).progress.update == 6


@pytest.mark.parametrize("damage", ["truncated", "empty", "noise", "format"])
def test_a_damaged_state_is_a_clear_error(config_of: Make, toy: Any, tmp_path: Path, damage: str) -> None:
    content = prepare_run(config_of(), toy.context(tmp_path)).state().to_bytes()
    if damage == "format":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(checkpoint, "FORMAT", 99)
            content = prepare_run(config_of(), toy.context(tmp_path)).state().to_bytes()
        with pytest.raises(TrialError, match="format 99; this version reads format 1"):
            TrainState.from_bytes(content)
        return
    content = {"truncated": content[: len(content) // 2], "empty": b"", "noise": b"\x00" * 500}[damage]
    with pytest.raises(TrialError, match="not a readable train state"):
        TrainState.from_bytes(content)


def test_run_trial_goes_on_from_a_state(config_of: Make, toy: Any, tmp_path: Path) -> None:
    toy.make_deep()
    config, context = config_of(), toy.context(tmp_path)
    run = prepare_run(config, context)
    advance(run, 8)
    assert numbers(run_trial(config, context, run.state())) == numbers(run_trial(config, context))


def test_pesg_goes_with_its_loss_alone(config_of: Make, ce_fields: dict[str, Any], toy: Any, tmp_path: Path) -> None:
    context = toy.context(tmp_path)
    for changes in ({"optimizer": "pesg"}, PESG | {"optimizer": "sgd"}, ce_fields | {"optimizer": "pesg"}):
        with pytest.raises(TrialError, match="pesg and aucm go together"):
            prepare_run(config_of(**changes), context)


def test_the_variables_of_deep_auc_are_trained_after_the_switch(config_of: Make, toy: Any, tmp_path: Path) -> None:
    run = prepare_run(config_of(**PESG), toy.context(tmp_path))
    advance(run, 7)
    assert not any(value.any() for value in run.state().loss.values())
    advance(run, 15)
    state = run.state()
    assert set(state.loss) == {"a", "b", "alpha"}
    assert all(value.any() for value in state.loss.values())
    counts = [entry["count"] for entry in run.optimizer.state.values() if "count" in entry]
    assert counts == [4] * len(counts)  # of 15 updates the reference moves after 7, which is none yet, and after 11
