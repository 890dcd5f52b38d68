"""What cannot be bisected is refused in one line that names it, before anything is run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gpusim.bisect.install import offered_versions
from gpusim.bisect.versions import Wanted, parse_toolchain
from gpusim.cli import run
from gpusim.errors import ToolchainError, UsageError

CU = 'extern "C" __global__ void k(float *x) { x[threadIdx.x] = 1; }'
REQUEST = "k.cu:k:grid=1,block=32,arg0=float[32]"


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSIM_STORE", str(tmp_path / "store.db"))
    monkeypatch.setenv("GPUSIM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.cu").write_text(CU)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q", "-b", "main"], ["add", "k.cu"], ["commit", "-qm", "one"], ["checkout", "-qb", "side"],
                  ["commit", "-qm", "two", "--allow-empty"], ["checkout", "-q", "main"],
                  ["commit", "-qm", "three", "--allow-empty"]):  # fmt: skip
        subprocess.run([*git, *words], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "name the CASE"),
        (("saxpy",), 2, "--good REV and --bad REV"),
        (("saxpy", "--good", "HEAD"), 2, "--good REV and --bad REV"),
        (("saxpy", "--good", "HEAD", "--bad", "nowhere"), 2, "no commit 'nowhere'"),
        (("saxpy", "--good", "--upload-pack=x", "--bad", "HEAD"), 2, "is no revision"),
        (("saxpy", "--good", "HEAD", "--bad", "main"), 2, "are one commit"),
        (("saxpy", "--good", "side", "--bad", "main"), 2, "first-parent line"),
        (("saxpy", "--good", "HEAD~1", "--bad", "HEAD", "--repo", "cache"), 2, "cache"),
        (("saxpy", "--good", "HEAD~1", "--bad", "HEAD", "--gpu", "h2000"), 5, "h2000"),
        (("saxpy", "--good", "HEAD~1", "--bad", "HEAD", "--exact", "--limit", "3"), 2, "give one"),
        (("saxpy", "--good", "HEAD~1", "--bad", "HEAD", "--compile-only"), 2, "--toolchain"),
        (("saxpy", "--toolchain", "ptxas=12.9..13.1", "--gpu-file", "h200", "h100"), 2, "give one"),
        (("saxpy", "--toolchain", "ptxas"), 2, "TOOL=FIRST..LAST"),
        (("saxpy", "--toolchain", "ptxas=13.1..12.9"), 2, "is newer than"),
        (("saxpy", "--toolchain", "../x=1..2"), 2, "TOOL=FIRST..LAST"),
        ((REQUEST, "--toolchain", "nvrtc=1.0..1.1"), 3, "--install"),
        ((REQUEST, "--toolchain", "python=a,a"), 2, "two interpreters"),
        ((REQUEST, "--toolchain", "python=no/python,none/python"), 3, "cannot be run"),
        (("saxpy", "--gpu-file", "h200", "h200"), 2, "same figures"),
        (("saxpy", "--gpu-file", "h200", "a100_80gb"), 2, "different machine code"),
        (("saxpy", "--gpu-file", "h200", "gone.toml"), 5, "gone.toml"),
        (("--alert", "3"), 2, "no alert 3"),
    ],
)
def test_what_cannot_be_bisected_is_refused_in_a_line(capsys, words: tuple[str, ...], code: int, said: str) -> None:
    assert run(["bisect", *words]) == code
    out, err = capsys.readouterr()
    last = err.strip().splitlines()[-1]
    assert said in last and not out, err


def test_a_range_of_versions_takes_all_that_begin_like_its_ends() -> None:
    wanted = parse_toolchain("ptxas=12.9..13.1")
    versions = {"12.8.93", "12.9.41", "12.9.86", "13.0.88", "13.1.115", "13.2.51", "13.10.1"}
    assert wanted.ordered(versions) == ["12.9.41", "12.9.86", "13.0.88", "13.1.115"]
    assert parse_toolchain("nvrtc=13.0.88,12.9.86") == Wanted("nvrtc", ("13.0.88", "12.9.86"))
    with pytest.raises(UsageError):
        parse_toolchain("ptxas=" + "9" * 40 + "..1")


def test_an_index_that_has_no_such_package_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    said = subprocess.CompletedProcess([], 1, "", "WARNING: x\nERROR: No matching distribution found\n")
    monkeypatch.setattr("gpusim.bisect.install._pip", lambda *words: said)
    with pytest.raises(ToolchainError, match="No matching distribution"):
        offered_versions("ptxas")
