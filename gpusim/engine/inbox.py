"""What has been delivered to a part of the memory side and not been handled yet, in the one total order.

Mental model: batches come from several senders; an inbox merges them into one array sorted by (time, rank),
where the rank decides between messages of equal time and is unique among them. So neither windows nor the
order of deliveries show. Times within a window span a few thousand ticks, so counting sorts beat comparisons.
"""

from __future__ import annotations

import numpy as np

from gpusim.io.jit_direct import direct
from gpusim.model.compiled import compiled
from gpusim.model.messages import NEVER

#: Bits that one counting pass sorts by.
_DIGIT_BITS = 11
#: Columns of the scratch rows: key, position; twice, as each pass moves from one pair to the other.
_SCRATCH_COLUMNS = 4


@compiled
def _rank_of(rows, i, fields):
    """The rank of row ``i``: the fields (word, shift, bits) one behind the other, most significant first."""
    rank = 0
    for k in range(fields.shape[0]):
        rank = rank << fields[k, 2] | rows[i, fields[k, 0]] >> fields[k, 1] & ((1 << fields[k, 2]) - 1)
    return rank


@compiled
def _sort(rows, out, fields, scratch, counts):
    """Copy ``rows`` int64[n, words] to ``out``, sorted by word 0 and then by rank.

    ``fields`` int64[k, 3]; ``scratch`` int64[>= n, 4]; ``counts`` int64[2 ** _DIGIT_BITS].
    """
    n = rows.shape[0]
    earliest = rows[0, 0]
    latest = rows[0, 0]
    for i in range(n):
        earliest = min(earliest, rows[i, 0])
        latest = max(latest, rows[i, 0])
    for i in range(n):
        scratch[i, 0] = rows[i, 0] - earliest
        scratch[i, 1] = i
    span = latest - earliest
    start = 0
    shift = 0
    while span >> shift:
        target = 2 - start
        counts[:] = 0
        for i in range(n):
            counts[scratch[i, start] >> shift & (counts.shape[0] - 1)] += 1
        total = 0
        for digit in range(counts.shape[0]):
            total, counts[digit] = total + counts[digit], total
        for i in range(n):
            digit = scratch[i, start] >> shift & (counts.shape[0] - 1)
            to = counts[digit]
            counts[digit] = to + 1
            scratch[to, target] = scratch[i, start]
            scratch[to, target + 1] = scratch[i, start + 1]
        start = target
        shift += _DIGIT_BITS
    for i in range(1, n):  # runs of equal times are short and mostly in order of rank
        time, row = scratch[i, start], scratch[i, start + 1]
        hole = i
        if scratch[i - 1, start] == time:
            rank = _rank_of(rows, row, fields)
            while hole and scratch[hole - 1, start] == time:
                if _rank_of(rows, scratch[hole - 1, start + 1], fields) < rank:
                    break
                scratch[hole, start + 1] = scratch[hole - 1, start + 1]
                hole -= 1
            scratch[hole, start + 1] = row
    for i in range(n):
        row = scratch[i, start + 1]
        for word in range(rows.shape[1]):
            out[i, word] = rows[row, word]


_sorted = direct(_sort)


class Inbox:
    """Batches of one dtype, which begins with an int64 ``time`` and consists of whole 8-byte words; ``rank`` names
    the fields that decide between equal times, most significant first, with the bits of each that count
    (below 63 in all)."""

    def __init__(self, dtype: np.dtype, rank: tuple[tuple[str, int], ...]) -> None:
        self._dtype, self._words = dtype, dtype.itemsize // 8
        places = [(*divmod(dtype.fields[name][1], 8), bits) for name, bits in rank]
        self._fields = np.array([(word, 8 * byte, bits) for word, byte, bits in places], np.int64)
        self._fresh: list[np.ndarray] = []
        self._earliest_fresh = NEVER
        self._sorted = np.empty((0, self._words), np.int64)
        self._messages = self._sorted.view(dtype)[:, 0]
        self._scratch = np.empty((0, _SCRATCH_COLUMNS), np.int64)
        self._counts = np.zeros(1 << _DIGIT_BITS, np.int64)

    def add(self, batch: np.ndarray) -> None:
        """Take a batch, which nobody may change afterwards."""
        if len(batch):
            rows = np.ascontiguousarray(batch).view(np.int64).reshape(-1, self._words)
            self._fresh.append(rows)
            earliest = int(rows[0, 0] if len(rows) == 1 else rows[:, 0].min())
            self._earliest_fresh = min(self._earliest_fresh, earliest)

    def next_tick(self) -> int:
        """Time of the earliest message, NEVER if there is none."""
        earliest = int(self._sorted[0, 0]) if len(self._sorted) else NEVER
        return min(earliest, self._earliest_fresh)

    def ordered(self) -> np.ndarray:
        """All messages in order."""
        if self._fresh:
            parts = [self._sorted, *self._fresh] if len(self._sorted) else self._fresh
            rows = np.concatenate(parts) if len(parts) > 1 else parts[0]
            if len(rows) > 1:
                if len(self._scratch) < len(rows):
                    self._scratch = np.empty((2 * len(rows), _SCRATCH_COLUMNS), np.int64)
                self._sorted = np.empty_like(rows)
                _sorted(rows, self._sorted, self._fields, self._scratch, self._counts)
            else:
                self._sorted = rows
            self._fresh = []
            self._earliest_fresh = NEVER
            self._messages = self._sorted.view(self._dtype)[:, 0]
        return self._messages

    def drop(self, count: int) -> None:
        """Forget the first ``count`` messages of :meth:`ordered`: they have been handled."""
        if count:
            self._sorted, self._messages = self._sorted[count:], self._messages[count:]

    def __len__(self) -> int:
        return len(self._sorted) + sum(len(rows) for rows in self._fresh)
