"""Locks that are files: one holder, none left behind, and none removed under a holder."""

import os
from pathlib import Path

from gpusim.io import file_lock as module
from gpusim.io.file_lock import file_lock, lock_folder, remove_unheld


def test_a_lock_is_there_while_it_is_held_and_gone_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with file_lock(path) as held:
        assert held and path.exists()
        with file_lock(path) as second:
            assert not second
        assert path.exists()  # whom it was refused removes nothing
    assert not path.exists()


def test_what_was_left_is_taken_over_and_swept_but_not_under_a_holder(tmp_path: Path) -> None:
    for name in ("old-1.lock", "old-2.lock", "else.txt"):
        (tmp_path / name).touch()
    with file_lock(tmp_path / "old-1.lock") as held:
        remove_unheld(tmp_path, "old-*.lock")
        assert held and sorted(each.name for each in tmp_path.iterdir()) == ["else.txt", "old-1.lock"]


def test_a_file_that_its_holder_removed_before_it_was_locked_counts_for_nothing(tmp_path: Path, monkeypatch) -> None:
    path, take = tmp_path / "a.lock", module.fcntl.flock
    removed: list[int] = []

    def slow(descriptor: int, how: int) -> None:
        if not removed:  # another process ends between the opening and the locking, and a third one begins
            removed.append(os.fstat(descriptor).st_ino)
            path.rename(tmp_path / "removed")
        take(descriptor, how)

    monkeypatch.setattr(module.fcntl, "flock", slow)
    with file_lock(path) as held:
        assert held and path.stat().st_ino != removed[0]


def test_locks_lie_apart_from_what_is_cached(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("GPUSIM_CACHE_DIR", str(tmp_path))
    assert lock_folder() == tmp_path / "locks"
    monkeypatch.setenv("GPUSIM_CACHE_DIR", "")
    assert lock_folder().name == f"gpusim-locks-{os.getuid()}"
