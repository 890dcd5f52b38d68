"""What crosses the crossbar: batches of line requests one way, of line responses the other.

Mental model: an SM and the memory side never call each other; they exchange batches of these
records once a window. A message sent at ``t`` has ``time_cycles`` >= ``t`` + the crossbar's one-way
latency, so each side may run a window ahead with no error. The memory side handles requests in the
total order (``time``, ``sm``, ``sequence``), which makes the result independent of the window's
length, of the order in which SMs are visited, and of threads.

Times are int64 *ticks*: 1 SM cycle = ``TICKS_PER_CYCLE`` ticks, so that rates that are no whole
number of cycles need no floating point.
"""

from __future__ import annotations

import numpy as np

TICKS_PER_CYCLE = 64
#: The tick of what will not happen: a part with nothing to do.
NEVER = 2**62

READ, WRITE, ATOMIC, REDUCTION = 0, 1, 2, 3

#: ``line`` is the byte address of a 128-byte line; bit i of ``sectors`` names sector i;
#: ``bytes`` counts payload written (for byte-masked partial writes); ``tag`` is the SM's own handle and
#: comes back in the response; WRITE and REDUCTION are answered too (with no payload), so that
#: fences can wait for them. ``operations`` is the number of lanes' atomic operations serialised on
#: the most contended word of the line.
REQUEST = np.dtype(
    [
        ("time", "<i8"),  # arrival at the L2 slice's input, ticks
        ("line", "<u8"),
        ("tag", "<i4"),
        ("sequence", "<i4"),  # per-SM running number
        ("sm", "<i2"),
        ("kind", "u1"),
        ("sectors", "u1"),
        ("bytes", "<u2"),
        ("operations", "<u2"),
    ]
)

#: Answer to the request with the same ``sm`` and ``tag``; ``time`` is its arrival at the SM's input
#: port, ticks (the port's own bandwidth is the SM's business).
RESPONSE = np.dtype([("time", "<i8"), ("tag", "<i4"), ("sm", "<i2"), ("kind", "u1"), ("sectors", "u1")])

#: From the L2 to a DRAM channel. ``line`` is the byte address of a 128-byte line; ``sequence`` numbers the
#: L2's requests; ``handle`` comes back: with a READ's data, or when a WRITE has left the channel's queue.
DRAM_REQUEST = np.dtype(
    [
        ("time", "<i8"),  # arrival at the channel, ticks
        ("line", "<u8"),
        ("sequence", "<i8"),
        ("handle", "<i4"),
        ("channel", "<i2"),
        ("kind", "u1"),
        ("sectors", "u1"),
    ]
)

#: Data of a DRAM READ, or the room that a WRITE has left; ``time`` is its arrival at the L2 slice, ticks.
DRAM_RESPONSE = np.dtype([("time", "<i8"), ("sequence", "<i8"), ("handle", "<i4"), ("sectors", "<i4")])
