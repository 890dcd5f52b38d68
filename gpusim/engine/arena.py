"""Where the live chunks of a trace lie while their blocks run: a few growing tables with holes.

Mental model: blocks of several chunks run at once, but a jitted loop wants one array. So each chunk is
copied into shared tables at an offset, used by ``table[base + i]``, and freed when its last block has
finished; its place is then given to a later chunk. Memory follows the blocks in flight, not the launch.

Tables (int64): ``warps`` [n, 2] path and first access; ``paths`` [n, 2] first and end run (absolute);
``runs`` [n, 3] first, count, mask; ``accesses`` [n, 3] address, stride, mask; ``scattered`` [n, 32].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpusim.errors import TraceFormatError
from gpusim.trace.record import Chunk


class Tables(NamedTuple):
    """The tables as the jitted loops see them."""

    warps: np.ndarray
    paths: np.ndarray
    runs: np.ndarray
    accesses: np.ndarray
    scattered: np.ndarray


class _Table:
    """One growing table of rows with a list of holes, first fit."""

    def __init__(self, columns: int, rows: int) -> None:
        self.rows = np.zeros((rows, columns), np.int64)
        self.holes: list[tuple[int, int]] = [(0, rows)]  # (start, length), by start, never touching

    def place(self, rows: np.ndarray) -> int:
        """Copy ``rows`` in; returns their first row's number."""
        need = max(1, len(rows))
        for i, (start, length) in enumerate(self.holes):
            if length >= need:
                break
        else:
            size = len(self.rows)
            grown = np.zeros((2 * size + need, self.rows.shape[1]), np.int64)
            grown[:size] = self.rows
            self.rows = grown
            self.free(size, size + need)
            i, (start, length) = len(self.holes) - 1, self.holes[-1]
        if length == need:
            del self.holes[i]
        else:
            self.holes[i] = (start + need, length - need)
        self.rows[start : start + len(rows)] = rows
        return start

    def free(self, start: int, length: int) -> None:
        """Give rows back."""
        self.holes.append((start, max(1, length)))
        self.holes.sort()
        merged: list[tuple[int, int]] = []
        for begin, size in self.holes:
            if merged and merged[-1][0] + merged[-1][1] == begin:
                merged[-1] = (merged[-1][0], merged[-1][1] + size)
            else:
                merged.append((begin, size))
        self.holes = merged


@dataclass(frozen=True)
class LiveChunk:
    """A chunk in the arena: where its parts lie."""

    first_block: int
    blocks: int
    rows: tuple[int, ...]  # in each table, in the order of Tables
    warps: int
    paths: int
    runs: int
    accesses: int
    scattered: int


class Arena:
    """Live chunks of one launch; see the module's docstring."""

    def __init__(self) -> None:
        self._warps = _Table(2, 256)
        self._paths = _Table(2, 64)
        self._runs = _Table(3, 256)
        self._accesses = _Table(3, 1024)
        self._scattered = _Table(32, 16)
        self.tables = self._snapshot()
        #: rises whenever ``tables`` was replaced
        self.version = 0

    def _snapshot(self) -> Tables:
        parts = (self._warps, self._paths, self._runs, self._accesses, self._scattered)
        return Tables(*(part.rows for part in parts))

    def add(self, chunk: Chunk) -> LiveChunk:
        """Copy a chunk in; raises TraceFormatError for a path that executes nothing, on which a warp
        would never end."""
        if (np.diff(chunk.path_start) < 1).any() or (chunk.runs["count"] < 1).any():
            raise TraceFormatError(f"chunk at block {chunk.first_block}: a path or run without instructions")
        runs = np.empty((len(chunk.runs), 3), np.int64)
        for column, name in enumerate(("first", "count", "mask")):
            runs[:, column] = chunk.runs[name]
        run_base = self._runs.place(runs)
        paths = np.empty((len(chunk.path_start) - 1, 2), np.int64)
        paths[:, 0] = chunk.path_start[:-1]
        paths[:, 1] = chunk.path_start[1:]
        accesses = np.empty((len(chunk.accesses), 3), np.int64)
        accesses[:, 0] = chunk.accesses["address"].astype(np.int64)
        accesses[:, 1] = chunk.accesses["stride"]
        accesses[:, 2] = chunk.accesses["mask"]
        warps = np.empty((len(chunk.warps), 2), np.int64)
        warps[:, 0] = chunk.warps["path"]
        warps[:, 1] = chunk.warps["access_start"].astype(np.int64)
        live = LiveChunk(
            chunk.first_block,
            chunk.blocks,
            (len(chunk.warps), len(paths), len(runs), len(accesses), len(chunk.scattered)),
            self._warps.place(warps),
            self._paths.place(paths + run_base),
            run_base,
            self._accesses.place(accesses),
            self._scattered.place(np.ascontiguousarray(chunk.scattered).view(np.int64).reshape(-1, 32)),
        )
        tables = self._snapshot()
        if any(new is not old for new, old in zip(tables, self.tables, strict=True)):
            self.tables = tables
            self.version += 1
        return live

    def free(self, live: LiveChunk) -> None:
        """All blocks of the chunk are done: give its place back."""
        starts = (live.warps, live.paths, live.runs, live.accesses, live.scattered)
        tables = (self._warps, self._paths, self._runs, self._accesses, self._scattered)
        for table, start, rows in zip(tables, starts, live.rows, strict=True):
            table.free(start, rows)
