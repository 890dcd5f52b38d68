"""Where the CUDA wheels do not exist (macOS), trace files are still simulated, and capture says what it lacks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.trace_examples import example_trace

ROOT = Path(__file__).parents[2]
#: Makes every import of the CUDA packages fail, as if they were not installed.
BLOCKER = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"cuda", "numba_cuda", "nvidia"} or name.startswith("numba.cuda"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
from gpusim import cli
sys.exit(cli.run(sys.argv[1:]))
"""


def without_cuda(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", BLOCKER, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def test_a_trace_file_is_simulated(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    example_trace().save(path)
    run = without_cuda("simulate", str(path), "--gpu", "h200", "--format", "json")
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["cycles"] > 0


def test_gpus_are_listed() -> None:
    assert "h200" in without_cuda("gpus", "list").stdout


@pytest.mark.parametrize(
    "command", [["simulate", "saxpy"], ["capture", "saxpy", "-o", "x.trace"], ["compare", "--jobs", "1"]]
)
def test_capturing_says_in_one_line_what_is_missing(command: list[str]) -> None:
    run = without_cuda(*command)
    assert run.returncode == 3, run.stderr
    assert run.stdout == ""
    last = run.stderr.splitlines()[-1]
    assert last.startswith("error: ") and "numba-cuda" in last, run.stderr
    assert "Traceback" not in run.stderr


def test_the_doctor_says_what_is_missing() -> None:
    run = without_cuda("doctor", "--format", "json")
    found = {finding["check"]: finding for finding in json.loads(run.stdout)}
    assert run.returncode == (3 if sys.platform == "linux" else 0), run.stderr
    assert "numba-cuda" in found["CUDA packages"]["remedy"] and found["packages"]["state"] == "ok"
