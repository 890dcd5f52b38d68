"""A store on a disk that loses power: what is left of the files at any moment of a writer's life.

Mental model: a writer runs with ``power_loss.c`` loaded before it, which notes every write and every request to have a
file on the disk, in order. What a crash after the k-th event leaves: all that a file had been written before it was
last synced, and of what was written since, any sectors or none (a disk may write them in any order); a file that was
removed is gone for certain once its folder was synced. Acknowledgements of committed transactions are writes to a file
of their own, so the same order says what had been promised by then.

Run as a program, it is the writer: ``power_loss.py STORE ACKNOWLEDGEMENTS [PRAGMA=VALUE]``, where a pragma replaces
what the store asks of SQLite, to see that a store that asks for less is caught.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")
WRITE, TRUNCATE, SYNC, UNLINK = 1, 2, 3, 4
ACKNOWLEDGEMENT = struct.Struct("<qq")  # number of the run, launches of it that have been committed
STORE, TOLD = "store.sqlite", "told"
SECTOR_BYTES = 512
OPENINGS, TRANSACTIONS, LAUNCHES_AT_ONCE = 3, 6, 10
_HEAD = struct.Struct("<IIQQ")


@dataclass(frozen=True)
class Event:
    """One thing that the disk was asked for; ``offset`` is the new length for TRUNCATE."""

    kind: int
    name: str
    offset: int
    data: bytes


def compiler() -> str | None:
    """A C compiler, or None."""
    return shutil.which("cc") or shutil.which("gcc")


def watched_writer(folder: Path, pragma: str = "") -> list[Event]:
    """What a writer of some runs asked of the disk, in order."""
    library, log, files = folder / "power_loss.so", folder / "log", folder / "files"
    files.mkdir()
    subprocess.run(
        [compiler(), "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl"], check=True, capture_output=True
    )
    here = Path(__file__)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(here.parents[2]), str(here.parent)]),
        "LD_PRELOAD": str(library),
        "GPUSIM_DISK_FOLDER": str(files),
        "GPUSIM_DISK_LOG": str(log),
    }
    command = [sys.executable, str(here), str(files / STORE), str(files / TOLD), *filter(None, [pragma])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return _read(log.read_bytes())


def _read(log: bytes) -> list[Event]:
    events, at = [], 0
    while at < len(log):
        kind, name_bytes, offset, size = _HEAD.unpack_from(log, at)
        at += _HEAD.size
        name, data = log[at : at + name_bytes].decode(), log[at + name_bytes : at + name_bytes + size]
        events.append(Event(kind, name, offset, data))
        at += name_bytes + size
    return events


def promised(events: Sequence[Event], crash: int) -> dict[int, int]:
    """Launches by run that had been acknowledged before event ``crash``."""
    told = b"".join(event.data for event in events[:crash] if event.name == TOLD)
    return {run: rows for run, rows in ACKNOWLEDGEMENT.iter_unpack(told)}


def after_crash(events: Sequence[Event], crash: int, survives: float, chance: random.Random, folder: Path) -> None:
    """Write into ``folder`` what a crash before event ``crash`` leaves of the store; of what was not synced, each
    sector survives with probability ``survives``."""
    files: dict[str, bytearray] = {}

    def entries_synced(index: int) -> bool:
        return any(later.kind == SYNC and not later.name for later in events[index:crash])

    for index, event in enumerate(events[:crash]):
        if event.name in (TOLD, "") or event.name.endswith("-shm"):
            continue
        synced = any(later.kind == SYNC and later.name == event.name for later in events[index:crash])
        kept = files.setdefault(event.name, bytearray())
        if event.kind == WRITE:
            for start in range(0, len(event.data), SECTOR_BYTES):
                if synced or chance.random() < survives:
                    _put(kept, event.offset + start, event.data[start : start + SECTOR_BYTES])
        elif event.kind == TRUNCATE and (synced or chance.random() < survives):
            del kept[event.offset :]
            kept.extend(bytes(event.offset - len(kept)))
        elif event.kind == UNLINK and (entries_synced(index) or chance.random() < survives):
            del files[event.name]
    for name, data in files.items():
        (folder / name).write_bytes(data)


def _put(kept: bytearray, offset: int, data: bytes) -> None:
    kept.extend(bytes(max(0, offset + len(data) - len(kept))))
    kept[offset : offset + len(data)] = data


def what_is_wrong(folder: Path, expected: dict[int, int]) -> str:
    """What a store that came up after a crash lacks or has torn; empty if nothing. SQLite alone looks at it."""
    path = folder / STORE
    if not path.exists() or not path.stat().st_size:
        return "the store is gone" if expected else ""
    with sqlite3.connect(path) as connection:
        try:
            found = connection.execute("PRAGMA integrity_check").fetchall()
            if found != [("ok",)]:
                return f"damaged: {found[0][0]}"
            kept = dict(connection.execute("SELECT run_id, count(*) FROM launches GROUP BY run_id").fetchall())
        except sqlite3.DatabaseError as error:
            return f"unreadable: {error}" if expected else ""
    torn = {run: rows for run, rows in kept.items() if rows % LAUNCHES_AT_ONCE}
    lost = {run: rows for run, rows in expected.items() if kept.get(run, 0) < rows}
    return f"half a transaction: {torn}" if torn else f"lost: {lost}" if lost else ""


def _write(where: str, told: str, pragma: str) -> None:
    from store_examples import example_launch

    from gpusim.store import connection, open_store

    if pragma:
        name = pragma.partition("=")[0]

        class Weaker(sqlite3.Connection):
            def execute(self, text, *parameters):
                return super().execute(f"PRAGMA {pragma}" if text.startswith(f"PRAGMA {name}=") else text, *parameters)

        strong = sqlite3.connect
        connection.sqlite3.connect = lambda *arguments, **keywords: strong(*arguments, **keywords, factory=Weaker)
    stream = os.open(told, os.O_WRONLY | os.O_CREAT, 0o600)
    for _ in range(OPENINGS):  # the last connection to close folds the log into the file
        with open_store(where) as store, store.new_run("kept", command="test") as run:
            for number in range(1, TRANSACTIONS + 1):
                run.add_launches([example_launch(index) for index in range(LAUNCHES_AT_ONCE)])
                os.write(stream, ACKNOWLEDGEMENT.pack(run.id, number * LAUNCHES_AT_ONCE))


if __name__ == "__main__":
    _write(sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else "")
