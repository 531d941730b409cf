"""Files of a store that somebody edited by hand: every command answers with a sentence (exit code 2), none with a
traceback, and none takes nonsense for a result."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aucsweep.cli import run
from orchestrator.launching import launch, resume
from orchestrator.lock import StoreLock, read_lock
from orchestrator.status import store_status
from orchestrator.store import Store, open_store
from orchestrator.sweep_file import parse_sweep, saved_space
from search_spaces.errors import DataError, StoreError
from search_spaces.expand import expand
from search_spaces.space import Space
from search_spaces.tasks import TASKS

OPTIONS: dict[str, Any] = {
    "runner": "local",
    "gpus_per_trial": 0,
    "progress": False,
    "body": "tests.contracts.trial_bodies:counted",
}
GONE = object()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A finished smoke sweep whose trials took no time."""
    data_root = tmp_path / "data"
    data_root.mkdir()
    assert launch("smoke", tmp_path / "store", data_root=data_root, **OPTIONS).exit_code == 0
    return open_store(tmp_path / "store")


def edit(store: Store, key: str, value: Any) -> None:
    """Set (or, with ``GONE``, remove) one dotted key of ``sweep.json``."""
    path = Path(store.uri) / "sweep.json"
    path.write_text(json.dumps(changed(json.loads(path.read_text()), tuple(key.split(".")) if key else (), value)))


def changed(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    if not place:
        return new
    step = int(place[0]) if isinstance(value, list) else place[0]
    if len(place) == 1 and new is GONE:
        return {key: item for key, item in value.items() if key != step}
    copied = copy.copy(value)
    copied[step] = changed(copied[step], place[1:], new) if len(place) > 1 else new
    return copied


COMMANDS = [
    ["status"], ["status", "--json"], ["show", "{trial}"], ["logs", "{trial}"], ["resume", "--runner", "local"],
    ["retry", "--runner", "local"], ["launch", "smoke", "--runner", "local"], ["plan", "smoke"], ["compact"],
    ["verify"], ["table", "main"], ["gain"], ["matched"], ["report", "-o", "{folder}/report.html"],
]  # fmt: skip


@pytest.mark.parametrize(
    "content", ["[]", '"smoke"', "3", "{}", '{"schema_version": 1, "launches": {}}', "{", "\ufeff{}"]
)
def test_every_command_refuses_another_shape(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    trial = next(iter(store.scan().done))
    sweep = Path(store.uri) / "sweep.json"
    sweep.write_text(content)
    for command in COMMANDS:
        filled = [word.format(trial=trial, folder=tmp_path) for word in command]
        assert run([*filled, "--store", store.uri]) == 2, command
        captured = capsys.readouterr()
        assert captured.out == "", command
        assert captured.err.startswith(f"aucsweep: {sweep}"), command
        assert "Traceback" not in captured.err
    assert sweep.read_text() == content


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("", [1], "the whole file should be a JSON object but is [1]"),
        ("schema_version", GONE, "has schema version None, this aucsweep reads and writes version 1"),
        ("schema_version", True, "has schema version True"),
        ("space", "smoke", "space should be a JSON object but is 'smoke'"),
        ("space", ["smoke"], "space should be a JSON object but is ['smoke']"),
        ("space.resolved", GONE, "space.resolved should be a JSON object but is missing"),
        ("space.given", 3, "space.given should be a JSON object but is 3"),
        ("plan_hash", {}, "plan_hash should be a text but is {}"),
        ("environment", "laptop", "environment should be a JSON object but is 'laptop'"),
        ("environment.packages", ["torch"], "environment.packages should be a JSON object but is ['torch']"),
        ("environment.gpus", ["H200"], "environment.gpus should be"),
        ("environment.memory_bytes", "8 GB", "environment.memory_bytes should be a number but is '8 GB'"),
        ("launches", "none", "launches should be a list but is 'none'"),
        ("launches.0", "launch smoke", "launches.0 should be a JSON object but is 'launch smoke'"),
        ("launches.0.data_root", 7, "launches.0.data_root should be a text but is 7"),
        ("launches.0.compiled", "no", "launches.0.compiled should be true or false but is 'no'"),
        ("launches.0.pending", True, "launches.0.pending should be a number but is True"),
    ],
)
def test_the_file_the_key_and_what_is_expected_are_named(store: Store, key: str, value: Any, sentence: str) -> None:
    if key == "environment.gpus":
        value, sentence = value[0], f"{sentence} a list but is 'H200'"
    edit(store, key, value)
    with pytest.raises(StoreError) as caught:
        store_status(open_store(store.uri))
    assert str(caught.value).startswith(f"{store.uri}/sweep.json")
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("name", GONE, "space.resolved.name should be a text but is missing"),
        ("parts", {}, "space.resolved.parts should be a list but is {}"),
        ("parts.0", "smoke", "space.resolved.parts.0 should be a JSON object but is 'smoke'"),
        ("parts.0.losses", ["hinje"], "losses.0: unknown loss 'hinje'"),
        ("parts.0.settings.epochs", "two", "settings.epochs: should be a whole number, got 'two'"),
        ("cards", [], "space.resolved.cards should be a JSON object but is []"),
        ("cards.mine", 3, "space.resolved.cards.mine: "),
        ("loss_files.mine", 3, "space.resolved.loss_files.mine should be a text but is 3"),
    ],
)
def test_a_saved_space_that_cannot_be_run_names_its_problems(
    store: Store, capsys: pytest.CaptureFixture[str], key: str, value: Any, sentence: str
) -> None:
    edit(store, f"space.resolved.{key}", value)
    for command in (["status"], ["show", next(iter(store.scan().done))], ["resume", "--runner", "local"]):
        assert run([*command, "--store", store.uri]) == 2
        captured = capsys.readouterr()
        assert captured.err.startswith(f"aucsweep: {store.uri}/sweep.json: ")
        assert sentence in captured.err


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield place
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, (*place, key))


def test_whatever_is_put_anywhere_is_understood_or_refused(store: Store) -> None:
    """Every value of the file, a task of one's own among them, replaced by values of every kind."""
    sweep = json.loads((Path(store.uri) / "sweep.json").read_text())
    card = dataclasses.asdict(TASKS["mnist-8-low-shot"]) | {"name": "mine"}
    sweep["space"]["resolved"]["cards"] = {"mine": json.loads(json.dumps(card))}
    sweep["space"]["resolved"]["parts"][0] |= {"tasks": ["mine"], "models": ["resnet18"]}
    whole = saved_space(parse_sweep(json.dumps(sweep).encode(), "S/sweep.json"), "S/sweep.json")
    assert isinstance(whole, Space)
    assert len(expand(whole).trials) == 10
    refused = []
    for place in list(places(sweep)):
        for value in ([], {}, "x", -1, 1.5, 10**30, None, True, [[]], {"a": []}):
            try:
                found = parse_sweep(json.dumps(changed(sweep, place, value)).encode(), "S/sweep.json")
                space = saved_space(found, "S/sweep.json")
                if space is not None:
                    expand(space)
            except StoreError as error:
                refused.append(str(error))
    assert len(refused) > 500
    assert [message for message in refused if not message.startswith("S/sweep.json")] == []


@pytest.mark.parametrize("text", ["NaN", "Infinity", "[" * 100_000, "1" * 5000])
def test_what_is_no_json_is_named(store: Store, text: str) -> None:
    (Path(store.uri) / "sweep.json").write_text(f'{{"schema_version": 1, "plan_hash": {text}}}')
    with pytest.raises(StoreError, match=r"sweep\.json is not readable JSON"):
        open_store(store.uri)


def test_keys_we_do_not_know_stay(store: Store) -> None:
    edit(store, "notes", {"mine": [1, None]})
    edit(store, "launches.0.notes", "mine")
    assert resume(store, **OPTIONS).exit_code == 0
    sweep = store.read_sweep()
    assert sweep["notes"] == {"mine": [1, None]}
    assert [entry.get("notes") for entry in sweep["launches"]] == ["mine", None]


def test_no_entry_of_launches_is_no_data_root(store: Store, tmp_path: Path) -> None:
    edit(store, "launches", None)
    with pytest.raises(StoreError, match=r"the last of launches should name its data_root.*--data-root"):
        resume(store.uri, **OPTIONS)
    assert resume(store.uri, data_root=tmp_path / "data", **OPTIONS).done == 10
    assert len(store.read_sweep()["launches"]) == 1


def test_what_the_message_advises_keeps_the_finished_trials(store: Store, tmp_path: Path) -> None:
    edit(store, "launches", "none")
    with pytest.raises(StoreError, match=r"move the file away and launch the space on this store again \(finished"):
        resume(store.uri, **OPTIONS)
    files = {path.name for path in (tmp_path / "data").iterdir()}
    (Path(store.uri) / "sweep.json").rename(tmp_path / "old.json")
    result = launch("smoke", store.uri, data_root=tmp_path / "data", **OPTIONS)
    assert (result.exit_code, result.done) == (0, 10)
    assert {path.name for path in (tmp_path / "data").iterdir()} == files  # nothing was trained again
    assert store.verify() == []


@pytest.mark.filterwarnings("ignore:.*is broken:UserWarning")
@pytest.mark.parametrize("name", ["sweep.json", "lock.json", "cells.parquet"])
def test_a_folder_in_place_of_a_file_is_named(store: Store, capsys: pytest.CaptureFixture[str], name: str) -> None:
    place = Path(store.uri) / name
    place.unlink(missing_ok=True)
    place.mkdir()
    for command in (["status"], ["show", "abc"], ["resume", "--runner", "local"]):
        code = run([*command, "--store", store.uri])
        message = capsys.readouterr().err
        if (name, command[0]) in {("lock.json", "show"), ("cells.parquet", "status")}:
            continue  # it does not read that file
        if (name, command[0]) == ("cells.parquet", "resume"):
            assert code == 0
            assert place.is_file()  # written again, the folder set aside
            continue
        assert code == 2
        assert f"{place}" in message
        assert "directory" in message


@pytest.mark.parametrize("name", ["runs", "failures", "fingerprints"])
def test_a_file_in_place_of_a_folder_is_named(store: Store, capsys: pytest.CaptureFixture[str], name: str) -> None:
    place = Path(store.uri) / name
    if place.exists():
        place.rename(place.with_name("away"))
    place.write_text("")
    for command in (["status"], ["resume", "--runner", "local"], ["verify"]):
        assert run([*command, "--store", store.uri]) == 2
        assert f"{place} cannot be listed: Not a directory" in capsys.readouterr().err


class TestLock:
    @pytest.mark.parametrize(
        "content",
        [
            "[]", '"ann"', "7", "null", "{", "[" * 100_000, '{"heartbeat_at": NaN}', '{"heartbeat_at": 1e300}',
            '{"started_at": -1e300}', '{"running": 7}', '{"running": [["a"]]}', '{"pid": "x", "heartbeat_at": "soon"}',
            '{"pid": {}, "host": [], "user": 3, "command": {}, "token": 5}', '{"running": null}',
        ],
    )  # fmt: skip
    def test_one_that_was_edited_holds_nobody_up(self, store: Store, content: str) -> None:
        store.files.write("lock.json", content.encode())
        status = store_status(store)
        assert (status.done, status.running, status.holder) == (10, 0, None)
        with StoreLock(store, "launch smoke", heartbeat_seconds=0.01) as lock:
            assert lock.taken_over is not None
        assert read_lock(store) is None

    def test_one_that_cannot_be_read_is_refused_and_left(self, store: Store) -> None:
        (Path(store.uri) / "lock.json").mkdir()
        with pytest.raises(
            StoreError, match=r"lock\.json cannot be read: Is a directory.*remove it if none is at work"
        ):
            store_status(store)
        with pytest.raises(StoreError, match=r"lock\.json cannot be read"):
            resume(store, **OPTIONS)
        assert (Path(store.uri) / "lock.json").is_dir()


class TestFingerprints:
    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            ("[]", "expected a JSON object with task, fingerprint and hostname"),
            ('"aaa"', "expected a JSON object"),
            ("{", "not readable JSON"),
            ("[" * 100_000, "not readable JSON"),
            ('{"task": "toy", "hostname": "here"}', "fingerprint should be a text, got None"),
            ('{"task": "toy", "hostname": "here", "fingerprint": 5}', "fingerprint should be a text, got 5"),
            ('{"task": ["toy"], "hostname": "here", "fingerprint": "a"}', "task should be a text, got ['toy']"),
            ('{"task": "other", "hostname": "here", "fingerprint": "a"}', "misnamed: it is about the task other"),
        ],
    )
    def test_one_that_was_edited_is_named_and_replaced(self, store: Store, content: str, reason: str) -> None:
        store.files.write("fingerprints/toy.json", content.encode())
        assert "toy" not in store.fingerprints()
        (finding,) = (finding for finding in store.verify() if finding.is_fault)
        assert finding.where == "fingerprints/toy.json"
        assert reason in finding.message
        store.record_fingerprint("toy", "aaa")
        assert store.fingerprints()["toy"] == "aaa"
        with pytest.raises(DataError, match="fingerprint bbb"):
            store.record_fingerprint("toy", "bbb")
        assert len(store.files.names("quarantine")) == 1

    def test_a_folder_of_that_name_is_set_aside(self, store: Store) -> None:
        (Path(store.uri) / "fingerprints" / "toy.json").mkdir()
        store.record_fingerprint("toy", "aaa")
        assert store.fingerprints()["toy"] == "aaa"


def test_a_log_and_scores_that_cannot_be_read_are_named(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    trial = next(iter(store.scan().done))
    log = Path(store.log_path(trial))
    log.unlink()
    log.mkdir()
    assert run(["logs", trial, "--store", store.uri]) == 2
    assert f"{log} cannot be read: Is a directory" in capsys.readouterr().err
    store.files.write(f"scores/{trial}.parquet", b"PAR1")
    with pytest.raises(StoreError, match=rf"scores/{trial}\.parquet cannot be read"):
        store.read_scores(trial)
