"""What polling warps wait for: words of memory, and how often each has been written so far.

Mental model: the trace says of an access which words it writes, or polls and how many writes it has to see. Where an
access is served (a line at its L2 slice, shared memory on its SM), its writes are counted and its polls compared with
the counts; so a poll sees exactly what was served before it.
"""

from __future__ import annotations

from gpusim.model.compiled import inner
from gpusim.model.trace_tables import G_COUNT, G_LINE, G_MORE, G_POLLS, G_WORD

#: A line that stands for all that an access touches: shared memory.
ANY_LINE = -1


@inner
def has_seen(signals, written, first, line):
    """Whether an access whose signals begin with row ``first - 1`` of ``signals`` sees all that it polls in ``line``;
    ``written`` int64[words]: writes so far."""
    row = first - 1
    while True:
        if signals[row, G_POLLS] and (line == ANY_LINE or signals[row, G_LINE] == line):
            if written[signals[row, G_WORD]] < signals[row, G_COUNT]:
                return False
        if not signals[row, G_MORE]:
            return True
        row += 1


@inner
def count_one(signals, written, row):
    """The word of row ``row`` has been written once more."""
    written[signals[row, G_WORD]] += 1


@inner
def count_writes(signals, written, first, line):
    """The access has been served in ``line``: its words are written. An atomic that has not seen what it polls writes
    nothing."""
    if not has_seen(signals, written, first, line):
        return
    row = first - 1
    while True:
        if not signals[row, G_POLLS] and (line == ANY_LINE or signals[row, G_LINE] == line):
            written[signals[row, G_WORD]] += 1
        if not signals[row, G_MORE]:
            return
        row += 1
