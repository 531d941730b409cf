"""Progress: counts, rate and time left by a clock of our own, lines at their time, one bar on a terminal."""

from __future__ import annotations

import io

import pytest

from orchestrator.progress import Bar, Lines, Silent, Tally, duration, make_progress
from orchestrator.running import Outcome, Started


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def done(name: str, loss: str = "ce", auc: float = 0.5) -> Outcome:
    return Outcome(name, "done", loss=loss, best_val_auc=auc)


def failed(name: str, kind: str = "error", message: str = "") -> Outcome:
    return Outcome(name, "failed", kind, message)


def test_tally() -> None:
    clock = Clock()
    tally = Tally(wanted=10, done=4, clock=clock)
    assert (tally.finished, tally.per_minute, tally.eta_seconds) == (4, None, None)
    assert tally.rate_text() == "no trial has ended yet"
    tally.add(Started("a"))
    tally.add(Started("b"))
    assert tally.running == {"a", "b"}
    clock.now += 30
    tally.add(done("a", "hinge", 0.7))
    tally.add(failed("b", "nan"))
    assert tally.running == set()
    assert (tally.done, tally.failed, tally.finished) == (5, {"b": "nan"}, 6)
    # Two ended in half a minute; four are left.
    assert tally.per_minute == pytest.approx(4.0)
    assert tally.eta_seconds == pytest.approx(60.0)
    assert tally.rate_text() == "4.0/min, 60 s left"

    tally.add(Started("b"))
    tally.add(done("b", "hinge", 0.6))  # within one launch, after a lost worker
    assert (tally.done, tally.failed) == (6, {})
    tally.add(done("c", "square", 0.9))
    assert tally.best_text() == "best val AUC: square 0.9000, hinge 0.7000"


def test_best_values_go_by_the_names_of_the_space() -> None:
    names = {"a": {"curriculum"}, "b": {"squared_hinge", "soft-switch"}, "old": {"ce"}}
    tally = Tally(4, 1, Clock(), names=names)
    tally.reached("old", 0.6)  # in the store before this launch
    tally.add(done("a", "phases", 0.7))
    tally.add(done("b", "phases", 0.8))
    tally.add(done("unnamed", "hinge", 0.9))
    assert tally.best_text() == (
        "best val AUC: hinge 0.9000, soft-switch 0.8000, squared_hinge 0.8000, curriculum 0.7000, ce 0.6000"
    )


def test_slow_trials_are_counted_per_hour() -> None:
    clock = Clock()
    tally = Tally(3, 0, clock)
    tally.add(Started("a"))
    clock.now += 1800
    tally.add(done("a"))
    assert tally.rate_text() == "2.0/h, 60 min left"


def test_lines_come_with_every_twentieth_and_every_minute() -> None:
    clock, stream = Clock(), io.StringIO()
    lines, tally = Lines(stream, clock), Tally(100, 0, clock)

    def end(number: int, seconds: float) -> int:
        clock.now += seconds
        event = done(f"t{number}")
        tally.add(event)
        lines.update(event, tally)
        return len(stream.getvalue().splitlines())

    lines.update(Started("t0"), tally)
    tally.add(Started("t0"))
    assert [end(number, 1.0) for number in range(12)] == [0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2]
    # Many in a moment: a line once two seconds have passed since the last, not one for every twentieth.
    assert [end(number, 0.1) for number in range(12, 24)] == [2, 2] + [3] * 10
    assert end(24, 60.0) == 4
    assert end(25, 1.0) == 4
    assert end(26, 58.0) == 4
    assert end(27, 1.0) == 5
    assert stream.getvalue().splitlines()[0] == "5/100; 60.0/min, 2 min left; 0 failed; best val AUC: ce 0.5000"


def test_the_last_trial_always_gets_a_line() -> None:
    clock, stream = Clock(), io.StringIO()
    lines, tally = Lines(stream, clock), Tally(1, 0, clock)
    event = done("a")
    tally.add(event)
    lines.update(event, tally)
    assert stream.getvalue().startswith("1/1; ")


def test_the_first_ten_failures_are_named() -> None:
    stream = io.StringIO()
    lines, tally = Lines(stream, Clock()), Tally(1000, 0, Clock())
    for number in range(30):
        event = failed(f"t{number}", "oom", "MemoryError: big\nmore lines")
        tally.add(event)
        lines.update(event, tally)
    said = stream.getvalue().splitlines()
    assert said[0] == "trial t0 failed (oom): MemoryError: big"
    assert len(said) == 11
    assert "counted only" in said[10]


def test_bar_shows_counts_failures_and_best() -> None:
    stream = Terminal()
    tally = Tally(20, 5, Clock())
    with Bar(stream) as bar:
        for event in (Started("a"), done("a", "hinge", 0.8125), failed("b")):
            tally.add(event)
            bar.update(event, tally)
        bar.note("a note with [brackets]")
    shown = stream.getvalue()
    assert "7/20" in shown
    assert "1 failed" in shown
    assert "best val AUC: hinge 0.8125" in shown
    assert "a note with [brackets]" in shown


def test_the_display_follows_the_stream() -> None:
    assert isinstance(make_progress(True, io.StringIO()), Lines)
    assert isinstance(make_progress(True, Terminal()), Bar)
    assert type(make_progress(False, Terminal())) is Silent


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0 s"), (89, "89 s"), (90, "2 min"), (5399, "90 min"), (5400, "1.5 h"), (172_800, "2.0 days")],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text
