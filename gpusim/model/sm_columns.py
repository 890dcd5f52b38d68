"""The columns of ``sms``: what an SM remembers besides its warps, one int64 row an SM.

Mental model: one-number registers of the SM's units (when a stage is free, how many requests are out,
where a free list starts). Cycles unless the name says ticks.
"""

from __future__ import annotations

(
    NEXT,  # next cycle in which anything can happen
    LAST,  # last cycle in which something did
    START_NEXT,  # next block start
    AGE_COUNT,  # warps started so far
    QUEUE_NEXT,  # next cycle in which the memory path can take a request
    QUEUE_FREE,  # first cycle at which it could, were there one
    QUEUE_TURN,  # sub-core served first next time
    BLOCKED,  # the request in hand waits for a free entry
    TAG_FREE,
    DATA_FREE,
    PORT_FREE_TICK,  # output port to the crossbar
    FILL_FREE_TICK,  # input port from the crossbar
    SEQUENCE,
    READS_OUT,
    WRITES_OUT,
    ARRIVALS,  # promised responses in the heap
    FLIGHTS_OUT,
    WAITERS_OUT,
    FREE_FLIGHT,
    USED_FLIGHT,
    FREE_MISS,
    USED_MISS,
    FREE_WAITER,
    USED_WAITER,
    FREE_REQUEST,
    USED_REQUEST,
    RESIDENT_BLOCKS,
    CODE_PORT_FREE,  # the L1 instruction cache
    SM_COLUMNS,
) = range(29)

# columns of ``hand`` int64[sms, HAND_COLUMNS]: the request that the memory path holds
(
    BUSY,
    H_WARP,
    H_PC,
    H_MASK,
    H_LINES,
    H_TAG_CYCLES,
    H_DATA_CYCLES,
    H_SPACE,  # resolved: GENERIC never stands here
    H_ACCESS,  # first access record
    H_GROUP,  # asynchronous copies: 1 + the copy group's entry
    HAND_COLUMNS,
) = range(11)

# columns of ``queue`` int64[sub-cores, entries, QUEUE_COLUMNS]
(Q_WARP, Q_PC, Q_ACCESS, Q_MASK, Q_GROUP, Q_READY, QUEUE_COLUMNS) = range(7)

# columns of ``subs`` int64[sub-cores, SUB_COLUMNS]
# ADDRESS_FREE: cycle from which the sub-core works out another memory instruction's addresses; TENSOR_FREE_TICK: the
# same of its tensor core. HOLD: cycle until which operand reads keep the sub-core from issuing (0: none do),
# HELD_FROM: since when
(LAST_WARP, QUEUE_HEAD, QUEUE_COUNT, HOLD, HELD_FROM, ADDRESS_FREE, TENSOR_FREE_TICK, SUB_COLUMNS) = range(8)
