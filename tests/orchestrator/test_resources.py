"""How many trials fit, against counts worked out by hand."""

from __future__ import annotations

import pytest

from orchestrator.resources import Node, Slots, fit
from search_spaces.errors import UsageError

BOX = Node("box", 48, 4)
CPUS = Node("cpus", 16, 0)


@pytest.mark.parametrize(
    ("nodes", "gpus", "cpus", "expected"),
    [
        ([BOX], None, 1, Slots(1, 1, 4)),
        ([CPUS], None, 1, Slots(0, 1, 16)),
        ([BOX, CPUS], None, 1, Slots(1, 1, 4)),  # a trial that wants a GPU cannot run on the CPU node
        ([BOX] * 4, None, 1, Slots(1, 1, 16)),
        ([BOX], 0.5, 1, Slots(0.5, 1, 8)),
        ([BOX], 0.4, 1, Slots(0.4, 1, 8)),  # two per GPU: shares of different GPUs do not add up
        ([BOX], 0.1, 1, Slots(0.1, 1, 40)),
        ([BOX], 0.05, 1, Slots(0.05, 1, 48)),  # CPU-bound
        ([BOX], 1, 24, Slots(1, 24, 2)),
        ([BOX], 2, 1, Slots(2, 1, 2)),
        ([BOX], 3, 1, Slots(3, 1, 1)),
        ([BOX], 0, 1, Slots(0, 1, 48)),
        ([BOX, CPUS], 0, 5, Slots(0, 5, 12)),  # 9 + 3
        ([CPUS], 0, 0.1, Slots(0, 0.1, 160)),  # 16 / 0.1 is 159.99... in floating point
    ],
)
def test_room(nodes: list[Node], gpus: float | None, cpus: float, expected: Slots) -> None:
    assert fit(nodes, gpus_per_trial=gpus, cpus_per_trial=cpus) == expected


def test_max_concurrent_lowers_and_never_raises() -> None:
    assert fit([BOX], gpus_per_trial=1, cpus_per_trial=1, max_concurrent=3).concurrent == 3
    assert fit([BOX], gpus_per_trial=1, cpus_per_trial=1, max_concurrent=30).concurrent == 4


@pytest.mark.parametrize(("gpus", "cpus"), [(1, 17), (0, 17), (1, 1)])
def test_what_fits_nowhere_is_refused(gpus: float, cpus: float) -> None:
    with pytest.raises(UsageError, match=r"no machine can run .* \(cpus: 16 CPU cores, 0 GPUs\)"):
        fit([CPUS], gpus_per_trial=gpus, cpus_per_trial=cpus)


def test_a_trial_lies_on_one_node() -> None:
    with pytest.raises(UsageError):
        fit([BOX, BOX], gpus_per_trial=5, cpus_per_trial=1)


def test_no_machine_at_all() -> None:
    with pytest.raises(UsageError, match="no machine can run"):
        fit([], gpus_per_trial=None, cpus_per_trial=1)


@pytest.mark.parametrize(
    ("gpus", "cpus", "most", "message"),
    [
        (-0.5, 1, None, "0 or more, got -0.5"),
        (float("nan"), 1, None, "0 or more, got nan"),
        (1.5, 1, None, "above 1 must be a whole number, got 1.5"),
        (None, 0, None, "more than 0, got 0"),
        (None, float("inf"), None, "more than 0, got inf"),
        (None, 1, 0, "at least 1, got 0"),
    ],
)
def test_wrong_amounts(gpus: float | None, cpus: float, most: int | None, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        fit([BOX], gpus_per_trial=gpus, cpus_per_trial=cpus, max_concurrent=most)


def test_threads_device_and_words() -> None:
    assert (Slots(0, 1, 2).device, Slots(0.5, 1, 2).device) == ("cpu", "cuda")
    assert [Slots(0, cpus, 1).threads for cpus in (0.25, 1, 2.5, 8)] == [1, 1, 2, 8]
    assert Slots(1, 1, 4).describe() == "4 trials at once, each on 1 GPU and 1 CPU core"
    assert Slots(0.5, 2, 8).describe() == "8 trials at once, each on 0.5 GPU and 2 CPU cores"
    assert Slots(0, 1, 1).describe() == "1 trial at once on 1 CPU core"


@pytest.mark.parametrize(
    ("gpus", "cpus", "loaders"), [(1, 4, 3), (1, 1, 0), (0.5, 2, 1), (1, 0.5, 0), (0, 4, 0), (2, 8.5, 7)]
)
def test_a_trial_on_a_gpu_leaves_all_cores_but_one_to_loaders(gpus: float, cpus: float, loaders: int) -> None:
    assert Slots(gpus_per_trial=gpus, cpus_per_trial=cpus, concurrent=1).loaders == loaders
