"""A stored run as values: who made it, with what, and its rows.

Mental model: reading a store is reading a file from elsewhere: every JSON text is parsed and checked here, and what
does not fit raises StoreFormatError naming run and column.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, TypeVar

from gpusim.errors import MeasurementFormatError, StoreFormatError
from gpusim.io.records import Count, Finite, Positive, PositiveFinite, as_record, nested_beyond, parse_record
from gpusim.silicon.row import SiliconRow
from gpusim.store.coding import pack, unpack
from gpusim.store.launch import SimulatedLaunch

if TYPE_CHECKING:
    from sqlalchemy import RowMapping

#: Nesting of a document that somebody means.
MOST_LEVELS = 100


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


class _InfoColumns(TypedDict):
    """Columns of ``runs``."""

    name: str
    state: str
    command: str
    started: str
    finished: str
    gpusim_version: str
    model_hash: str
    host_hash: str


class _LaunchColumns(TypedDict):
    """Columns of ``launches``, but for those that hold JSON."""

    kernel: str
    shape: str
    launch: Count
    function: str
    gpu: str
    gpu_hash: str
    cubin_hash: str
    trace_hash: str
    cycles: Positive
    clock_hz: PositiveFinite


class _Facts(TypedDict):
    """What the column ``facts`` of ``launches`` holds."""

    grid: tuple[Count, Count, Count]
    block: tuple[Count, Count, Count]
    registers_per_thread: Count
    shared_bytes: Count
    source: NotRequired[tuple[tuple[str, Count, str], ...]]


class _DocumentColumns(TypedDict):
    """Columns of ``documents``."""

    kind: str


_Read = TypeVar("_Read")


def read_info(row: RowMapping, launches: int, measurements: int) -> RunInfo:
    """The run of a row of ``runs``."""
    where = f"run {row['id']}"
    arguments = _json(where, "arguments", row["arguments"], list[Any])
    environment = _json(where, "environment", row["environment"], dict[str, Any])
    return RunInfo(
        id=row["id"],
        arguments=tuple(str(argument) for argument in arguments),
        environment={key: str(value) for key, value in environment.items()},
        launches=launches,
        measurements=measurements,
        **_columns(where, _InfoColumns, row),
    )


def write_launch(run_id: int, launch: SimulatedLaunch) -> dict[str, Any]:
    """The row of ``launches`` for ``launch``. Raises ValueError for a number that is not finite."""
    facts = {
        "grid": launch.grid,
        "block": launch.block,
        "registers_per_thread": launch.registers_per_thread,
        "shared_bytes": launch.shared_bytes,
        "source": launch.source,
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
    try:
        instructions = unpack(row["instructions"])
    except (TypeError, ValueError) as error:
        raise StoreFormatError(f"{where}: its instructions are damaged: {error}") from None
    return SimulatedLaunch(
        **_columns(where, _LaunchColumns, row),
        **_json(where, "facts", row["facts"], _Facts),
        stalls=_json(where, "stalls", row["stalls"], dict[str, Count]),
        counters=_json(where, "counters", row["counters"], dict[str, Finite]),
        least_cycles=_json(where, "least_cycles", row["least_cycles"], dict[str, Finite]),
        instructions=instructions,
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
        kind = _columns(where, _DocumentColumns, row)["kind"]
        found[kind] = _json(where, "content", row["content"], Any)
    return found


def read_gpu(row: RowMapping) -> dict[str, Any]:
    """The figures of a row of ``gpus``, by dotted key."""
    return _json(f"GPU {row['hash']}", "figures", row["figures"], dict[str, Any])


def _json(where: str, column: str, text: object, kind: type[_Read]) -> _Read:
    """The JSON text of a column as a value of type ``kind``."""
    if not isinstance(text, str | bytes):
        raise StoreFormatError(f"{where}: damaged: its {column} are {text!r:.60}")
    value = parse_record(kind, text, f"{where}: damaged: its {column}", StoreFormatError)
    if nested_beyond(value, MOST_LEVELS):
        raise StoreFormatError(f"{where}: damaged: its {column} are nested too deeply")
    return value


def _columns(where: str, kind: type[_Read], row: RowMapping) -> _Read:
    """The columns of ``row`` that ``kind`` names, as it says they are."""
    wanted = {name: row[name] for name in kind.__annotations__}
    return as_record(kind, wanted, f"{where}: damaged", StoreFormatError)
