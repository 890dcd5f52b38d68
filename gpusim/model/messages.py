"""What the parts of a machine send each other: batches of records, one dtype a kind of message.

Mental model: parts never call each other; they exchange batches of these records once a window. Every
record begins with ``time``, its arrival. A message sent at ``t`` has ``time`` >= ``t`` + the latency of its
route, so each part may run a window ahead of the others with no error. Whoever takes messages handles them in
a total order (for requests: ``time``, ``sm``, ``sequence``), which makes the result independent of the
window's length, of the order in which parts are visited, and of threads.

Messages within a device need not name it: their route does, since parts are wired only to those of their own
device. A message that crosses devices carries the one that it is for in the field ``device``.

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

#: From the block dispatcher to the SMs: ``block`` starts in ``slot`` of ``sm`` (numbered over the whole GPU);
#: ``warp_row`` is the row of its first warp in the arena's table.
START = np.dtype([(name, "<i8") for name in ("time", "sm", "slot", "block", "warp_row")])

#: From an SM to the block dispatcher: ``block`` has left ``slot`` of ``sm``.
EXIT = np.dtype([(name, "<i8") for name in ("time", "sm", "slot", "block")])

#: Between devices: ``bytes`` on their way from device ``source`` to device ``device``; ``sequence`` numbers the
#: packets of a source, ``handle`` is the receiver's business.
PACKET = np.dtype(
    [
        ("time", "<i8"),  # arrival at the link, or behind it at the device, ticks
        ("handle", "<i8"),
        ("bytes", "<i8"),
        ("sequence", "<i4"),
        ("source", "<i2"),
        ("device", "<i2"),
    ]
)

#: Every kind of message by its name in a machine's description.
MESSAGES = {
    "request": REQUEST,
    "response": RESPONSE,
    "dram_request": DRAM_REQUEST,
    "dram_response": DRAM_RESPONSE,
    "start": START,
    "exit": EXIT,
    "packet": PACKET,
}
#: The kinds that carry the device which they are for.
ADDRESSED = frozenset(dtype for dtype in MESSAGES.values() if "device" in (dtype.names or ()))
