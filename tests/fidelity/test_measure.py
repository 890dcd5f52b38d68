"""Does `gpusim measure` time what it says: cold and warm, net of the launch, at the clock held, until known well
enough?

No GPU is here. The rules are tested on a stream with clocks of its own (tests/support/fake_gpu.py), the calls
themselves through the real bindings on the emulated driver of `gpusim run`, and a session recorded there is played
back.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from fake_gpu import FakeGpu
from forked_commands import gpusim as forked

import gpusim
from gpusim import cli
from gpusim.cases.networks import pinned_suites
from gpusim.cases.suite import capture_case, make_case
from gpusim.errors import MeasurementFormatError, SiliconError, UsageError
from gpusim.gpus.load import load_gpu
from gpusim.measure.ncu import _why, join
from gpusim.measure.passes import COLD, ENQUEUE_NS, WARM
from gpusim.measure.precision import Precision
from gpusim.measure.rounds import EMPTY_LAUNCH
from gpusim.measure.run import MeasureOptions, MeasureRequest, measure_cases
from gpusim.measure.session import ReplayDriver
from gpusim.silicon.imports import read_rows
from gpusim.silicon.row import Estimate, SiliconRow
from gpusim.store import open_store

pytestmark = pytest.mark.usefixtures("without_source_lines")

ROOT = Path(__file__).parents[2]
SAXPY = MeasureRequest("saxpy", {"n": 2000})
MINI_GPU = """inherits = "t4"
sm_count = { value = 4, kind = "guess", source = "a tenth of a T4: tests shall be fast" }
[l2]
total_bytes = { value = 262144, kind = "guess", source = "as above" }
"""


def measured(gpu: FakeGpu, **options) -> dict[str, SiliconRow]:
    rows = measure_cases(gpu, [SAXPY], MeasureOptions(**{"budget_seconds": 5.0, **options}))
    return {row.cache: row for row in rows}


def test_times_are_net_of_an_empty_launch_and_the_caches_as_stated() -> None:
    rows = measured(FakeGpu(cold_us=5.0, warm_us=3.0, launch_us=2.0))
    assert rows[COLD].time_us.median == pytest.approx(5.0, abs=0.05)
    assert rows[WARM].time_us.median == pytest.approx(3.0, abs=0.05)
    for row in rows.values():
        assert row.counters[EMPTY_LAUNCH] == pytest.approx(2.0, abs=0.05)
        assert row.sm_clock_mhz == pytest.approx(1980) and row.cycles.median == pytest.approx(1980 * row.time_us.median)
        assert (row.gpu, row.shape, row.launch, row.flags) == ("h200", "n=2000,block_threads=256", 0, ())
        assert row.memory_clock_mhz == 3201 and row.device_uuid_hash and row.n == len(row.samples_us) >= 100


def test_the_cubin_is_the_one_that_capture_emulates() -> None:
    gpu = load_gpu("h200")
    (captured,) = capture_case(make_case("saxpy", {"n": 2000}, gpu), gpu)
    assert {row.cubin_hash for row in measured(FakeGpu()).values()} == {captured.trace.launch.cubin_sha256}


def test_a_slow_host_makes_the_stream_wait_longer_not_the_kernel() -> None:
    gpu = FakeGpu(call_us=5 * ENQUEUE_NS / 1e3)
    rows = measured(gpu)
    assert rows[COLD].time_us.median == pytest.approx(5.0, abs=0.05) and "host_gap" not in rows[COLD].flags


def test_a_host_gap_that_no_wait_closes_is_flagged() -> None:
    gpu = FakeGpu()
    gpu.has_passed = lambda event: True
    assert all("host_gap" in row.flags for row in measured(gpu).values())


def test_runs_go_on_until_the_median_is_known_or_the_budget_ends() -> None:
    precise = measured(FakeGpu(noise=0.05), precision=Precision(0.01), caches=(COLD,))[COLD]
    assert precise.n >= 100 and not precise.flags
    assert (precise.time_us.high - precise.time_us.low) / 2 <= 0.01 * precise.time_us.median
    assert max(precise.samples_us) > 1.5 * precise.time_us.median, "outliers are kept"
    hasty = measured(FakeGpu(noise=0.05), precision=Precision(0.0001), budget_seconds=0.01, caches=(COLD,))[COLD]
    assert "budget_ended" in hasty.flags and 3 <= hasty.n < precise.n


def test_a_drifting_clock_and_throttling_are_noticed_and_cycles_stay_right() -> None:
    gpu = FakeGpu()
    gpu.clock_mhz = lambda us: 1900.0 + 60.0 * math.sin(us / 5000.0)
    gpu.reasons = 0x4 | 0x1
    row = measured(gpu, caches=(COLD,))[COLD]
    assert {"clock_drift", "throttled", "throttled_power_cap"} == set(row.flags)
    assert 1840 < row.sm_clock_mhz < 1960


def test_an_idle_gpu_is_woken_before_anything_is_timed() -> None:
    gpu = FakeGpu()
    gpu.clock_mhz = lambda us: min(1980.0, 345.0 + us / 400)  # up after two thirds of a second
    row = measured(gpu, caches=(COLD,))[COLD]
    assert not row.flags and row.sm_clock_mhz == pytest.approx(1980)


def test_a_kernel_that_computes_wrongly_has_no_time() -> None:
    gpu = FakeGpu(wrong=True)
    (row,) = measure_cases(gpu, [SAXPY])
    assert row.flags == ("wrong_result",) and row.time_us is None and row.cycles is None and "NumPy" in row.source


def test_device_memory_of_the_cases_is_given_back() -> None:
    gpu = FakeGpu()
    list(
        measure_cases(
            gpu, [SAXPY, MeasureRequest("saxpy", {"n": 10})], MeasureOptions(budget_seconds=1.0, caches=(COLD,))
        )
    )
    assert len(gpu.memory) == 2  # the helpers' own


def test_an_unknown_kernel_or_axis_shows_before_anything_is_launched() -> None:
    gpu = FakeGpu()
    for request in (MeasureRequest("saxpi"), MeasureRequest("saxpy", {"m": 1})):
        with pytest.raises(UsageError):
            list(measure_cases(gpu, [SAXPY, request]))
    with pytest.raises(gpusim.LaunchError, match="has compute capability 9.0, a100_80gb is 8.0"):
        list(measure_cases(gpu, [SAXPY], MeasureOptions(gpu="a100_80gb")))
    assert not gpu.launched


# ---- through the bindings, on the emulated driver -------------------------------------------------


def emulated(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess:
    (cwd / "mini.toml").write_text(MINI_GPU)
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    command_line = [sys.executable, "-m", "gpusim.cli", *arguments]
    return subprocess.run(
        command_line,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Path:
    """A folder with a session of measuring saxpy on an emulated GPU, whose events tell simulated time, and its rows."""
    folder = tmp_path_factory.mktemp("session")
    (folder / "mini.toml").write_text(MINI_GPU)
    done = forked(
        "run", "--gpu", "mini.toml", "--simulate", "-o", "launches.txt", "-m", "gpusim.cli",
        "measure", "saxpy:n=2000", "--method", "events", "--budget", "0.01", "-o", "rows.jsonl",
        "--record-session", "saxpy.session", cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


def replayed(path: Path, *requests: MeasureRequest) -> list[SiliconRow]:
    driver = ReplayDriver(path)
    rows = list(measure_cases(driver, requests or [SAXPY], MeasureOptions(budget_seconds=0.01)))
    assert driver.calls_left == 0
    return rows


def test_a_recorded_session_gives_the_same_rows_again(recorded: Path) -> None:
    then, now = read_rows(recorded / "rows.jsonl"), replayed(recorded / "saxpy.session")
    assert [replace(row, date="") for row in now] == [replace(row, date="") for row in then]
    assert {row.cache for row in now} == {COLD, WARM}


def test_what_is_measured_on_the_emulated_gpu_is_what_the_engine_says(recorded: Path) -> None:
    gpu = load_gpu(recorded / "mini.toml")
    (captured,) = capture_case(make_case("saxpy", {"n": 2000}, gpu), gpu)
    cold = gpusim.simulate(captured.trace, gpu, code=captured.trace)
    warm = gpusim.simulate([captured.trace] * 2, gpu).launches[1]
    rows = {row.cache: row for row in read_rows(recorded / "rows.jsonl")}
    whole_us = {cache: row.time_us.median + row.counters[EMPTY_LAUNCH] for cache, row in rows.items()}
    assert whole_us[COLD] == pytest.approx(gpu.ns(cold.cycles) / 1e3, rel=0.05)
    assert (
        whole_us[WARM] == pytest.approx(gpu.ns(warm.cycles) / 1e3, rel=0.05) and whole_us[WARM] < 0.95 * whole_us[COLD]
    )


def test_code_that_ran_before_leaves_no_data_behind() -> None:
    """A launch of which only the machine code is left must not have filled the L1 of the one that is warmed and
    timed."""
    gpu = load_gpu("h200")
    (chase,) = (each.trace for each in capture_case(make_case("pointer_chase", {}, gpu, small=True), gpu) if each.timed)
    (other,) = capture_case(make_case("saxpy", {}, gpu, small=True), gpu)
    behind = gpusim.simulate(chase, gpu, warm=other.trace, code=chase)
    fresh = gpusim.simulate(chase, gpu, warm=other.trace)
    assert behind.counters["lts__t_requests.sum"] == fresh.counters["lts__t_requests.sum"] > 0


def test_a_run_that_leaves_its_session_or_a_damaged_session_is_refused(recorded: Path, tmp_path: Path) -> None:
    lines = (recorded / "saxpy.session").read_text().splitlines()
    with pytest.raises(SiliconError, match=r"call \d+: this run calls .*, the session has "):
        replayed(recorded / "saxpy.session", MeasureRequest("saxpy", {"n": 2001}))

    def damaged(text: str) -> Path:
        (tmp_path / "damaged.session").write_text(text)
        return tmp_path / "damaged.session"

    with pytest.raises(SiliconError, match="the session ends before"):
        replayed(damaged("\n".join(lines[: len(lines) // 2])))
    for text, complaint in (
        ("", "an empty session"),
        ('{"format": "gpusim-driver-session", "version": 9}\n', "version 9"),
        ('{"kernel": "saxpy"}\n', "not a recorded driver session"),
        ("\n".join([*lines[:5], '["rm", [], 1]', *lines[5:]]), "line 6: damaged"),
        ("\n".join(lines)[:-5], f"line {len(lines)}: damaged"),
    ):
        with pytest.raises(MeasurementFormatError, match=complaint):
            ReplayDriver(damaged(text))


def test_the_command_replays_a_session_and_needs_no_gpu(recorded: Path, capsys) -> None:
    session = str(recorded / "saxpy.session")
    assert (
        cli.run(["measure", "saxpy:n=2000", "--budget", "0.01", "--replay-session", session, "--format", "json"]) == 0
    )
    assert [row["cache"] for row in json.loads(capsys.readouterr().out)] == [
        row.cache for row in read_rows(recorded / "rows.jsonl")
    ]


def test_the_command_says_that_a_result_is_wrong(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr("gpusim.commands.measuring.CudaDriver", lambda device: FakeGpu(wrong=True))
    rows = tmp_path / "rows.jsonl"
    assert cli.run(["measure", "saxpy:n=2000", "--method", "events", "--format", "json", "-o", str(rows)]) == 1
    assert json.loads(capsys.readouterr().out)[0]["flags"] == "wrong_result"
    assert read_rows(rows)[0].flags == ("wrong_result",)


def test_the_command_measures_a_suite_and_keeps_the_run(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr("gpusim.commands.measuring.CudaDriver", lambda device: FakeGpu())
    monkeypatch.setitem(pinned_suites(), "two", (("saxpy", {"n": 1000}), ("saxpy", {"n": 2000})))
    monkeypatch.setenv("GPUSIM_STORE", str(tmp_path / "store.sqlite"))
    assert cli.run(["measure", "two", "--method", "events", "--cache", "warm", "--save", "mine"]) == 0
    with open_store() as store:
        kept = store.load_run("mine").measurements
    assert {(row.shape, row.cache) for row in kept} == {(f"n={n},block_threads=256", "warm") for n in (1000, 2000)}
    assert "n=1000,block_threads=256" in capsys.readouterr().out


def test_without_a_gpu_the_command_says_so(capsys) -> None:
    assert cli.run(["measure", "saxpy", "--budget", "1"]) == 3
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and "gpusim doctor" in said.err


# ---- Nsight Compute --------------------------------------------------------------------------------

FAKE_NCU = """#!{python}
import json, os, subprocess, sys
if sys.argv[1] == "--query-metrics":
    print("sm__cycles_elapsed   cycles\\ngpu__time_duration  time\\nsmsp__inst_executed  instructions\\n")
    sys.exit()
child = sys.argv.index({python!r})
options = dict(zip(sys.argv[1:child], sys.argv[2:child]))
assert options["--clock-control"] == "none" and options["--profile-from-start"] == "off"
if os.environ.get("DENIED"):
    print("==ERROR== ERR_NVGPUCTRPERM - no permission")
    sys.exit(1)
subprocess.run([*sys.argv[child : child + 3], "run", "--gpu", {gpu!r}, "-o", os.devnull, "-m", "gpusim.cli", *sys.argv[child + 3 :]], check=True)
cache, _, plan = os.environ["GPUSIM_PROFILED"].partition(":")
assert options["--cache-control"] == {{"cold": "all", "warm": "none"}}[cache]
with open(options["--log-file"], "w") as table:
    names = options["--metrics"].split(",")
    print("==PROF== Connected", file=table)
    print('"ID","Kernel Name",' + ",".join(f'"{{n}}"' for n in names), file=table)
    print('"","",' + ",".join('"ns"' if "time" in n else '""' for n in names), file=table)
    for i, entry in enumerate(json.load(open(plan))):
        print(f'"{{i}}","{{entry["kernel"]}}",' + ",".join(f'"{{1000 + i}}"' for _ in names), file=table)
"""


NCU = ("measure", "saxpy:n=2000", "--method", "ncu", "--cache", "cold", "-o", "rows.jsonl")


def fake_ncu(folder: Path) -> str:
    """PATH with an ncu that launches its child on the emulated GPU and prints made-up counts."""
    (folder / "mini.toml").write_text(MINI_GPU)
    ncu = folder / "ncu"
    ncu.write_text(FAKE_NCU.format(python=sys.executable, gpu=str(folder / "mini.toml")))
    ncu.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


@pytest.mark.nightly
def test_ncu_profiles_a_child_and_its_lines_are_joined(tmp_path: Path) -> None:
    done = emulated(*NCU, cwd=tmp_path, PATH=fake_ncu(tmp_path))
    assert done.returncode == 0, done.stderr
    (row,) = read_rows(tmp_path / "rows.jsonl")
    assert (row.kernel, row.shape, row.method, row.cache, row.n) == (
        "saxpy",
        "n=2000,block_threads=256",
        "ncu",
        "cold",
        5,
    )
    assert row.cycles.median == 1002 and row.time_us.median == pytest.approx(1.002)
    assert set(row.counters) == {"sm__cycles_elapsed.max", "gpu__time_duration.sum", "smsp__inst_executed.sum"}


def test_counters_that_may_not_be_read_are_explained(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", fake_ncu(tmp_path))
    monkeypatch.setenv("DENIED", "1")
    assert cli.run(NCU) == 3
    said = capsys.readouterr().err
    assert "ERR_NVGPUCTRPERM" in said and "NVreg_RestrictProfilingToAdminUsers=0" in said


def test_a_launchs_repeats_are_joined_in_the_order_of_the_plan() -> None:
    plan = [{"request": 0, "kernel": "k", "row": {"kernel": "saxpy", "launch": i % 2}} for i in range(6)]
    found = [
        SiliconRow(kernel="k", cycles=Estimate(c, c, c), counters={"a__b.sum": c, **({"c__d.sum": c} if c else {})})
        for c in range(6)
    ]
    first, second = join(plan, found, WARM)
    assert (first.launch, first.n, first.cycles.median, first.method, first.cache) == (0, 3, 2, "ncu", "warm")
    assert second.cycles == Estimate(3, 1, 5) and dict(second.counters) == {"a__b.sum": 3, "c__d.sum": 3}
    assert dict(first.counters) == {"a__b.sum": 2}, "what was not read each time is left out"


def test_lines_that_do_not_match_the_plan_are_refused() -> None:
    with pytest.raises(SiliconError, match="ncu printed 1 launches, 0 were made"):
        join([], [SiliconRow(kernel="a")], COLD)
    done = subprocess.CompletedProcess([], 9, "", "==WARNING== odd\n==ERROR== the end\n")
    assert _why(done, "") == "ncu ended with code 9: ==ERROR== the end"
