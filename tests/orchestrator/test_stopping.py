"""Stop: signals, budget and other reasons, and handlers put back."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from orchestrator import stopping
from orchestrator.running import Halt
from orchestrator.stopping import Stop


class _SecondSignal(Exception):
    pass


def _own_handler(number: int, frame: object) -> None:
    raise _SecondSignal


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    """Handlers of our own for the test, the real ones afterwards."""
    watched = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, _own_handler) for number in watched}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_stops_and_the_second_is_the_old_one(number: signal.Signals) -> None:
    with Stop() as stop:
        assert stop() is Halt.NO
        os.kill(os.getpid(), number)
        assert stop() is Halt.NOW
        assert (stop.reason, stop.early) == (f"stopped by {number.name}", True)
        with pytest.raises(_SecondSignal):
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) is _own_handler


def test_handlers_are_put_back_without_a_signal() -> None:
    with Stop():
        assert signal.getsignal(signal.SIGTERM) is not _own_handler
    assert signal.getsignal(signal.SIGTERM) is _own_handler


def test_an_ignored_signal_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with Stop() as stop:
        os.kill(os.getpid(), signal.SIGHUP)
        assert stop() is Halt.NO
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_another_thread_leaves_the_handlers_alone() -> None:
    seen: list[object] = []

    def work() -> None:
        with Stop() as stop:
            seen.extend([signal.getsignal(signal.SIGTERM), stop()])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [_own_handler, Halt.NO]


def test_the_budget_drains_and_a_signal_still_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 50.0
    monkeypatch.setattr(stopping.time, "monotonic", lambda: now)
    with Stop(time_budget=10) as stop:
        now = 59.9
        assert stop() is Halt.NO
        now = 60.0
        assert stop() is Halt.DRAIN
        assert (stop.reason, stop.early) == ("the time budget of 10 s is spent", True)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop() is Halt.NOW
        assert stop.reason == "stopped by SIGTERM"


def test_the_first_reason_stays() -> None:
    stop = Stop()
    stop.now("first", early=False)
    stop.now("second")
    assert (stop(), stop.reason, stop.early) == (Halt.NOW, "first", False)
