"""Where the live chunks of a trace lie while their blocks run: a few growing tables with holes.

Mental model: blocks of several chunks run at once, but a jitted loop wants one array. So each chunk is
copied into shared tables at an offset, used by ``table[base + i]``, and freed when its last block has
finished; its place is then given to a later chunk. Memory follows the blocks in flight, not the launch.
A block that goes on in later chunks has a row for each warp in each of them; :mod:`gpusim.engine.supply` links them.

The tables are those of :mod:`gpusim.model.trace_tables`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gpusim.errors import TraceFormatError
from gpusim.io.jit_direct import direct
from gpusim.model.compiled import compiled
from gpusim.model.lane_patterns import find_patterns
from gpusim.model.trace_tables import (
    A_ADDRESS,
    A_BULK,
    A_MASK,
    A_SIGNAL,
    A_STRIDE,
    ACCESS_TABLE,
    B_ADDRESS,
    B_BLOCKS,
    B_BYTES,
    B_COUNT,
    B_KIND,
    B_MAPPED,
    B_MORE,
    B_ROW_BYTES,
    B_STRIDE,
    BULK_TABLE,
    ENDS,
    G_ADDRESS,
    G_BLOCK,
    G_COUNT,
    G_LINE,
    G_MORE,
    G_POLLS,
    G_WARP,
    G_WORD,
    LANES,
    ROW_TABLE,
    RUN_COUNT,
    RUN_FIRST,
    RUN_MASK,
    RUN_POLL,
    RUN_TABLE,
    SCATTER_TABLE,
    SIGNAL_TABLE,
    W_ACCESS,
    W_NEXT,
    W_PART,
    W_POLLS,
    W_RUN,
    W_RUN_END,
    Tables,
)
from gpusim.state_tables import Table
from gpusim.trace.record import ACCESS, SCATTERED, Chunk

#: Of a table at most; larger ones grow.
_MOST_RESERVED_BYTES = 256 << 20


@compiled
def _take_accesses(words, accesses):
    """Fill ``accesses``, int64[n, columns], with a chunk's, int64[n, 2] (two words a record of the trace)."""
    for i in range(words.shape[0]):
        accesses[i, A_ADDRESS] = words[i, 0]
        accesses[i, A_STRIDE] = (words[i, 1] << 32) >> 32
        accesses[i, A_MASK] = words[i, 1] >> 32 & 0xFFFFFFFF
        accesses[i, A_SIGNAL] = 0
        accesses[i, A_BULK] = 0


@compiled
def _move_patterns(accesses, first):
    """The patterns that accesses name lie ``first`` rows further on."""
    for i in range(accesses.shape[0]):
        if accesses[i, A_STRIDE] <= SCATTERED:
            accesses[i, A_STRIDE] -= first


_find_patterns, _fill, _move = direct(find_patterns), direct(_take_accesses), direct(_move_patterns)


class _GrowingTable:
    """One growing table of rows with a list of holes, first fit."""

    def __init__(self, table: Table, rows: int) -> None:
        self._table = table
        self.rows = table.zeros(rows)
        self.holes: list[tuple[int, int]] = [(0, rows)]  # (start, length), by start, never touching

    def place(self, rows: np.ndarray) -> int:
        """Copy ``rows`` in; returns their first row's number."""
        start = self.take(len(rows))
        self.rows[start : start + len(rows)] = rows
        return start

    def take(self, count: int) -> int:
        """Make room for ``count`` rows, whatever they hold now; the first one's number."""
        need = max(1, count)
        for i, (start, length) in enumerate(self.holes):  # noqa: B007 - both are used behind the loop
            if length >= need:
                break
        else:
            self.grow(2 * len(self.rows) + need)
            i, (start, length) = len(self.holes) - 1, self.holes[-1]
        if length == need:
            del self.holes[i]
        else:
            self.holes[i] = (start + need, length - need)
        return start

    def grow(self, rows: int) -> None:
        """Have ``rows`` rows in all, which are more."""
        size = len(self.rows)
        grown = self._table.zeros(rows)
        if size != sum(length for _, length in self.holes):
            grown[:size] = self.rows
        self.rows = grown
        self.free(size, rows - size)

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
    bulks: int


class Arena:
    """Live chunks of one launch; see the module's docstring."""

    def __init__(self) -> None:
        self._warps = _GrowingTable(ROW_TABLE, 256)
        self._runs = _GrowingTable(RUN_TABLE, 256)
        self._accesses = _GrowingTable(ACCESS_TABLE, 1024)
        self._scattered = _GrowingTable(SCATTER_TABLE, 16)
        self._signals = _GrowingTable(SIGNAL_TABLE, 1)  # kept: a store may reach the L2 when its block has long ended
        self._bulks = _GrowingTable(BULK_TABLE, 1)
        self._word_of: dict[int, int] = {}
        self._patterns = 0  # so far
        self.tables = self._snapshot()
        #: rises whenever ``tables`` was replaced
        self.version = 0

    def reserve(self, chunks: Iterable[Chunk]) -> None:
        """Make room for chunks that are held anyhow, so that tables need not grow, which copies them; the host gives
        memory only for what is used."""
        if not isinstance(chunks, list):
            return
        for name, table in (("warps", self._warps), ("runs", self._runs), ("accesses", self._accesses)):
            rows = sum(max(1, len(getattr(chunk, name))) for chunk in chunks)
            if len(table.rows) < rows <= _MOST_RESERVED_BYTES // (table.rows.itemsize * table.rows.shape[1]):
                table.grow(rows)
        self.tables = self._snapshot()

    def _snapshot(self) -> Tables:
        parts = (self._warps, self._runs, self._accesses, self._scattered, self._signals, self._bulks)
        return Tables(*(part.rows for part in parts))

    @property
    def words(self) -> int:
        """Words of memory that warps of the chunks so far write and poll."""
        return len(self._word_of)

    def _add_signals(self, chunk: Chunk, accesses: np.ndarray) -> None:
        """Copy the chunk's signals in and let its ``accesses`` name them. A trace may number words as it likes."""
        signals = chunk.signals
        rows = SIGNAL_TABLE.zeros(len(signals))
        words = [self._word_of.setdefault(word, len(self._word_of)) for word in signals["word"].tolist()]
        address = signals["address"].astype(np.int64)
        rows[:, G_WORD], rows[:, G_LINE], rows[:, G_ADDRESS] = words, address >> 7, address
        for column, name in ((G_COUNT, "count"), (G_POLLS, "polls"), (G_BLOCK, "block"), (G_WARP, "warp")):
            rows[:, column] = signals[name]
        access = signals["access"].astype(np.int64)
        rows[:-1, G_MORE] = access[1:] == access[:-1]
        base = self._signals.place(rows)
        named, first = np.unique(access, return_index=True)
        accesses[named, A_SIGNAL] = base + first + 1

    def _place_patterns(self, chunk: Chunk, accesses: np.ndarray) -> tuple[int, int]:
        """Copy the patterns of the chunk's scattered accesses in and let its ``accesses`` name them; (first row,
        rows)."""
        rows = np.require(chunk.scattered, requirements="CW").view(np.int64).reshape(-1, LANES)
        most = int(np.count_nonzero(chunk.accesses["stride"] == SCATTERED))
        patterns = np.empty((most + 1, SCATTER_TABLE.width), np.int64)
        table = np.zeros(1 << (2 * most + 1).bit_length(), np.int64)
        found = _find_patterns(accesses, rows, table, patterns, SCATTERED - 1 - self._patterns)
        if found < 0:
            raise TraceFormatError(f"chunk at block {chunk.first_block}: an access names addresses that are not there")
        self._patterns += found
        first = self._scattered.place(patterns[:found])
        _move(accesses, first)
        return first, found

    def _add_bulks(self, chunk: Chunk, accesses: np.ndarray) -> int:
        """Copy the chunk's boxes in and let its ``accesses`` name them; returns where they lie."""
        bulks = chunk.bulks
        rows = BULK_TABLE.zeros(len(bulks))
        rows[:, B_ADDRESS], rows[:, B_ROW_BYTES] = bulks["address"].astype(np.int64), bulks["row_bytes"]
        rows[:, B_STRIDE : B_STRIDE + 4], rows[:, B_COUNT : B_COUNT + 4] = bulks["stride"], bulks["count"]
        rows[:, B_BYTES], rows[:, B_BLOCKS] = bulks["bytes"], bulks["blocks"]
        rows[:, B_KIND], rows[:, B_MAPPED] = bulks["kind"], bulks["descriptor"] != 0
        access = bulks["access"].astype(np.int64)
        rows[:-1, B_MORE] = access[1:] == access[:-1]
        base = self._bulks.place(rows)
        named, first = np.unique(access, return_index=True)
        accesses[named, A_BULK] = base + first + 1
        return base

    def add(self, chunk: Chunk, number: int = 0) -> LiveChunk:
        """Copy chunk ``number`` in, each warp ending with it; raises TraceFormatError for a run without
        instructions."""
        if (chunk.runs["count"] < 1).any():
            raise TraceFormatError(f"chunk at block {chunk.first_block}: a run without instructions")
        runs = RUN_TABLE.zeros(len(chunk.runs))
        for column, name in ((RUN_FIRST, "first"), (RUN_COUNT, "count"), (RUN_MASK, "mask")):
            runs[:, column] = chunk.runs[name]
        runs[chunk.polls["run"], RUN_POLL] = chunk.polls["runs"]
        run_base = self._runs.place(runs)
        access_base = self._accesses.take(len(chunk.accesses))
        accesses = self._accesses.rows[access_base : access_base + len(chunk.accesses)]
        _fill(np.ascontiguousarray(chunk.accesses, ACCESS).view(np.int64).reshape(-1, 2), accesses)
        scattered, patterns = self._place_patterns(chunk, accesses)
        if len(chunk.signals):
            self._add_signals(chunk, accesses)
        bulk_base = self._add_bulks(chunk, accesses) if len(chunk.bulks) else 0
        warps = ROW_TABLE.zeros(len(chunk.warps))
        path = chunk.warps["path"]
        warps[:, W_RUN] = chunk.path_start[path]
        warps[:, W_RUN_END] = chunk.path_start[path + np.uint32(1)]
        warps[:, (W_RUN, W_RUN_END)] += run_base
        warps[:, W_ACCESS] = chunk.warps["access_start"].astype(np.int64) + access_base
        warps[:, W_PART], warps[:, W_NEXT] = number, ENDS
        if len(chunk.polls):
            before = np.concatenate(([0], np.cumsum(chunk.polls["runs"], dtype=np.int64)))
            polled = before[np.searchsorted(chunk.polls["run"], chunk.path_start)]
            warps[:, W_POLLS] = np.diff(polled)[path]
        live = LiveChunk(
            chunk.first_block,
            chunk.blocks,
            (len(warps), len(runs), len(accesses), patterns, len(chunk.bulks)),
            self._warps.place(warps),
            run_base,
            access_base,
            scattered,
            bulk_base,
        )
        tables = self._snapshot()
        if any(new is not old for new, old in zip(tables, self.tables, strict=True)):
            self.tables = tables
            self.version += 1
        return live

    def free(self, live: LiveChunk) -> None:
        """All blocks of the chunk are done: give its place back."""
        starts = (live.warps, live.runs, live.accesses, live.scattered, live.bulks)
        tables = (self._warps, self._runs, self._accesses, self._scattered, self._bulks)
        for table, start, rows in zip(tables, starts, live.rows, strict=True):
            if table is not self._bulks or rows:
                table.free(start, rows)
