"""The checks before a commit and in continuous integration run what is installed, with no network and nothing left out."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
HOOKS = [
    (repository["repo"], hook)
    for repository in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    for hook in repository["hooks"]
]


@pytest.mark.parametrize(("repository", "hook"), HOOKS, ids=[hook["id"] for _, hook in HOOKS])
def test_a_hook_is_local_and_its_program_is_installed(repository: str, hook: dict) -> None:
    assert repository == "local" and hook["language"] == "system"
    programs = re.findall(r"\.venv/bin/([\w-]+)", hook["entry"])
    assert programs
    for program in programs:
        assert Path(sys.executable).with_name(program).exists(), f"{program} is missing: make setup"


def test_continuous_integration_checks_before_it_tests() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^test: .*\bcheck\b", makefile, re.MULTILINE)
    (check,) = re.findall(r"^check: .*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert all(part in check for part in ("ruff check", "ruff format", "--check", "pyright"))
    assert (ROOT / ".ci" / "run").read_text().rstrip().endswith("exec make test")
