"""Are CUPTI's records of kernels read rightly whatever their version, refused where they cannot be right, and fallen
back from?

No GPU and no CUPTI are here: a library of the same calls is compiled (tests/support/fake_cupti.c).
"""

from __future__ import annotations

import ctypes
import itertools
import shutil
import subprocess
from pathlib import Path

import pytest
from fake_gpu import FakeGpu

from gpusim import cli
from gpusim.errors import SiliconError
from gpusim.measure import cupti
from gpusim.measure.cupti import CONCURRENT_KERNEL, VARIABLE, Activity, KernelRecord
from gpusim.measure.passes import COLD, WARM
from gpusim.measure.rounds import EMPTY_LAUNCH
from gpusim.measure.run import AUTO, MeasureOptions, MeasureRequest, measure_cases
from gpusim.measure.session import RecordingDriver, ReplayDriver
from gpusim.silicon.imports import read_rows

COMPILER = shutil.which("cc") or shutil.which("gcc")
SOURCE = Path(__file__).parents[1] / "support" / "fake_cupti.c"
#: CUPTI_API_VERSION -> bytes of its kernel record (sizeof CUpti_ActivityKernel8, 9, 10 and 13 in NVIDIA's headers).
LAYOUTS = {18: 200, 28: 208, 130000: 216, 130500: 240}
SAXPY = MeasureRequest("saxpy", {"n": 2000})
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="a C compiler makes the library that stands for CUPTI's")


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """``build(version)``: a new libcupti of that API version, as a path."""
    folder, number = tmp_path_factory.mktemp("cupti"), itertools.count()

    def make(version: int) -> Path:
        path = folder / f"libcupti-{next(number)}.so"  # a state of its own for each
        defines = [f"-DFAKE_VERSION={version}", f"-DFAKE_RECORD_BYTES={LAYOUTS.get(version, 208)}"]
        subprocess.run([COMPILER, "-shared", "-fPIC", *defines, "-o", path, SOURCE], check=True)
        return path

    return make


def kernel(library: ctypes.CDLL, start: int, end: int, shape=(1, 2, 3, 4, 5, 6), kind: int = CONCURRENT_KERNEL) -> None:
    library.fake_kernel(kind, ctypes.c_uint64(start), ctypes.c_uint64(end), (ctypes.c_int32 * 6)(*shape))


@needs_compiler
@pytest.mark.parametrize("version", LAYOUTS)
def test_kernels_of_every_layout_come_in_order_of_their_start(build, version) -> None:
    library = ctypes.CDLL(str(build(version)))
    activity = Activity(library)
    activity.start()
    assert library.fake_enabled() == CONCURRENT_KERNEL
    library.fake_hold_back(1)
    kernel(library, 5_000_000_000, 5_000_002_500)
    kernel(library, 7, 8, kind=1)  # a copy: no kernel
    kernel(library, 4_000_000_000, 4_000_001_000, (132, 1, 1, 256, 1, 1))
    assert activity.records(0) == []
    assert activity.records(2) == [
        KernelRecord(4_000_000_000, 4_000_001_000, (132, 1, 1), (256, 1, 1)),
        KernelRecord(5_000_000_000, 5_000_002_500, (1, 2, 3), (4, 5, 6)),
    ]
    assert activity.records(0) == []
    activity.stop()
    assert library.fake_enabled() == 0


@needs_compiler
def test_what_cannot_be_right_is_refused_and_then_forgotten(build) -> None:
    library = ctypes.CDLL(str(build(28)))
    activity = Activity(library)
    fault = ctypes.c_int.in_dll(library, "fake_fault")
    for number, words in (
        (1, "outside its buffer"),
        (2, "outside its buffer"),
        (3, "GetNextRecord failed: result 999"),
    ):
        kernel(library, 1, 2)
        fault.value = number
        with pytest.raises(SiliconError, match=words):
            activity.records(1)
        fault.value = 0
    for times, shape in (((0, 0), (1,) * 6), ((5, 4), (1,) * 6), ((1, 2), (0, 1, 1, 1, 1, 1))):
        kernel(library, *times, shape)
        with pytest.raises(SiliconError, match="could not time a kernel"):
            activity.records(1)
    kernel(library, 1, 2)
    library.fake_cut(ctypes.c_size_t(100))
    with pytest.raises(SiliconError, match="cut short"):
        activity.records(1)
    library.fake_drop(ctypes.c_size_t(3))
    with pytest.raises(SiliconError, match="dropped 3 records"):
        activity.records(0)
    kernel(library, 1, 2)
    assert len(activity.records(1)) == 1


@needs_compiler
def test_a_library_that_cannot_be_used_says_why(build, tmp_path, monkeypatch) -> None:
    with pytest.raises(SiliconError, match="API version 12 is older than 18"):
        Activity(ctypes.CDLL(str(build(12))))
    library = ctypes.CDLL(str(build(28)))
    library.fake_refuse(1)
    with pytest.raises(SiliconError, match="cuptiActivityEnable failed: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"):
        Activity(library).start()
    (tmp_path / "empty.c").write_text("int nothing;")
    subprocess.run([COMPILER, "-shared", "-o", tmp_path / "empty.so", tmp_path / "empty.c"], check=True)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "empty.so"))
    with pytest.raises(SiliconError, match="has no cuptiGetVersion: it is no libcupti"):
        Activity(cupti.find_library())
    monkeypatch.setenv(VARIABLE, str(tmp_path / "none.so"))
    with pytest.raises(SiliconError, match="GPUSIM_CUPTI=.*cannot be loaded"):
        cupti.find_library()


# ---- measuring by them: on a stream with clocks of its own (tests/support/fake_gpu.py) ----


def test_times_are_the_kernels_own() -> None:
    gpu = FakeGpu(cold_us=5.0, warm_us=3.0, launch_us=2.0)
    rows = {row.cache: row for row in measure_cases(gpu, [SAXPY], MeasureOptions(5.0, method=AUTO))}
    assert not gpu.tracing and {row.method for row in rows.values()} == {"cupti"}
    assert rows[COLD].time_us.median == pytest.approx(5.0, abs=0.01)
    assert rows[WARM].time_us.median == pytest.approx(3.0, abs=0.01)
    assert all(EMPTY_LAUNCH not in row.counters and not row.flags for row in rows.values())


def test_where_kernels_cannot_be_traced_events_take_over_and_the_reason_is_said() -> None:
    gpu, said = FakeGpu(), []
    gpu.cupti_problem = "there is no libcupti here"
    rows = list(measure_cases(gpu, [SAXPY], MeasureOptions(1.0, method=AUTO), said.append))
    assert {row.method for row in rows} == {"events"} and any("there is no libcupti here" in line for line in said)
    with pytest.raises(SiliconError, match="there is no libcupti here.*--method events"):
        list(measure_cases(gpu, [SAXPY], MeasureOptions(1.0, method="cupti")))


def test_records_that_are_not_of_what_was_launched_are_refused() -> None:
    gpu = FakeGpu()
    traced = gpu.traced
    gpu.traced = lambda least: traced(least)[1:] if least else traced(least)
    with pytest.raises(SiliconError, match="not those of the 1 that were launched"):
        list(measure_cases(gpu, [SAXPY], MeasureOptions(1.0, method="cupti")))
    assert not gpu.tracing


def test_a_recorded_session_of_traced_kernels_is_played_back(tmp_path) -> None:
    recorder = RecordingDriver(FakeGpu(), tmp_path / "session")
    then = list(measure_cases(recorder, [SAXPY], MeasureOptions(0.01, (COLD,), method="cupti")))
    recorder.close()
    replay = ReplayDriver(tmp_path / "session")
    (now,) = measure_cases(replay, [SAXPY], MeasureOptions(0.01, (COLD,), method="cupti"))
    assert now.samples_us == then[0].samples_us and now.method == "cupti" and not replay.calls_left


def test_the_command_prefers_cupti_and_says_what_it_could_not_use(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr("gpusim.commands.measuring.CudaDriver", lambda device: FakeGpu())
    monkeypatch.setattr("gpusim.measure.ncu.find_ncu", lambda: None)
    rows = tmp_path / "rows.jsonl"
    assert cli.run(["measure", "saxpy:n=2000", "--cache", "cold", "-o", str(rows)]) == 0
    assert [row.method for row in read_rows(rows)] == ["cupti"]
    assert "no counters: ncu is not on PATH" in capsys.readouterr().err
    assert cli.run(["measure", "saxpy:n=2000", "--cache", "cold", "--method", "cupti", "--format", "json"]) == 0
    assert '"method": "cupti"' in capsys.readouterr().out
