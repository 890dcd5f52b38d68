"""Samples of a running launch: what had happened by then, at window boundaries about evenly apart.

Mental model: a row is a reading of all cumulative counters (stall account, bytes, warps) at one tick; rates over time
are differences of neighbouring rows. When the table is full every other row is dropped and the distance
doubles, so any launch fits in the same room and costs next to nothing. A stall is entered when the warp
issues again, so a long wait shows at its end.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpusim.model.messages import TICKS_PER_CYCLE
from gpusim.model.stall_reasons import STALL_NAMES

#: Columns of the table, cumulative since the launch's start; then one a stall reason, in warp-cycles.
TOTALS = ("cycle", "blocks_ended", "l2_sectors", "l2_slice_busy_ticks", "dram_read_bytes", "dram_write_bytes")
COLUMNS = (*TOTALS, *(f"stall.{name}" for name in STALL_NAMES))
MOST_ROWS = 2048


class Sampler:
    """Collects rows; call it with the tick of each window boundary. ``read()`` gives the current totals
    without the cycle, as integers in the order of :data:`COLUMNS`."""

    def __init__(self, start_cycle: int, read: Callable[[], list[int]], most_rows: int = MOST_ROWS) -> None:
        self._start, self._read, self._most = start_cycle, read, most_rows
        self._before = np.array(read(), np.int64)
        self._rows: list[np.ndarray] = []
        self._interval = 1
        self._next = start_cycle

    def __call__(self, tick: int) -> None:
        cycle = tick // TICKS_PER_CYCLE
        if cycle < self._next:
            return
        self.take(cycle)
        self._next = cycle + self._interval
        if len(self._rows) >= self._most:
            del self._rows[1::2]
            span = cycle - self._start
            self._interval = max(2 * self._interval, 2 * span // self._most)

    def take(self, cycle: int) -> None:
        """Add the reading of now, at ``cycle``; a cycle that is no later than the last one replaces it."""
        row = np.concatenate(([cycle - self._start], np.array(self._read(), np.int64) - self._before))
        if self._rows and row[0] <= self._rows[-1][0]:
            row[0] = self._rows[-1][0]
            self._rows.pop()
        self._rows.append(row)

    def table(self) -> np.ndarray:
        """int64[rows, len(COLUMNS)]."""
        return np.array(self._rows, np.int64).reshape(-1, len(COLUMNS))
