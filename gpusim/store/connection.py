"""Connections to the store: how they are opened, how transactions begin, and what their errors mean.

Mental model: an SQLite store is in WAL mode, so that readers never wait; a writer takes the only write lock at the
start of its transaction (BEGIN IMMEDIATE) and waits for it up to :data:`BUSY_SECONDS`; a commit is on the disk before
it returns (synchronous=FULL), so a process may be killed, or the machine lose power, at any moment. A store that
cannot be written is opened for reading only. WAL needs shared memory between processes: an SQLite store on a network
drive is not safe with writers on several machines; that is what PostgreSQL is for.

Errors become one-line :class:`StoreError` (could not be read or written) or :class:`StoreFormatError` (damaged, or
not a store).
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from gpusim.errors import StoreError, StoreFormatError, ToolchainError
from gpusim.store.location import store_name
from gpusim.store.place import VARIABLE

BUSY_SECONDS = 30.0
_PAUSE_SECONDS = 0.01
_WRITES = "gpusim_writes"
#: Of a database's own message so much is shown.
_MOST_LETTERS = 200


def open_engine(url: URL) -> Engine:
    """An engine for the store at ``url``; connects to nothing yet. Raises ToolchainError without PostgreSQL's
    driver."""
    if url.get_backend_name() != "sqlite":
        try:
            # A server may have gone away between two writes of a long run: ask before using a connection.
            return create_engine(url, pool_pre_ping=True)
        except (ImportError, NoSuchModuleError) as error:
            raise ToolchainError(
                f"{store_name(url)}: PostgreSQL needs a driver: pip install 'gpusim[postgres]' ({error})"
            ) from None
    path = Path(str(url.database))

    def connect() -> sqlite3.Connection:
        writable = may_write(path)
        connection = _connected(_uri(path, writable)) if writable else _reader(path)
        connection.execute("PRAGMA foreign_keys=ON")
        if writable:
            _use_wal(connection)
            connection.execute("PRAGMA synchronous=FULL")
        return connection

    # One connection is kept: the last one to close folds the log into the file, which costs more than a commit.
    engine = create_engine("sqlite+pysqlite://", creator=connect, poolclass=QueuePool, pool_size=1, max_overflow=4)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get(_WRITES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def may_write(path: Path) -> bool:
    """Whether this process may write the SQLite file ``path`` and beside it, where WAL lies."""
    return os.access(path.parent, os.W_OK) and (not path.exists() or os.access(path, os.W_OK))


@contextlib.contextmanager
def transaction(engine: Engine, url: URL, *, write: bool) -> Iterator[Connection]:
    """A transaction: committed, and on the disk, when the block ends well, else without any effect."""
    with translating(url), engine.execution_options(**{_WRITES: write}).begin() as connection:
        yield connection


def refuse_damaged(path: Path, url: URL) -> None:
    """Raise StoreFormatError for an SQLite file that its own quick check finds damaged, before anything is written to
    it. Reads the whole file once, about a second a gigabyte from the system's cache."""
    if not path.exists() or not path.stat().st_size:
        return
    with translating(url), contextlib.closing(_reader(path)) as connection:
        found = [str(row[0]) for row in connection.execute("PRAGMA quick_check(1)")]
    if found != ["ok"]:
        raise StoreFormatError(
            f"{store_name(url)}: damaged ({_line('; '.join(found).splitlines()[-1])}); nothing was written: move it"
            f" away, or set {VARIABLE} to another file"
        )


def _connected(uri: str) -> sqlite3.Connection:
    # isolation_level None: the sqlite3 module begins no transactions of its own.
    return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)


def _reader(path: Path) -> sqlite3.Connection:
    """A connection that writes nothing. Where the index of a write-ahead log can neither be found nor made (a read-only
    file system), the file is read from a copy with its log."""
    connection = _connected(_uri(path, False))
    try:
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1")
    except sqlite3.OperationalError as error:
        connection.close()
        if not (error.sqlite_errorname or "").startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY")):
            raise
        folder = tempfile.TemporaryDirectory(prefix="gpusim-store-")
        atexit.register(folder.cleanup)
        copy = Path(folder.name, path.name)
        for end in ("", "-wal"):
            shutil.copyfile(f"{path}{end}", f"{copy}{end}")
        connection = _connected(_uri(copy, True))
    return connection


def _uri(path: Path, writable: bool) -> str:
    if writable:
        return f"file:{quote(str(path))}?mode=rwc"
    # Without a write-ahead log the file holds everything; with one its readers need it and its index beside it.
    beside = Path(f"{path}-wal")
    immutable = "" if beside.exists() and beside.stat().st_size else "&immutable=1"
    return f"file:{quote(str(path))}?mode=ro{immutable}"


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to WAL. SQLite does not wait by itself while another process is switching or creating."""
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname not in ("SQLITE_BUSY", "SQLITE_LOCKED") or time.monotonic() > until:
                raise
            time.sleep(_PAUSE_SECONDS)


@contextlib.contextmanager
def translating(url: URL) -> Iterator[None]:
    """Turn what a database raises into one error of ours that names the store and a remedy."""
    try:
        yield
    except sqlite3.Error as error:
        raise _of_sqlite(error, store_name(url)) from error
    except UnicodeDecodeError as error:
        raise StoreFormatError(f"{store_name(url)}: damaged: a text in it is none ({error.reason})") from error
    except SQLAlchemyError as error:
        cause = getattr(error, "orig", None)
        if isinstance(cause, sqlite3.Error):
            raise _of_sqlite(cause, store_name(url)) from error
        text = str(cause or error).strip()
        detail = _line(text.splitlines()[0]) if text else type(error).__name__
        raise StoreError(f"{store_name(url)}: {detail}; check {VARIABLE} and the server") from error


def _line(text: object) -> str:
    """A database's own words as a part of a message: they may quote what stands in a file, lines and escape sequences
    and all."""
    line = " ".join(str(text).split())
    line = "".join(letter if letter.isprintable() else "?" for letter in line)
    return line if len(line) <= _MOST_LETTERS else line[: _MOST_LETTERS - 3] + "..."


def _of_sqlite(error: sqlite3.Error, store: str) -> StoreError | StoreFormatError:
    name, said = getattr(error, "sqlite_errorname", None) or "", _line(error)
    elsewhere = f"or set {VARIABLE} to another file"
    # SQLITE_ERROR: the statement does not fit the tables, which are then not those that this version has made.
    unfit = name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")) or name == "SQLITE_ERROR"
    if unfit or not name and isinstance(error, sqlite3.DatabaseError):
        return StoreFormatError(f"{store}: damaged, or not a gpusim store ({said}); move it away, {elsewhere}")
    if name.startswith("SQLITE_FULL"):
        return StoreError(f"{store}: the disk is full, this was not stored; free some space, {elsewhere}")
    if name.startswith("SQLITE_CANTOPEN") and Path(store).is_dir():
        return StoreError(
            f"{store}: is a folder; name a file in it with {VARIABLE}, such as {Path(store, 'store.sqlite')}"
        )
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        return StoreError(f"{store}: cannot be written here ({said}); mend its permissions, {elsewhere}")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StoreError(
            f"{store}: other processes have kept it locked for {BUSY_SECONDS:g} s; try again, {elsewhere}"
        )
    if name.startswith("SQLITE_IOERR"):
        return StoreError(f"{store}: the file system failed ({said}), this was not stored; check the disk, {elsewhere}")
    return StoreError(f"{store}: {said}; check the disk, {elsewhere}")
