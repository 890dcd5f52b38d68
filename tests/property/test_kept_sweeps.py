"""What a sweep of models keeps in a file and says of itself: files of others, full disks, plans that cannot be."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gpusim.cli import run
from gpusim.project.sweep import Kept


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Run a command: its exit code, and what it said on stderr."""

    def call(*words: str) -> tuple[int, str]:
        return run([*words]), capsys.readouterr().err

    return call


def test_a_file_of_something_else_is_left_as_it_is(said: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    """A line without an end may be a row that was cut off, or a note, or a number."""
    other = tmp_path / "notes.txt"
    words = ("project", "llama3_8b", "--phase", "decode", "--sweep", "batch=1", "--resume", str(other))
    for text in (b"bring milk", b"{}", b"\xff\xfe" * 100):
        other.write_bytes(text)
        code, text_said = said(*words)
        assert code == 2 and "line 1: no row of a sweep" in text_said
        assert other.read_bytes() == text


def test_rows_of_another_version_are_projected_again_and_told(
    said: Callable[..., tuple[int, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "rows.jsonl"
    words = ("project", "llama3_8b", "--phase", "decode", "--sweep", "batch=1,2", "--resume", str(kept))
    said(*words)
    today = kept.read_text()
    assert said(*words) == (0, "") and kept.read_text() == today
    # A row that says no version, as all did once, and one of another.
    first, second = today.splitlines()
    digest = json.loads(first)["gpusim"]
    old = first.replace(f'"gpusim": "{digest}", ', "") + "\n" + second.replace(digest, "another") + "\n"
    kept.write_text(old.replace('"step_ms": ', '"step_ms": 9'))
    code, told = said(*words)
    assert (
        code == 0 and "rows.jsonl: 2 rows are of another version of gpusim or of its figures; projected again" in told
    )
    assert kept.read_text().endswith(today)
    assert said(*words) == (0, "")


def test_a_row_for_which_the_disk_has_no_room_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept(tmp_path / "rows.jsonl")
    kept.add("a", {"step_ms": 1.0})
    write, room = os.write, [7]

    def filling(where: int, data: bytes) -> int:
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(where, data[: room.pop()])

    monkeypatch.setattr("gpusim.io.whole_line.os.write", filling)
    with pytest.raises(OSError, match="No space left on device: .*rows.jsonl"):  # as of every file that is written
        kept.add("b", {"step_ms": 2.0})
    monkeypatch.setattr("gpusim.io.whole_line.os.write", write)
    kept.add("c", {"step_ms": 3.0})
    again = Kept(tmp_path / "rows.jsonl")
    assert again.get("a") == {"step_ms": 1.0} and again.get("b") is None and again.get("c") == {"step_ms": 3.0}


def test_a_file_in_no_folder_is_refused_before_any_plan_is_projected(
    said: Callable[..., tuple[int, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpusim.commands.sweeping_models.projected", lambda *_, **__: pytest.fail("projected"))
    for place, why in ((tmp_path / "none" / "rows.jsonl", "there is no folder"), (tmp_path, "is a")):
        code, err = said("project", "llama3_8b", "--phase", "decode", "--sweep", "batch=1", "--resume", str(place))
        assert code == 2 and why in err


def test_ways_to_share_out_gpus_that_no_plan_has_are_named(said: Callable[..., tuple[int, str]]) -> None:
    words = ("project", "llama3_8b", "--gpu", "h100:4", "--phase", "decode", "--sweep", "tp=1..4")
    assert (
        "no plan with tp 1, 2 takes as many GPUs as --gpu says; add --sweep pp=... or --sweep dp=..." in said(*words)[1]
    )
    assert "takes as many GPUs" not in said(*words, "--sweep", "dp=1..4")[1]
