"""What a killed process leaves beside its output is swept by the next one, and what a living one is making is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from gpusim.io import owned_names
from gpusim.io.owned_names import owned_path
from gpusim.io.whole_file import write_whole
from gpusim.watch.repository import checkout

#: Begins to write the file that it is given, says so, and waits to be killed.
WRITER = """
import sys, time
from pathlib import Path
from gpusim.io.whole_file import folder_for, replacing
with replacing(Path(sys.argv[1])) as stream, folder_for(Path(sys.argv[1])) as folder:
    (folder / "0.trace").write_bytes(b"half of it")
    stream.write(b"half of it")
    print("begun", flush=True)
    time.sleep(600)
"""


def begun(path: Path) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"begun\n"
    return process


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_killed_writers_folder_and_file_go_with_the_next_run_and_a_living_ones_stay(tmp_path: Path) -> None:
    path = tmp_path / "cap.trace"
    killed, living = begun(path), begun(path)
    try:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        of_killed = {name for name in names(tmp_path) if f"-{killed.pid}-" in name}
        of_living = {name for name in names(tmp_path) if f"-{living.pid}-" in name}
        assert len(of_killed) == len(of_living) == 2  # a folder and a file each
        write_whole(path, b"whole")
        assert names(tmp_path) == {"cap.trace"} | of_living
        assert any((tmp_path / name / "0.trace").exists() for name in of_living)
    finally:
        living.send_signal(signal.SIGTERM)
        living.wait()
        assert living.stdout and killed.stdout
        living.stdout.close()
        killed.stdout.close()


@pytest.mark.parametrize(
    ("change", "goes"),
    [
        (lambda mark: mark, False),  # this process lives
        (lambda mark: mark.replace(f"-{os.getpid()}-", "-4194305-"), True),  # beyond the largest number of a process
        (lambda mark: mark.rpartition("-")[0] + "-1", True),  # another process that had the number
        (lambda mark: mark.rpartition("-")[0] + "-0", False),  # a system that does not say when a process began
        (lambda mark: "00000000" + mark[8:].replace(f"-{os.getpid()}-", "-4194305-"), False),  # another machine
        (lambda mark: mark[:9] + "7-4194305-5", False),  # another space of process numbers
        (lambda mark: f"-{os.getpid()}-", False),  # no mark of ours
    ],
)
def test_only_what_belongs_to_nobody_living_here_is_swept(tmp_path: Path, change, goes: bool) -> None:
    if not Path("/proc/self/stat").exists():
        pytest.skip("this system does not say when a process began")
    left = tmp_path / f".out.{change(owned_names._mark(os.getpid()))}.01234567.part"
    left.write_bytes(b"x")
    write_whole(tmp_path / "out", b"y")
    assert left.exists() is not goes


def test_another_outputs_leavings_stay(tmp_path: Path) -> None:
    other = owned_path(tmp_path / "out.trace.gz", ".part")
    other = other.with_name(other.name.replace(f"-{os.getpid()}-", "-4194305-"))
    other.write_bytes(b"x")
    write_whole(tmp_path / "out.trace", b"y")
    assert other.exists()


def test_a_name_as_long_as_the_file_system_takes_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 250 + ".json")
    write_whole(path, b"x")
    assert names(tmp_path) == {path.name}


#: Checks out a commit, says where, and waits to be killed.
CHECKOUT = """
import sys, time
from pathlib import Path
from gpusim.watch.repository import checkout
with checkout(Path(sys.argv[1]), "HEAD") as tree:
    print(tree, flush=True)
    time.sleep(600)
"""


def test_a_killed_watchs_checkout_goes_with_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository, temporary = tmp_path / "repository", tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "--quiet", str(repository)], check=True)
    subprocess.run([*git, "-C", str(repository), "commit", "--quiet", "--allow-empty", "-m", "one"], check=True)
    killed = subprocess.Popen([sys.executable, "-c", CHECKOUT, str(repository)], stdout=subprocess.PIPE, text=True)
    assert killed.stdout is not None
    left = Path(killed.stdout.readline().strip())
    killed.kill()
    killed.wait()
    killed.stdout.close()
    assert left.is_dir()
    with checkout(repository, "HEAD") as tree:
        assert not left.exists() and tree.is_dir()
        listed = subprocess.run(
            [*git, "-C", str(repository), "worktree", "list"], check=True, capture_output=True, text=True
        ).stdout
        assert str(left) not in listed and str(tree) in listed
    assert not names(temporary)
