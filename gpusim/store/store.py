"""The store: stored runs, found again, compared with, and thrown away.

Mental model: a run is opened, gets its rows one transaction at a time, and is marked finished at the end; each
``add_*`` that has returned is there for good, whatever happens to the process. A name may be saved again: it stands
for the newest finished run of that name, the older ones stay until they are deleted. A store that does not exist yet
reads as empty; only writing creates it.

Raises StoreError, StoreFormatError (see :mod:`gpusim.store.connection`) and UnknownRunError.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from sqlalchemy import Connection, delete, func, select, text
from sqlalchemy.dialects import postgresql, sqlite

from gpusim import __version__
from gpusim.errors import GpusimError, StoreError, StoreFormatError
from gpusim.gpus.spec import GpuSpec
from gpusim.silicon.row import SiliconRow
from gpusim.store.connection import may_write, open_engine, refuse_damaged, transaction, translating
from gpusim.store.environment import environment, host_hash
from gpusim.store.hashes import gpu_hash, gpu_values, model_hash
from gpusim.store.known_runs import FINISHED, never_finished, no_such_name, no_such_number, nothing_kept
from gpusim.store.launch import SimulatedLaunch
from gpusim.store.location import store_name, store_url
from gpusim.store.migrations import migrate, refuse_old, stored_version
from gpusim.store.place import VARIABLE
from gpusim.store.run import (
    RunInfo,
    StoredRun,
    read_documents,
    read_gpu,
    read_info,
    read_launch,
    read_measurement,
    write_launch,
    write_measurement,
)
from gpusim.store.run_names import checked_name
from gpusim.store.schema import documents, gpus, launches, measurements, runs

OPEN, FAILED = "open", "failed"


def open_store(where: str | os.PathLike[str] | None = None) -> Store:
    """The store at ``where`` (a path or a ``postgresql://`` URL), by default of ``GPUSIM_STORE``, else the user's
    own."""
    return Store(where)


class RunWriter:
    """An open run. Each ``add_*`` is a transaction of its own; leaving the ``with`` block marks the run finished, or
    failed if by an exception."""

    def __init__(self, store: Store, run_id: int) -> None:
        self.id = run_id
        self._store = store

    def add_launches(self, rows: Iterable[SimulatedLaunch]) -> None:
        """Keep simulated launches, all or none of them."""
        self._add(launches, [write_launch(self.id, row) for row in rows])

    def add_measurements(self, rows: Iterable[SiliconRow]) -> None:
        """Keep measurements, all or none of them."""
        self._add(measurements, [write_measurement(self.id, row) for row in rows])

    def add_document(self, kind: str, content: Any) -> None:
        """Keep a value that JSON can hold, to be found again as ``documents[kind]`` of the loaded run."""
        self._add(documents, [{"run_id": self.id, "kind": kind, "content": json.dumps(content, allow_nan=False)}])

    def add_gpu(self, spec: GpuSpec) -> None:
        """Keep the figures of a machine that launches of this run name by its hash."""
        row = {"hash": gpu_hash(spec), "figures": json.dumps(gpu_values(spec))}
        with self._store.writing() as connection:
            insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
            connection.execute(insert(gpus).values(row).on_conflict_do_nothing())

    def _add(self, table: Any, rows: list[dict[str, Any]]) -> None:
        if rows:
            with self._store.writing() as connection:
                connection.execute(table.insert(), rows)

    def finish(self, state: str = FINISHED) -> None:
        """Mark the run, so that its name stands for it."""
        with self._store.writing() as connection:
            connection.execute(runs.update().where(runs.c.id == self.id).values(state=state, finished=_now()))

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, kind: type | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.finish()
        else:
            with contextlib.suppress(GpusimError):  # what made the run fail is the news
                self.finish(FAILED)


class Store:
    """A store, not connected until it is used; see :func:`open_store`."""

    def __init__(self, where: str | os.PathLike[str] | None = None) -> None:
        self.url = store_url(where)
        self.name = store_name(self.url)
        self._engine = open_engine(self.url)
        self._path = Path(str(self.url.database)) if self.url.get_backend_name() == "sqlite" else None
        self._ready = False
        self._checked = False  # its file, before the first write
        self._shared = threading.local()  # the transaction of one_reading, if this thread is in one

    def prepare(self) -> None:
        """Create or migrate the store if need be and take its write lock once: what cannot be kept later fails now,
        before hours of work."""
        with self.writing():
            pass

    def new_run(self, name: str = "", *, command: str, arguments: Sequence[str] = ()) -> RunWriter:
        """Begin a run of ``command`` with ``arguments``, called ``name`` unless that is empty."""
        values = {
            "name": checked_name(name) if name else "",
            "state": OPEN,
            "command": command,
            "arguments": json.dumps([str(argument) for argument in arguments]),
            "started": _now(),
            "finished": "",
            "gpusim_version": __version__,
            "model_hash": model_hash(),
            "host_hash": host_hash(),
            "environment": json.dumps(environment()),
        }
        with self.writing() as connection:
            key = connection.execute(runs.insert().values(values)).inserted_primary_key
        return RunWriter(self, int(key[0]))

    def list_runs(self, name: str | None = None) -> list[RunInfo]:
        """All runs, or those called ``name``, oldest first."""
        with self.reading() as connection:
            if connection is None:
                return []
            with self._named():
                return _infos(connection, [] if name is None else [runs.c.name == name])

    def find_run(self, key: str | int) -> RunInfo:
        """The run of that number, or the newest finished run of that name. Raises UnknownRunError."""
        with self.reading() as connection, self._named():
            return self._find(connection, str(key))

    def load_run(self, key: str | int) -> StoredRun:
        """The run that :meth:`find_run` finds, with its rows."""
        with self.reading() as connection, self._named():
            info = self._find(connection, str(key))
            rows = tuple(map(read_launch, _rows(connection, launches, info.id)))
            machines = select(gpus).where(gpus.c.hash.in_({row.gpu_hash for row in rows}))
            return StoredRun(
                info,
                rows,
                tuple(map(read_measurement, _rows(connection, measurements, info.id))),
                read_documents(_rows(connection, documents, info.id)),
                {row["hash"]: read_gpu(row) for row in connection.execute(machines).mappings()},
            )

    def delete_runs(self, numbers: Iterable[int]) -> int:
        """Delete runs by number, with their rows; returns how many there were."""
        wanted = list(numbers)
        with self.writing() as connection:
            return connection.execute(delete(runs).where(runs.c.id.in_(wanted))).rowcount

    def compact(self) -> None:
        """Give the room of deleted runs back to the file system (SQLite; a server does so by itself)."""
        if self._path is not None and self._path.exists():
            with translating(self.url), self._engine.connect() as connection:
                raw = connection.connection.driver_connection
                raw.execute("VACUUM")  # type: ignore[union-attr]
                raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # type: ignore[union-attr]

    def damage(self) -> str:
        """What SQLite's own check finds wrong with the file; empty where nothing is, or on a server."""
        if self._path is None or not self._path.exists():
            return ""
        with self.reading() as connection:
            found = connection.execute(text("PRAGMA integrity_check")).scalars().all()
        return "" if found == ["ok"] else "; ".join(map(str, found))

    def close(self) -> None:
        """Close the connections; the store may be used again."""
        self._engine.dispose()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def one_reading(self) -> Iterator[None]:
        """A block in which every :meth:`reading` of this thread is the same transaction: what reads often, and writes
        nothing, begins and ends one instead of many."""
        with self.reading() as connection:
            before = getattr(self._shared, "connection", None)
            self._shared.connection = connection
            try:
                yield
            finally:
                self._shared.connection = before

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection | None]:
        """A transaction that sees one state of the store; None where there is no store yet."""
        shared = getattr(self._shared, "connection", None)
        if shared is not None:
            with translating(self.url):
                yield shared
            return
        if self._path is not None and not self._path.exists():
            yield None
            return
        if not self._ready:
            with transaction(self._engine, self.url, write=False) as connection:
                version = stored_version(connection, self.name)
            if version == 0:
                yield None
                return
            self._prepare(version)
        with transaction(self._engine, self.url, write=False) as connection:
            yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that holds the write lock, in a store that is created or migrated if need be."""
        self._make_folder()
        if self._path is not None and not self._checked:
            refuse_damaged(self._path, self.url)
        self._checked = True
        if not self._ready:
            self._prepare(None)
        with transaction(self._engine, self.url, write=True) as connection:
            yield connection

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Put the store's name before what is wrong with one of its rows."""
        try:
            yield
        except StoreFormatError as error:
            raise StoreFormatError(str(error) if self.name in str(error) else f"{self.name}: {error}") from None

    def _prepare(self, version: int | None) -> None:
        """Bring the schema up to date; ``version`` is the stored one where it is known."""
        if version is not None and self._path is not None and not may_write(self._path):
            refuse_old(version, self.name)
        else:
            with transaction(self._engine, self.url, write=True) as connection:
                migrate(connection, self.name)
        self._ready = True

    def _make_folder(self) -> None:
        if self._path is None:
            return
        advice = f"; mend it, or set {VARIABLE} to another file"
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{self.name}: its folder cannot be made ({error.strerror or error}){advice}") from None
        if not may_write(self._path):
            raise StoreError(f"{self.name}: this file or its folder may not be written by this user{advice}")

    def _find(self, connection: Connection | None, key: str) -> RunInfo:
        if connection is None:
            raise nothing_kept(key, self.name)
        if key.isdecimal():
            found = _infos(connection, [runs.c.id == int(key)]) if len(key) < 19 else []
            if not found:
                raise no_such_number(key, self.name)
            return found[0]
        named = (
            _infos(connection, [runs.c.name == key]) if key.isprintable() else []
        )  # no run is called what is no text
        finished = [info for info in named if info.state == FINISHED]
        if finished:
            return finished[-1]
        if named:
            raise never_finished(key, named[-1].id)
        names = sorted(set(connection.execute(select(runs.c.name).where(runs.c.name != "")).scalars()))
        raise no_such_name(key, names, self.name)


def _infos(connection: Connection, conditions: list[Any]) -> list[RunInfo]:
    counts = [
        select(func.count()).select_from(table).where(table.c.run_id == runs.c.id).scalar_subquery()
        for table in (launches, measurements)
    ]
    query = select(runs, counts[0].label("n_launches"), counts[1].label("n_measurements"))
    rows = connection.execute(query.where(*conditions).order_by(runs.c.id)).mappings()
    return [read_info(row, row["n_launches"], row["n_measurements"]) for row in rows]


def _rows(connection: Connection, table: Any, run_id: int) -> Any:
    return connection.execute(select(table).where(table.c.run_id == run_id).order_by(table.c.id)).mappings()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
