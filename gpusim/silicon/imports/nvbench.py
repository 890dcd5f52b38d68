"""nvbench's ``--json`` report, as rows: one a state and way of measuring.

Mental model: a report holds benchmarks, a benchmark holds states (points of its axes), a state holds summaries found by
their tag, whose values are text. The "cold" measurement, which flushes L2 before each launch, becomes a cold row, the
"batch" measurement, launches back to back, a warm one. Raw samples stand in a file of float32 seconds beside the report
if it was written with ``--jsonbin``, the SM clock of each in another; then median and interval come from them, else
from mean and standard deviation. Format: NVIDIA/nvbench, nvbench/json_printer.cu, and its tags.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np

from gpusim.errors import MeasurementFormatError
from gpusim.io.real_path import real_path
from gpusim.io.records import as_record, parse_record
from gpusim.io.shown import shown
from gpusim.silicon.estimate import median_estimate
from gpusim.silicon.imports.importer import in_utf8
from gpusim.silicon.names import gpu_of_device
from gpusim.silicon.row import MAX_SAMPLES, Estimate, SiliconRow

description = "nvbench's --json"
COLD, BATCH = "nv/cold/", "nv/batch/"
SAMPLES = "nv/json/bin:nv/cold/sample_times"
FREQUENCIES = "nv/json/freqs-bin:nv/cold/sample_freqs"
SM_CLOCK_HZ = "nv/cold/sm_clock_rate/mean"
#: Two-sided 95 % of the normal distribution.
_NORMAL_95 = 1.96
#: What a summary that lacks a value, or holds text that is no number, leads to.
_DAMAGE = (KeyError, TypeError, ValueError, OverflowError)


class _Value(TypedDict):
    """A named value of a summary; numbers are written as text."""

    name: str
    type: NotRequired[str]
    value: str | int | float | bool | None


class _Summary(TypedDict):
    tag: str
    data: NotRequired[list[_Value] | None]


class _Axis(TypedDict):
    name: str
    value: str | int | float | bool | None
    input_string: NotRequired[str | None]


class _State(TypedDict):
    """A point of a benchmark's axes; ``device``: null for a benchmark of the host."""

    device: NotRequired[int | None]
    axis_values: NotRequired[list[_Axis] | None]
    summaries: NotRequired[list[_Summary] | None]
    is_skipped: NotRequired[bool]


class _Benchmark(TypedDict):
    name: str
    states: list[dict[str, Any]]


class _Device(TypedDict):
    id: int
    name: str


class _Report(TypedDict):
    """The file; its states are checked one by one, to name them where one is damaged."""

    benchmarks: list[_Benchmark]
    devices: NotRequired[list[_Device] | None]
    meta: NotRequired[dict[str, Any] | None]


def recognises(path: Path, head: bytes) -> bool:
    """Whether the file begins as a JSON object that speaks of nvbench, or of benchmarks."""
    return head.lstrip().startswith(b"{") and (b'"nvbench"' in head or b'"benchmarks"' in head)


def read(path: Path) -> list[SiliconRow]:
    """Rows of every state that was measured. Raises MeasurementFormatError with the state that is damaged."""
    report = parse_record(_Report, in_utf8(path.read_bytes()), f"{path}: no report of nvbench", MeasurementFormatError)
    names = {device["id"]: device["name"] for device in report.get("devices") or ()}
    toolchain = f"nvbench {_version(report)}".strip()
    rows = []
    for benchmark in report["benchmarks"]:
        for values in benchmark["states"]:
            place = f"{path}, benchmark {benchmark['name']!r}, state {shown(values.get('name'))}"
            state = as_record(_State, values, f"{place}: damaged", MeasurementFormatError)
            try:
                rows += _state(path, benchmark["name"], state, names, toolchain)
            except MeasurementFormatError as error:
                raise MeasurementFormatError(f"{place}: {error}") from None
            except _DAMAGE as error:
                raise MeasurementFormatError(f"{place}: damaged ({type(error).__name__}: {error})") from None
    return rows


def _version(report: _Report) -> str:
    found: Any = report.get("meta")
    for key in ("version", "nvbench", "string"):
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, str) else ""  # of no report before versions were written


def _state(path: Path, kernel: str, state: _State, names: dict[int, str], toolchain: str) -> list[SiliconRow]:
    if state.get("is_skipped") or not state.get("summaries"):
        return []
    values = {summary["tag"]: _value(summary) for summary in state["summaries"]}
    samples = [1e6 * seconds for seconds in _binary(path, state["summaries"], SAMPLES)]
    clocks = [hertz / 1e6 for hertz in _binary(path, state["summaries"], FREQUENCIES)]
    if len(clocks) != len(samples) or not all(clocks):
        clocks = []
    axes = state.get("axis_values") or []
    number = state.get("device")  # null: a benchmark of the host
    device = "" if number is None else names.get(number, "")
    clock = values.get(SM_CLOCK_HZ)
    facts = dict(
        kernel=kernel,
        shape=",".join(f"{axis['name']}={axis.get('input_string') or axis['value']}" for axis in axes),
        device_name=device,
        gpu=gpu_of_device(device) if device else "",
        sm_clock_mhz=clock / 1e6 if isinstance(clock, float) and clock > 0 else None,
        toolchain=toolchain,
        method="imported",
        source=str(path),
    )
    rows = []
    cold = median_estimate(samples) if samples else _estimate(values, COLD)
    if cold is not None:
        count = values.get(COLD + "time/gpu/sample_size", values.get(COLD + "sample_size", 1.0))
        rows.append(
            SiliconRow(
                **facts,
                cache="cold",
                n=max(1, int(count)),
                time_us=cold,
                samples_us=tuple(samples),
                samples_mhz=tuple(clocks),
            )
        )
    batch = _estimate(values, BATCH)
    if batch is not None:
        count = values.get(BATCH + "time/gpu/sample_size", values.get(BATCH + "sample_size", 1.0))
        rows.append(SiliconRow(**facts, cache="warm", n=max(1, int(count)), time_us=batch))
    return rows


def _value(summary: _Summary) -> float | None:
    """The summary's number; None where it holds none (nvbench writes null for what it could not compute)."""
    for item in summary.get("data") or ():
        if item["name"] == "value":
            if item["value"] is None or item["type"] not in ("int64", "float64"):
                return None
            value = float(item["value"])
            return value if math.isfinite(value) else None
    return None


def _estimate(values: dict[str, float | None], family: str) -> Estimate | None:
    """Median (else mean) in microseconds, with the interval of a mean."""
    mean, median = values.get(family + "time/gpu/mean"), values.get(family + "time/gpu/median")
    middle = mean if median is None else median
    if middle is None or middle < 0:
        return None
    deviation = values.get(family + "time/gpu/stdev/absolute")
    if deviation is None:
        deviation = (values.get(family + "time/gpu/stdev/relative") or 0.0) * middle
    count = values.get(family + "time/gpu/sample_size") or values.get(family + "sample_size") or 1.0
    half = _NORMAL_95 * abs(deviation) / math.sqrt(max(1.0, count))
    return Estimate(1e6 * middle, 1e6 * max(0.0, middle - half), 1e6 * (middle + half))


def _binary(path: Path, summaries: list[_Summary], tag: str) -> list[float]:
    """One figure a sample, in base units, from the file that the report names under ``tag``, if it lies beside the
    report."""
    for summary in summaries:
        if summary["tag"] != tag:
            continue
        data = {item["name"]: item["value"] for item in summary.get("data") or ()}
        size, name = int(data["size"]), str(data["filename"])
        if not 0 < size <= MAX_SAMPLES:
            raise MeasurementFormatError(f"{size} samples are out of range")
        folder = real_path(path).parent
        file = real_path(folder / Path(name).parent.name / Path(name).name)  # where --jsonbin puts it, wherever it ran
        if not file.is_relative_to(folder) or not file.is_file():
            return []
        if file.stat().st_size != 4 * size:
            raise MeasurementFormatError(
                f"{file.name} holds {file.stat().st_size} bytes, {size} samples need {4 * size}"
            )
        samples = np.fromfile(file, "<f4").astype(np.float64)
        if not np.isfinite(samples).all() or (samples < 0).any():
            raise MeasurementFormatError(f"{file.name} holds figures that cannot be")
        return [float(sample) for sample in samples]
    return []
