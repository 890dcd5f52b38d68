"""Folders of files that save making something again: bounded, and what was used lately stays."""

from __future__ import annotations

import os
import time
from pathlib import Path

from gpusim.io import kept_files


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def aged(path: Path, days: float) -> None:
    then = time.time() - days * 86_400
    os.utime(path, (then, then))


def test_a_sweep_removes_what_was_not_used_for_longest(tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / str(number)).write_bytes(bytes(100))
        aged(tmp_path / str(number), 20 - number)
    assert kept_files.read_kept(tmp_path / "0") == bytes(100)  # used now
    kept_files.sweep(tmp_path, 1000)
    assert len(names(tmp_path)) == 10
    kept_files.sweep(tmp_path, 999)
    assert names(tmp_path) == {"0", "4", "5", "6", "7", "8", "9"}


def test_the_first_file_that_a_process_adds_sweeps(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(kept_files, "sweep", lambda folder: swept.append(folder))
    swept: list[Path] = []
    for name in ("a", "b"):
        kept_files.keep(tmp_path / "new" / name, b"text")
        assert kept_files.read_kept(tmp_path / "new" / name) == b"text"
    assert swept == [tmp_path / "new"] and names(tmp_path / "new") == {"a", "b"}


def test_what_cannot_be_kept_or_read_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    kept_files.keep(tmp_path / "file" / "a", b"text")
    assert kept_files.read_kept(tmp_path / "file" / "a") is None
    assert kept_files.read_kept(tmp_path / "file", 0) is None
