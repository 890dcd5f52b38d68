"""What a collector has, in one SQLite file: totals, which batches are in them, and what waits to be forwarded.

Mental model: everything that a batch changes is one transaction, synchronous with the disk: its rows are added, its
number is noted under its source, and the rows are added once more to what is to be forwarded. So a batch is in all
three or in none, a batch that comes again is known by its number, and what is acknowledged after the commit is on the
disk. Forwarded batches have numbers of their own and stay until the next collector has acknowledged them.

Raises CollectError where the file cannot be written (a full disk); nothing of the transaction is then there.
"""

from __future__ import annotations

import os
import sqlite3
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gpusim.collect.totals import Total, anywhere, summed
from gpusim.errors import CollectError
from gpusim.record.wire import MOST_FRAME_BYTES

NAME = "collect.sqlite"
_SCHEMA = """
create table if not exists facts (name text primary key, value blob not null) without rowid;
create table if not exists seen (source blob primary key, number integer not null, minute integer not null) without rowid;
create table if not exists totals (digest blob primary key, minute integer not null, minutes integer not null, gpu text not null,
  cost integer not null, body blob not null) without rowid;
create index if not exists totals_minute on totals (minutes, minute);
create table if not exists pending (digest blob primary key, body blob not null) without rowid;
create table if not exists outbox (number integer primary key autoincrement, body blob not null);
"""
#: A forwarded message leaves room for what stands around its rows.
MESSAGE_BYTES = MOST_FRAME_BYTES // 2
_decoder = msgspec.msgpack.Decoder(Total)
_encode = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True)
class Incoming:
    """A batch to be added: ``source`` is who sent it (its user is part of it), ``number`` counts up within it."""

    source: bytes
    number: int
    totals: Sequence[Total]
    dropped: int = 0


class Ledger:
    """The file, open. One thread at a time uses it."""

    def __init__(self, folder: Path, forwards: bool = False, most_pages: int | None = None, coarse: bool = False):
        """``forwards``: keep what comes for the next collector too; ``coarse``: without GPU, rank and container.
        ``most_pages``: a limit of the file, for tests of a full disk."""
        self.forwards, self.coarse = forwards, coarse
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.path = path = folder / NAME
            os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=20)
            self._db.execute("pragma journal_mode=wal")
            self._db.execute("pragma synchronous=full")
            if most_pages is not None:
                self._db.execute(f"pragma max_page_count={most_pages:d}")
            self._db.executescript(_SCHEMA)
            with self._transaction():
                self._db.execute("insert or ignore into facts values ('source', ?)", (uuid.uuid4().bytes,))
        except (sqlite3.Error, OSError) as error:
            raise CollectError(f"{folder} cannot be the collector's folder: {error}") from error
        self.source: bytes = self._db.execute("select value from facts where name = 'source'").fetchone()[0]

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def add(self, batches: Iterable[Incoming], taken: list[Incoming] | None = None) -> int:
        """Add what is new, all or nothing; the number of batches that were, which ``taken`` gets."""
        new = list[Incoming]()
        with self._transaction():
            arrived: list[Total] = []
            for batch in batches:
                row = self._db.execute("select number from seen where source = ?", (batch.source,)).fetchone()
                if row is not None and batch.number <= row[0]:
                    continue
                new.append(batch)
                arrived += batch.totals
                minute = int(time.time() // 60)
                self._db.execute(
                    "insert into seen values (?1, ?2, ?3) on conflict (source) do update set number = ?2, minute = max(minute, ?3)",
                    (batch.source, batch.number, minute),
                )
                if batch.dropped:
                    self._count("dropped", batch.dropped)
            if arrived:
                by_key = summed(arrived)
                self._merge("totals", by_key)
                if self.forwards:
                    self._merge("pending", summed(map(anywhere, arrived)) if self.coarse else by_key)
        if taken is not None:
            taken += new
        return len(new)

    def fact(self, name: str) -> int:
        """A counter: "dropped" launches."""
        with self._reading():
            row = self._db.execute("select value from facts where name = ?", (name,)).fetchone()
        return row[0] if row else 0

    def totals(self, least_minute: int = 0, most_minute: int = 1 << 40) -> Iterator[Total]:
        """All that is kept of these minutes, one key after another."""
        with self._reading():
            for (body,) in self._db.execute(
                "select body from totals where minute >= ? and minute <= ?", (least_minute, most_minute)
            ):
                yield _decoder.decode(body)

    def lengths(self) -> list[int]:
        """The spans of time, in minutes, that totals stand for."""
        found = list[int]()
        while True:
            with self._reading():
                row = self._db.execute(
                    "select min(minutes) from totals where minutes > ?", (found[-1] if found else 0,)
                ).fetchone()
            if row[0] is None:
                return found
            found.append(row[0])

    def spans(self, minutes: int, most_minute: int, more_than: int = 0) -> list[int]:
        """First minutes, until ``most_minute``, of the spans of that length that have more than so many keys: only the
        index is read."""
        with self._reading():
            found = self._db.execute(
                "select minute from totals where minutes = ? and minute <= ? group by minute having count(*) > ?",
                (minutes, most_minute, more_than),
            )
            return [minute for (minute,) in found]

    def span(self, minutes: int, least_minute: int, most_minute: int) -> list[Total]:
        """All that begins in these minutes and stands for so many."""
        with self._reading():
            found = self._db.execute(
                "select body from totals where minutes = ? and minute between ? and ?",
                (minutes, least_minute, most_minute),
            )
            return [_decoder.decode(body) for (body,) in found]

    def forget(self, minute: int) -> None:
        """What ended before ``minute``, and who has sent nothing since."""
        lengths = self.lengths()
        with self._transaction():
            for minutes in lengths:
                self._db.execute("delete from totals where minutes = ? and minute < ?", (minutes, minute - minutes))
            self._db.execute("delete from seen where minute < ?", (minute,))

    def seal(self) -> int:
        """Put what waits into numbered messages for the next collector; how many wait in all."""
        with self._transaction():
            message: list[bytes] = []
            size = 0
            for (body,) in self._db.execute("select body from pending").fetchall():
                if size + len(body) > MESSAGE_BYTES and message:
                    self._post(message)
                    message, size = [], 0
                message.append(body)
                size += len(body)
            if message:
                self._post(message)
                self._db.execute("delete from pending")
        return self._db.execute("select count(*) from outbox").fetchone()[0]

    def first_message(self) -> tuple[int, bytes] | None:
        """The oldest message that is not acknowledged: its number, and its totals as MessagePack."""
        with self._reading():
            return self._db.execute("select number, body from outbox order by number limit 1").fetchone()

    def acknowledged(self, number: int) -> None:
        """The next collector has it."""
        with self._transaction():
            self._db.execute("delete from outbox where number = ?", (number,))

    def replace(self, gone: Iterable[bytes], by_key: dict[bytes, Total]) -> None:
        """Take totals out and add others in their place, at once: roll-up."""
        with self._transaction():
            self._db.executemany("delete from totals where digest = ?", ((digest,) for digest in gone))
            self._merge("totals", by_key)

    def _post(self, message: list[bytes]) -> None:
        self._db.execute("insert into outbox (body) values (?)", (_array(message),))

    def _count(self, name: str, more: int) -> None:
        self._db.execute(
            "insert into facts values (?1, ?2) on conflict (name) do update set value = value + ?2", (name, more)
        )

    def _merge(self, table: str, by_key: dict[bytes, Total]) -> None:
        for digest, total in by_key.items():
            row = self._db.execute(f"select body from {table} where digest = ?", (digest,)).fetchone()
            if row is not None:
                there = _decoder.decode(row[0])
                there.add(total)
                total = there
            if table == "pending":
                self._db.execute("insert or replace into pending values (?, ?)", (digest, _encode(total)))
            else:
                what = total.what
                self._db.execute(
                    "insert or replace into totals values (?, ?, ?, ?, ?, ?)",
                    (digest, what.minute, what.minutes, what.gpu, min(int(total.weighted_ns), 1 << 62), _encode(total)),
                )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self._db.execute("begin immediate")
            try:
                yield
                self._db.execute("commit")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("rollback")
                raise
        except (sqlite3.Error, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise CollectError(f"the collector's file cannot be written: {error}; nothing was acknowledged") from error

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise CollectError(f"{self.path} cannot be read: {error}") from error


def _array(encoded: Sequence[bytes]) -> bytes:
    """A MessagePack array of values that are encoded already."""
    return b"\xdd" + len(encoded).to_bytes(4, "big") + b"".join(encoded)
