"""`gpusim bisect` finds the commit, the compiler version or the figures that changed a case's cost, and says what it
cannot tell apart."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import ClassVar

import pytest
from alert_histories import FACTS, GPU, Nights, launch_of
from cuda import pathfinder

from gpusim.bisect import commits as commits_module
from gpusim.bisect.confirmation import run_name
from gpusim.bisect.reading import Point
from gpusim.cli import run
from gpusim.errors import ExecutionError
from gpusim.silicon.row import Estimate, SiliconRow
from gpusim.store import open_store
from gpusim.store.launch import Instruction, SimulatedLaunch
from gpusim.watch.alerts.read import read_alert
from gpusim.watch.kept import Cell, keep_cell, keep_commits
from gpusim.watch.repository import Commit
from gpusim.watch.worker_process import Answer, Refusal

KERNEL = """
import numpy as np
from numba import cuda

@cuda.jit
def scale(y):
    i = cuda.grid(1)
    value = y[i]
    for _ in range({rounds}):
        value = value * value + 1
    y[i] = value

def case(n=32):
    return scale, 1, n, (np.zeros(n, np.float32),)
"""
#: Registers are what the wrapped assembler changes: 40 live sums, and from "13.1" on at most 24 registers a thread.
CUDA = """
extern "C" __global__ void sums(float *x, int n) {
  float v[40];
  for (int k = 0; k < 40; ++k) v[k] = x[(threadIdx.x + k * 17) % n];
  __syncthreads();
  for (int r = 0; r < 4; ++r)
    for (int k = 0; k < 40; ++k) v[k] = v[k] * v[(k * 7 + 3) % 40] + v[(k + 11) % 40];
  float s = 0;
  for (int k = 0; k < 40; ++k) s += v[k];
  x[threadIdx.x] = s;
}
"""
SUMS = "sums.cu:sums:grid=1,block=32,arg0=float[64]=1,arg1=int:64"
SLOW = """inherits = "h200"
title = {{ value = "an H200 with slower memory", kind = "guess", source = "a test" }}
{changes}"""


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSIM_STORE", str(tmp_path / "store.db"))
    monkeypatch.setattr("gpusim.bisect.places.toolchain_folder", lambda: tmp_path / "installed")
    monkeypatch.chdir(tmp_path)


def repository(folder: Path, contents: list[str], file: str = "cost") -> Path:
    """A repository with a commit for each content of ``file``."""
    folder.mkdir(exist_ok=True)
    git(folder, "init", "-q")
    for number, content in enumerate(contents):
        (folder / file).write_text(content)
        (folder / "number").write_text(str(number))
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", f"commit {number}")
    return folder


class CostWorker:
    """In the place of a worker: what a commit costs stands in its file ``cost``, cycles and machine code's name."""

    asked: ClassVar[list[str]] = []

    def __init__(self, tree: Path, python: str = "", environment=None, python_path=()) -> None:
        self._tree = tree

    def __enter__(self) -> CostWorker:
        return self

    def __exit__(self, *_: object) -> None: ...

    def ask(self, task, timeout_s: float) -> Answer:
        words = (self._tree / "cost").read_text().split()
        self.asked.append((self._tree / "number").read_text())
        if words[0] == "unbuilt":
            return Answer(0, refused=Refusal("CompileError", "it does not compile"))
        if words[0] == "dead":
            raise ExecutionError("its worker did not begin")
        cycles, code = int(words[0]), words[1] if len(words) > 1 else words[0]
        stalls = {"long_scoreboard": 10 * cycles, "wait": 100}
        instruction = Instruction(0, "k.py", 3, f"FFMA R{code}", stalls, {})
        launch = SimulatedLaunch(
            "k", "h200", cycles, 1e9, cubin_hash=code, trace_hash=code, gpu_hash="g", stalls=stalls, instructions=(instruction,),
        )  # fmt: skip
        return Answer(0, launches=(launch,), figures={"g": {"sms": 1}}, facts={"model_hash": "m"})


@pytest.fixture
def costs(monkeypatch: pytest.MonkeyPatch) -> type[CostWorker]:
    monkeypatch.setattr(commits_module, "WorkerProcess", CostWorker)
    CostWorker.asked = []
    return CostWorker


def bisect(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict]:
    code = run(["bisect", *words, "--format", "json"])
    out, err = capsys.readouterr()
    assert out, err
    return code, json.loads(out)


def test_the_first_commit_of_a_new_cost_is_found_and_explained_and_kept(tmp_path: Path, costs, capsys) -> None:
    folder = repository(tmp_path / "repo", ["1000"] * 9 + ["1300"] * 7)
    code, found = bisect(capsys, "k.py:case", "--repo", str(folder), "--good", "HEAD~15", "--bad", "HEAD")
    assert (code, found["status"], found["good"], found["bad"]) == (1, "found", 1000, 1300)
    (step,) = found["steps"]
    assert step["after"] == git(folder, "rev-parse", "HEAD~6").strip() and step["exact"]
    assert "SLOWER, 1000 to 1300 cycles (+30.00 %)" in step["sentence"] and "long_scoreboard" in step["sentence"]
    launch = step["launches"][0]
    assert sum(term["cycles"] for term in launch["by_stall"]) == launch["cycles_grown"] == 300
    assert len(costs.asked) <= 2 + 4
    before = list(costs.asked)
    assert run(["bisect", "k.py:case", "--repo", str(folder), "--good", "HEAD~15", "--bad", "HEAD"]) == 1
    out, _ = capsys.readouterr()
    assert costs.asked == before, "what was read is in the store"
    assert "The value changes at commit" in out and "git -C" in out and "gpusim measure k.py:case" in out
    assert not git(folder, "worktree", "list").strip().count("\n"), "no checkout is left"


def test_commits_without_a_value_at_the_step_are_named_and_cannot_be_told_apart(tmp_path: Path, costs, capsys) -> None:
    folder = repository(tmp_path / "repo", ["1000", "1000", "unbuilt", "dead", "unbuilt", "1300", "1300"])
    code, found = bisect(capsys, "k.py:case", "--repo", str(folder), "--good", "HEAD~6", "--bad", "HEAD")
    assert (code, found["status"]) == (4, "cannot tell")
    wanted = [git(folder, "rev-parse", f"HEAD~{back}").strip() for back in (4, 3, 2, 1)]
    assert found["steps"][0]["candidates"] == wanted
    assert "cannot" not in found["sentence"] and all(each[:10] in found["sentence"] for each in wanted)
    assert {each["refused"] for each in found["readings"]} >= {"it does not compile", "its worker did not begin"}


def test_several_steps_are_never_taken_for_one(tmp_path: Path, costs, capsys) -> None:
    folder = repository(tmp_path / "repo", ["1000"] * 3 + ["1100"] * 4 + ["1050"] * 4 + ["1500"] * 5)
    words = ("k.py:case", "--repo", str(folder), "--good", "HEAD~15", "--bad", "HEAD")
    code, one = bisect(capsys, *words)
    assert code == 1 and one["steps"][0]["value_after"] == 1500 and one["further"], "the others are said to be there"
    assert "not the only step" in one["sentence"] and "of +500 cycles" in one["sentence"]
    code, several = bisect(capsys, *words, "--all")
    assert [(s["value_before"], s["value_after"]) for s in several["steps"]] == [
        (1000, 1100),
        (1100, 1050),
        (1050, 1500),
    ]
    code, first = bisect(capsys, *words, "--exact")
    assert first["steps"][0]["value_before"] == 1000


def test_changes_that_cancel_out_are_seen_by_running_every_commit(tmp_path: Path, costs, capsys) -> None:
    folder = repository(tmp_path / "repo", ["1000", "1200", "1000", "1000"])
    words = ("k.py:case", "--repo", str(folder), "--good", "HEAD~3", "--bad", "HEAD")
    code, none = bisect(capsys, *words)
    assert (code, none["status"], len(none["readings"])) == (0, "no difference", 2)
    code, every = bisect(capsys, *words, "--every")
    assert code == 1 and [s["value_after"] for s in every["steps"]] == [1200, 1000]


def test_a_mending_commit_is_found_where_bad_is_the_older_one(tmp_path: Path, costs, capsys) -> None:
    folder = repository(tmp_path / "repo", ["1300"] * 5 + ["1000"] * 4)
    code, found = bisect(
        capsys, "k.py:case", "--repo", str(folder), "--good", "HEAD", "--bad", "HEAD~8", "--threshold", "5"
    )
    assert (code, found["good"], found["bad"]) == (1, 1000, 1300)
    assert found["steps"][0]["after"] == git(folder, "rev-parse", "HEAD~3").strip()
    assert found["readings"][0]["state"] == "bad" and found["readings"][-1]["state"] == "good"


def test_the_same_machine_code_at_both_ends_points_at_the_host(tmp_path: Path, costs, capsys) -> None:
    folder = repository(tmp_path / "repo", ["1000 c", "1000 c", "1000 c"])
    code, found = bisect(capsys, "k.py:case", "--repo", str(folder), "--good", "HEAD~2", "--bad", "HEAD")
    assert code == 0 and "same byte for byte" in found["sentence"] and "host" in found["sentence"]


def test_a_build_that_fails_makes_a_commit_without_a_value(tmp_path: Path, costs, capsys) -> None:
    folder = repository(tmp_path / "repo", ["1000", "1000", "1300", "1300"])
    build = "grep -qv 2 number || { echo no rule to make two; false; }"
    code, found = bisect(
        capsys, "k.py:case", "--repo", str(folder), "--good", "HEAD~3", "--bad", "HEAD", "--build", build
    )
    assert code == 4 and len(found["steps"][0]["candidates"]) == 2
    assert any("no rule to make two" in each["refused"] for each in found["readings"])


def test_a_bisection_that_was_killed_goes_on_where_it_stood(tmp_path: Path, costs, capsys, monkeypatch) -> None:
    folder = repository(tmp_path / "repo", ["1000"] * 9 + ["1300"] * 7)
    words = ["bisect", "k.py:case", "--repo", str(folder), "--good", "HEAD~15", "--bad", "HEAD"]
    asked = CostWorker.ask

    def killed(self, task, timeout_s):
        if len(CostWorker.asked) == 3:
            raise KeyboardInterrupt
        return asked(self, task, timeout_s)

    monkeypatch.setattr(CostWorker, "ask", killed)
    assert run(words) == 130
    monkeypatch.setattr(CostWorker, "ask", asked)
    capsys.readouterr()
    assert run(words) == 1 and len(set(CostWorker.asked)) == len(CostWorker.asked), "no commit was read twice"


@pytest.mark.parametrize(("after", "state"), [(130.0, "confirmed"), (100.2, "not confirmed"), (None, "not measured")])
def test_measured_rows_stand_beside_the_simulated_step(tmp_path: Path, costs, capsys, after, state) -> None:
    folder = repository(tmp_path / "repo", ["1000", "1300"])
    hashes = [git(folder, "rev-parse", rev).strip() for rev in ("HEAD~1", "HEAD")]
    for hash_, time in zip(hashes, (100.0, after), strict=True):
        if time is None:
            continue
        estimate = Estimate(time, time - 0.1, time + 0.1)
        row = SiliconRow("k.py:case", gpu="h200", method="events", cache="cold", n=20, time_us=estimate)
        with (
            open_store() as store,
            store.new_run(run_name("k.py:case", Point(hash_[:10], hash_)), command="measure") as kept,
        ):
            kept.add_measurements([row])
    code, found = bisect(capsys, "k.py:case", "--repo", str(folder), "--good", "HEAD~1", "--bad", "HEAD")
    assert code == 1 and found["confirmation"]["state"] == state
    assert len(found["confirmation"]["commands"]) == 2
    for command, hash_ in zip(found["confirmation"]["commands"], hashes, strict=True):
        assert hash_ in command and run_name("k.py:case", Point(hash_[:10], hash_)) in command


def toolchain(folder: Path, version: str, options: str = "") -> None:
    """A ptxas that calls itself ``version`` and assembles as the installed one does with ``options``; "none" makes it
    fail."""
    program = folder / version / "bin" / "ptxas"
    program.parent.mkdir(parents=True)
    real = pathfinder.find_nvidia_binary_utility("ptxas") or shutil.which("ptxas")
    work = (
        "echo 'ptxas fatal : no such instruction' >&2; exit 1" if options == "none" else f'exec {real} {options} "$@"'
    )
    program.write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then echo "release x, V{version}"; exit 0; fi\n{work}\n')
    program.chmod(0o755)


@pytest.mark.skipif(pathfinder.find_nvidia_binary_utility("ptxas") is None, reason="needs ptxas: gpusim[nvcc]")
def test_the_first_version_of_an_assembler_that_spills_is_found_by_compiling_and_by_simulating(
    tmp_path: Path, capsys
) -> None:
    (tmp_path / "sums.cu").write_text(CUDA)
    versions = {
        "12.8.1": "",
        "12.9.1": "",
        "13.0.1": "none",
        "13.1.1": "--maxrregcount=24",
        "13.2.1": "--maxrregcount=24",
    }
    for version, options in versions.items():
        toolchain(tmp_path / "cuda", version, options)
    words = (SUMS, "--toolchain", "ptxas=12.9..13.2", "--toolchains", "cuda")
    code, found = bisect(capsys, *words, "--compile-only")
    assert (code, found["metric"], found["points"]) == (4, "local_store_bytes", 4), "12.8 is not wanted"
    assert found["steps"][0]["candidates"] == ["ptxas 13.0.1", "ptxas 13.1.1"]
    assert any(
        each["opcode"].startswith("STL") and each["after"] > each["before"] for each in found["steps"][0]["opcodes"]
    )
    assert "no such instruction" in next(each["refused"] for each in found["readings"] if each["refused"])
    code, found = bisect(capsys, *words, "--cubins", "made")
    assert code == 4 and found["good"] < found["bad"], "spills cost cycles"
    assert "machine code" in found["steps"][0]["sentence"]
    command = found["confirmation"]["commands"][1]
    assert (
        "made/ptxas-13.1.1.cubin:sums:grid=1,block=32" in command and (tmp_path / "made/ptxas-13.1.1.cubin").is_file()
    )


def test_two_figures_that_only_together_make_the_difference_are_found_and_called_so(tmp_path: Path, capsys) -> None:
    # One warp's chain of loads waits for both latencies, one behind the other; the others do nothing here.
    changes = "[l2]\nhit_latency_ns = { value = 90.0, kind = 'guess', source = 'a test' }\n" \
        "[dram]\nmiss_latency_ns = { value = 260.0, kind = 'guess', source = 'a test' }\n" \
        "peak_bytes_per_ns = { value = 4700.0, kind = 'guess', source = 'a test' }\n"  # fmt: skip
    (tmp_path / "slow.toml").write_text(SLOW.format(changes=changes))
    code, found = bisect(capsys, "saxpy:n=64", "--gpu-file", "h200", "slow.toml")
    assert code == 1 and [f["figure"] for f in found["figures"]] == ["l2.hit_latency_ns", "dram.miss_latency_ns"]
    assert found["value"] == found["good"] + sum(f["alone"] for f in found["figures"]) or found["interacts"]
    first = "[dram]\nmiss_latency_ns = { value = 400.0, kind = 'guess', source = 'a test' }\n"
    (tmp_path / "one.toml").write_text(SLOW.format(changes=first))
    assert run(["bisect", "saxpy:n=64", "--gpu-file", "h200", "one.toml"]) == 1
    assert "dram.miss_latency_ns alone makes +" in capsys.readouterr().out


@pytest.mark.nightly
def test_real_commits_are_checked_out_compiled_and_simulated(tmp_path: Path, capsys) -> None:
    contents = [KERNEL.format(rounds=rounds) for rounds in (4, 4, 4, 40, 40)]
    contents[2] = "def case(:"
    folder = repository(tmp_path / "repo", contents, "k.py")
    code, found = bisect(capsys, "k.py:case", "--repo", str(folder), "--good", "HEAD~4", "--bad", "HEAD")
    assert code == 4 and len(found["steps"][0]["candidates"]) == 2
    assert any("SyntaxError" in each["refused"] for each in found["readings"])
    assert "k.py:10" in found["steps"][0]["sentence"]


def test_an_alert_gives_the_case_and_gets_what_was_found(tmp_path: Path, costs, capsys) -> None:
    folder = repository(tmp_path / "repo", ["1000", "1000", "1200", "1200"])
    hashes = git(folder, "log", "--format=%H", "--reverse").split()
    with open_store() as store:
        store.prepare()
        nights = Nights(store)
        for position, cycles in ((0, 1000), (3, 1200)):
            commit = Commit(hashes[position], position, 1_700_000_000 + position, "Ada", f"commit {position}")
            number = keep_commits(store, nights.plan, [commit])[commit.hash]
            cell = Cell("k:n=64", "h200", "default", "simulated", "m")
            answer = Answer(0, launches=(launch_of("k", "h200", cycles),), figures={"g" * 64: GPU}, facts=FACTS)
            keep_cell(store, nights._run, nights.plan, number, position, cell, answer)
        nights.sync()
    code, found = bisect(capsys, "--alert", "1", "--repo", str(folder))
    assert (code, found["case"]) == (1, "k:n=64") and found["steps"][0]["after"] == hashes[2]
    with open_store() as store:
        alert = read_alert(store, 1)
    assert (alert.state, alert.found) == ("bisected", hashes[2])
    assert run(["bisect", "--alert", "7", "--repo", str(folder)]) == 2


def shown(page: str) -> list[list[str]]:
    """The commands of a page's console blocks."""
    text = (Path(__file__).parents[2] / "docs" / "how-to" / page).read_text()
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [shlex.split(line, comments=True) for block in blocks for line in block.splitlines()]


@pytest.mark.parametrize("words", [words for words in shown("bisect.md") if "--toolchain" not in words])
def test_commands_over_commits_that_the_page_shows_run(tmp_path: Path, costs, capsys, monkeypatch, words) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "kernels.py").touch()
    folder = repository(tmp_path / "repo", ["1000"] * 9 + ["1300"] * 7)
    monkeypatch.chdir(folder)
    assert run(words[1:]) == 1 and capsys.readouterr().out


@pytest.mark.nightly
@pytest.mark.skipif(pathfinder.find_nvidia_binary_utility("ptxas") is None, reason="needs ptxas: gpusim[nvcc]")
@pytest.mark.parametrize("words", [words for words in shown("bisect.md") if "--toolchain" in words])
def test_commands_over_compilers_that_the_page_shows_run(tmp_path: Path, capsys, words) -> None:
    (tmp_path / "sums.cu").write_text(CUDA)
    for version, options in {"12.8.93": "", "12.9.86": "", "13.1.115": "--maxrregcount=24"}.items():
        toolchain(tmp_path / "cuda", version, options)
    assert run(words[1:]) == 1
    assert "13.1.115" in capsys.readouterr().out.split("\n")[0]


@pytest.mark.nightly
def test_versions_of_a_package_that_a_case_imports_are_told_apart(tmp_path: Path, capsys) -> None:
    for version, rounds in (("1.0", 4), ("1.1", 4), ("2.0", 60)):
        package = tmp_path / "packages" / version / "rounds"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(f"N = {rounds}")
        (package.parent / f"rounds-{version}.dist-info").mkdir()
    (tmp_path / "k.py").write_text("from rounds import N\n" + KERNEL.format(rounds="N"))
    code, found = bisect(capsys, "k.py:case", "--toolchain", "rounds=1..2", "--toolchains", "packages")
    assert (code, found["steps"][0]["after"]) == (1, "rounds 2.0")
    assert all("PYTHONPATH=" in command for command in found["confirmation"]["commands"])


@pytest.mark.skipif(pathfinder.find_nvidia_binary_utility("ptxas") is None, reason="needs ptxas: gpusim[nvcc]")
def test_two_versions_that_make_the_same_code_are_said_to(tmp_path: Path, capsys) -> None:
    (tmp_path / "sums.cu").write_text(CUDA)
    for version in ("12.9.1", "13.0.1"):
        toolchain(tmp_path / "cuda", version)
    code, found = bisect(capsys, SUMS, "--toolchain", "ptxas=12.9..13.0", "--toolchains", "cuda", "--compile-only")
    assert (code, found["status"]) == (0, "no difference") and "make the same instructions" in found["sentence"]
    assert {each["state"] for each in found["readings"]} == {"good"}
