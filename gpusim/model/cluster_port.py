"""An SM's port to the network between SMs: what goes to, and comes from, the shared memory of other blocks of its
cluster.

Mental model: two ways, one in and one out, each of which carries a 32-byte sector in so many ticks, one after the
other. The latency of a load or a write has its first sector's time in it already; what is here is the time that an
access waits for those before it and for its own further sectors. An access counts the distinct sectors that its lanes
touch (the Hopper tuning guide asks for accesses that are coalesced in segments of 32 bytes). The port of the SM that
owns the memory is not followed: many that read from one, or write to one, each have their own rate.
"""

from __future__ import annotations

from gpusim.model.compiled import inner
from gpusim.model.messages import TICKS_PER_CYCLE
from gpusim.model.sm_tables import PEER_OUT_TICK, QUEUE_FREE
from gpusim.model.timing import CLUSTER_SECTOR_TICKS, WRITE_LIMIT

_SECTORS_PER_LINE, SECTOR_BYTES = 4, 32


@inner
def through_port(sms, timing, sm, way, sectors, tick):
    """Let ``sectors`` pass the port from ``tick`` on, ``way`` PEER_IN_TICK or PEER_OUT_TICK; the tick at which the last
    one has begun to."""
    begin = max(tick, sms[sm, way])
    sms[sm, way] = begin + sectors * timing[CLUSTER_SECTOR_TICKS]
    return sms[sm, way] - timing[CLUSTER_SECTOR_TICKS]


@inner
def delay(sms, timing, sm, way, sectors, cycle):
    """Cycles by which the port delays an access of ``sectors`` in ``cycle``. What is sent waits in a queue as long as
    that of writes to L2; when it is full the LSU takes nothing more."""
    if sectors == 0:
        return 0
    last = through_port(sms, timing, sm, way, sectors, cycle * TICKS_PER_CYCLE)
    if way == PEER_OUT_TICK:
        queue_ticks = timing[WRITE_LIMIT] * _SECTORS_PER_LINE * timing[CLUSTER_SECTOR_TICKS]
        sms[sm, QUEUE_FREE] = max(sms[sm, QUEUE_FREE], (sms[sm, way] - queue_ticks) // TICKS_PER_CYCLE)
    return (last + TICKS_PER_CYCLE - 1) // TICKS_PER_CYCLE - cycle
