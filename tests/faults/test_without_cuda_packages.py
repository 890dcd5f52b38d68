"""Where the CUDA wheels do not exist (macOS), trace files are still simulated, and capture says what it lacks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from trace_examples import example_trace

ROOT = Path(__file__).parents[2]
#: Makes every import of the CUDA packages fail, as if they were not installed; then runs command lines, and prints for
#: each what has become of it: [exit code, stdout, stderr].
PROGRAM = """
import contextlib, io, json, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"cuda", "numba_cuda", "nvidia"} or name.startswith("numba.cuda"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
from gpusim import cli
told = {}
for name, arguments in json.loads(sys.argv[1]).items():
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = cli.run(arguments)
    told[name] = code, out.getvalue(), err.getvalue()
json.dump(told, sys.stdout)
"""
CAPTURING = {
    "simulate": ["simulate", "saxpy"],
    "capture": ["capture", "saxpy", "-o", "x.trace"],
    "compare": ["compare", "--jobs", "1"],
}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str, str]]:
    """Exit code, stdout and stderr of each command, all of one process: what it takes is its start."""
    folder = tmp_path_factory.mktemp("without_cuda")
    example_trace().save(folder / "t.trace")
    commands = {
        "trace": ["simulate", "t.trace", "--gpu", "h200", "--format", "json"],
        "gpus": ["gpus", "list"],
        "doctor": ["doctor", "--format", "json"],
        **CAPTURING,
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(commands)],
        capture_output=True, text=True, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_trace_file_is_simulated(told: dict[str, tuple[int, str, str]]) -> None:
    code, out, err = told["trace"]
    assert code == 0, err
    assert json.loads(out)["cycles"] > 0


def test_gpus_are_listed(told: dict[str, tuple[int, str, str]]) -> None:
    assert "h200" in told["gpus"][1]


@pytest.mark.parametrize("command", CAPTURING)
def test_capturing_says_in_one_line_what_is_missing(command: str, told: dict[str, tuple[int, str, str]]) -> None:
    code, out, err = told[command]
    assert code == 3, err
    assert out == ""
    last = err.splitlines()[-1]
    assert last.startswith("error: ") and "numba-cuda" in last, err
    assert "Traceback" not in err


def test_the_doctor_says_what_is_missing(told: dict[str, tuple[int, str, str]]) -> None:
    code, out, err = told["doctor"]
    found = {finding["check"]: finding for finding in json.loads(out)}
    assert code == (3 if sys.platform == "linux" else 0), err
    assert "numba-cuda" in found["CUDA packages"]["remedy"] and found["packages"]["state"] == "ok"
