"""What has been delivered to a part of the memory side and not been handled yet, in the one total order.

Mental model: batches come from several senders; an inbox merges them into one array sorted by (time, rank),
where the rank decides between messages of equal time and is unique among them. So neither windows nor the
order of deliveries show. Who takes messages up to some tick has those sorted alone: the others are put aside as they
came. Times within a window span a few thousand ticks, so counting sorts beat comparisons.
"""

from __future__ import annotations

import numpy as np

from gpusim.errors import SpecError
from gpusim.io.jit_direct import direct
from gpusim.model.compiled import compiled, inlined
from gpusim.model.messages import NEVER

#: Bits that one counting pass sorts by at most.
_DIGIT_BITS = 8
#: Fewer messages than this are sorted by comparisons alone.
_FEW = 12
#: What a tally counts: messages that are due, messages that are kept, and the earliest time of those.
_DUE, _KEPT, _EARLIEST = range(3)
#: Bits of a key that hold the message's place among those that are due; its time stands above them, as in a key of
#: :mod:`gpusim.model.event_heap`. All SMs of the largest GPU have a twentieth of so many requests under way at most;
#: more are refused.
PLACE_BITS = 22
PLACES = (1 << PLACE_BITS) - 1


@inlined
def _field_of(rows, i, fields, k):
    """Field ``k`` of row ``i``."""
    return rows[i, fields[k, 0]] >> fields[k, 1] & ((1 << fields[k, 2]) - 1)


@inlined
def _rank_of(rows, i, fields):
    """The rank of row ``i``: the fields (word, shift, bits) one behind the other, most significant first. One or two
    fields without a loop."""
    rank = _field_of(rows, i, fields, 0)
    if fields.shape[0] > 1:
        rank = rank << fields[1, 2] | _field_of(rows, i, fields, 1)
        for k in range(2, fields.shape[0]):
            rank = rank << fields[k, 2] | _field_of(rows, i, fields, k)
    return rank


@inlined
def _copy(out, to, rows, row):
    """Copy a row of three or more words; the usual lengths without a loop, which would cost more than the copy."""
    words = rows.shape[1]
    out[to, 0] = rows[row, 0]
    out[to, 1] = rows[row, 1]
    out[to, 2] = rows[row, 2]
    if words > 3:
        out[to, 3] = rows[row, 3]
        if words > 4:
            out[to, 4] = rows[row, 4]
            for word in range(5, words):
                out[to, word] = rows[row, word]


@compiled
def _split(rows, until, due, keys, kept, tally):
    """Copy ``rows`` int64[n, words] before tick ``until`` behind those in ``due``, with their keys in ``keys[0]``, the
    others behind those in ``kept``; all have room. ``tally`` int64[3] says how many these are."""
    n_due, n_kept, earliest = tally[_DUE], tally[_KEPT], tally[_EARLIEST]
    for i in range(rows.shape[0]):
        time = rows[i, 0]
        if time < until:
            keys[0, n_due] = time << PLACE_BITS | n_due
            _copy(due, n_due, rows, i)
            n_due += 1
        else:
            earliest = min(earliest, time)
            _copy(kept, n_kept, rows, i)
            n_kept += 1
    tally[_DUE], tally[_KEPT], tally[_EARLIEST] = n_due, n_kept, earliest


@compiled
def sort_keyed(rows, n, out, fields, keys, counts):
    """Copy the ``n`` of ``rows`` int64[..., words] whose keys stand in ``keys[0]`` to ``out``, sorted by word 0 and
    then by rank.

    ``fields`` int64[k, 3]; ``keys`` int64[2, >= n]; ``counts`` int64[2 ** _DIGIT_BITS].
    """
    earliest = keys[0, 0]
    latest = keys[0, 0]
    for i in range(1, n):
        earliest = min(earliest, keys[0, i])
        latest = max(latest, keys[0, i])
    earliest >>= PLACE_BITS
    span = (latest >> PLACE_BITS) - earliest if n >= _FEW else 0
    bits = 0
    while span >> bits:
        bits += 1
    passes = (bits + _DIGIT_BITS - 1) // _DIGIT_BITS
    digit_bits = (bits + passes - 1) // passes if passes else 0
    digits = 1 << digit_bits
    start = 0
    shift = 0
    for _ in range(passes):
        source, target = keys[start], keys[1 - start]
        counts[:digits] = 0
        for i in range(n):
            counts[((source[i] >> PLACE_BITS) - earliest) >> shift & (digits - 1)] += 1
        total = 0
        for digit in range(digits):
            total, counts[digit] = total + counts[digit], total
        for i in range(n):
            key = source[i]
            digit = ((key >> PLACE_BITS) - earliest) >> shift & (digits - 1)
            to = counts[digit]
            counts[digit] = to + 1
            target[to] = key
        start = 1 - start
        shift += digit_bits
    order = keys[start]
    before = -1  # the rank of the one before, where it is known: most of a run come in order of rank
    for i in range(1, n):
        key = order[i]
        time = key >> PLACE_BITS
        if order[i - 1] >> PLACE_BITS < time:
            before = -1
            continue
        rank = _rank_of(rows, key & PLACES, fields)
        if before < 0 and order[i - 1] >> PLACE_BITS == time:
            before = _rank_of(rows, order[i - 1] & PLACES, fields)
        if order[i - 1] >> PLACE_BITS == time and before < rank:
            before = rank
            continue
        hole = i
        while hole and order[hole - 1] >> PLACE_BITS >= time:
            other = order[hole - 1]
            if other >> PLACE_BITS == time and _rank_of(rows, other & PLACES, fields) < rank:
                break
            order[hole] = other
            hole -= 1
        order[hole] = key
        before = -1
    for i in range(n):
        _copy(out, i, rows, order[i] & PLACES)


@compiled
def _first_time(rows):
    """The least of the times of ``rows`` int64[n, words], of which there are some."""
    earliest = rows[0, 0]
    for i in range(1, rows.shape[0]):
        earliest = min(earliest, rows[i, 0])
    return earliest


_sorted, _part, _earliest = direct(sort_keyed), direct(_split), direct(_first_time)


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
        self._keys = np.empty((2, 0), np.int64)
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
        if len(self._due) < count:
            if count > PLACES:
                raise SpecError(
                    f"{count:,} messages wait for one part of the machine, of at most {PLACES:,}: simulate fewer SMs or shorter windows"
                )
            self._keys = np.empty((2, 2 * count), np.int64)
            room = (2 * count, self._words)
            self._due, self._out, self._kept, self._spare = (np.empty(room, np.int64) for _ in range(4))
            self._views = np.ndarray(2 * count, self._dtype, self._out)
        tally = self._tally
        tally[:] = 0, 0, NEVER
        for rows in self._waiting:
            _part(rows, until_tick, self._due, self._keys, self._spare, tally)
        due, kept, self._earliest_waiting = tally.tolist()
        self._sorted, self._messages = self._out[:due], self._views[:due]
        _sorted(self._due, due, self._sorted, self._fields, self._keys, self._counts)
        self._waiting = [self._spare[:kept]] if kept else []
        self._spare, self._kept = self._kept, self._spare

    def drop(self, count: int) -> None:
        """Forget the first ``count`` messages of :meth:`ordered`: they have been handled."""
        if count:
            self._sorted, self._messages = self._sorted[count:], self._messages[count:]

    @property
    def dtype(self) -> np.dtype:
        """Of its messages."""
        return self._dtype

    @property
    def fields(self) -> np.ndarray:
        """What decides between equal times: word, shift and bits of each field, int64[k, 3]."""
        return self._fields

    def take_rows(self) -> list[np.ndarray]:
        """Hand over all messages, as words, int64[n, words] each, in no order."""
        rows = [*self._waiting, self._sorted] if len(self._sorted) else self._waiting
        self._waiting, self._earliest_waiting, self._sorted, self._messages = (
            [],
            NEVER,
            self._sorted[:0],
            self._messages[:0],
        )
        return rows

    def put_rows(self, rows: np.ndarray) -> None:
        """Take messages as :meth:`take_rows` gives them, which nobody may change afterwards."""
        if len(rows):
            self._waiting.append(rows)
            self._earliest_waiting = min(self._earliest_waiting, int(_earliest(rows)))

    def __len__(self) -> int:
        return len(self._sorted) + sum(map(len, self._waiting))
