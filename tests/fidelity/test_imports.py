"""Are other tools' measurements read as they were printed: units, locales, several launches, both of ncu's pages?"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ncu_rep_files import Launch, report

from gpusim.errors import MeasurementFormatError
from gpusim.silicon.estimate import median_estimate, relative_half_width
from gpusim.silicon.imports import ncu_report, read_rows
from gpusim.silicon.imports.numbers import base_factor, decimal_mark, number
from gpusim.silicon.names import gpu_of_device
from gpusim.silicon.row import SiliconRow
from gpusim.silicon.rows import append_rows, read_rows_file

# Written after the Nsight Compute CLI manual, section "Output Pages": a units line, one line a launch.
RAW = '''==PROF== Connected to process 4711 (/usr/bin/python3)
the program says, "hello"
==PROF== Profiling "saxpy": 0%....50%....100% - 1 pass
==PROF== Disconnected from process 4711
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",\
"device__attribute_display_name","dram__bytes_read.sum","gpu__time_duration.sum","sm__cycles_elapsed.max","sm__warps_active.avg"
"","","","","","","","","","","","","Mbyte","us","cycle","warp"
"0","4711","python3","127.0.0.1","saxpy(float, Array<float, 1>)","1","7","(256, 1, 1)","(4096, 1, 1)","0","9.0",\
"NVIDIA H200","8.39","6.02","11,912","41.5"
"1","4711","python3","127.0.0.1","saxpy(float, Array<float, 1>)","1","7","(256, 1, 1)","(4096, 1, 1)","0","9.0",\
"NVIDIA H200","0","4.5","8,901","n/a"
"2","4711","python3","127.0.0.1","other, ""quoted""","1","7","(16, 16, 1)","(2, 3, 4)","0","9.0",\
"NVIDIA H200","1.00","1,004.25","1,987,654","1"
'''
DETAILS = """"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device",\
"CC","Section Name","Metric Name","Metric Unit","Metric Value"
"0","9","p","h","copy","1","7","(128, 1, 1)","(10, 1, 1)","0","8.0","GPU Speed Of Light Throughput","Elapsed Cycles","cycle","12,345"
"0","9","p","h","copy","1","7","(128, 1, 1)","(10, 1, 1)","0","8.0","GPU Speed Of Light Throughput","Duration","us","10.02"
"0","9","p","h","copy","1","7","(128, 1, 1)","(10, 1, 1)","0","8.0","GPU Speed Of Light Throughput","SM Frequency","Ghz","1.23"
"0","9","p","h","copy","1","7","(128, 1, 1)","(10, 1, 1)","0","8.0","Command line profiler metrics","dram__bytes.sum","Gbyte","1.5"
"1","9","p","h","copy","1","7","(128, 1, 1)","(10, 1, 1)","0","8.0","GPU Speed Of Light Throughput","Duration","ms","2.5"
"""


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_ncus_raw_page(tmp_path: Path) -> None:
    rows = read_rows(write(tmp_path, "raw.csv", RAW))
    assert [(row.kernel, row.launch) for row in rows] == [
        ("saxpy(float, Array<float, 1>)", 0),
        ("saxpy(float, Array<float, 1>)", 1),
        ('other, "quoted"', 0),
    ]
    first, second, third = rows
    assert (first.grid, first.block, third.grid, third.block) == ((4096, 1, 1), (256, 1, 1), (2, 3, 4), (16, 16, 1))
    assert (first.method, first.cache, first.gpu, first.device_name) == ("ncu", "", "h200", "NVIDIA H200")
    assert first.cycles.median == 11912 and first.time_us.median == pytest.approx(6.02)
    assert first.sm_clock_mhz == pytest.approx(11912 / 6.02)
    assert first.counters["dram__bytes_read.sum"] == pytest.approx(8.39e6)
    assert first.counters["gpu__time_duration.sum"] == pytest.approx(6020)  # base unit: nanoseconds
    assert "sm__warps_active.avg" not in second.counters and second.counters["dram__bytes_read.sum"] == 0
    assert third.cycles.median == 1_987_654 and third.time_us.median == pytest.approx(1004.25)


def test_the_same_table_under_a_locale_with_decimal_commas(tmp_path: Path) -> None:
    german = RAW
    for plain, local in (
        ("8.39", "8,39"),
        ("6.02", "6,02"),
        ("11,912", "11.912"),
        ("41.5", "41,5"),
        ('"4.5"', '"4,5"'),
        ("8,901", "8.901"),
        ('"1.00"', '"1,00"'),
        ("1,004.25", "1.004,25"),
        ("1,987,654", "1.987.654"),
    ):
        german = german.replace(plain, local)
    here, there = read_rows(write(tmp_path, "c.csv", RAW)), read_rows(write(tmp_path, "de.csv", german))
    assert [(r.cycles, r.time_us, dict(r.counters)) for r in here] == [
        (r.cycles, r.time_us, dict(r.counters)) for r in there
    ]


CACHE = """{
"device_name": "NVIDIA H200", "kernel_name": "saxpy", "tune_params_keys": ["block_size_x"], "tune_params": {"block_size_x": [64]},
"cache": {
"64": {"block_size_x": 64, "time": 0.5, "times": [0.5]},
"""


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
@pytest.mark.parametrize("name", ["table.csv", "own.csv", "nvbench.json", "cache.json"])
def test_a_file_that_a_windows_shell_has_redirected_reads_as_utf_8(name: str, encoding: str, tmp_path: Path) -> None:
    text = {
        "table.csv": RAW,
        "own.csv": "kernel,gpu,time_us\nsaxpy:n=64,h200,3.1\n",
        "nvbench.json": json.dumps(NVBENCH),
        "cache.json": CACHE,
    }[name]
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    other = tmp_path / encoding
    other.mkdir()
    (other / name).write_bytes((mark + text.replace("\n", "\r\n")).encode(encoding))
    here, there = read_rows(write(tmp_path, name, text)), read_rows(other / name)
    assert [(r.kernel, r.shape, r.gpu, r.time_us) for r in here] == [
        (r.kernel, r.shape, r.gpu, r.time_us) for r in there
    ]


def test_ncus_details_page_joins_the_lines_of_a_launch(tmp_path: Path) -> None:
    first, second = read_rows(write(tmp_path, "details.csv", DETAILS))
    assert first.cycles.median == 12345 and first.time_us.median == pytest.approx(10.02)
    assert first.sm_clock_mhz == pytest.approx(1230) and dict(first.counters) == {"dram__bytes.sum": 1.5e9}
    assert (second.launch, second.cycles) == (1, None) and second.time_us.median == pytest.approx(2500)


NVBENCH = {
    "meta": {"argv": ["bench"], "version": {"json": {"string": "1.0.0"}, "nvbench": {"string": "0.1.0"}}},
    "devices": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB", "sm_version": 800}],
    "benchmarks": [
        {
            "name": "copy",
            "index": 0,
            "states": [
                {
                    "name": "Device=0 Elements=2^20",
                    "device": 0,
                    "axis_values": [{"name": "Elements", "type": "int64", "input_string": "2^20", "value": "1048576"}],
                    "summaries": [
                        {"tag": "nv/cold/sample_size", "data": [{"name": "value", "type": "int64", "value": "100"}]},
                        {
                            "tag": "nv/cold/time/gpu/mean",
                            "data": [{"name": "value", "type": "float64", "value": "1.25e-05"}],
                        },
                        {
                            "tag": "nv/cold/time/gpu/stdev/relative",
                            "data": [{"name": "value", "type": "float64", "value": "0.02"}],
                        },
                        {
                            "tag": "nv/cold/sm_clock_rate/mean",
                            "data": [{"name": "value", "type": "float64", "value": "1.41e9"}],
                        },
                        {"tag": "nv/batch/sample_size", "data": [{"name": "value", "type": "int64", "value": "5000"}]},
                        {
                            "tag": "nv/batch/time/gpu/mean",
                            "data": [{"name": "value", "type": "float64", "value": "9e-06"}],
                        },
                        {
                            "tag": "nv/cold/time/gpu/stdev/absolute",
                            "data": [{"name": "value", "type": "float64", "value": None}],
                        },
                    ],
                    "is_skipped": False,
                },
                {
                    "name": "Device=0 Elements=2^30",
                    "device": 0,
                    "axis_values": [],
                    "summaries": None,
                    "is_skipped": True,
                },
            ],
        }
    ],
}


def test_nvbenchs_report(tmp_path: Path) -> None:
    cold, warm = read_rows(write(tmp_path, "report.json", json.dumps(NVBENCH)))
    assert (cold.kernel, cold.shape, cold.gpu, cold.cache, cold.n) == (
        "copy",
        "Elements=2^20",
        "a100_80gb",
        "cold",
        100,
    )
    assert cold.time_us.median == pytest.approx(12.5) and cold.sm_clock_mhz == pytest.approx(1410)
    assert cold.time_us.high - cold.time_us.median == pytest.approx(1.96 * 0.02 * 12.5 / 10)
    assert (warm.cache, warm.n) == ("warm", 5000) and warm.time_us.median == pytest.approx(9)


def test_nvbenchs_raw_samples_beside_the_report(tmp_path: Path) -> None:
    report = json.loads(json.dumps(NVBENCH))
    data = [
        {"name": "filename", "type": "string", "value": "/elsewhere/report.json-bin/0.bin"},
        {"name": "size", "type": "int64", "value": "7"},
    ]
    report["benchmarks"][0]["states"][0]["summaries"].append({"tag": "nv/json/bin:nv/cold/sample_times", "data": data})
    path = write(tmp_path, "report.json", json.dumps(report))
    (tmp_path / "report.json-bin").mkdir()
    samples = np.array([12, 11, 13, 12, 12, 99, 12], "<f4") / 1e6
    samples.tofile(tmp_path / "report.json-bin" / "0.bin")
    cold, _ = read_rows(path)
    assert cold.time_us.median == pytest.approx(12) and max(cold.samples_us) == pytest.approx(99)
    data[1]["value"] = "8"
    path.write_text(json.dumps(report))
    with pytest.raises(MeasurementFormatError, match="report.json, benchmark 'copy'.*28 bytes, 8 samples need 32"):
        read_rows(path)


def test_a_plain_table(tmp_path: Path) -> None:
    text = """kernel;shape;time_us;time_us_low;time_us_high;cache;grid;sm_clock_mhz;device_name;dram__bytes_read.sum;samples_us;launch;samples_mhz
saxpy;n=1024,block_threads=256;3,25;3,1;3,5;warm;16x8;1.980,0;NVIDIA H200;4096;;1;
softmax;;;;;cold;7;;;;4,5 4,75 9,25;0;1980 1975,5 1980
"""
    first, second = read_rows(write(tmp_path, "mine.csv", text))
    assert (first.shape, first.cache, first.grid, first.gpu, first.launch) == (
        "n=1024,block_threads=256",
        "warm",
        (16, 8, 1),
        "h200",
        1,
    )
    assert (first.time_us.low, first.time_us.median, first.time_us.high) == (
        3.1,
        3.25,
        3.5,
    ) and first.sm_clock_mhz == 1980
    assert dict(first.counters) == {"dram__bytes_read.sum": 4096}
    assert second.samples_mhz == (1980, 1975.5, 1980) and first.samples_mhz == ()
    assert second.time_us.median == 4.75 and second.n == 3 and second.grid == (7, 1, 1)


def test_a_plain_table_names_launches_and_gpus_as_commands_do(tmp_path: Path) -> None:
    text = """kernel,gpu,time_us
saxpy:n=1024,H200 SXM,3
my.py:case:n=64,a100-80gb,3
k.cu:scale<T>:grid=1,my own,3
ns::operator=(int),T4,3
"""
    rows = read_rows(write(tmp_path, "mine.csv", text))
    assert [(row.kernel, row.shape, row.gpu) for row in rows] == [
        ("saxpy", "n=1024", "h200"),
        ("my.py:case", "n=64", "a100_80gb"),
        ("k.cu:scale<T>", "grid=1", "my own"),
        ("ns::operator=(int)", "", "t4"),
    ]


def test_nvbenchs_clocks_of_each_sample_and_a_state_without_axes(tmp_path: Path) -> None:
    """As NVIDIA/nvbench writes them: python/scripts/test_ref.json (no axes: null) and its readers of both binary
    files."""
    report = json.loads(json.dumps(NVBENCH))
    state = report["benchmarks"][0]["states"][0]
    state["axis_values"] = None
    for tag, folder, values in (
        ("nv/json/bin:nv/cold/sample_times", "report.json-bin", np.array([12, 11, 13], "<f4") / 1e6),
        ("nv/json/freqs-bin:nv/cold/sample_freqs", "report.json-freqs-bin", np.array([1.41e9, 1.4e9, 1.395e9], "<f4")),
    ):
        (tmp_path / folder).mkdir()
        values.astype("<f4").tofile(tmp_path / folder / "0.bin")
        data = [
            {"name": "filename", "type": "string", "value": f"{folder}/0.bin"},
            {"name": "size", "type": "int64", "value": "3"},
        ]
        state["summaries"].append(
            {"tag": tag, "name": "Samples", "hint": "file/sample_times", "hide": "Not needed in table.", "data": data}
        )
    path = write(tmp_path, "report.json", json.dumps(report))
    cold, warm = read_rows(path)
    assert cold.shape == "" and cold.samples_us == pytest.approx((12, 11, 13))
    assert cold.samples_mhz == pytest.approx((1410, 1400, 1395)) and warm.samples_mhz == ()
    (tmp_path / "report.json-freqs-bin" / "0.bin").unlink()
    state["device"] = None
    path.write_text(json.dumps(report))
    host = read_rows(path)[0]
    assert host.samples_mhz == () and (host.gpu, host.device_name) == ("", "")


METRICS = {
    "sm__cycles_elapsed.max": 5000, "gpu__time_duration.sum": 2500.0, "device__attribute_display_name": "NVIDIA H200",
    "launch__grid_dim_x": 3, "launch__grid_dim_y": 1, "launch__grid_dim_z": 1, "dram__bytes_read.sum": 4096,
}  # fmt: skip


def test_a_report_file_through_nvidias_own_module(tmp_path: Path, monkeypatch) -> None:
    pytest.importorskip("ncu_report", reason="NVIDIA's reader of .ncu-rep: pip install 'gpusim[ncu]'")
    path = tmp_path / "a.ncu-rep"
    path.write_bytes(
        report(
            [Launch("copy", metrics=METRICS), Launch("other"), Launch("copy", metrics={"gpu__time_duration.sum": 7000})]
        )
    )
    first, other, second = read_rows(path)
    assert (first.kernel, first.launch, first.gpu, first.grid, first.block) == ("copy", 0, "h200", (3, 1, 1), None)
    assert first.cycles.median == 5000 and first.time_us.median == 2.5 and first.sm_clock_mhz == pytest.approx(2000)
    assert dict(first.counters)["dram__bytes_read.sum"] == 4096 and not any(
        "display_name" in name for name in first.counters
    )
    assert (other.kernel, other.time_us) == ("other", None)
    assert (second.launch, second.cycles, second.time_us.median) == (1, None, 7.0)
    whole = path.read_bytes()
    for broken in (b"NVR\0", whole[: len(whole) // 2], b"\0" * 100):
        path.write_bytes(broken)
        with pytest.raises(MeasurementFormatError, match="a.ncu-rep: no kernel in it|cannot read it"):
            read_rows(path)


def test_a_report_file_without_a_reader_says_where_to_get_one(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "a.ncu-rep"
    path.write_bytes(report([Launch("copy")]))
    monkeypatch.setattr(ncu_report, "interface", None)
    monkeypatch.setattr(ncu_report.shutil, "which", lambda name: None)
    with pytest.raises(
        MeasurementFormatError, match="a.ncu-rep.*pip install ncu-report.*extras/python.*ncu --import a.ncu-rep --csv"
    ):
        read_rows(path)


def test_a_report_file_through_the_program(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "a.ncu-rep"
    path.write_bytes(b"NVR\0")
    (tmp_path / "table.csv").write_text(RAW)
    ncu = tmp_path / "ncu"
    ncu.write_text(f"#!/bin/sh\ntest \"$1 $2\" = '--import {path}' && cat {tmp_path}/table.csv\n")
    ncu.chmod(0o755)
    monkeypatch.setattr(ncu_report, "interface", None)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert [row.source for row in read_rows(path)] == [str(path)] * 3


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("x.csv", "a,b\n1,2\n", "x.csv, line 1: no column 'kernel'"),
        ("x.csv", "kernel,time_us,colour\ns,1,red\n", "line 1: unknown column 'colour'"),
        ("x.csv", "kernel,n,time_us\ns,100,1\ns,200,2\n", "line 3: only n = 200 tells this row from one with n = 100, and n is the number of samples"),
        ("x.csv", "kernel,time_us\ns,fast\n", "line 2: time_us is 'fast', not a number"),
        ("x.csv", "kernel,time_us\ns,1\nt\n", "line 3: 1 cells, the header has 2"),
        ("x.csv", "kernel,time_us\ns,\n", "line 2: neither cycles nor time_us"),
        ("x.csv", "kernel,time_us,time_us_low\ns,1,2\n", "line 2: an estimate's interval"),
        ("x.csv", "kernel,time_us\n", "holds no measurement"),
        ("x.csv", "kernel,time_us\na,\"1.234,5\"\nb,\"1,234.5\"\n", "decimal comma, others a decimal point"),
        ("x.csv", RAW.replace('"8,901"', '"8,901","9"'), "line 8: 17 cells, the header has 16"),
        ("x.csv", RAW.replace('"saxpy(float, Array<float, 1>)"', '""', 1), "line 7: the kernel has no name"),
        ("x.csv", "\x00\x01", "x.csv: a .ncu-rep is read by"),
        ("x.json", "{", "no report of nvbench"),
        ("x.json", '{"benchmarks": 3}', "no report of nvbench: benchmarks should be a list, not 3"),
        ("x.json", '{"benchmarks": [{"name": "a", "states": [{"name": "s", "summaries": [3]}]}]}', r"benchmark 'a', state 's': damaged: summaries\[0\] should be an object, not 3"),
        ("x.jsonl", '{"kernel": "a", "samples_us": [1]}\n{"kernel": 3}\n', "x.jsonl, line 2: .*kernel should be a text, not 3"),
        ("x.json", '{"tune_params_keys": ["a"], "kernel_name": "k", "cache": 3}', "cache should be an object, not 3"),
        ("x.json", '{"tune_params_keys": ["a"], "kernel_name": "k", "cache": {"1": {"a": 1}}}', "configuration '1': it has neither"),
        ("x.json", '{"tune_params_keys": ["a"], "kernel_name": "k", "cache": {"1": {"a": 1, "times": [-1]}}}', "configuration '1': a time is -1"),
        ("x.json", '{"tune_params_keys": ["a"], "kernel_name": "k", "cache": {"1": {"a": [1], "time": 2}}}', "the parameter 'a' is"),
        ("x.json", '{"tune_params_keys": ["a"], "kernel_name": ', "x.json: not JSON"),
        ("x.json", '{"results": [{"configuration": 3}], "schema_version": "1.0.0"}', "result 1: damaged: configuration should be an object"),
        ("x.json", '{"results": [], "schema_version": "1.0.0", "metadata": {"timeunit": "days"}, "x": {"configuration": 1}}', "timeunit is 'days'"),
        ("x.json", '{"ConfigurationSpace": {}, "KernelSpecification": {}}', "a T1 file describes a tuning problem and holds no measurement"),
        ("x.csv", "Problem,Provider,OperationKind,Operation\n", "line 1: no column 'Disposition'"),
        ("x.csv", "Problem,Provider,OperationKind,Operation,Disposition,Status,Runtime\n1,C,gemm,op,passed,success,fast\n", "line 2: Runtime is 'fast'"),
        ("x.csv", "Problem,Provider,OperationKind,Operation,Disposition,Status,Runtime\n1,C,gemm,op\n", "line 2: 4 cells, the header has 7"),
        ("x.jsonl", "[" * 100_000, "x.jsonl"),
        ("x.json", '{"a":' * 100_000, "x.json"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(
    tmp_path: Path, monkeypatch, name: str, text: str, complaint: str
) -> None:
    monkeypatch.setattr(ncu_report, "interface", None)
    monkeypatch.setattr(ncu_report.shutil, "which", lambda name: None)
    with pytest.raises(MeasurementFormatError, match=complaint) as caught:
        read_rows(write(tmp_path, name, text))
    assert "\n" not in str(caught.value)


SEEDS = Path(__file__).parents[1] / "faults" / "seeds"


def test_a_cache_of_kernel_tuner(tmp_path: Path) -> None:
    rows = read_rows(SEEDS / "kernel-tuner-cache.json")
    assert [(row.kernel, row.shape, row.block, row.n) for row in rows] == [
        ("vector_add", "block_size_x=64,use_cache=yes", (64, 1, 1), 3),
        ("vector_add", "block_size_x=128,use_cache=yes", (128, 1, 1), 1),
    ]  # what did not compile was not measured
    first, second = rows
    assert (first.gpu, first.device_name) == ("a100_pcie_40gb", "NVIDIA A100-PCIE-40GB")
    assert (
        first.samples_us == pytest.approx((25, 21, 20)) and first.time_us and first.time_us.median == pytest.approx(21)
    )
    assert second.time_us and second.time_us.median == pytest.approx(19.5)
    assert first.date == "2024-01-02 03:04:05.678901+00:00"
    # A run that goes on has written its last entry with a comma behind it, and no closing brackets.
    text = (SEEDS / "kernel-tuner-cache.json").read_text()
    cut = text[: text.index('"2048,yes"')]
    assert read_rows(write(tmp_path, "going_on.json", cut)) == [
        replace(row, source=str(tmp_path / "going_on.json")) for row in rows
    ]
    # From version 1.5 on a failure has a key of its own and no time.
    assert len(read_rows(write(tmp_path, "new.json", text.replace('"time": "Comp', '"__error__": "Comp')))) == 2
    # Before failures had names they had a time that no kernel takes.
    assert len(read_rows(write(tmp_path, "old.json", text.replace('"CompilationFailedConfig"', "1e20")))) == 2


def test_t4_results_with_times_and_without(tmp_path: Path) -> None:
    rows = read_rows(SEEDS / "kernel-tuner-t4.json")
    assert [(row.kernel, row.shape, row.gpu, row.block) for row in rows] == [
        ("kernel-tuner-t4", "block_size_x=32,block_size_y=4,vector=2", "l40", (32, 4, 1)),
        ("kernel-tuner-t4", "block_size_x=64,block_size_y=4,vector=2", "l40", (64, 4, 1)),
    ]
    assert [row.time_us and row.time_us.median for row in rows] == [500, 125]
    text = (SEEDS / "kernel-tuner-t4.json").read_text()
    nanoseconds = read_rows(write(tmp_path, "ns.json", text.replace("milliseconds", "nanoseconds")))
    assert [row.time_us and row.time_us.median for row in nanoseconds] == pytest.approx([5e-4, 1.25e-4])


def test_a_table_of_cutlass_profiler_in_its_log(tmp_path: Path) -> None:
    table = (SEEDS / "cutlass.csv").read_text()
    rows = read_rows(write(tmp_path, "log.txt", "Problem ID: 1\n\nCSV Results:\n\n" + table))
    assert [(row.kernel, row.toolchain, row.time_us and row.time_us.median) for row in rows] == [
        ("cutlass_tensorop_s16816gemm_f16_256x128_32x3_nt_align8", "CUTLASS", 250),
        ("cublas_gemm_f16", "cuBLAS", 12.5),
    ]  # neither what came out wrong nor what is not supported
    assert (
        rows[0].shape.startswith("gemm_kind=universal,m=4096,n=4096,k=4096,A=f16:column,")
        and "Bytes" not in rows[0].shape
    )
    assert [row.shape for row in read_rows(SEEDS / "cutlass.csv")] == [row.shape for row in rows]


@given(st.floats(0, 1e12), st.sampled_from([".", ","]), st.booleans())
def test_a_number_printed_under_any_locale_is_read_back(value: float, mark: str, grouped: bool) -> None:
    text = f"{value:,.4f}" if grouped else f"{value:.4f}"
    if mark == ",":
        text = text.translate(str.maketrans(",.", ".,"))
    assert decimal_mark([text]) == mark
    assert number(text, mark) == float(f"{value:.4f}")


@pytest.mark.parametrize(
    ("unit", "factor"),
    [("ns", 1), ("nsecond", 1), ("us", 1e3), ("usecond", 1e3), ("msecond", 1e6), ("s", 1e9), ("Kbyte", 1e3), ("Gbyte", 1e9),
     ("byte", 1), ("Ghz", 1e9), ("cycle/nsecond", 1e9), ("cycle/usecond", 1e6), ("Gbyte/second", 1e9), ("%", 1), ("", 1), ("inst", 1),
     ("Kbyte/block", 1e3), ("byte/block", 1), ("register/thread", 1), ("Ginst/s", 1e9), ("Mbyte/ms", 1e9), ("Tbyte/s", 1e12)],
)  # fmt: skip
def test_units_are_scaled_to_ncus_base_units(unit: str, factor: float) -> None:
    assert base_factor(unit) == factor


@pytest.mark.parametrize(
    ("name", "gpu"),
    [("NVIDIA H200", "h200"), ("NVIDIA GH200 480GB", "gh200"), ("NVIDIA A100-SXM4-80GB", "a100_80gb"), ("Tesla T4", "t4"),
     ("NVIDIA A100-SXM4-40GB", "a100_40gb"), ("NVIDIA H100 80GB HBM3", "h100"), ("NVIDIA H100 PCIe", "h100_pcie"), ("NVIDIA L4", "l4"),
     ("NVIDIA GeForce RTX 4090", "rtx4090"), ("NVIDIA L40G", ""), ("NVIDIA A100-PCIE-40GB", "a100_pcie_40gb"), ("NVIDIA H200 NVL", ""), ("NVIDIA GH200 144G HBM3e", "")],
)  # fmt: skip
def test_a_gpu_is_named_only_if_that_very_variant_is_described(name: str, gpu: str) -> None:
    assert gpu_of_device(name) == gpu


def test_a_torn_last_line_loses_that_row_alone(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [SiliconRow(kernel=f"k{i}", samples_us=(1.0,)) for i in range(3)]
    append_rows(path, rows)
    whole = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == 10]
    near_ends = {end + by for end in ends for by in (-2, -1, 0, 1)}
    for cut in sorted({*range(1, len(whole), 101), *near_ends} & set(range(1, len(whole)))):
        path.write_bytes(whole[:cut])
        if cut < ends[0] - 1:
            with pytest.raises(MeasurementFormatError):
                read_rows_file(path)
        else:
            assert len(read_rows_file(path)) == sum(end - 1 <= cut for end in ends)
        append_rows(path, [SiliconRow(kernel="new")])
        kept = sum(end <= cut for end in ends)
        assert [row.kernel for row in read_rows_file(path)] == [f"k{i}" for i in range(kept)] + ["new"]


def test_the_medians_interval_covers_it_as_often_as_it_says() -> None:
    draw = np.random.default_rng(5)
    for n in (6, 15, 40, 1200):
        inside = [e.low <= np.log(2) <= e.high for e in (median_estimate(draw.exponential(size=n)) for _ in range(700))]
        assert 0.94 <= np.mean(inside) <= 0.995


def test_neighbours_that_resemble_each_other_count_for_less() -> None:
    draw = np.random.default_rng(6)
    apart = list(100 + draw.normal(size=200))
    sorted_halves = sorted(apart)
    assert relative_half_width(sorted_halves) > 3 * relative_half_width(apart)
    assert relative_half_width([5.0] * 10) == 0 and relative_half_width([0.0] * 10) == float("inf")
