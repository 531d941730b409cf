"""launch, resume and retry take the same options and hand all of them on."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer.main

from aucsweep.cli import app, run
from orchestrator import launching
from orchestrator.options import DEFAULTS

COMMANDS = {"launch": ["smoke"], "resume": [], "retry": ["--kind", "nan"]}
OWN = {"launch": {"space", "store", "override", "data_root"}, "resume": {"store", "data_root"}}
OWN["retry"] = OWN["resume"] | {"kind"}


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the command called last has handed to ``orchestrator.launching``."""
    seen: dict[str, Any] = {}

    def take(*arguments: Any, **options: Any) -> SimpleNamespace:
        seen.clear()
        seen.update(options)
        return SimpleNamespace(exit_code=3)

    for name in COMMANDS:
        monkeypatch.setattr(launching, name, take)
    return seen


@pytest.mark.parametrize("command", COMMANDS)
def test_the_defaults_are_those_of_launching(command: str, taken: dict[str, Any], tmp_path: Path) -> None:
    assert run([command, *COMMANDS[command], "--store", str(tmp_path)]) == 3
    expected = {name: value for name, value in DEFAULTS.items() if name not in ("data_root", "progress", "body")}
    assert {name: value for name, value in taken.items() if name not in ("data_root", "kind")} == expected
    assert taken.get("kind") == ("nan" if command == "retry" else None)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_arrives(command: str, taken: dict[str, Any], tmp_path: Path) -> None:
    given = {
        "--data-root": tmp_path, "--address": "head:6379", "--gpus-per-trial": 0.5, "--cpus-per-trial": 2.0,
        "--max-concurrent": 3, "--retries": 4, "--runner": "local",
    }  # fmt: skip
    words = [str(word) for option in given.items() for word in option]
    words += ["--time-budget", "2m", "--trial-timeout", "1h", "--fail-fast"]
    words += ["--save-scores", "--no-channels-last", "--compile"]
    assert run([command, *COMMANDS[command], "--store", "S", *words]) == 3
    taken.pop("kind", None)
    assert taken == {name.removeprefix("--").replace("-", "_"): value for name, value in given.items()} | {
        "time_budget": 120.0,
        "trial_timeout": 3600.0,
        "fail_fast": True,
        "save_scores": True,
        "channels_last": False,
        "compiled": True,
    }


def test_the_three_have_the_same_options_in_the_same_order() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    names = {name: [parameter.name for parameter in commands[name].params] for name in COMMANDS}
    shared = [name for name in names["launch"] if name not in OWN["launch"] | {"help"}]
    assert len(shared) == 12
    for command, found in names.items():
        assert [name for name in found if name not in OWN[command] | {"help"}] == shared
        assert OWN[command] <= set(found)


@pytest.mark.parametrize(
    "wrong", [["--time-budget", "soon"], ["--trial-timeout", "0"], ["--retries", "-1"], ["--fail-slow"]]
)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_wrong_option_is_refused(command: str, wrong: list[str], taken: dict[str, Any]) -> None:
    assert run([command, *COMMANDS[command], "--store", "S", *wrong]) == 2
    assert taken == {}
