"""Standard streams that are closed, full or unread: the exit code stays true and files are written whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from forked_commands import Command
from trace_examples import example_trace

from gpusim.io.stdout import patient

ROOT = Path(__file__).parents[2]
needs_full_disk = pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")


def shell(command: str, folder: Path) -> subprocess.CompletedProcess:
    """``command`` in bash, in ``folder``; ``gpusim`` in it is this checkout's."""
    full = "set -o pipefail; " + command.replace("gpusim ", f"{sys.executable} -m gpusim.cli ")
    return subprocess.run(
        ["bash", "-c", full], capture_output=True, text=True, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    run = shell("gpusim gpus show h200 | head -1", tmp_path)
    assert (run.returncode, run.stderr, run.stdout.count("\n")) == (0, "", 1)


def test_a_result_is_kept_although_its_reader_has_gone(tmp_path: Path) -> None:
    example_trace().save(tmp_path / "t.trace")
    command = Command(["simulate", "t.trace", "--by", "instruction", "--save", "kept.json"], tmp_path)
    assert command.out_line()
    command.stop_reading()
    run = command.finish()
    # On a busy machine there are lines of progress.
    assert run.returncode == 0 and "error" not in run.stderr and "Traceback" not in run.stderr
    assert (tmp_path / "kept.json").stat().st_size > 0


def test_the_exit_code_outlives_the_reader(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("kernel,shape,cycles\nsaxpy,n=256,1\n")
    command = Command(["compare", "saxpy:n=256", "--against", "rows.csv", "--check"], tmp_path)
    command.stop_reading()
    run = command.finish()
    assert run.returncode == 1, run.stderr


@pytest.mark.by_day(1)
@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_one_that_nobody_reads(tmp_path: Path, closed: str) -> None:
    example_trace().save(tmp_path / "t.trace")
    run = shell(f"gpusim simulate t.trace --save kept.json {closed}", tmp_path)
    told = [] if "2>&-" in closed else ["not checked: t.trace (a trace carries no result)"]
    # On a busy machine lines of progress come before it.
    assert (run.returncode, run.stderr.splitlines()[-1:]) == (0, told)
    assert (tmp_path / "kept.json").stat().st_size > 0


@needs_full_disk
def test_a_full_standard_output_is_named(tmp_path: Path) -> None:
    run = shell("gpusim --help > /dev/full", tmp_path)
    assert run.returncode == 3
    assert "standard output" in run.stderr and run.stderr.count("\n") == 1


@pytest.mark.by_day(1)
@needs_full_disk
@pytest.mark.parametrize("arguments", ["simulate t.trace --timeline", "capture saxpy:n=32 -o"])
def test_a_full_disk_under_a_file_is_named(tmp_path: Path, arguments: str) -> None:
    example_trace().save(tmp_path / "t.trace")
    run = Command([*arguments.split(), "/dev/full"], tmp_path).finish()
    assert run.returncode == 3
    # On a busy machine lines of progress come before it.
    assert run.stderr.splitlines()[-1] == "error: /dev/full: No space left on device"


@needs_full_disk
def test_a_full_log_does_not_change_the_exit_code(tmp_path: Path) -> None:
    assert shell("gpusim simulate nothing 2> /dev/full", tmp_path).returncode == 2


def test_a_terminated_capture_leaves_nothing_behind(tmp_path: Path) -> None:
    # A kernel without end, so that the signal meets it at work, however slow the machine.
    (tmp_path / "endless.py").write_text(
        "import sys\nimport numpy as np\nfrom numba import cuda\n"
        "@cuda.jit\ndef wait(x):\n    while x[0] == 0:\n        cuda.threadfence()\n"
        "def case():\n    sys.stderr.write('begun\\n')\n    return wait, 1, 32, (np.zeros(32, np.float32),)\n"
    )
    before = sorted(tmp_path.iterdir())
    process = subprocess.Popen(
        [sys.executable, "-m", "gpusim.cli", "capture", "endless.py:case", "-o", "x.trace"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr.readline() == "begun\n"
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 143
    assert said.splitlines()[-1] == "error: terminated"
    assert sorted(p for p in tmp_path.iterdir() if p.suffix != ".nbi") == before


@pytest.mark.parametrize(
    ("encoding", "written"),
    [
        ("utf-8", b"a\xc3\xa9 b\xff \\ud800\n"),
        ("ascii", b"a\\xe9 b\xff \\ud800\n"),
        ("latin-1", b"a\xe9 b\xff \\ud800\n"),
    ],
)
def test_what_a_streams_encoding_cannot_hold_is_escaped_and_a_files_name_stays(
    encoding: str, written: bytes, tmp_path: Path
) -> None:
    """In a strict UTF-8 locale a file called by bytes that are no UTF-8 ended in a UnicodeEncodeError."""
    with (tmp_path / "out").open("w", encoding=encoding) as plain:
        stream = patient(plain, "standard output")
        print("aé b\udcff \ud800", file=stream, flush=True)
    assert (tmp_path / "out").read_bytes() == written
