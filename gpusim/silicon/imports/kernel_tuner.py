"""Kernel Tuner's cache files, and results in the T4 format that it shares with other autotuners, as rows: one a
configuration.

Mental model: a cache file says device and kernel once, then a configuration an entry: its parameters, all times of it,
or why it has none. T4 says the same without device and kernel; the row is then called after the file, or what its
optional ``metadata`` says. Configurations that did not compile, run or pass are left out, since nothing was measured of
them. Times are milliseconds in both, unless T4's metadata name another unit. A cache of a run that goes on, or was
broken off, lacks its closing brackets; it is read as far as it goes. A T1 file describes a tuning problem and holds no
measurement. Formats: KernelTuner/kernel_tuner, ``kernel_tuner/schema`` (cache 1.1.0, T1 and T4 1.0.0),
``file_utils.py``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from gpusim.errors import MeasurementFormatError
from gpusim.io.records import as_record, read_json
from gpusim.io.shown import shown
from gpusim.silicon.estimate import median_estimate
from gpusim.silicon.imports.importer import in_utf8
from gpusim.silicon.names import gpu_of_device
from gpusim.silicon.row import MAX_SAMPLES, Estimate, SiliconRow

description = "Kernel Tuner's cache files and T4 results"
#: The names by which Kernel Tuner takes a block's sizes, unless it is told others.
_BLOCK = ("block_size_x", "block_size_y", "block_size_z")
_MICROSECONDS = {"nanoseconds": 1e-3, "microseconds": 1.0, "milliseconds": 1e3, "seconds": 1e6}
#: The key under which Kernel Tuner says why a configuration failed, from version 1.5 on in place of its time.
_FAILED = "__error__"
#: Versions before cache files said why a configuration failed gave it this time.
_FAILED_TIME = 1e20


class _Cache(TypedDict):
    """A cache file; its entries are checked one by one, to name the one that is damaged."""

    kernel_name: str
    tune_params_keys: list[str]
    cache: dict[str, dict[str, Any]]
    device_name: NotRequired[str]


class _Times(TypedDict):
    runtimes: NotRequired[list[float] | None]


class _Measurement(TypedDict):
    name: str
    value: Any
    unit: NotRequired[str | None]


class _Configuration(TypedDict):
    """One of T4's results."""

    configuration: dict[str, Any]
    times: NotRequired[_Times]
    invalidity: NotRequired[str]
    measurements: NotRequired[list[_Measurement] | None]
    timestamp: NotRequired[str | None]


class _Metadata(TypedDict):
    device: NotRequired[str | None]
    timeunit: NotRequired[str | None]
    autotuner: NotRequired[str | None]


class _Results(TypedDict):
    """A file of T4; its results are checked one by one."""

    results: list[dict[str, Any]]
    metadata: NotRequired[_Metadata | None]


def recognises(path: Path, head: bytes) -> bool:
    """Whether the file begins as a JSON object that names what only these formats name."""
    if not head.lstrip().startswith(b"{") or b'"benchmarks"' in head:
        return False
    is_cache = b'"tune_params_keys"' in head or (b'"kernel_name"' in head and b'"tune_params"' in head)
    is_t4 = b'"results"' in head and b'"configuration"' in head and b'"schema_version"' in head
    return is_cache or is_t4 or (b'"results"' in head and b'"invalidity"' in head) or _is_t1(head)


def _is_t1(head: bytes) -> bool:
    return b'"ConfigurationSpace"' in head and b'"KernelSpecification"' in head


def read(path: Path) -> list[SiliconRow]:
    """Rows of every configuration that was measured. Raises MeasurementFormatError with the one that is damaged."""
    document = _document(path)
    if "ConfigurationSpace" in document:
        raise MeasurementFormatError(
            f"{path}: a T1 file describes a tuning problem and holds no measurement: import the T4 results, or the cache file"
        )
    if "results" in document:
        results = as_record(_Results, document, f"{path}: no T4 results", MeasurementFormatError)
        return list(_t4_rows(path, results))
    cache = as_record(_Cache, document, f"{path}: no cache of Kernel Tuner", MeasurementFormatError)
    return list(_cache_rows(path, cache))


def _document(path: Path) -> dict[str, Any]:
    data = in_utf8(path.read_bytes())
    try:
        value = read_json(data)
    except ValueError as error:
        try:  # as Kernel Tuner leaves a cache that it goes on writing to: after an entry's comma
            value = read_json(data.rstrip().removesuffix(b",") + b"}}")
        except ValueError:
            raise MeasurementFormatError(f"{path}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise MeasurementFormatError(f"{path}: no cache of Kernel Tuner: it should be an object, not {shown(value)}")
    return value


def _cache_rows(path: Path, cache: _Cache) -> Iterator[SiliconRow]:
    device, names = cache.get("device_name", ""), cache["tune_params_keys"]
    for key, entry in cache["cache"].items():
        place = f"{path}, configuration {shown(key)}"
        if _FAILED in entry or isinstance(entry.get("time"), str):  # why it failed, from version 1.5 on and before
            continue
        parameters = {name: entry[name] for name in names if name in entry}
        times = _numbers(entry.get("times"), place) or _numbers([entry.get("time")], place)
        if times and times[0] >= _FAILED_TIME:
            continue
        if not times:
            raise MeasurementFormatError(f"{place}: it has neither a time nor times")
        yield _row(
            place,
            cache["kernel_name"],
            parameters,
            [1e3 * each for each in times],
            device,
            entry.get("timestamp"),
            path,
        )


def _t4_rows(path: Path, results: _Results) -> Iterator[SiliconRow]:
    about = results.get("metadata") or {}
    unit = about.get("timeunit") or "milliseconds"
    if unit not in _MICROSECONDS:
        raise MeasurementFormatError(
            f"{path}: metadata.timeunit is {shown(unit)}; known are {', '.join(_MICROSECONDS)}"
        )
    for number, values in enumerate(results["results"], 1):
        place = f"{path}, result {number}"
        result = as_record(_Configuration, values, f"{place}: damaged", MeasurementFormatError)
        if result.get("invalidity", "correct") != "correct":
            continue
        times = _numbers((result.get("times") or {}).get("runtimes"), place) or _objective(result, place)
        if not times:
            continue
        samples = [_MICROSECONDS[unit] * each for each in times]
        device = about.get("device") or ""
        yield _row(place, path.stem, result["configuration"], samples, device, result.get("timestamp"), path)


def _objective(result: _Configuration, place: str) -> list[float]:
    """The measurement that is called ``time``, where no single times were written."""
    for each in result.get("measurements") or ():
        if each["name"] == "time" and each["value"] is not None and not isinstance(each["value"], str):
            return _numbers([each["value"]], place)
    return []


def _numbers(values: Any, place: str) -> list[float]:
    if values is None or values == [None]:
        return []
    if not isinstance(values, list) or len(values) > MAX_SAMPLES:
        raise MeasurementFormatError(f"{place}: times should be a list of numbers, not {shown(values)}")
    for each in values:
        if isinstance(each, bool) or not isinstance(each, (int, float)) or not 0 <= each < math.inf:
            raise MeasurementFormatError(f"{place}: a time is {shown(each)}, not a number from 0 on")
    try:
        return [float(each) for each in values]
    except OverflowError:
        raise MeasurementFormatError(f"{place}: a time is larger than any") from None


def _row(
    place: str, kernel: str, parameters: Mapping[str, Any], samples_us: list[float], device: str, date: Any, path: Path
) -> SiliconRow:
    for name, value in parameters.items():
        if not isinstance(value, (str, int, float)):
            raise MeasurementFormatError(
                f"{place}: the parameter {shown(name)} is {shown(value)}, not a number or a text"
            )
    try:
        return SiliconRow(
            kernel=kernel,
            shape=",".join(f"{name}={_text(value)}" for name, value in parameters.items()),
            block=_block(parameters),
            device_name=device,
            gpu=gpu_of_device(device) if device else "",
            n=len(samples_us),
            time_us=_estimate(samples_us),
            samples_us=tuple(samples_us),
            date=date if isinstance(date, str) else "",
            source=str(path),
        )
    except MeasurementFormatError as error:
        raise MeasurementFormatError(f"{place}: {error}") from None


def _text(value: object) -> str:
    return shown(value) if isinstance(value, int) and value.bit_length() > 64 else str(value)


def _estimate(samples_us: list[float]) -> Estimate:
    if not all(math.isfinite(each) for each in samples_us):
        raise MeasurementFormatError("a time is larger than any")
    return median_estimate(samples_us)


def _block(parameters: Mapping[str, Any]) -> tuple[int, int, int] | None:
    sizes = [parameters.get(name, 1) for name in _BLOCK]
    if _BLOCK[0] not in parameters or not all(type(size) is int and 0 < size <= 1024 for size in sizes):
        return None
    return sizes[0], sizes[1], sizes[2]
