"""What has been delivered to a part of the memory side and not been handled yet, in the one total order.

Mental model: batches come from several senders; an inbox merges them into one array sorted by (time, rank),
where the rank decides between messages of equal time and is unique among them. So neither windows nor the
order of deliveries show. Who takes messages up to some tick has those sorted alone: the others are put aside as they came.
Times within a window span a few thousand ticks, so counting sorts beat comparisons.
"""

from __future__ import annotations

import numpy as np

from gpusim.io.jit_direct import direct
from gpusim.model.compiled import compiled
from gpusim.model.messages import NEVER

#: Bits that one counting pass sorts by at most.
_DIGIT_BITS = 8
#: Fewer messages than this are sorted by comparisons alone.
_FEW = 12
#: What a tally counts: messages that are due, messages that are kept, and the earliest time of those.
_DUE, _KEPT, _EARLIEST = range(3)
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
def _split(rows, until, due, kept, tally):
    """Copy ``rows`` int64[n, words] before tick ``until`` behind those in ``due``, the others behind those in ``kept``, which
    have room; ``tally`` int64[3] says how many these are."""
    for i in range(rows.shape[0]):
        time = rows[i, 0]
        if time < until:
            to = tally[_DUE]
            tally[_DUE] = to + 1
            for word in range(rows.shape[1]):
                due[to, word] = rows[i, word]
        else:
            to = tally[_KEPT]
            tally[_KEPT] = to + 1
            tally[_EARLIEST] = min(tally[_EARLIEST], time)
            for word in range(rows.shape[1]):
                kept[to, word] = rows[i, word]


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
    span = latest - earliest if n >= _FEW else 0
    bits = 0
    while span >> bits:
        bits += 1
    passes = (bits + _DIGIT_BITS - 1) // _DIGIT_BITS
    digit_bits = (bits + passes - 1) // passes if passes else 0
    digits = 1 << digit_bits
    start = 0
    shift = 0
    for _ in range(passes):
        target = 2 - start
        counts[:digits] = 0
        for i in range(n):
            counts[scratch[i, start] >> shift & (digits - 1)] += 1
        total = 0
        for digit in range(digits):
            total, counts[digit] = total + counts[digit], total
        for i in range(n):
            digit = scratch[i, start] >> shift & (digits - 1)
            to = counts[digit]
            counts[digit] = to + 1
            scratch[to, target] = scratch[i, start]
            scratch[to, target + 1] = scratch[i, start + 1]
        start = target
        shift += digit_bits
    for i in range(1, n):  # runs of equal times are short and mostly in order of rank
        time, row = scratch[i, start], scratch[i, start + 1]
        hole = i
        if scratch[i - 1, start] >= time:
            rank = _rank_of(rows, row, fields)
            while hole and scratch[hole - 1, start] >= time:
                if scratch[hole - 1, start] == time and _rank_of(rows, scratch[hole - 1, start + 1], fields) < rank:
                    break
                scratch[hole, start] = scratch[hole - 1, start]
                scratch[hole, start + 1] = scratch[hole - 1, start + 1]
                hole -= 1
            scratch[hole, start] = time
            scratch[hole, start + 1] = row
    for i in range(n):
        row = scratch[i, start + 1]
        for word in range(rows.shape[1]):
            out[i, word] = rows[row, word]


@compiled
def _first_time(rows):
    """The least of the times of ``rows`` int64[n, words], of which there are some."""
    earliest = rows[0, 0]
    for i in range(1, rows.shape[0]):
        earliest = min(earliest, rows[i, 0])
    return earliest


_sorted, _part, _earliest = direct(_sort), direct(_split), direct(_first_time)


class Inbox:
    """Batches of one dtype, which begins with an int64 ``time`` and consists of whole 8-byte words; ``rank`` names
    the fields that decide between equal times, most significant first, with the bits of each that count
    (below 63 in all)."""

    def __init__(self, dtype: np.dtype, rank: tuple[tuple[str, int], ...]) -> None:
        self._dtype, self._words = dtype, dtype.itemsize // 8
        places = [(*divmod(dtype.fields[name][1], 8), bits) for name, bits in rank]
        self._fields = np.array([(word, 8 * byte, bits) for word, byte, bits in places], np.int64)
        self._waiting: list[np.ndarray] = []  # in no order
        self._earliest_waiting = NEVER
        self._sorted = np.empty((0, self._words), np.int64)
        self._due = self._out = self._kept = self._spare = self._sorted
        self._messages = self._views = np.empty(0, dtype)  # those of _sorted
        self._scratch = np.empty((0, _SCRATCH_COLUMNS), np.int64)
        self._counts = np.zeros(1 << _DIGIT_BITS, np.int64)
        self._tally = np.zeros(3, np.int64)

    def add(self, batch: np.ndarray) -> None:
        """Take a batch, which nobody may change afterwards."""
        count = len(batch)
        if count:
            if not batch.flags.c_contiguous:
                batch = np.ascontiguousarray(batch)
            rows = np.ndarray((count, self._words), np.int64, batch)
            self._waiting.append(rows)
            earliest = int(rows[0, 0]) if count == 1 else _earliest(rows)
            if earliest < self._earliest_waiting:
                self._earliest_waiting = earliest

    def next_tick(self) -> int:
        """Time of the earliest message, NEVER if there is none."""
        if len(self._sorted):
            return min(int(self._sorted[0, 0]), self._earliest_waiting)
        return self._earliest_waiting

    def ordered(self, until_tick: int = NEVER) -> np.ndarray:
        """The messages before ``until_tick`` in order, until the next call of this."""
        if self._earliest_waiting < until_tick:
            if len(self._sorted):
                self._waiting.append(self._sorted.copy())
            self._sort_waiting(until_tick)
            return self._messages
        if len(self._sorted) and self._sorted[-1, 0] >= until_tick:
            return self._messages[: np.searchsorted(self._sorted[:, 0], until_tick)]
        return self._messages

    def _sort_waiting(self, until_tick: int) -> None:
        """Sort those that are due."""
        if len(self._waiting) == 1 and len(self._waiting[0]) == 1:  # nothing to sort
            self._sorted, self._waiting, self._earliest_waiting = self._waiting[0], [], NEVER
            self._messages = np.ndarray(1, self._dtype, self._sorted)
            return
        count = sum(map(len, self._waiting))
        if len(self._scratch) < count:
            self._scratch = np.empty((2 * count, _SCRATCH_COLUMNS), np.int64)
            room = (2 * count, self._words)
            self._due, self._out, self._kept, self._spare = (np.empty(room, np.int64) for _ in range(4))
            self._views = np.ndarray(2 * count, self._dtype, self._out)
        tally = self._tally
        tally[:] = 0, 0, NEVER
        for rows in self._waiting:
            _part(rows, until_tick, self._due, self._spare, tally)
        due, kept, self._earliest_waiting = tally.tolist()
        self._sorted, self._messages = self._out[:due], self._views[:due]
        _sorted(self._due[:due], self._sorted, self._fields, self._scratch, self._counts)
        self._waiting = [self._spare[:kept]] if kept else []
        self._spare, self._kept = self._kept, self._spare

    def drop(self, count: int) -> None:
        """Forget the first ``count`` messages of :meth:`ordered`: they have been handled."""
        if count:
            self._sorted, self._messages = self._sorted[count:], self._messages[count:]

    def __len__(self) -> int:
        return len(self._sorted) + sum(map(len, self._waiting))
