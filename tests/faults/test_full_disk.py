"""A full disk: the message names the file that was asked for, and nothing half-written stays."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from store_examples import example_launch, example_row

from gpusim.cli import run
from gpusim.errors import ToolchainError
from gpusim.explore import session
from gpusim.explore.coverage import Coverage
from gpusim.explore.examples import Examples, Tried
from gpusim.explore.property import Outcome
from gpusim.measure import session as driver_session
from gpusim.project.export.write import write_tables
from gpusim.record import library
from gpusim.silicon.rows import append_rows, read_rows_file
from gpusim.store import open_store

resource = pytest.importorskip("resource")


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """A file system that takes ``size`` bytes of each file: the system's own limit, which fails as a full disk does."""
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


@pytest.fixture
def store(tmp_path: Path, monkeypatch) -> None:
    """A store with a run called before."""
    folder = tmp_path / "of-store"
    folder.mkdir()
    monkeypatch.setenv("GPUSIM_STORE", str(folder / "store.sqlite"))
    with open_store() as opened, opened.new_run("before", command="simulate") as kept:
        kept.add_launches([example_launch()])
    Coverage.of([("opcode", "integer")], "saxpy:n=4096 @ h200").save(folder / "coverage.json")


@pytest.mark.parametrize(
    "arguments",
    [
        "runs export before -o OUT/x.csv",
        "runs export before -o OUT/x.json",
        "runs export before --what instructions -o OUT/x.parquet",
        "suite make OUT/../of-store/coverage.json --budget 1 -o OUT/x.json",
    ],
)
@pytest.mark.parametrize("there", [False, True])
def test_an_output_that_does_not_fit_is_named_and_leaves_what_was_there(
    arguments: str, there: bool, store, tmp_path: Path, monkeypatch, capsys
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    words = arguments.replace("OUT", str(out)).split()
    target = Path(words[-1])
    if there:
        target.write_text("old")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    # A limit of the system's would strike the store's index too.
    monkeypatch.setattr("gpusim.io.whole_file.os.fsync", full)
    code = run(words)
    error = capsys.readouterr().err.splitlines()[-1]
    assert (code, error) == (3, f"error: {target}: No space left on device")
    assert [(path.name, path.read_text()) for path in out.iterdir()] == [(target.name, "old")] * there


def tried(n: int) -> Tried:
    return Tried("saxpy", {"n": n}, Outcome(0.5, "x" * 100), 1)


@pytest.mark.parametrize(("size", "runs"), [(10, 0), (150, 0), (500, 1), (700, 2)])
def test_a_search_whose_folder_is_full_keeps_whole_runs_or_no_folder(
    size: int, runs: int, monkeypatch, tmp_path: Path, capsys
) -> None:
    def search(plan, folder: Path, **_) -> None:
        examples = Examples(folder, "q", "0123abcd")
        for n in range(20):
            examples.add(0, tried(n))

    monkeypatch.setattr(session, "_explore", search)
    folder = tmp_path / "found"
    with files_of_at_most(size):
        code = run(["explore", "saxpy", "-o", str(folder)])
    error = capsys.readouterr().err.splitlines()[-1]
    assert code == 3 and error.startswith(f"error: {folder}/runs-0123abcd-") and error.endswith(": File too large")
    if not runs:
        assert not folder.exists()
        return
    again = Examples(folder, "q", "0123abcd")
    again.refresh()
    (path,) = folder.iterdir()
    assert len(again.runs) == runs and path.read_bytes().endswith(b"\n")


def test_a_folder_that_was_there_before_the_search_stays(monkeypatch, tmp_path: Path) -> None:
    def search(plan, folder: Path, **_) -> None:
        raise OSError(28, "No space left on device", str(folder / "runs"))

    monkeypatch.setattr(session, "_explore", search)
    assert run(["explore", "saxpy", "-o", str(tmp_path)]) == 3 and tmp_path.is_dir()


def test_measured_rows_that_do_not_fit_leave_the_whole_ones(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with files_of_at_most(1000), pytest.raises(OSError, match="File too large") as caught:
        append_rows(path, [example_row(i) for i in range(9)])
    assert caught.value.filename == str(path)
    assert len(read_rows_file(path)) == path.read_bytes().count(b"\n") > 0 and path.read_bytes().endswith(b"\n")


def test_a_recorded_session_that_does_not_fit_is_no_session(tmp_path: Path) -> None:
    class Driver:
        def close(self) -> None:
            self.closed = True

        def __getattr__(self, name: str):
            return lambda *arguments: "x" * 5000

    path, driver = tmp_path / "s.session", cast(Any, Driver())
    with files_of_at_most(2000), pytest.raises(OSError, match="File too large") as caught:
        recording = driver_session.RecordingDriver(driver, path)  # type: ignore[arg-type]
        try:
            recording.trace(True)  # type: ignore[attr-defined]
        finally:
            recording.close()
    assert caught.value.filename == str(path) and driver.closed and not os.listdir(tmp_path)


def test_a_recorder_that_does_not_fit_says_so_and_not_that_the_linker_failed(monkeypatch, tmp_path: Path) -> None:
    compiler = tmp_path / "cc"
    said = "/usr/bin/ld: final link failed: No space left on device\ncollect2: error: ld returned 1 exit status"
    compiler.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setattr(library, "COMPILERS", (str(compiler),))
    with pytest.raises(ToolchainError, match="does not compile the recorder: .*: No space left on device$"):
        library.build(tmp_path / "out.so")
    assert not (tmp_path / "out.so").exists()


@pytest.mark.parametrize("there", [False, True])
def test_exported_tables_that_do_not_fit_could_not_be_written(there: bool, tmp_path: Path) -> None:
    """All of them or none: those before the one that did not fit are not left beside older ones."""
    folder, rows = tmp_path / "profiles", [{"tokens": number} for number in range(100)]
    if there:
        write_tables(folder, [("mlp.csv", rows[:3]), ("attention.csv", rows[:1])])
    before = {path.name: path.read_bytes() for path in folder.glob("*")}
    with files_of_at_most(64), pytest.raises(OSError) as failed:
        write_tables(folder, [("attention.csv", rows[:2]), ("mlp.csv", rows)])
    assert (failed.value.errno, failed.value.filename) == (errno.EFBIG, str(folder / "mlp.csv"))
    assert {path.name: path.read_bytes() for path in folder.glob("*")} == before and folder.exists() == there
