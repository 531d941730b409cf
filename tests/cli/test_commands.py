"""The commands, called as a user calls them (in this process, with the local runner)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from aucsweep.cli import run
from search_spaces.losses import LOSSES
from search_spaces.space import preset_names

SMOKE_TRIALS = 10


@pytest.fixture(scope="module")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, data_root: Path) -> Path:
    """A store in which the smoke space has run to the end."""
    store = tmp_path_factory.mktemp("sweep") / "store"
    assert run(["launch", "smoke", "--store", str(store), "--data-root", str(data_root), "--runner", "local"]) == 0
    return store


def out(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert run(list(arguments)) == code
    return capsys.readouterr().out


def json_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    value = json.loads(out(capsys, *arguments, "--json"))
    assert isinstance(value, dict)
    return value


def error_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Standard error of a call that must be refused; nothing may be on standard output."""
    assert run(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


@pytest.mark.parametrize(("command", "member"), [("spaces", "paper"), ("tasks", "aptos"), ("models", "resnet50")])
def test_lists_name_one_thing_a_line(capsys: pytest.CaptureFixture[str], command: str, member: str) -> None:
    lines = out(capsys, command).splitlines()
    assert sum(line.split()[0] == member for line in lines) == 1
    assert member in {item["name"] for item in json_of(capsys, command)[command]}


def test_a_reader_that_leaves_early_is_no_failure() -> None:
    command = [sys.executable, "-m", "aucsweep", "losses", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == 0


def test_losses_say_formula_and_weight(capsys: pytest.CaptureFixture[str]) -> None:
    names = {item["name"] for item in json_of(capsys, "losses")["losses"]}
    assert {"ce", "square", "hinge", "squared_hinge", "logistic", "exponential"} <= names
    assert all(item["formula"] and item["source"] for item in json_of(capsys, "losses")["losses"])


def test_losses_are_listed_one_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    header, *lines = out(capsys, "losses").splitlines()
    assert [line.split()[0] for line in lines] == list(LOSSES)
    for line, card in zip(lines, LOSSES.values(), strict=True):
        assert all(text in line for text in (card.formula, card.weight, card.source, *card.params))
    assert " ".join(header.split()) == "loss formula pair weight margin parameters tasks example weights source"


def test_a_loss_is_explained(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    pages = {}
    for name in LOSSES:
        lines = out(capsys, "losses", name).splitlines()
        assert max(map(len, lines)) <= 80
        assert lines[0].split()[0] == name
        pages[name] = [" ".join(line.split()) for line in lines]
    assert "margin needed: margins of the space" in pages["top_push"]
    assert "margin none" in pages["logistic"]
    assert "surrogate hinge or square or squared_hinge; default squared_hinge" in pages["top_push"]
    assert "k a whole number >= 1; default 1" in pages["top_push"]
    assert "max_fpr a number > 0 and <= 1; default 0.3" in pages["partial_auc"]
    assert "loss 1 / (1 + e^(steepness x))" in pages["smoothed_indicator"]
    legend = " ".join(pages["ce"])
    for letter in ("x score of a positive", "s score", "z logit", "m margin", "p, k, tau, ... parameters", "L_j mean"):
        assert letter in legend
    assert [item["name"] for item in json_of(capsys, "losses", "hinge")["losses"]] == ["hinge"]
    assert run(["losses", "hing"]) == 2
    assert capsys.readouterr().err.startswith("aucsweep: unknown loss 'hing': did you mean hinge?")


def test_plan_of_the_paper(capsys: pytest.CaptureFixture[str]) -> None:
    facts = json_of(capsys, "plan", "paper")
    assert (facts["product"], facts["cells"], facts["trials"]) == (37200, 24640, 22465)
    assert (facts["done"], facts["pending"]) == (0, 22465)
    # "sharing each seed's CE prefix costs 1/1.61 of the plain product" (protocol.md)
    assert facts["updates"]["product"] / facts["updates"]["with_shared_prefixes"] == pytest.approx(1.61, abs=0.005)


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_can_be_planned(capsys: pytest.CaptureFixture[str], name: str) -> None:
    facts = json_of(capsys, "plan", name)
    assert facts["product"] >= facts["cells"] >= facts["trials"] == facts["pending"] > 0


def test_plan_with_a_store_counts_what_is_done(capsys: pytest.CaptureFixture[str], finished: Path) -> None:
    facts = json_of(capsys, "plan", "smoke", "--store", str(finished), "-o", "seeds=[123,124,125]")
    assert facts["done"] == SMOKE_TRIALS
    assert facts["pending"] == facts["trials"] - SMOKE_TRIALS == SMOKE_TRIALS / 2
    # A store that is yet to be made holds nothing.
    assert json_of(capsys, "plan", "smoke", "--store", str(finished / "none"))["done"] == 0


def test_wrong_space_names_every_problem(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(
        "name: wrong\nregime: smoke\ntasks: [mnist-8-low-shott]\nmodels: [plain-mlp]\ninits: [random]\n"
        "losses: [ce, sqared_hinge]\nwarmup_ratios: [0, 1.5]\nmargins: [-0.5]\nseeds: []\nsed: 3\n"
    )
    message = error_of(capsys, "launch", str(path), "--store", str(tmp_path / "store"))
    for part in ("mnist-8-low-shot", "squared_hinge", "1.5", "-0.5", "seeds", "sed"):
        assert part in message
    assert "6 problems" in message
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("override", "part"),
    [
        ("losses=[ce,logistic]", "margins"),
        ("seeds=[1,1]", "seeds"),
        ("warmup_ratios=[1.5]", "1.5"),
        ("lossses=[ce]", "losses"),
        ("settings.batch_size=0", "batch_size"),
    ],
)
def test_wrong_override_is_refused(capsys: pytest.CaptureFixture[str], override: str, part: str) -> None:
    assert part in error_of(capsys, "plan", "smoke", "-o", override)


def test_unknown_space_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert "quickstart" in error_of(capsys, "plan", "quikstart")


def test_launch_again_trains_nothing_and_keeps_every_row(
    capsys: pytest.CaptureFixture[str], finished: Path, data_root: Path
) -> None:
    before = pd.read_parquet(finished / "runs")
    arguments = ("--store", str(finished), "--data-root", str(data_root), "--runner", "local")
    assert run(["launch", "smoke", *arguments]) == 0
    assert run(["launch", "smoke", *arguments, "-o", "losses=[ce,squared_hinge]"]) == 0
    assert run(["launch", "smoke", *arguments]) == 0
    pd.testing.assert_frame_equal(before, pd.read_parquet(finished / "runs"))


def test_status_of_a_finished_sweep(capsys: pytest.CaptureFixture[str], finished: Path) -> None:
    facts = json_of(capsys, "status", "--store", str(finished))
    assert {key: facts[key] for key in ("wanted", "done", "running", "failed", "pending", "failures")} == {
        "wanted": SMOKE_TRIALS,
        "done": SMOKE_TRIALS,
        "running": 0,
        "failed": 0,
        "pending": 0,
        "failures": {},
    }
    assert f"{SMOKE_TRIALS} of {SMOKE_TRIALS}" in out(capsys, "status", "--store", str(finished))


def test_show_and_logs_of_one_trial(capsys: pytest.CaptureFixture[str], finished: Path) -> None:
    runs = pd.read_parquet(finished / "runs")
    trial = runs["trial_id"].iloc[0]
    facts = json_of(capsys, "show", trial[:8], "--store", str(finished))
    assert facts["trial_id"] == trial
    assert facts["state"] == "done"
    assert facts["config"]["task"] == "mnist-8-low-shot"
    expected = runs[runs["trial_id"] == trial].sort_values("epoch")["val_auc"].tolist()
    assert [row["val_auc"] for row in facts["curve"]] == expected
    assert "configuration" in out(capsys, "show", trial, "--store", str(finished))
    assert "epoch" in out(capsys, "logs", trial, "--store", str(finished))


def test_unknown_trial_is_refused(capsys: pytest.CaptureFixture[str], finished: Path) -> None:
    assert "not in" in error_of(capsys, "show", "zzzz", "--store", str(finished))


@pytest.mark.parametrize("command", ["status", "verify", "compact", "gain", "resume", "retry"])
def test_missing_store_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str) -> None:
    assert "no store" in error_of(capsys, command, "--store", str(tmp_path / "none"))
    assert not (tmp_path / "none").exists()


def test_table_gain_and_report(capsys: pytest.CaptureFixture[str], finished: Path, tmp_path: Path) -> None:
    table = out(capsys, "table", "main", "--store", str(finished))
    assert "Direct" in table
    assert "Warm-up" in table
    assert "," in out(capsys, "table", "main", "--store", str(finished), "--format", "csv")
    assert "Sq.-hinge" in out(capsys, "gain", "--store", str(finished), "--figure", str(tmp_path / "gain.svg"))
    assert (tmp_path / "gain.svg").read_text().startswith("<?xml")
    for wrong in (tmp_path / "nowhere" / "gain.svg", tmp_path / "gain.nonsense"):
        assert run(["gain", "--store", str(finished), "--figure", str(wrong)]) == 2
        assert f"cannot draw {wrong}" in capsys.readouterr().err
    page = tmp_path / "report.html"
    assert str(page) in out(capsys, "report", "--store", str(finished), "-o", str(page))
    assert "<html" in page.read_text()


def test_wrong_table_and_format_name_the_nearest(capsys: pytest.CaptureFixture[str], finished: Path) -> None:
    assert "did you mean main" in error_of(capsys, "table", "mian", "--store", str(finished))
    assert "latex" in error_of(capsys, "table", "main", "--store", str(finished), "--format", "latx")


@pytest.mark.parametrize("budget", ["soon", "-5", "0", "3w"])
def test_wrong_time_budget_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, budget: str) -> None:
    message = error_of(capsys, "launch", "smoke", "--store", str(tmp_path / "s"), f"--time-budget={budget}")
    assert "time-budget" in message


def test_unknown_failure_kind_is_refused(capsys: pytest.CaptureFixture[str], finished: Path) -> None:
    assert "did you mean oom" in error_of(capsys, "retry", "--store", str(finished), "--kind", "ooom")


def test_verify_names_a_truncated_file_and_resume_runs_only_that(
    capsys: pytest.CaptureFixture[str], data_root: Path, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    arguments = ["--store", str(store), "--data-root", str(data_root), "--runner", "local"]
    assert run(["launch", "smoke", *arguments, "-o", "seeds=[123]"]) == 0
    before = pd.read_parquet(store / "runs")
    victim = sorted((store / "runs").glob("*.parquet"))[2]
    victim.write_bytes(victim.read_bytes()[:-200])
    capsys.readouterr()
    assert victim.name in out(capsys, "verify", "--store", str(store), code=1)
    assert json_of(capsys, "plan", "smoke", "--store", str(store), "-o", "seeds=[123]")["pending"] == 1
    assert run(["resume", *arguments]) == 0
    after = pd.read_parquet(store / "runs")
    numbers = ["trial_id", "epoch", "train_loss", "train_auc", "val_auc", "test_auc"]
    order = ["trial_id", "epoch"]
    pd.testing.assert_frame_equal(
        before[numbers].sort_values(order, ignore_index=True), after[numbers].sort_values(order, ignore_index=True)
    )
    assert "whole" in out(capsys, "verify", "--store", str(store))


def test_compact_keeps_every_row(capsys: pytest.CaptureFixture[str], data_root: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    arguments = ["--store", str(store), "--data-root", str(data_root), "--runner", "local"]
    assert run(["launch", "smoke", *arguments, "-o", "seeds=[123]"]) == 0
    before = pd.read_parquet(store / "runs").sort_values(["trial_id", "epoch"], ignore_index=True)
    capsys.readouterr()
    assert json_of(capsys, "compact", "--store", str(store))["files_after"] == 1
    after = pd.read_parquet(store / "runs").sort_values(["trial_id", "epoch"], ignore_index=True)
    pd.testing.assert_frame_equal(before, after)
    assert run(["resume", *arguments]) == 0
    assert len(pd.read_parquet(store / "runs")) == len(before)


def test_own_task_from_a_csv(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    long = " and so on" * 10  # more words than max_length leaves
    rows = [
        f"{'bad' if i % 3 == 0 else 'good'} word{i}{long if i % 10 == 0 else ''},{'neg' if i % 3 == 0 else 'pos'}"
        for i in range(90)
    ]
    (tmp_path / "texts.csv").write_text("sentence,rating\n" + "\n".join(rows) + "\n")
    (tmp_path / "my-task.yaml").write_text(
        "name: my-task\nmodality: text\nkind: table\nfile: texts.csv\ntext: sentence\nlabel: rating\n"
        "positive: neg\nsplits: {by: seed, fractions: {train: 0.6, validation: 0.2, test: 0.2}}\n"
    )
    (tmp_path / "space.yaml").write_text(
        "name: mine\nregime: smoke\ntasks: [my-task.yaml]\nmodels: [small-transformer]\ninits: [random]\n"
        "losses: [ce, logistic]\nwarmup_ratios: [0]\nmargins: []\nseeds: [1]\nsettings: {max_length: 16}\n"
    )
    data = ["--data-root", str(tmp_path / "data")]
    assert "data prepare" in error_of(capsys, "plan", str(tmp_path / "space.yaml"))
    unprepared = out(capsys, "data", "check", str(tmp_path / "my-task.yaml"), *data)
    assert "the data can be used, but were never prepared; run: aucsweep data prepare" in unprepared
    assert "fingerprint" in unprepared
    assert "train: 54 examples" in out(capsys, "data", "prepare", str(tmp_path / "my-task.yaml"), *data)
    out(capsys, "data", "check", str(tmp_path / "my-task.yaml"), *data)
    elsewhere = out(capsys, "data", "check", str(tmp_path / "my-task.yaml"), "--data-root", str(tmp_path / "other"))
    assert "not prepared under" in elsewhere
    store = str(tmp_path / "store")
    assert run(["launch", str(tmp_path / "space.yaml"), "--store", store, *data, "--runner", "local"]) == 0
    runs = pd.read_parquet(tmp_path / "store" / "runs")
    assert set(runs["task"]) == {"my-task"}
    for further in runs["more_metrics"]:
        assert sum(json.loads(further)[f"{split}_truncated"] for split in ("train", "val", "test")) == 9


def test_data_check_fails_for_wrong_or_absent_data(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    task = tmp_path / "my-task.yaml"
    task.write_text(
        "name: my-task\nmodality: text\nkind: table\nfile: texts.csv\ntext: sentence\nlabel: rating\n"
        "positive: neg\nsplits: {by: seed, fractions: {train: 0.6, validation: 0.2, test: 0.2}}\n"
    )
    data = ("--data-root", str(tmp_path / "data"))
    assert "no such file" in out(capsys, "data", "check", str(task), *data, code=1)
    (tmp_path / "texts.csv").write_text("sentence,mark\ngood,pos\n")
    assert "rating" in out(capsys, "data", "check", str(task), *data, code=1)
    rows = "\n".join(f"word{i},{'neg' if i % 3 else 'pos'}" for i in range(30))
    (tmp_path / "texts.csv").write_text(f"sentence,rating\n{rows}\n")
    out(capsys, "data", "prepare", str(task), *data)
    (tmp_path / "texts.csv").write_text(f"sentence,rating\n{rows}\nmore,pos\n")
    assert "changed after" in out(capsys, "data", "check", str(task), *data, code=1)
    assert "no such file" in error_of(capsys, "data", "check", str(tmp_path / "none.yaml"), *data)
    assert "get it" in out(capsys, "data", "check", "deepweeds", *data, code=1)


def test_missing_files_are_said_in_words(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    named = ("-o", f"tasks={tmp_path}/t.yaml", "-o", f"loss_files={tmp_path}/l.py")
    for text in (error_of(capsys, "plan", "smoke", *named), error_of(capsys, "plan", str(tmp_path / "s.yaml"))):
        assert "there is no such file" in text
        assert "Errno" not in text


def test_phases_that_are_not_listed_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, data_root: Path
) -> None:
    note = "aucsweep: note: phases: never run, since not among losses: soft-switch, hard-negatives, pair-budget\n"
    assert run(["plan", "phases", "-o", "losses=ce,curriculum", "--json"]) == 0
    captured = capsys.readouterr()
    assert (captured.err, json.loads(captured.out)["trials"]) == (note, 9)
    reduced = ["-o", "losses=ce,curriculum", "-o", "seeds=1", "-o", "warmup_ratios=0", "-o", "settings.epochs=1"]
    store = ("--store", str(tmp_path / "store"), "--data-root", str(data_root), "--runner", "local")
    assert run(["launch", "phases", *reduced, *store]) == 0
    assert note in capsys.readouterr().err
    for quiet in ("phases", "smoke", "extensions-offline"):
        assert run(["plan", quiet]) == 0
        assert capsys.readouterr().err == ""


def test_losses_that_are_one_run_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    losses = 'losses=[ce, hypersimplex, "hypersimplex(share=0.2)"]'
    assert run(["plan", "smoke", "-o", losses, "-o", "margins=[]", "-o", "warmup_ratios=0", "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == "aucsweep: note: losses: hypersimplex(share=0.2) is the same run as hypersimplex\n"
    facts = json.loads(captured.out)
    assert (facts["product"], facts["cells"], facts["trials"]) == (6, 4, 4)


def test_plan_names_tasks_models_and_data_to_prepare(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def line(*arguments: str) -> str:
        text = out(capsys, "plan", *arguments, "--data-root", str(tmp_path))
        return next(line for line in text.splitlines() if line.startswith("runs on")).removeprefix("runs on").strip()

    assert line("smoke") == "task mnist-8-low-shot; model plain-mlp"
    assert line("extensions-offline") == "4 tasks; models plain-mlp, small-transformer, char-cnn"
    missing = f"tasks cifar-10, fashion-mnist; model four-conv-cnn; not prepared under {tmp_path}: tasks cifar-10, "
    assert line("large-batch").startswith(missing)
    assert line("paper").startswith(f"16 tasks; 4 models; not prepared under {tmp_path}: 16 tasks")


def test_plan_and_data_list_agree_on_what_is_missing(tmp_path: Path) -> None:
    from search_spaces.prepared import has_data
    from search_spaces.tasks import TASKS
    from trainables.data import task_state

    found = {name: task_state(card, tmp_path) in ("prepared", "packaged") for name, card in TASKS.items()}
    assert {name: has_data(card, tmp_path) for name, card in TASKS.items()} == found


def test_doctor_reports_this_machine(capsys: pytest.CaptureFixture[str], data_root: Path) -> None:
    facts = json_of(capsys, "doctor", "--data-root", str(data_root))
    found = {check["what"]: check for check in facts["checks"]}
    assert found["python"]["ok"] is True
    assert found["torch"]["found"].startswith("2.")
    assert facts["ok"] is True


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    from aucsweep import __version__

    assert out(capsys, "--version").strip() == __version__
