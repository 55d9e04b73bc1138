"""Arrows between packages point one way, and what must be light is light."""

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ALLOWED = {"nlpdata": {"nlpdata"}, "pipelines": {"nlpdata", "pipelines"}, "pretrain": {"nlpdata", "pretrain"}}
HEAVY = ("tensorflow", "keras", "apache_beam", "tensorflow_datasets", "jax", "torch")


def _imports(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module.split(".")[0]


def test_packages_import_only_what_they_may():
    checked = 0
    for package, allowed in ALLOWED.items():
        for path in sorted((ROOT / package).rglob("*.py")):
            wrong = {name for name in _imports(path) if name in ALLOWED and name not in allowed}
            assert not wrong, f"{path.relative_to(ROOT)} imports {wrong}"
            checked += 1
    assert checked > 20


def test_nlpdata_imports_no_framework():
    for path in sorted((ROOT / "nlpdata").rglob("*.py")):
        assert not set(_imports(path)) & set(HEAVY), path.relative_to(ROOT)


def test_help_loads_no_framework():
    code = (
        "import sys, nlpdata\nfrom nlpdata.cli import main\nassert main(['--help']) == 0\n"
        f"sys.exit(','.join(n for n in {HEAVY!r} if n in sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    assert "create-pretraining" in done.stdout


def test_files_stay_readable():
    long = {
        str(path.relative_to(ROOT)): count
        for package in ALLOWED
        for path in (ROOT / package).rglob("*.py")
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > 430
    }
    assert not long
