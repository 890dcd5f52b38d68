"""The checks before a commit and in continuous integration run what is installed, with no network and nothing left out."""

from __future__ import annotations

import os
import re
import subprocess
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


def test_continuous_integration_runs_what_everybody_runs() -> None:
    assert (ROOT / ".ci" / "run").read_text().rstrip().endswith("exec make test")


@pytest.mark.parametrize("fails", ["", "ruff check", "ruff format", "pyright", "-m pytest"])
@pytest.mark.parametrize("target", ["test", "check"])
def test_make_fails_with_each_of_its_checks_and_shows_what_they_say(target: str, fails: str, tmp_path: Path) -> None:
    """Programs that note their arguments stand for those of the virtual environment."""
    (tmp_path / "bin").mkdir()
    for name in ("ruff", "pyright", "python"):
        program = tmp_path / "bin" / name
        program.write_text(
            f'#!/bin/sh\nsaid="{name} $*"\necho "ran $said${{PYTHONDONTWRITEBYTECODE:-, keeps byte code}}"\n'
            f'case "{fails}:$said" in :*) ;; "{fails}":*"{fails}"*) echo "found by $said"; exit 9;; esac\n'
        )
        program.chmod(0o755)
    (tmp_path / ".gpusim-ready").touch()
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    command = ["make", target, f"VENV={tmp_path}"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if fails == "-m pytest" and target == "check":
        assert done.returncode == 0 and fails not in done.stdout
    elif fails:
        assert done.returncode != 0 and fails in done.stdout.partition("found by ")[2]
    else:
        assert done.returncode == 0
        ran = ("ran ruff check", "ran ruff format --quiet --check", "ran pyright", "ran python -m pytest")
        assert [what in done.stdout for what in ran] == [True, True, True, target == "test"]
        assert ("--no-loadscope-reorder, keeps byte code" in done.stdout) == (target == "test")
