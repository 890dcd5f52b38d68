"""The public API is typed: pyright passes a user's script and finds every deliberate mistake in another."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import gpusim

pytestmark = pytest.mark.nightly  # and by make check, every time

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "tests" / "typing"
PYRIGHT = Path(sys.executable).with_name("pyright")


@pytest.fixture(scope="module")
def findings() -> dict[str, dict[int, str]]:
    """File -> line -> what pyright says of it, of both scripts: one run, as starting it takes seconds."""
    if not PYRIGHT.exists():
        pytest.skip("pyright is not installed beside this Python: pip install 'gpusim[test]'")
    command = [str(PYRIGHT), "--pythonpath", sys.executable, "--outputjson"]
    files = [str(SCRIPTS / name) for name in ("user_script.py", "mistakes.py")]
    environment = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    run = subprocess.run([*command, *files], capture_output=True, text=True, cwd=ROOT, env=environment)
    report = json.loads(run.stdout)
    assert report["summary"]["filesAnalyzed"] == 2, run.stderr
    said: dict[str, dict[int, str]] = {"user_script.py": {}, "mistakes.py": {}}
    for found in report["generalDiagnostics"]:
        said[Path(found["file"]).name][found["range"]["start"]["line"] + 1] = found["message"]
    return said


def test_a_users_script_has_no_errors(findings: dict[str, dict[int, str]]) -> None:
    assert findings["user_script.py"] == {}


def test_every_mistake_is_found_and_nothing_else(findings: dict[str, dict[int, str]]) -> None:
    lines = (SCRIPTS / "mistakes.py").read_text().splitlines()
    wrong = {number for number, line in enumerate(lines, 1) if "  # wrong: " in line}
    assert wrong and set(findings["mistakes.py"]) == wrong


def test_a_type_checker_sees_the_names_that_python_sees() -> None:
    """``gpusim/__init__.py`` says its names three times: for Python, for ``import *``, for a type checker."""
    text = Path(gpusim.__file__).read_text()
    checked = text.split("if TYPE_CHECKING:")[1].split("else:")[0]
    homes: dict[str, str] = {}
    for module, names in re.findall(r"from (\S+) import (\([^)]*\)|[^\n]*)", checked):
        homes |= dict.fromkeys(re.findall(r"\w+", names), module)
    assert homes == gpusim._HOMES
    assert sorted(gpusim.__all__) == sorted(homes)
    assert all(getattr(gpusim, name).__name__ == name for name in homes)


def test_the_package_says_that_it_is_typed() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "py.typed" in settings["tool"]["setuptools"]["package-data"]["gpusim"]
    assert (ROOT / "gpusim" / "py.typed").exists()


def test_every_file_that_pyright_is_told_to_read_exists() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pyright"]
    assert [path for path in settings["include"] if not (ROOT / path).exists()] == []
