"""Where the live chunks of a trace lie while their blocks run: a few growing tables with holes.

Mental model: blocks of several chunks run at once, but a jitted loop wants one array. So each chunk is
copied into shared tables at an offset, used by ``table[base + i]``, and freed when its last block has
finished; its place is then given to a later chunk. Memory follows the blocks in flight, not the launch.
A block that goes on in later chunks has a row for each warp in each of them; :mod:`gpusim.engine.supply` links them.

Tables (int64): ``warps`` [n, WARP_ROW_COLUMNS]; ``runs`` [n, 3] first, count, mask; ``accesses`` [n, 3] address
(of a scattered one: its row), stride, mask; ``scattered`` [n, 32]. All positions are the tables' own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpusim.errors import TraceFormatError
from gpusim.trace.record import SCATTERED, Chunk

# columns of ``warps``: a warp's runs and first access in one chunk, the chunk's number, and the row to go on with
(W_RUN, W_RUN_END, W_ACCESS, W_PART, W_NEXT, WARP_ROW_COLUMNS) = range(6)
#: W_NEXT where there is no row: the warp ends here; it goes on in a chunk that is not here yet; nobody knows yet.
ENDS, NOT_HERE, UNKNOWN = -1, -2, -3


class Tables(NamedTuple):
    """The tables as the jitted loops see them."""

    warps: np.ndarray
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
        for i, (start, length) in enumerate(self.holes):  # noqa: B007 - both are used behind the loop
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
    runs: int
    accesses: int
    scattered: int


class Arena:
    """Live chunks of one launch; see the module's docstring."""

    def __init__(self) -> None:
        self._warps = _Table(WARP_ROW_COLUMNS, 256)
        self._runs = _Table(3, 256)
        self._accesses = _Table(3, 1024)
        self._scattered = _Table(32, 16)
        self.tables = self._snapshot()
        #: rises whenever ``tables`` was replaced
        self.version = 0

    def _snapshot(self) -> Tables:
        parts = (self._warps, self._runs, self._accesses, self._scattered)
        return Tables(*(part.rows for part in parts))

    def add(self, chunk: Chunk, number: int = 0) -> LiveChunk:
        """Copy chunk ``number`` in, each warp ending with it; raises TraceFormatError for a run without instructions."""
        if (chunk.runs["count"] < 1).any():
            raise TraceFormatError(f"chunk at block {chunk.first_block}: a run without instructions")
        runs = np.empty((len(chunk.runs), 3), np.int64)
        for column, name in enumerate(("first", "count", "mask")):
            runs[:, column] = chunk.runs[name]
        run_base = self._runs.place(runs)
        scatter_base = self._scattered.place(np.ascontiguousarray(chunk.scattered).view(np.int64).reshape(-1, 32))
        accesses = np.empty((len(chunk.accesses), 3), np.int64)
        accesses[:, 0] = chunk.accesses["address"].astype(np.int64)
        accesses[:, 1] = chunk.accesses["stride"]
        accesses[:, 2] = chunk.accesses["mask"]
        if scatter_base and len(chunk.scattered):
            accesses[accesses[:, 1] == SCATTERED, 0] += scatter_base
        access_base = self._accesses.place(accesses)
        warps = np.empty((len(chunk.warps), WARP_ROW_COLUMNS), np.int64)
        path = chunk.warps["path"]
        warps[:, W_RUN] = chunk.path_start[path]
        warps[:, W_RUN_END] = chunk.path_start[path + np.uint32(1)]
        warps[:, (W_RUN, W_RUN_END)] += run_base
        warps[:, W_ACCESS] = chunk.warps["access_start"].astype(np.int64) + access_base
        warps[:, W_PART], warps[:, W_NEXT] = number, ENDS
        live = LiveChunk(
            chunk.first_block,
            chunk.blocks,
            (len(warps), len(runs), len(accesses), len(chunk.scattered)),
            self._warps.place(warps),
            run_base,
            access_base,
            scatter_base,
        )
        tables = self._snapshot()
        if any(new is not old for new, old in zip(tables, self.tables, strict=True)):
            self.tables = tables
            self.version += 1
        return live

    def free(self, live: LiveChunk) -> None:
        """All blocks of the chunk are done: give its place back."""
        starts = (live.warps, live.runs, live.accesses, live.scattered)
        tables = (self._warps, self._runs, self._accesses, self._scattered)
        for table, start, rows in zip(tables, starts, live.rows, strict=True):
            table.free(start, rows)
