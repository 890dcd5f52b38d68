"""The log of events: what orders asynchronous work, as a listener that asks for it gets it (emulator/events.py)."""

from __future__ import annotations

from gpusim.state_tables import Table

EVENT_TABLE = Table(
    __name__,
    "events",
    "an event of a warp",
    "What orders asynchronous work, kept for listeners that ask for it (emulator/events.py).",
)
EVENT_BLOCK = EVENT_TABLE.column("index", "number of the block in the grid")
EVENT_WARP = EVENT_TABLE.column("index", "warp of the block")
EVENT_INDEX = EVENT_TABLE.column("index", "the instruction; -1: the warp's lanes end")
EVENT_KIND = EVENT_TABLE.column("code", "WATCH_* of the instruction, or EVENT_*")
EVENT_MASK = EVENT_TABLE.column("mask", "its lanes")
EVENT_A = EVENT_TABLE.column("packed", "shared address, barrier, descriptor of A or what tensor memory is asked for")
EVENT_B = EVENT_TABLE.column(
    "packed",
    "stride or bytes, turn, operation on an mbarrier, descriptor of B, tensor address, units that are allocated or stay",
)
EVENT_C = EVENT_TABLE.column(
    "packed",
    "blocks that are reached, whether it waits, whether D is what all lanes store, an operand of the operation, descriptor of A, columns or a shape",
)
EVENT_D = EVENT_TABLE.column(
    "packed",
    "mbarrier, a stored value, the operand's upper half, repeats of a shape, whether both blocks of a pair do it",
)
EVENT_E = EVENT_TABLE.column("packed", "bytes that the mbarrier is told of, instruction descriptor, a copy's source")
EVENT_F = EVENT_TABLE.column("packed", "flags of a product")
EVENT_TABLE_WIDTH = EVENT_TABLE.width

#: What is noted of an instruction, and kinds of events beside.
(
    WATCH_NOTHING, WATCH_SHARED, WATCH_OBJECT, WATCH_BULK, WATCH_STORE, WATCH_PRODUCT, WATCH_TENSOR, WATCH_STEP, WATCH_ORDER,
    WATCH_LONG, EVENT_BARRIER, EVENT_CLUSTER_ARRIVE, EVENT_CLUSTER_WAIT, EVENT_EXIT, EVENT_INIT, WATCH_COPY,
) = range(16)  # fmt: skip
