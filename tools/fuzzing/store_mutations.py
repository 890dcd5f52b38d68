"""Mutations of a store: a cell, a column or a pragma of the SQLite file changes, and SQLite writes it; else its bytes
do."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random

from fuzzing.byte_mutations import NUMBERS, WHOLE, WORDS, mutate_bytes
from fuzzing.json_mutations import mutate_json, one_of

_SHARED = "/dev/shm"


def mutate_store(data: bytes, rng: Random, others: Sequence[bytes]) -> bytes:
    """Another store; a third of the time other bytes."""
    if rng.random() < 0.3:
        return mutate_bytes(data, rng, others)
    with tempfile.TemporaryDirectory(dir=_SHARED if os.path.isdir(_SHARED) else None) as folder:
        path = Path(folder) / "store.sqlite"
        path.write_bytes(data)
        with contextlib.suppress(sqlite3.Error, OverflowError, UnicodeError):
            connection = sqlite3.connect(path)
            try:
                connection.execute("PRAGMA journal_mode=DELETE")
                _mutate(connection, rng)
                connection.commit()
            finally:
                connection.close()
        return path.read_bytes()


def _mutate(connection: sqlite3.Connection, rng: Random) -> None:
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table' ORDER BY name")]
    table = rng.choice([name for name in tables if not name.startswith("sqlite_")])
    columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
    column = rng.choice(columns)
    what = rng.random()
    if what < 0.75:
        rows = connection.execute(f'SELECT rowid, "{column}" FROM "{table}"').fetchall()
        if rows:
            row, value = rng.choice(rows)
            connection.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?', (_other(value, rng), row))
    elif what < 0.8:
        connection.execute(f'ALTER TABLE "{table}" DROP COLUMN "{column}"')
    elif what < 0.85:
        connection.execute(f'DROP TABLE "{table}"')
    elif what < 0.9:
        connection.execute(f'DELETE FROM "{table}"')
    elif what < 0.95:
        connection.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "x{column}"')
    else:
        connection.execute(
            f"PRAGMA {rng.choice(('user_version', 'application_id', 'schema_version'))} = {rng.choice(WHOLE[:25])}"
        )


def _other(value: object, rng: Random) -> object:
    if isinstance(value, str) and value[:1] in "[{" and rng.random() < 0.7:
        return mutate_json(value.encode(), rng, ()).decode("utf-8", "replace")
    if isinstance(value, bytes) and rng.random() < 0.7:
        return mutate_bytes(value, rng, ())
    numbers = rng.choice(WHOLE[:-3]), -1, 0.5, float("inf"), rng.choice(NUMBERS)
    return one_of(rng, None, *numbers, rng.choice(WORDS[:8]), b"\xff\x00", b"")
