"""Dependencies point one way, and what must start fast loads neither torch nor Ray."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAYERS = ["search_spaces", "trainables", "orchestrator", "analysis", "aucsweep"]


def imports(path: Path) -> set[str]:
    """Every module a file imports anywhere, type-checking blocks and function bodies included."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module)
        elif isinstance(node, ast.ImportFrom) and node.level:
            raise AssertionError(f"{path}: relative import, which this test cannot follow")
    return found


def files(layer: str) -> list[Path]:
    return sorted((ROOT / layer).rglob("*.py"))


@pytest.mark.parametrize("layer", LAYERS)
def test_layer_imports_only_lower_layers(layer: str) -> None:
    higher = set(LAYERS[LAYERS.index(layer) + 1 :])
    assert files(layer)
    wrong = {
        str(path.relative_to(ROOT)): sorted(name for name in imports(path) if name.split(".")[0] in higher)
        for path in files(layer)
    }
    assert {path: names for path, names in wrong.items() if names} == {}


def test_the_check_sees_a_wrong_import(tmp_path: Path) -> None:
    path = tmp_path / "wrong.py"
    path.write_text("def f():\n    from orchestrator.store import open_store\n    return open_store\n")
    assert imports(path) == {"orchestrator.store"}


def test_ray_is_imported_by_one_module_of_the_orchestrator() -> None:
    users = {
        str(path.relative_to(ROOT))
        for layer in LAYERS
        for path in files(layer)
        if any(name.split(".")[0] == "ray" for name in imports(path))
    }
    assert users == {"orchestrator/runner.py", "aucsweep/cli/doctor.py"}


@pytest.mark.parametrize("layer", ["search_spaces", "analysis"])
def test_no_torch_in(layer: str) -> None:
    heavy = {"torch", "torchvision", "transformers", "ray"}
    for path in files(layer):
        assert not {name.split(".")[0] for name in imports(path)} & heavy, path


def loaded_by(code: str) -> set[str]:
    """Top-level modules in ``sys.modules`` after running ``code`` in a fresh interpreter."""
    script = f"import sys\n{code}\nprint('\\n' + ' '.join(sorted({{name.split('.')[0] for name in sys.modules}})))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    return set(result.stdout.strip().splitlines()[-1].split())


@pytest.mark.parametrize(
    "code",
    [
        "from aucsweep.cli import run; run(['--help'])",
        "from aucsweep.cli import run; run(['plan', 'smoke', '--json'])",
        "from aucsweep.cli import run; run(['losses'])",
        "import analysis, analysis.load, analysis.selection, analysis.gain, analysis.tables, analysis.report",
        "from orchestrator.store import open_store; from orchestrator.status import store_status",
    ],
)
def test_loads_neither_torch_nor_ray(code: str) -> None:
    assert not loaded_by(code) & {"torch", "ray", "transformers", "torchvision"}
