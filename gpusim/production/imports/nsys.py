"""SQLite exports of Nsight Systems (``nsys export --type sqlite``), as rows and facts.

Mental model: a table a kind of event; kernels, copies and calls of the CUDA runtime are joined by ``correlationId``
within a process, names are numbers of ``StringIds``. Versions differ in columns (2021 to 2025): what a table lacks is
NULL here, and only tables, no views, are read. A ``globalTid`` holds process and thread in bits 24 to 47 and 0 to 23,
and above them which virtual machine; tables of devices name the process alone.

The file is foreign: it is opened read-only and immutable, with no trusted schema, and every value is checked.
Source: Nsight Systems' "SQLite Export Schema Reference".
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from gpusim.errors import ProductionError
from gpusim.io.progress import task
from gpusim.production.file import Production
from gpusim.production.imports.assembly import Assembly, rank_in
from gpusim.production.imports.names_seen import cut
from gpusim.production.launches import Kind, Launch
from gpusim.production.timing.collectives import Collectives

description = "Nsight Systems, nsys export --type sqlite"
MAGIC = b"SQLite format 3\0"
KERNELS, CALLS, RANGES = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"
GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_COPIES: dict[str, Kind] = {"CUPTI_ACTIVITY_KIND_MEMCPY": "memcpy", "CUPTI_ACTIVITY_KIND_MEMSET": "memset"}
#: ``copyKind`` of CUPTI (CUpti_ActivityMemcpyKind).
_DIRECTIONS = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
}
#: ``eventType`` of ranges: push and pop on one thread, start and end.
_RANGE_TYPES = (59, 60)
_SHAPE = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
_MOST_TEXT_BYTES = 1 << 20
_MOST_NUMBER = 1 << 60
_MOST_KEPT_NAMES = 100_000
_DEFAULT_STREAMS = (0, 7)
_PROCESS = 0xFFFFFF


def recognises(path: Path, head: bytes) -> bool:
    """Whether it is a SQLite file that names Nsight's tables within its first pages."""
    return head.startswith(MAGIC) and (b"CUPTI_ACTIVITY" in head or b"StringIds" in head or b"TARGET_INFO" in head)


def read(path: Path, collectives: Collectives | None = None) -> Production:
    """All processes of an export. Raises ProductionError for another database or a damaged one."""
    try:
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
    except sqlite3.Error as error:
        raise ProductionError(f"{path}: cannot be read as SQLite ({error})") from None
    try:
        database.execute("pragma trusted_schema=off")
        database.execute("pragma query_only=on")
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_TEXT_BYTES)
        return _Export(path, database, collectives).production()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise ProductionError(f"{path}: damaged, or no export of Nsight Systems ({error})") from None
    finally:
        database.close()


class _Export:
    def __init__(self, path: Path, database: sqlite3.Connection, collectives: Collectives | None) -> None:
        self.path, self.database = path, database
        self.tables = {name for (name,) in database.execute("select name from sqlite_master where type = 'table'")}
        if not {KERNELS, GRAPHS, *_COPIES} & self.tables:
            raise ProductionError(f"{path}: no table {KERNELS}: was CUDA traced (nsys profile --trace cuda)?")
        self.assembly = Assembly(path.name, "nsys", rank_in(path.name), collectives)
        self.rows = 0
        self._names: dict[int, str] = {}
        self._processes: dict[int, int] = {}
        self._gpus = self._told_gpus()

    def production(self) -> Production:
        """All of it."""
        with task(f"reading {self.path.name}", unit="events") as progress:
            for step in (self._ranges, self._calls, self._kernels, self._copies, self._graphs):
                step()
                progress.to(self.rows)
        with task(f"putting {self.path.name} in order"):
            production = self.assembly.production(self.path.stat().st_size, self.rows)
        gpus = dict(self.assembly.devices)
        for total in production.totals:
            total.what = msgspec.structs.replace(total.what, gpu=gpus.get(total.what.device, ""))
        return production

    def _kernels(self) -> None:
        names = ("demangledName", "shortName", "mangledName")
        columns = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid", "registersPerThread", "staticSharedMemory",
                   "dynamicSharedMemory", *names, *_SHAPE)  # fmt: skip
        for row in self._read(KERNELS, columns):
            begin, end, device, stream, correlation, pid, registers, static, dynamic, *rest = row
            name = next((text for number in rest[:3] if (text := self._name(number))), "")
            if begin is None or not name:
                self.assembly.damaged += 1
                continue
            shape = [each if each is not None and 0 < each < 1 << 32 else 0 for each in rest[3:]]
            grid, block = (shape[0], shape[1], shape[2]), (shape[3], shape[4], shape[5])
            shared = None if static is None and dynamic is None else max(0, static or 0) + max(0, dynamic or 0)
            launch = Launch(
                name, "kernel", grid if all(grid) else None, block if all(block) else None, shared,
                registers if registers and registers > 0 else None,
            )  # fmt: skip
            self._work(launch, begin, end, correlation, pid, device, stream, 0)

    def _copies(self) -> None:
        for table, kind in _COPIES.items():
            columns = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid", "bytes", "copyKind")
            for begin, end, device, stream, correlation, pid, moved, direction in self._read(table, columns):
                name = "Memset" if kind == "memset" else f"Memcpy {_DIRECTIONS.get(direction or 0, '')}".strip()
                if begin is None:
                    self.assembly.damaged += 1
                else:
                    self._work(Launch(name, kind), begin, end, correlation, pid, device, stream, max(0, moved or 0))

    def _graphs(self) -> None:
        """Whole graphs, of exports that trace no nodes (``--cuda-graph-trace=graph``)."""
        columns = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid")
        for begin, end, device, stream, correlation, pid in self._read(GRAPHS, columns):
            if begin is not None:
                self._work(Launch("graph", "graph"), begin, end, correlation, pid, device, stream, 0)

    def _work(
        self, launch: Launch, begin: int, end: int | None, correlation: int | None, pid: int | None, device: int | None, stream: int | None,
        moved: int,
    ) -> None:  # fmt: skip
        process = (pid or 0) >> 24
        label, gpu = (
            self._gpus.get((process & _PROCESS, device or 0))
            or self._gpus.get((None, device or 0))
            or (str(device or 0), "")
        )
        kind = "" if stream is None else "default" if stream in _DEFAULT_STREAMS else "other"
        launch = msgspec.structs.replace(launch, device=label, stream_kind=kind)
        number = self.assembly.device(label, gpu)
        self.assembly.work(launch, begin, end, self._joint(correlation, process), number, stream or 0, moved)

    def _calls(self) -> None:
        for begin, correlation, thread in self._read(CALLS, ("start", "correlationId", "globalTid")):
            joint = self._joint(correlation, (thread or 0) >> 24)
            if begin is not None and joint is not None:
                self.assembly.call(begin, thread, joint)

    def _ranges(self) -> None:
        for begin, end, kind, thread, number, text in self._read(
            RANGES, ("start", "end", "eventType", "globalTid", "textId", "text"), texts=("text",)
        ):
            name = text if isinstance(text, str) and text else self._name(number)
            if kind in _RANGE_TYPES and begin is not None and end is not None and end >= begin and name:
                self.assembly.range(begin, end, thread, name)

    def _joint(self, correlation: int | None, process: int) -> int | None:
        """A number of the correlation that no other process has."""
        if correlation is None or not 0 < correlation < 1 << 40:
            return None
        return (self._processes.setdefault(process, len(self._processes)) << 40) + correlation

    def _read(self, table: str, columns: tuple[str, ...], texts: tuple[str, ...] = ()) -> Iterator[list[Any]]:
        """Rows of a table, NULL for columns that it lacks; [] where it is none. Numbers are whole and bounded, or
        None."""
        if table not in self.tables:
            return
        there = {name for _, name, *_ in self.database.execute(f"pragma table_info({table})")}
        if "start" in columns and "start" not in there:
            raise ProductionError(f"{self.path}: table {table} lacks the column start")
        asked = ", ".join(f'"{name}"' if name in there else "null" for name in columns)
        is_text = [name in texts for name in columns]
        for row in self.database.execute(f"select {asked} from {table}"):
            self.rows += 1
            yield [
                value if text or (type(value) is int and -_MOST_NUMBER < value < _MOST_NUMBER) else None
                for value, text in zip(row, is_text)
            ]

    def _name(self, number: int | None) -> str:
        if number is None or "StringIds" not in self.tables:
            return ""
        if (found := self._names.get(number)) is None:
            row = self.database.execute("select value from StringIds where id = ?", (number,)).fetchone()
            found = cut(row[0]) if row and isinstance(row[0], str) else ""
            if len(self._names) < _MOST_KEPT_NAMES:
                self._names[number] = found
        return found

    def _told_gpus(self) -> dict[tuple[int | None, int], tuple[str, str]]:
        """By (process or None, CUDA's number): which GPU of the machine, and its model."""
        names: dict[int, str] = {}
        found: dict[tuple[int | None, int], tuple[str, str]] = {}
        for number, cuda, name in self._read("TARGET_INFO_GPU", ("id", "cuDevice", "name"), texts=("name",)):
            if number is not None and isinstance(name, str):
                names[number] = cut(name)
                found[None, number if cuda is None else cuda] = str(number), cut(name)
        for gpu, cuda, pid in self._read("TARGET_INFO_CUDA_DEVICE", ("gpuId", "cudaId", "pid")):
            if gpu is not None and cuda is not None and pid is not None and gpu in names:
                found[pid & _PROCESS, cuda] = str(gpu), names[gpu]
        return found
