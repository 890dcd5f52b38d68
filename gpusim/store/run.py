"""A kept run as values: who made it, with what, and its rows.

Mental model: reading a store is reading a file from elsewhere: every JSON text is parsed and checked here, and what
does not fit raises StoreFormatError naming run and column.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpusim.errors import MeasurementFormatError, StoreFormatError, UsageError
from gpusim.silicon.row import SiliconRow
from gpusim.store.coding import pack, unpack
from gpusim.store.launch import SimulatedLaunch

if TYPE_CHECKING:
    from sqlalchemy import RowMapping

#: What a run may be called: no number (that is a run's id), and nothing that a shell or a path would trip over.
RESERVED = ("now",)  # what `gpusim regress` calls a run simulated again
NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+/-]{0,99}")


@dataclass(frozen=True)
class RunInfo:
    """A run without its rows. ``state``: open (or killed), finished, failed. Times are UTC, ISO 8601."""

    id: int
    name: str
    state: str
    command: str
    arguments: tuple[str, ...]
    started: str
    finished: str
    gpusim_version: str
    model_hash: str
    host_hash: str
    environment: Mapping[str, str]
    launches: int = 0
    measurements: int = 0


@dataclass(frozen=True)
class StoredRun:
    """A run with its rows: ``launches`` simulated, ``measurements`` of silicon, in the order of saving; ``documents``
    kind -> the newest of that kind; ``gpus`` a launch's ``gpu_hash`` -> the machine's figures by dotted key."""

    info: RunInfo
    launches: tuple[SimulatedLaunch, ...] = field(repr=False)
    measurements: tuple[SiliconRow, ...] = field(repr=False)
    documents: Mapping[str, Any] = field(default_factory=dict, repr=False)
    gpus: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)


def checked_name(name: str) -> str:
    """``name`` if a run may be called so; UsageError otherwise."""
    if not NAME_PATTERN.fullmatch(name) or name.isdecimal() or name in RESERVED:
        raise UsageError(
            f"a run cannot be called {name!r}: up to 100 letters, digits and ._+/- that begin with a letter or digit, "
            f"no number, and not {', '.join(RESERVED)}"
        )
    return name


def read_info(row: RowMapping, launches: int, measurements: int) -> RunInfo:
    """The run of a row of ``runs``."""
    where = f"run {row['id']}"
    arguments = _json(where, "arguments", row["arguments"], list)
    environment = _json(where, "environment", row["environment"], dict)
    texts = ("name", "state", "command", "started", "finished", "gpusim_version", "model_hash", "host_hash")
    return RunInfo(
        id=row["id"],
        arguments=tuple(str(argument) for argument in arguments),
        environment={str(key): str(value) for key, value in environment.items()},
        launches=launches,
        measurements=measurements,
        **{column: _text(where, column, row[column]) for column in texts},
    )


def write_launch(run_id: int, launch: SimulatedLaunch) -> dict[str, Any]:
    """The row of ``launches`` for ``launch``. Raises ValueError for a number that is not finite."""
    facts = {
        "grid": launch.grid,
        "block": launch.block,
        "registers_per_thread": launch.registers_per_thread,
        "shared_bytes": launch.shared_bytes,
    }
    plain = (
        "kernel",
        "shape",
        "launch",
        "function",
        "gpu",
        "gpu_hash",
        "cubin_hash",
        "trace_hash",
        "cycles",
        "clock_hz",
    )
    return {
        "run_id": run_id,
        **{column: getattr(launch, column) for column in plain},
        "facts": json.dumps(facts),
        "stalls": json.dumps(dict(launch.stalls)),
        "counters": json.dumps(dict(launch.counters), allow_nan=False),
        "least_cycles": json.dumps(dict(launch.least_cycles), allow_nan=False),
        "instructions": pack(launch.instructions),
    }


def read_launch(row: RowMapping) -> SimulatedLaunch:
    """The launch of a row of ``launches``."""
    where = f"run {row['run_id']}, launch row {row['id']}"
    facts = _json(where, "facts", row["facts"], dict)
    stalls = _numbers(where, "stalls", row["stalls"])
    try:
        instructions = unpack(row["instructions"])
    except (TypeError, ValueError) as error:
        raise StoreFormatError(f"{where}: its instructions are damaged: {error}") from None
    texts = ("kernel", "shape", "function", "gpu", "gpu_hash", "cubin_hash", "trace_hash")
    cycles, clock_hz = row["cycles"], row["clock_hz"]
    if not isinstance(cycles, int) or cycles < 1 or not isinstance(clock_hz, float) or not 0 < clock_hz < math.inf:
        raise StoreFormatError(f"{where}: damaged: {cycles!r:.40} cycles at {clock_hz!r:.40} Hz")
    return SimulatedLaunch(
        launch=_whole(where, "launch", row["launch"]),
        cycles=cycles,
        clock_hz=clock_hz,
        grid=_three(where, "grid", facts.get("grid")),
        block=_three(where, "block", facts.get("block")),
        registers_per_thread=_whole(where, "registers_per_thread", facts.get("registers_per_thread")),
        shared_bytes=_whole(where, "shared_bytes", facts.get("shared_bytes")),
        stalls={reason: _whole(where, reason, value) for reason, value in stalls.items()},
        counters=_numbers(where, "counters", row["counters"]),
        least_cycles=_numbers(where, "least_cycles", row["least_cycles"]),
        instructions=instructions,
        **{column: _text(where, column, row[column]) for column in texts},
    )


def write_measurement(run_id: int, row: SiliconRow) -> dict[str, Any]:
    """The row of ``measurements`` for ``row``."""
    plain = ("kernel", "shape", "gpu", "cubin_hash", "method")
    return {"run_id": run_id, **{column: getattr(row, column) for column in plain}, "row": row.to_json()}


def read_measurement(row: RowMapping) -> SiliconRow:
    """The measurement of a row of ``measurements``."""
    try:
        return SiliconRow.from_json(row["row"])
    except (MeasurementFormatError, TypeError) as error:
        raise StoreFormatError(f"run {row['run_id']}, measurement {row['id']}: {error}") from None


def read_documents(rows: Iterable[RowMapping]) -> dict[str, Any]:
    """Kind -> content of the rows of ``documents`` of one run; later ones stand for earlier ones."""
    found = {}
    for row in rows:
        where = f"run {row['run_id']}, document {row['id']}"
        found[_text(where, "kind", row["kind"])] = _json(where, "content", row["content"], object)
    return found


def read_gpu(row: RowMapping) -> dict[str, Any]:
    """The figures of a row of ``gpus``, by dotted key."""
    return _json(f"GPU {row['hash']}", "figures", row["figures"], dict)


def _json(where: str, column: str, text: object, kind: type) -> Any:
    try:
        value = json.loads(text)  # type: ignore[arg-type]
        fits = isinstance(value, kind)
    except (TypeError, ValueError, RecursionError):
        fits = False
    if not fits:
        raise StoreFormatError(f"{where}: damaged: its {column} are {text!r:.60}")
    return value


def _numbers(where: str, column: str, text: object) -> dict[str, Any]:
    values = _json(where, column, text, dict)
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise StoreFormatError(f"{where}: damaged: {column} has {name}={value!r:.60}")
    return values


def _text(where: str, column: str, value: object) -> str:
    if not isinstance(value, str):
        raise StoreFormatError(f"{where}: damaged: its {column} is {value!r:.60}")
    return value


def _whole(where: str, column: str, value: object) -> int:
    if type(value) is not int or value < 0:
        raise StoreFormatError(f"{where}: damaged: its {column} is {value!r:.60}")
    return value


def _three(where: str, column: str, value: object) -> tuple[int, int, int]:
    if not isinstance(value, list) or len(value) != 3:
        raise StoreFormatError(f"{where}: damaged: its {column} is {value!r:.60}")
    x, y, z = (_whole(where, column, part) for part in value)
    return x, y, z
