"""What a plan's runs have found, in the store: commits, series, points, refusals; a cell is kept whole or not at all.

Mental model: a cell (a case at a commit, on a GPU, by a toolchain) is one transaction: its launches, a point in the
series of each, and the note that it is done. So a process may be killed at any moment: a cell is there with all its
points or it is to be run; and of two processes that ran the same cell, one keeps it and the other finds it kept.

A simulation that came out to the digit before (same machine code, trace, GPU and model) is not kept a second time: its
point names the launch that has the attribution already, so that years of nights without a change cost a row a cell.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, delete, select
from sqlalchemy.dialects import postgresql, sqlite

from gpusim.store.launch import SimulatedLaunch
from gpusim.store.run import write_launch, write_measurement
from gpusim.store.schema import (
    cells,
    commits,
    gpus,
    launches,
    measurements,
    method_facts,
    points,
    refusals,
    series,
)
from gpusim.store.store import Store
from gpusim.watch.repository import Commit
from gpusim.watch.worker_process import Answer, Refusal

CYCLES, MICROSECONDS = "cycles", "us"
#: Facts that decide a value besides kernel and GPU.
DECIDES = {
    "simulated": ("gpusim_version", "model_hash", "compiler"),
    "measured": ("compiler", "driver", "host_hash", "device"),
}

#: Refusals that say something of the machine, not of the case: the next run tries such a cell again.
PASSING = ("died", "late", "SiliconError", "ToolchainError", "StoreError")


@dataclass(frozen=True)
class Cell:
    """``request``: the case as the plan has it; ``gpu`` as the plan has it; ``method``: hash of all that is known to
    decide its value before it is run."""

    request: str
    gpu: str
    toolchain: str
    mode: str
    method: str


@dataclass(frozen=True)
class _Value:
    """A point that is to be kept."""

    kernel: str
    shape: str
    launch: int
    gpu: str
    unit: str
    value: float
    low: float
    high: float
    cubin_hash: str
    gpu_hash: str
    clock_hz: float
    facts: Mapping[str, str]
    launch_id: int | None


def method_hash(mode: str, facts: Mapping[str, str]) -> str:
    """What identifies the method of a value with ``facts``: equal for values that can be compared."""
    return _digest({name: facts.get(name, "") for name in DECIDES[mode]})


def keep_commits(store: Store, plan: str, found: Sequence[Commit]) -> dict[str, int]:
    """Keep the commits of a plan; hash -> number."""
    rows = [
        {"plan": plan, "hash": c.hash, "position": c.position, "time": c.time, "author": c.author, "subject": c.subject}
        for c in found
    ]
    with store.writing() as connection:
        for row in rows:
            _insert_once(connection, commits, row)
        wanted = [commit.hash for commit in found]
        query = select(commits.c.hash, commits.c.id).where(commits.c.plan == plan, commits.c.hash.in_(wanted))
        return {hash_: number for hash_, number in connection.execute(query)}


def done_cells(store: Store, commit_id: int) -> set[Cell]:
    """The cells of a commit that are kept, with values or refused."""
    columns = (cells.c.request, cells.c.gpu, cells.c.toolchain, cells.c.mode, cells.c.method)
    with store.reading() as connection:
        if connection is None:
            return set()
        return {Cell(*row) for row in connection.execute(select(*columns).where(cells.c.commit_id == commit_id))}


def keep_cell(
    store: Store,
    run_id: int,
    plan: str,
    commit_id: int,
    position: int,
    cell: Cell,
    answer: Answer,
    *,
    repetition: int = 0,
) -> bool:
    """Keep ``answer`` of ``cell``; False where another process has kept it before. ``repetition``: of a measurement
    that is run again, whose cell is there already. A refusal that may be another one tomorrow (:data:`PASSING`) is
    kept, and its cell is not done."""
    done = {"run_id": run_id, "commit_id": commit_id, **vars(cell)}
    passing = answer.refused is not None and answer.refused.kind in PASSING
    with store.writing() as connection:
        if not repetition:
            connection.execute(delete(refusals).where(*_same_cell(commit_id, cell)))
        if not repetition and not passing and not _insert_once(connection, cells, done):
            return False
        if answer.refused is not None:
            _keep_refusal(connection, run_id, plan, commit_id, cell, answer.refused)
            return True
        for values in answer.figures.items():
            _insert_once(connection, gpus, {"hash": values[0], "figures": json.dumps(dict(values[1]))})
        for value in (*_simulated(connection, run_id, answer), *_measured(connection, run_id, answer)):
            series_id = _series_id(connection, plan, cell, value, answer.facts.get("file", ""))
            facts = json.dumps(dict(value.facts), sort_keys=True)
            facts_id = _id_of(connection, method_facts, {"hash": _digest(value.facts)}, {"facts": facts})
            row = {
                "series_id": series_id, "run_id": run_id, "launch_id": value.launch_id, "commit_id": commit_id,
                "position": position, "method": method_hash(cell.mode, value.facts), "repetition": repetition,
                "value": value.value, "low": value.low, "high": value.high, "cubin_hash": value.cubin_hash,
                "gpu_hash": value.gpu_hash, "clock_hz": value.clock_hz, "facts_id": facts_id,
            }  # fmt: skip
            _insert_once(connection, points, row)
    return True


def _simulated(connection: Connection, run_id: int, answer: Answer) -> Iterable[_Value]:
    for record in answer.launches:
        yield _Value(
            record.kernel, record.shape, record.launch, record.gpu, CYCLES, record.cycles, record.cycles, record.cycles,
            record.cubin_hash, record.gpu_hash, record.clock_hz, answer.facts,
            _launch_id(connection, run_id, record, method_hash("simulated", answer.facts)),
        )  # fmt: skip


def _measured(connection: Connection, run_id: int, answer: Answer) -> Iterable[_Value]:
    for row in answer.rows:
        if row.time_us is None:
            continue
        connection.execute(measurements.insert(), [write_measurement(run_id, row)])
        facts = {
            **answer.facts,
            "driver": row.driver,
            "device": row.device_uuid_hash,
            "cache": row.cache,
            "method": row.method,
        }
        kernel = f"{row.kernel} ({row.cache})" if row.cache else row.kernel
        yield _Value(
            kernel, row.shape, row.launch, row.gpu, MICROSECONDS, row.time_us.median, row.time_us.low, row.time_us.high,
            row.cubin_hash, "", 1e6 * (row.sm_clock_mhz or 0.0), facts, None,
        )  # fmt: skip


def _launch_id(connection: Connection, run_id: int, record: SimulatedLaunch, method: str) -> int:
    """The stored launch that is ``record``, kept now unless one that is the same to the digit is there."""
    same = (
        select(launches.c.id)
        .join(points, points.c.launch_id == launches.c.id)
        .where(
            launches.c.cubin_hash == record.cubin_hash,
            launches.c.trace_hash == record.trace_hash,
            launches.c.gpu_hash == record.gpu_hash,
            launches.c.kernel == record.kernel,
            launches.c.shape == record.shape,
            launches.c.launch == record.launch,
            launches.c.cycles == record.cycles,
            points.c.method == method,
        )
        .limit(1)
    )
    known = connection.execute(same).scalar()
    if known is not None:
        return known
    key = connection.execute(launches.insert().values(write_launch(run_id, record))).inserted_primary_key
    assert key is not None
    return int(key[0])


def _series_id(connection: Connection, plan: str, cell: Cell, value: _Value, file: str) -> int:
    names = {
        "plan": plan, "kernel": value.kernel, "shape": value.shape, "launch": value.launch, "gpu": value.gpu,
        "toolchain": cell.toolchain, "mode": cell.mode, "unit": value.unit,
    }  # fmt: skip
    return _id_of(connection, series, names, {"file": file})


def _keep_refusal(connection: Connection, run_id: int, plan: str, commit_id: int, cell: Cell, refused: Refusal) -> None:
    row = {
        "run_id": run_id, "plan": plan, "commit_id": commit_id, "request": cell.request, "gpu": cell.gpu,
        "toolchain": cell.toolchain, "kind": refused.kind, "message": refused.message,
    }  # fmt: skip
    connection.execute(refusals.insert().values(row))


def _same_cell(commit_id: int, cell: Cell) -> list[Any]:
    return [
        refusals.c.commit_id == commit_id,
        refusals.c.request == cell.request,
        refusals.c.gpu == cell.gpu,
        refusals.c.toolchain == cell.toolchain,
    ]


def _id_of(connection: Connection, table: Table, names: Mapping[str, Any], rest: Mapping[str, Any]) -> int:
    """The number of the row that ``names`` identify, made with ``rest`` if it is not there."""
    query = select(table.c.id).where(*(table.c[name] == value for name, value in names.items()))
    found = connection.execute(query).scalar()
    if found is None:
        _insert_once(connection, table, {**names, **rest})
        found = connection.execute(query).scalar_one()
    return int(found)


def _insert_once(connection: Connection, table: Table, row: Mapping[str, Any]) -> bool:
    """Insert ``row`` unless one with its unique columns is there; whether it was inserted."""
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    statement = insert(table).values(dict(row)).on_conflict_do_nothing().returning(*table.primary_key.columns)
    return connection.execute(statement).first() is not None  # a row count is not what every driver gives


def _digest(values: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(dict(values), sort_keys=True).encode()).hexdigest()
