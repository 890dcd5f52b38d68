"""Stored runs as flat records, a dict with the same keys each: what a spreadsheet or a data frame takes.

Mental model: one table a kind of row (launches, measurements, instructions). What has names of its own (stall reasons,
counters) becomes columns, prefixed; a record that lacks one has None there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gpusim.store.run import StoredRun

#: Columns that every table begins with.
_RUN = ("run", "run_name", "started", "gpusim_version")


def launch_records(runs: Iterable[StoredRun]) -> list[dict[str, Any]]:
    """A record a simulated launch."""
    records = []
    for run in runs:
        for row in run.launches:
            record = {
                **_of(run),
                **{name: getattr(row, name) for name in ("kernel", "shape", "launch", "function", "gpu")},
                "cycles": row.cycles,
                "time_us": row.time_us,
                "clock_mhz": row.clock_hz / 1e6,
                "grid": _triple(row.grid),
                "block": _triple(row.block),
                **{name: getattr(row, name) for name in ("registers_per_thread", "shared_bytes")},
                **{name: getattr(row, name) for name in ("gpu_hash", "cubin_hash", "trace_hash")},
                **{f"stall.{name}": value for name, value in row.stalls.items()},
                **{f"least_cycles.{name}": value for name, value in row.least_cycles.items()},
                **{name: value for name, value in row.counters.items() if name not in ("cycles", "kernel")},
            }
            records.append(record)
    return even(records)


def measurement_records(runs: Iterable[StoredRun]) -> list[dict[str, Any]]:
    """A record a measurement; its samples, and the clock beside each, as one text in order of measurement."""
    plain = (
        "kernel",
        "shape",
        "launch",
        "gpu",
        "device_name",
        "device_uuid_hash",
        "driver",
        "toolchain",
        "method",
        "cache",
    )
    records = []
    for run in runs:
        for row in run.measurements:
            record = {**_of(run), **{name: getattr(row, name) for name in plain}, "n": row.n}
            for name in ("cycles", "time_us"):
                estimate = getattr(row, name)
                for part in ("median", "low", "high"):
                    record[f"{name}.{part}"] = None if estimate is None else getattr(estimate, part)
            record |= {name: getattr(row, name) for name in ("sm_clock_mhz", "memory_clock_mhz", "cubin_hash")}
            record |= {"flags": " ".join(row.flags), "date": row.date, "source": row.source}
            record |= {name: " ".join(map(repr, getattr(row, name))) for name in ("samples_us", "samples_mhz")}
            records.append(record | dict(row.counters))
    return even(records)


def instruction_records(runs: Iterable[StoredRun]) -> list[dict[str, Any]]:
    """A record an instruction of a simulated launch."""
    records = []
    for run in runs:
        for row in run.launches:
            where = {**_of(run), "kernel": row.kernel, "shape": row.shape, "launch": row.launch, "gpu": row.gpu}
            records += [
                {
                    **where,
                    "address": instruction.address,
                    "file": instruction.file,
                    "line": instruction.line,
                    "source": row.source_line(instruction.file, instruction.line),
                    "sass": instruction.text,
                    "warp_cycles": instruction.warp_cycles,
                    **{f"stall.{name}": value for name, value in instruction.stalls.items()},
                    **dict(instruction.work),
                }
                for instruction in row.instructions
            ]
    return even(records, missing=0)


TABLES = {"launches": launch_records, "measurements": measurement_records, "instructions": instruction_records}


def even(records: Sequence[dict[str, Any]], missing: Any = None) -> list[dict[str, Any]]:
    """The records with the keys of all of them, in order of first appearance."""
    keys = list(dict.fromkeys(key for record in records for key in record))
    return [{key: record.get(key, missing) for key in keys} for record in records]


def _of(run: StoredRun) -> dict[str, Any]:
    info = run.info
    return dict(zip(_RUN, (info.id, info.name, info.started, info.gpusim_version), strict=True))


def _triple(value: tuple[int, int, int]) -> str:
    return "x".join(map(str, value))
