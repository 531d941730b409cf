"""The environment record is JSON, and made without torch or Ray."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator import environment

ROOT = Path(__file__).parents[2]


def test_capture_is_json_and_says_what_this_machine_is() -> None:
    found = json.loads(json.dumps(environment.capture()))
    assert found["python"] == platform.python_version()
    assert found["cpus"] >= 1
    assert found["memory_bytes"] > 0
    assert found["packages"]["pyarrow"]
    assert len(found["code"]["source_sha256"]) == 64


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys, orchestrator.environment as e; e.capture()\n"
        "import orchestrator.store, orchestrator.plan, orchestrator.status, orchestrator.verify, orchestrator.compact\n"
        "assert not {'torch', 'ray'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_gpus_are_read_from_nvidia_smi(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "NVIDIA GeForce RTX 3090, 24576, GPU-1, 550.54.14\nNVIDIA GeForce RTX 3090, [N/A], GPU-2, 550.54.14"
    monkeypatch.setattr(environment, "_output", lambda *command: text if command[0] == "nvidia-smi" else None)
    found = environment.capture()
    assert found["driver"] == "550.54.14"
    assert found["gpus"] == [
        {"name": "NVIDIA GeForce RTX 3090", "memory_bytes": 24576 * 2**20, "uuid": "GPU-1"},
        {"name": "NVIDIA GeForce RTX 3090", "memory_bytes": None, "uuid": "GPU-2"},
    ]


def test_no_tools_no_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    found = environment.capture()
    assert found["gpus"] == []
    assert found["driver"] is None


class TestCode:
    @pytest.fixture
    def tree(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        root = tmp_path / "outer" / "site-packages"
        (root / "orchestrator").mkdir(parents=True)
        (root / "orchestrator" / "a.py").write_text("x = 1\n")
        monkeypatch.setattr(environment, "_ROOT", root.resolve())
        environment.code_state.cache_clear()
        yield root
        environment.code_state.cache_clear()

    def git(self, where: Path, *arguments: str) -> None:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", "-C", str(where), *identity, *arguments], check=True, capture_output=True)

    def state(self) -> dict[str, object]:
        environment.code_state.cache_clear()
        return environment.code_state()

    @pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
    def test_commit_and_dirty_state_of_our_own_repository(self, tree: Path) -> None:
        (tree / "pyproject.toml").write_text("")
        self.git(tree, "init")
        self.git(tree, "add", ".")
        self.git(tree, "commit", "-m", "first")
        clean = self.state()
        assert len(str(clean["git_commit"])) == 40
        assert clean["git_dirty"] is False
        assert environment.code_version() == f"{clean['version']}+g{str(clean['git_commit'])[:12]}"
        (tree / "orchestrator" / "a.py").write_text("x = 2\n")
        dirty = self.state()
        assert dirty["git_dirty"] is True
        assert dirty["source_sha256"] != clean["source_sha256"]
        assert environment.code_version().endswith(".dirty")

    @pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
    def test_somebody_elses_repository_is_not_ours(self, tree: Path) -> None:
        self.git(tree.parent, "init")
        self.git(tree.parent, "add", ".")
        self.git(tree.parent, "commit", "-m", "first")
        assert self.state()["git_commit"] is None
        assert environment.code_version() == environment.code_state()["version"]
