"""Does tools/record_silicon.py leave rows that hold, and go on where it stopped?"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import runpy
from dataclasses import replace
from pathlib import Path

import pytest
from fake_gpu import FakeGpu

from gpusim.cases.suite import complete_shape, shape_text
from gpusim.errors import MeasurementFormatError, SiliconError
from gpusim.gpus.load import load_gpu
from gpusim.measure import builds
from gpusim.silicon.recorded import load_recorded
from gpusim.silicon.rows import append_rows, read_rows_file
from tools.silicon_questions import QUESTIONS

ROOT = Path(__file__).parents[2]


class Gpu(FakeGpu):
    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        pass


@pytest.fixture
def tool(monkeypatch):
    spec = importlib.util.spec_from_file_location("record_silicon", ROOT / "tools" / "record_silicon.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(
        module, "SUITES", {"two": (("saxpy", {"n": 2000}), ("saxpy", {"n": 1000}), ("saxpy", {"n": "2000"}))}
    )
    monkeypatch.setattr(module, "CudaDriver", lambda device: Gpu())
    monkeypatch.setattr(module, "find_ncu", lambda: None)
    return module


def run(
    tool, out: Path, budget: float = 60.0, pack: Path | None = None, cubins: Path | None = None, method: str = "events"
) -> int:
    return tool.main.callback(
        out=out,
        budget=budget,
        suites=(),
        method=method,
        device=0,
        pack=pack,
        gpu="h200",
        cubins=cubins,
        only_list=False,
    )


def test_the_suite_is_recorded_once_and_resumed(tool, tmp_path: Path, capsys) -> None:
    assert run(tool, tmp_path) == 0
    path = tmp_path / "h200" / "suite.jsonl"
    rows = read_rows_file(path)
    assert {(row.shape, row.cache) for row in rows} == {
        (f"n={n},block_threads=256", cache) for n in (1000, 2000) for cache in ("cold", "warm")
    }
    manifest = json.loads((path.parent / "manifest.json").read_text())
    (entry,) = manifest["files"]
    assert entry["rows"] == len(rows) == 4 and entry["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (entry["gpu"], entry["methods"]) == (["h200"], ["events"])
    assert load_recorded(tmp_path) == rows, "gpusim compare --against recorded reads what is written"
    before = path.read_bytes()
    assert run(tool, tmp_path) == 0 and path.read_bytes() == before, "nothing is measured twice"


def test_rows_cut_short_or_of_other_machine_code_are_measured_again(tool, tmp_path: Path) -> None:
    assert run(tool, tmp_path) == 0
    path = tmp_path / "h200" / "suite.jsonl"
    first, second, *rest = read_rows_file(path)
    path.unlink()
    append_rows(path, [replace(first, flags=("budget_ended",)), replace(second, cubin_hash="other"), *rest])
    assert run(tool, tmp_path) == 0
    rows = read_rows_file(path)
    assert len(rows) == 4 and not [row for row in rows if row.flags or row.cubin_hash == "other"]


def test_a_budget_that_ends_leaves_the_rest_for_the_next_run(tool, tmp_path: Path, capsys) -> None:
    assert run(tool, tmp_path, budget=0.5) == tool.COULD_NOT_MEASURE
    assert "run it again" in capsys.readouterr().err
    assert run(tool, tmp_path) == 0


def test_a_kernel_that_computes_wrongly_is_recorded_as_such(tool, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tool, "CudaDriver", lambda device: FakeGpuThatErrs())
    assert run(tool, tmp_path) == 1
    rows = read_rows_file(tmp_path / "h200" / "suite.jsonl")
    assert all(row.flags == ("wrong_result",) and row.time_us is None for row in rows)


class FakeGpuThatErrs(Gpu):
    def __init__(self):
        super().__init__(wrong=True)


def test_a_pack_carries_the_machine_code_to_a_machine_that_cannot_compile(tool, tmp_path: Path, monkeypatch) -> None:
    assert run(tool, tmp_path, pack=tmp_path / "cubins") == 0
    assert run(tool, tmp_path / "compiled") == 0

    def cannot(*_arguments, **_options):
        raise AssertionError("compiles")

    monkeypatch.setattr(builds, "compile_kernel", cannot)
    assert run(tool, tmp_path / "carried", cubins=tmp_path / "cubins") == 0
    compiled, carried = (
        {(row.shape, row.cubin_hash, row.toolchain) for row in read_rows_file(tmp_path / name / "h200" / "suite.jsonl")}
        for name in ("compiled", "carried")
    )
    assert compiled == carried


def test_a_damaged_pack_is_refused(tool, tmp_path: Path) -> None:
    assert run(tool, tmp_path, pack=tmp_path / "cubins") == 0
    with pytest.raises(SiliconError, match="holds machine code for compute capability 9.0, this GPU is 8.0"):
        builds.Pack(tmp_path / "cubins").build(None, (), (8, 0), "x")
    with pytest.raises(SiliconError, match="x is not in .*make the pack again"):
        builds.Pack(tmp_path / "cubins").build(None, (), (9, 0), "x")
    for cubin in (tmp_path / "cubins").glob("*.cubin"):
        cubin.write_bytes(cubin.read_bytes()[:-1] + b"x")
    with pytest.raises(MeasurementFormatError, match="its content is not what its name says"):
        run(tool, tmp_path / "rows", cubins=tmp_path / "cubins")
    (tmp_path / "cubins" / "index.json").write_text('{"format": "gpusim-cubins", "version": 1}')
    with pytest.raises(MeasurementFormatError, match="damaged index"):
        builds.Pack(tmp_path / "cubins")


def test_every_point_of_the_curves_is_a_shape_of_the_suite() -> None:
    gpu = load_gpu("h200")
    curves = runpy.run_path(str(ROOT / "workloads" / "curves.py"))["CURVES"]
    for name, shape in (point for points in curves.values() for point in points):
        assert shape_text(complete_shape(name, shape, gpu))


def test_every_open_question_is_of_launches_of_the_suite_and_decides_what_a_description_has() -> None:
    gpu = load_gpu("h200")
    assert len({each.name for each in QUESTIONS}) == len(QUESTIONS)
    for each in QUESTIONS:
        texts = [(name, shape_text(complete_shape(name, shape, gpu))) for name, shape in each.points]
        assert len(set(texts)) == len(texts) > 1, each.name
        for key in each.decides:
            room, _, name = key.partition(".")
            found = getattr(gpu, room)
            assert name.partition(".")[0] in found if room == "pipes" else hasattr(found, name), key


def test_all_is_by_cupti_or_else_by_events_and_what_cannot_be_had_is_not_waited_for(
    tool, tmp_path: Path, monkeypatch, capsys
) -> None:
    assert run(tool, tmp_path / "traced", method="all") == 0
    assert {row.method for row in read_rows_file(tmp_path / "traced" / "h200" / "suite.jsonl")} == {"cupti"}

    class Untraced(Gpu):
        def trace(self, on: bool) -> str:
            return "there is no libcupti here"

    monkeypatch.setattr(tool, "CudaDriver", lambda device: Untraced())
    monkeypatch.setattr(tool, "find_ncu", lambda: "/usr/bin/ncu")

    def denied(*_arguments):
        raise SiliconError("ncu may not read the GPU's counters (ERR_NVGPUCTRPERM): run as root")

    monkeypatch.setattr(tool, "profile_cases", denied)
    assert run(tool, tmp_path / "plain", budget=500.0, method="all") == 0, "nothing is left that could be measured here"
    assert {row.method for row in read_rows_file(tmp_path / "plain" / "h200" / "suite.jsonl")} == {"events"}
    told = capsys.readouterr().err
    assert "there is no libcupti here" in told and "ERR_NVGPUCTRPERM" in told


@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_recording_that_is_interrupted_goes_on_where_it_stopped(
    tool, tmp_path: Path, monkeypatch, after: int
) -> None:
    """Ctrl-C, or a GPU that falls off the bus, after so many rows; and a last line that was cut while it was
    written."""
    monkeypatch.setattr(tool, "GROUP", 1)
    path, written = tmp_path / "h200" / "suite.jsonl", 0
    measure = tool.measure_cases

    def breaks_off(*arguments):
        nonlocal written
        for row in measure(*arguments):
            if written == after:
                raise (KeyboardInterrupt, SiliconError("cuLaunchKernel failed: CUDA_ERROR_ECC_UNCORRECTABLE"))[
                    after % 2
                ]
            written += 1
            yield row

    monkeypatch.setattr(tool, "measure_cases", breaks_off)
    with pytest.raises((KeyboardInterrupt, SiliconError)):
        run(tool, tmp_path)
    kept = read_rows_file(path)
    assert len(kept) == after
    with path.open("a") as stream:
        stream.write(kept[0].to_json()[:100])
    monkeypatch.setattr(tool, "measure_cases", measure)
    assert run(tool, tmp_path) == 0
    rows = read_rows_file(path)
    assert len(rows) == 4 and all(row in rows for row in kept), "what was measured stays"
    (entry,) = json.loads((path.parent / "manifest.json").read_text())["files"]
    assert entry["rows"] == 4
