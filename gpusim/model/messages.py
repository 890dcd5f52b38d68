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

from gpusim.state_tables import Field, Record

TICKS_PER_CYCLE = 64
#: The tick of what will not happen: a part with nothing to do.
NEVER = 2**62

READ, WRITE, ATOMIC, REDUCTION = 0, 1, 2, 3
#: What an SM notes of requests that its tensor memory accelerator makes, and that one of its instructions is done; no
#: message has these.
BULK_READ, BULK_WRITE, BULK_DONE = 4, 5, 6
#: The same of a commit of products into tensor memory.
COMMIT_DONE = 7

#: A block has ended; has ended while writes of its grid are not acknowledged on its SM yet, in a chain of grids; lets
#: the grid begin that depends on its own, and goes on; all those writes have been acknowledged.
ENDED, ENDED_WRITING, GOES_ON, FLUSHED = range(4)

#: Blocks of a cluster at most; bits of a slot where an SM and a slot of it are one number.
MOST_PEERS, PLACE_SHIFT = 16, 8
#: All threads of the sender have arrived at the barrier of the cluster; the sender has ended; it has written a word of
#: the receiver's shared memory that warps poll.
PEER_ARRIVED, PEER_ENDED, PEER_WROTE = range(3)

_REQUEST = Record(
    __name__,
    "REQUEST",
    "From an SM to an L2 slice. WRITE and REDUCTION are answered too, with no payload, so that fences can wait for them.",
    Field("time", "<i8", "tick", "arrival at the L2 slice's input"),
    Field("line", "<u8", "address", "of a 128-byte line"),
    Field("tag", "<i4", "index", "the SM's own handle, which comes back in the response"),
    Field("sequence", "<i4", "count", "per-SM running number"),
    Field("sm", "<i2", "index", "of the device"),
    Field("kind", "u1", "code", "READ, WRITE, ATOMIC or REDUCTION"),
    Field("sectors", "u1", "mask", "bit i names sector i"),
    Field("bytes", "<u2", "bytes", "payload written (for byte-masked partial writes)"),
    Field(
        "operations",
        "<u2",
        "count",
        "passes of an atomic, which does a lane of each word of a sector, see gpusim.model.coalescer",
    ),
    Field("signal", "<i8", "index", "1 + first row of ``tables.signals`` of its access; 0: none"),
)
REQUEST = _REQUEST.dtype

_RESPONSE = Record(
    __name__,
    "RESPONSE",
    "Answer to the request with the same ``sm`` and ``tag``.",
    Field("time", "<i8", "tick", "arrival at the SM's input port (the port's own bandwidth is the SM's business)"),
    Field("tag", "<i4", "index", "of the request"),
    Field("sm", "<i2", "index", "of the device"),
    Field("kind", "u1", "code", "of the request"),
    Field("sectors", "u1", "mask", "that came"),
    Field("seen", "u1", "flag", "a poll has seen what it waits for; 1 for all other requests"),
)
RESPONSE = _RESPONSE.dtype

_DRAM_REQUEST = Record(
    __name__,
    "DRAM_REQUEST",
    "From an L2 slice to a DRAM channel.",
    Field("time", "<i8", "tick", "arrival at the channel"),
    Field("line", "<u8", "address", "of a 128-byte line"),
    Field("sequence", "<i8", "count", "the L2's running number"),
    Field("handle", "<i4", "index", "comes back: with a READ's data, or when a WRITE has left the channel's queue"),
    Field("channel", "<i2", "index", "of the device"),
    Field("kind", "u1", "code", "READ or WRITE"),
    Field("sectors", "u1", "mask", "wanted or written"),
)
DRAM_REQUEST = _DRAM_REQUEST.dtype

_DRAM_RESPONSE = Record(
    __name__,
    "DRAM_RESPONSE",
    "Data of a DRAM READ, or the room that a WRITE has left.",
    Field("time", "<i8", "tick", "arrival at the L2 slice"),
    Field("sequence", "<i8", "count", "of the request"),
    Field("handle", "<i4", "index", "of the request"),
    Field("sectors", "<i4", "mask", "of the request"),
)
DRAM_RESPONSE = _DRAM_RESPONSE.dtype

_START = Record(
    __name__,
    "START",
    "From the block dispatcher to the SMs: a block to start; with slot -1, that a grid of a chain has completed.",
    Field("time", "<i8", "tick", "of the start, or of the grid's completion"),
    Field("sm", "<i8", "index", "of the device"),
    Field("slot", "<i8", "index", "block slot of the SM"),
    Field(
        "block",
        "<i8",
        "index",
        "in the grid, of a chain behind those of the grids before; or the grid that has completed",
    ),
    Field("warp_row", "<i8", "index", "where its warps begin in the trace's tables"),
    Field("cluster", "<i8", "index", "its cluster, of those of the grid"),
    Field("cluster_blocks", "<i8", "count", "blocks of the cluster; 0: the launch has none"),
    Field("rank", "<i8", "index", "of the block in its cluster"),
    Field("peers", f"({MOST_PEERS},)<i8", "packed", "where each block of the cluster is: SM << PLACE_SHIFT | slot"),
    Field(
        "warps",
        "<i8",
        "count",
        "of the block, in a chain of grids; 0: as many as the launch's blocks have, in their slot's place",
    ),
    Field("first_warp", "<i8", "index", "warp slot of the SM with which they begin, in a chain"),
    Field("grid", "<i8", "index", "of the chain"),
    Field(
        "held",
        "<i8",
        "cycle",
        "at which the grid before has completed, as the block's SM sees it; NEVER: not known yet",
    ),
)
START = _START.dtype

_EXIT = Record(
    __name__,
    "EXIT",
    "From an SM to the block dispatcher: a block has ended, lets the grid begin that depends on its own, or has its writes in the L2.",
    Field("time", "<i8", "tick", "arrival at the dispatcher"),
    Field("sm", "<i8", "index", "of the device"),
    Field("slot", "<i8", "index", "block slot of the SM"),
    Field("block", "<i8", "index", "in the grid; of FLUSHED: the grid of the chain"),
    Field("kind", "<i8", "code", "ENDED, ENDED_WRITING, GOES_ON or FLUSHED"),
)
EXIT = _EXIT.dtype

_PEER = Record(
    __name__,
    "PEER",
    "From one block of a cluster to another, over the network between SMs.",
    Field("time", "<i8", "tick", "arrival at the SM"),
    Field("sm", "<i8", "index", "of the device"),
    Field("slot", "<i8", "index", "block slot of the SM"),
    Field("cluster", "<i8", "index", "that both belong to"),
    Field("kind", "<i8", "code", "PEER_ARRIVED, PEER_ENDED or PEER_WROTE"),
    Field("value", "<i8", "index", "rank of the sender; of PEER_WROTE a row of ``tables.signals``"),
)
PEER = _PEER.dtype

_PACKET = Record(
    __name__,
    "PACKET",
    "From one device to another.",
    Field("time", "<i8", "tick", "arrival at the link, or behind it at the device"),
    Field("handle", "<i8", "index", "the receiver's business"),
    Field("bytes", "<i8", "bytes", "on their way, with all that the link adds"),
    Field("line", "<u8", "address", "of an access of the device's memory: as in a request"),
    Field("tag", "<i4", "index", "of the request"),
    Field("sm", "<i2", "index", "of the source, whose request it is"),
    Field("kind", "u1", "code", "of the request"),
    Field("sectors", "u1", "mask", "of the request"),
    Field("written", "<u2", "bytes", "of the request"),
    Field("operations", "<u2", "count", "of the request"),
    Field("answer", "<i4", "flag", "1: the answer to a request that came from ``device``"),
    Field("sequence", "<i4", "count", "the source's running number"),
    Field("source", "<i2", "index", "device that it comes from"),
    Field("device", "<i2", "index", "device that it is for"),
)
PACKET = _PACKET.dtype

#: Every kind of message by its name in a machine's description.
MESSAGES = {
    "request": REQUEST,
    "response": RESPONSE,
    "dram_request": DRAM_REQUEST,
    "dram_response": DRAM_RESPONSE,
    "start": START,
    "exit": EXIT,
    "peer": PEER,
    "packet": PACKET,
}
#: The kinds that carry the device which they are for.
ADDRESSED = frozenset(dtype for dtype in MESSAGES.values() if "device" in (dtype.names or ()))
