"""Is a planted regression found, and laid at the door of the instruction, line, unit or figure that has it?"""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from numba import cuda, float32

import gpusim
from gpusim import cli
from gpusim.silicon.row import Estimate, SiliconRow

N = 32


def transpose_kernel(pitch: int):
    """A block transposes a tile through shared memory whose rows lie ``pitch`` words apart."""

    @cuda.jit
    def transpose(a, out):
        tile = cuda.shared.array((N, pitch), float32)
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        for row in range(y, N, 8):
            tile[row, x] = a[row, x]
        cuda.syncthreads()
        for row in range(y, N, 8):
            out[row, x] = tile[x, row]

    return transpose


TILE_READ = "out[row, x] = tile[x, row]"


@pytest.fixture
def shell(capsys, tmp_path, monkeypatch):
    """Run a command in an empty folder with a store of its own: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPUSIM_STORE", str(tmp_path / "store.sqlite"))

    def run(*arguments: str):
        code = cli.run(arguments)
        out = capsys.readouterr()
        return code, out.out, out.err

    return run


@pytest.fixture(scope="module")
def builds(tmp_path_factory) -> Path:
    """Two folders of traces: ``old`` without bank conflicts, ``new`` with 32 lanes on a bank; one file stays."""
    folder = tmp_path_factory.mktemp("builds")
    a = np.arange(N * N, dtype=np.float32).reshape(N, N)
    for name, pitch in (("old", N + 1), ("new", N)):
        (folder / name).mkdir()
        out = np.zeros_like(a)
        gpusim.capture(transpose_kernel(pitch), 1, (N, 8), (a, out), to=folder / name / "transpose.trace")
        assert (out == a.T).all()
        gpusim.capture(transpose_kernel(N + 1), 1, (N, 8), (a, out), to=folder / name / "same.trace")
    return folder


def test_a_bank_conflict_is_found_at_its_line(shell, builds):
    code, out, err = shell("regress", str(builds / "old"), str(builds / "new"), "--format", "json")
    assert code == 1, err
    same, slower = json.loads(out)
    assert (same["verdict"], same["change_percent"]) == ("SAME", 0)
    assert slower["verdict"] == "SLOWER" and "machine code" in slower["changed"]
    difference = slower["head"] - slower["base"]
    assert sum(term["cycles"] for term in slower["by_stall"]) == difference
    in_flight = next(term["cycles"] for term in slower["by_stall"] if term["stall"] == "warps in flight")
    assert sum(term["cycles"] for term in slower["by_line"]) + in_flight == difference
    assert slower["by_stall"][0]["stall"] in ("short_scoreboard", "mio_throttle")
    # The load itself, and the loop's head, where its last result is waited for: both name the conflict.
    assert TILE_READ in [term["code"] for term in slower["by_line"][:2]]
    conflicts = [c for c in slower["counters"] if "bank_conflicts" in c["counter"]]
    assert conflicts and conflicts[0]["head"] > conflicts[0]["base"]


def test_the_other_way_round_it_is_faster_and_no_failure(shell, builds, tmp_path):
    code, out, _ = shell(
        "regress", str(builds / "new"), str(builds / "old"), "--junit", "j.xml", "--markdown", "c.md"
    )  # fmt: skip
    assert code == 0 and "FASTER" in out and "1 SAME, 1 FASTER" in out
    suite = ElementTree.parse(tmp_path / "j.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "0", "0")
    assert all(float(str(case.get("time"))) > 0 for case in suite)
    comment = (tmp_path / "c.md").read_text()
    assert (
        comment.startswith("## gpusim regress") and "cycles: " in comment.partition("\n|")[0] and "<details>" in comment
    )


def test_sources_that_changed_since_a_trace_was_written_are_named(shell, builds, tmp_path):
    for name in ("old", "new"):
        (tmp_path / f"{name}.trace").write_bytes((builds / name / "same.trace").read_bytes())
    os.utime(tmp_path / "old.trace", (0, 0))
    code, _, err = shell("regress", "old.trace", "new.trace")
    assert code == 0
    assert "note: test_regress.py changed after old.trace was written" in err and "after new.trace" not in err


def test_a_spilled_register_is_found_among_the_instructions(shell):
    shape = "live_values=40,rounds=8,block_threads=64,blocks=2"
    code, out, err = shell(
        "regress", f"local_memory_spill:{shape},max_registers=0", f"local_memory_spill:{shape},max_registers=24",
        "--format", "json", "--small",
    )  # fmt: skip
    assert code == 1, err
    (outcome,) = json.loads(out)
    assert "machine code" in outcome["changed"] and "registers" in outcome["changed"]
    added = [term for term in outcome["by_instruction"] if term["change"] == "added"]
    spills = [term for term in added if term["head_sass"].partition(" ")[0].startswith(("STL", "LDL"))]
    assert spills and len(added) > 20
    assert any("local" in counter["counter"] for counter in outcome["counters"])
    grown = {unit["unit"]: unit["grown"] for unit in outcome["by_unit"]}
    assert grown["issue"] > 0 and grown["warp"] > 0, "every spill is an instruction more"
    in_flight = next(term["cycles"] for term in outcome["by_stall"] if term["stall"] == "warps in flight")
    total = outcome["head"] - outcome["base"]
    assert sum(term["cycles"] for term in outcome["by_instruction"]) + in_flight == total


USERS_FILE = """
import numpy as np
from numba import cuda

@cuda.jit
def scale(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = {expression}

def case(n=2000):
    return scale, -(-n // 128), 128, (np.ones(n, np.float32),)
"""


def test_two_versions_of_a_users_file_are_compared(shell, tmp_path):
    for name, expression in (("old", "x[i] * 3"), ("new", "3 / (x[i] + 2)")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.py").write_text(USERS_FILE.format(expression=expression))
    code, out, err = shell("regress", "old/mine.py:case", "new/mine.py:case", "--format", "json")
    assert code == 1, err
    (outcome,) = json.loads(out)
    assert "machine code" in outcome["changed"] and outcome["by_line"][0]["code"].startswith("x[i] = ")
    assert outcome["by_line"][0]["changed_instructions"] > 3


def test_a_gpu_with_twice_the_l2_latency_is_named_by_its_figure(shell):
    """With two other figures changed that this kernel does not feel as much; the figures add up to the difference."""
    code, out, err = shell(
        "regress", "saxpy", "saxpy", "--small", "--head-set", "l2.hit_latency_ns=90", "--head-set",
        "l1.hit_latency_cycles=33", "--head-set", "dram.efficiency=0.8", "--format", "json",
    )  # fmt: skip
    assert code == 1, err
    (outcome,) = json.loads(out)
    assert outcome["changed"] == "GPU"
    figures = {figure["changed"]: figure for figure in outcome["gpu_figures"]}
    assert set(figures) == {"l2.hit_latency_ns", "l1.hit_latency_cycles", "dram.efficiency"}
    assert sum(figure["cycles"] for figure in figures.values()) == outcome["head"] - outcome["base"]
    assert max(figures.values(), key=lambda figure: figure["cycles"]) is figures["l2.hit_latency_ns"]
    assert "l2.hit_latency_ns" in outcome["sentence"]
    assert outcome["by_stall"][0]["stall"] == "long_scoreboard"
    assert not outcome["by_unit"], "a latency is no unit's demand"


def test_a_gpu_with_half_the_dram_bandwidth_has_its_unit_named(shell):
    code, _, err = shell("simulate", "saxpy:n=300000", "--save-run", "full")
    assert code == 0, err
    code, out, err = shell("regress", "full", "now", "--head-set", "dram.peak_bytes_per_ns=2400", "--format", "json")
    assert code == 1, err
    (outcome,) = json.loads(out)
    assert [figure["changed"] for figure in outcome["gpu_figures"]] == ["dram.peak_bytes_per_ns"]
    (unit,) = outcome["by_unit"]
    assert unit["unit"] == "dram" and unit["head_least_cycles"] == pytest.approx(2 * unit["base_least_cycles"])


def test_a_stored_run_against_now_is_silent(shell):
    """Two kernels in a row on one machine: what was asked is done again, and nothing differs."""
    code, _, err = shell("simulate", "saxpy", "softmax", "--small", "--set", "l2.hit_latency_ns=50", "--save-run", "a")
    assert code == 0 and "kept as run 1" in err
    code, out, err = shell("regress", "a", "now", "--strict", "--tolerance", "0", "--format", "json")
    assert code == 0, err
    outcomes = json.loads(out)
    assert [(o["verdict"], o["changed"], o["reason"]) for o in outcomes] == [("SAME", "", "equal")] * 2
    assert not any(o["counters"] for o in outcomes)


def test_a_store_that_cannot_be_written_is_found_before_the_work(shell, tmp_path, monkeypatch):
    monkeypatch.setenv("GPUSIM_STORE", str(tmp_path))
    code, out, err = shell("simulate", "saxpy", "--save-run", "a")
    assert (code, out) == (3, "") and str(tmp_path) in err and err.count("\n") == 1
    assert shell("simulate", "saxpy", "--save-run", "now")[0] == 2


def test_an_older_gpusim_is_named_as_the_cause(shell, tmp_path):
    shell("simulate", "saxpy", "--small", "--save-run", "old")
    with sqlite3.connect(tmp_path / "store.sqlite") as store:
        store.execute("UPDATE runs SET model_hash='older'")
        store.execute("UPDATE launches SET cycles=cycles/2")
    code, out, _ = shell("regress", "old", "now", "--format", "json")
    (outcome,) = json.loads(out)
    assert (code, outcome["verdict"], outcome["changed"]) == (1, "SLOWER", "gpusim's model")
    assert shell("regress", "now", "old")[0] == 0
    assert shell("regress", "old", "now", "--tolerance", "150")[0] == 0
    assert shell("regress", "old", "now", "--tolerance-cycles", "100000")[0] == 0


def test_measured_runs_are_compared_as_well(shell, tmp_path):
    """Imported from files; the same measurement twice is silent, one that is a tenth slower is found."""
    chance = np.random.default_rng(1)

    def write(name: str, factor: float) -> None:
        samples = tuple((50.0 * factor * np.exp(chance.normal(0, 0.004, 40))).tolist())
        low, median, high = np.quantile(samples, (0.4, 0.5, 0.6)).tolist()
        row = SiliconRow("saxpy", "n=1000", gpu="h200", method="events", cache="warm", n=40,
                         time_us=Estimate(median, low, high), samples_us=samples)  # fmt: skip
        (tmp_path / f"{name}.jsonl").write_text(row.to_json() + "\n")
        assert shell("runs", "import", f"{name}.jsonl", "--name", name)[0] == 0

    write("driver-1", 1.0)
    write("driver-2", 1.0)
    write("driver-3", 1.1)
    code, out, err = shell("regress", "driver-1", "driver-2", "--strict")
    assert code == 0 and "1 SAME" in out and "measured saxpy:n=1000 (warm, events)" in out, err
    code, out, err = shell("runs", "export", "driver-1")
    assert code == 0 and out.count("\n") == 2 and "samples_us" in out, "a run of measurements alone is exported as such"
    assert shell("runs", "export", "driver-1", "-o", "driver-1.json")[0] == 0
    assert json.loads((tmp_path / "driver-1.json").read_text())[0]["kernel"] == "saxpy"
    code, out, err = shell("regress", "driver-1", "driver-3", "--format", "json")
    (outcome,) = json.loads(out)
    assert (code, outcome["kind"], outcome["unit"], outcome["verdict"]) == (1, "measured", "us", "SLOWER"), err


def test_a_result_file_is_a_side_too(shell, tmp_path: Path):
    shell("simulate", "saxpy", "--small", "--save", "r.json")
    (tmp_path / "r.json").rename(tmp_path / "r.base")  # what a file is, its content says
    code, out, err = shell("regress", "r.base", "kernel:saxpy", "--small", "--format", "json")
    assert code == 0, err
    (outcome,) = json.loads(out)
    assert outcome["change_percent"] == 0 and not any(term["cycles"] for term in outcome["by_stall"])


def test_other_work_is_ambiguous(shell):
    code, out, _ = shell("regress", "saxpy:n=1000", "saxpy:n=200000", "--small", "--strict", "--format", "csv")
    assert code == 4 and "AMBIGUOUS" in out and "may not do the same work" in out
    assert shell("regress", "saxpy:n=1000", "saxpy:n=200000", "--small")[0] == 0


def test_a_launch_that_is_gone_is_no_success(shell):
    shell("simulate", "saxpy", "softmax", "--small", "--save-run", "both")
    code, out, err = shell("regress", "both", "saxpy", "--small")
    assert code == 3 and "NO-DATA" in out and "1 of 2" in err
    code, out, _ = shell("regress", "both", "saxpy", "--small", "--kernel", "saxpy")
    assert code == 0 and "1 SAME" in out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nothing", "saxpy"], 2, "no kernel of the suite"),
        (["now", "now"], 2, "compares nothing"),
        (["saxpy", "now"], 2, "gpusim runs list"),
        (["run:none", "saxpy"], 2, "nothing has been kept"),
        (["saxpy", "saxpy", "--head-gpu", "h2000"], 5, "h2000"),
        (["saxpy", "saxpy", "--junit", "no/j.xml"], 2, "no folder"),
        (["empty", "saxpy"], 3, "no file in this folder"),
        (["bad.json", "saxpy"], 2, "bad.json"),
        (["saxpy", "saxpy", "--small", "--kernel", "gelu"], 3, "nothing to compare"),
    ],
)
def test_a_side_that_is_none_is_one_line(shell, tmp_path, arguments, code, words):
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.json").write_text("{}")
    got, out, err = shell("regress", *arguments)
    assert (got, out) == (code, "")
    assert words in err.splitlines()[-1] and err.splitlines()[-1].startswith("error: ")


def test_a_damaged_store_holds_up_no_comparison_that_needs_none(shell, tmp_path) -> None:
    (tmp_path / "store.sqlite").write_bytes(b"no database at all" * 100)
    code, out, err = shell("regress", "saxpy:n=1024", "saxpy:n=1024")
    assert code == 0 and "1 SAME" in out and "is taken as a kernel" in err and "GPUSIM_STORE" in err
    code, out, err = shell("regress", "before", "now")
    assert code == 2 and "damaged" in err and not out


def test_a_clock_that_sagged_is_no_regression_of_the_kernel(shell, tmp_path) -> None:
    chance = np.random.default_rng(3)

    def write(name: str, factor: float, clock_mhz: float) -> None:
        clocks = np.where(np.arange(80) // 10 % 2, clock_mhz, 1.03 * clock_mhz)
        samples = 50.0 * factor * np.exp(chance.normal(0, 0.004, 80)) * 1980 / clocks
        low, median, high = np.quantile(samples, (0.4, 0.5, 0.6)).tolist()
        cycles = Estimate(*(1980.0 * us * clock_mhz / 1980 for us in (median, low, high)))
        row = SiliconRow("saxpy", "n=1000", gpu="h200", method="events", cache="warm", n=80, cycles=cycles,
                         time_us=Estimate(median, low, high), samples_us=tuple(samples.tolist()),
                         samples_mhz=tuple(clocks.tolist()))  # fmt: skip
        (tmp_path / f"{name}.jsonl").write_text(row.to_json() + "\n")
        assert shell("runs", "import", f"{name}.jsonl", "--name", name)[0] == 0

    write("cool", 1.0, 1980.0)
    write("hot", 1.0, 1860.0)
    write("slower", 1.03, 1860.0)
    code, out, err = shell("regress", "cool", "hot", "--strict", "--format", "json")
    (same,) = json.loads(out)
    assert (code, same["verdict"]) == (0, "SAME") and "at one clock" in same["reason"], err
    assert shell("regress", "cool", "slower")[0] == 1
