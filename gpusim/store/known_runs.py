"""Which runs a store holds, asked of its file alone: a slip of the pen is told before the database library is loaded.

Mental model: an SQLite store answers one query through Python's own ``sqlite3``, opened for reading. Whatever is not as
plain as that (a server, another schema, a locked, damaged or missing file that somebody may not read) is left to
:class:`gpusim.store.store.Store`, which says what is wrong with it. What both say of a run that is not there stands
here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from gpusim.errors import UnknownRunError
from gpusim.io.nearest import hint
from gpusim.store.place import store_text

#: Versions of the schema whose table of runs has the columns that are asked for: all so far.
_VERSIONS = (1, 2, 3, 4, 5)
FINISHED = "finished"
_LOCK_SECONDS = 0.1


@dataclass(frozen=True)
class KnownRuns:
    """What the store at ``path`` holds: (number, name, state) of each run; ``exists``: there is a store at all."""

    path: str
    runs: Sequence[tuple[int, str, str]] = ()
    exists: bool = True

    def refuse_unknown(self, key: str) -> None:
        """Raise UnknownRunError unless ``key`` is the number or the name of a run that can be loaded."""
        if not self.exists:
            raise nothing_kept(key, self.path)
        if key.isdecimal():
            if not any(number == int(key) for number, _, _ in self.runs):
                raise no_such_number(key, self.path)
            return
        named = [(number, state) for number, name, state in self.runs if name == key]
        if any(state == FINISHED for _, state in named):
            return
        if named:
            raise never_finished(key, named[-1][0])
        raise no_such_name(key, self.names(), self.path)

    def names(self) -> list[str]:
        """The names of runs, sorted."""
        return sorted({name for _, name, _ in self.runs if name})


def known_runs() -> KnownRuns | None:
    """What this user's store holds; None where that takes more than a look at a file."""
    path = store_text()
    if "://" in path:
        return None
    try:
        before = _state(path)
    except FileNotFoundError:
        return KnownRuns(path, exists=False)
    except OSError:
        return None
    try:
        # A reader of a log makes that log's files where there are none, and leaves them: without a log the file is all
        # there is.
        how = "mode=ro" if before.log else "mode=ro&immutable=1"
        connection = sqlite3.connect(f"file:{quote(path)}?{how}", uri=True, timeout=_LOCK_SECONDS)
        try:
            versions = connection.execute("SELECT version FROM gpusim_store").fetchall()
            if len(versions) != 1 or versions[0][0] not in _VERSIONS:
                return None
            rows = connection.execute("SELECT id, name, state FROM runs ORDER BY id").fetchall()
        finally:
            connection.close()
        # A file that is read as one that never changes is not locked: if somebody wrote to it meanwhile, the rows may
        # be wrong.
        if not before.log and _state(path) != before:
            return None
    except (sqlite3.Error, OverflowError, OSError):
        return None
    if not all(isinstance(n, int) and isinstance(name, str) and isinstance(state, str) for n, name, state in rows):
        return None
    return KnownRuns(path, rows)


class _State(NamedTuple):
    """What of a store's files a writer changes; ``log``: there is a write-ahead log."""

    size: int
    changed_ns: int
    number: int
    log: bool


def _state(path: str) -> _State:
    """Of the store at ``path`` now. Raises OSError."""
    # The log is looked for first: a writer that ends between the two has changed the file by then.
    log = Path(f"{path}-wal").exists()
    stat = Path(path).stat()
    return _State(stat.st_size, stat.st_mtime_ns, stat.st_ino, log)


def refuse_unknown_runs(keys: Iterable[str]) -> None:
    """Raise UnknownRunError for the first of ``keys`` that names no run of this user's store, as far as its file
    tells."""
    keys = list(keys)
    known = known_runs() if keys else None
    if known is not None:
        for key in keys:
            known.refuse_unknown(key)


def nothing_kept(key: str, store: str) -> UnknownRunError:
    """There is no store yet."""
    return UnknownRunError(f"no run {key!r}: nothing has been kept in {store} yet")


def no_such_number(key: str, store: str) -> UnknownRunError:
    """A number that no run has."""
    return UnknownRunError(f"{store} holds no run {key}; see gpusim runs list")


def never_finished(key: str, number: int) -> UnknownRunError:
    """All runs of a name broke off, the last of them ``number``."""
    return UnknownRunError(
        f"no run {key!r} was finished; what was kept of it before it broke off: gpusim runs show {number}"
    )


def no_such_name(key: str, names: Sequence[str], store: str) -> UnknownRunError:
    """A name that no run has."""
    return UnknownRunError(f"{store} holds no run {key!r}; {hint(key, names, 'gpusim runs list names them')}")
