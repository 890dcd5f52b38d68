"""The tensor core of an SM that works on tensor memory (tcgen05): products and copies in order, commits told when they
are done.

Mental model: a queue whose entries need no state but two times: from when on the core is free, and when the latest of
them is done. A product of N columns keeps it for N over its rate, or for as long as shared memory takes to give A
(where it lies there) and B, whichever is more; a pair of blocks shares both, and computes 128 rows at twice the rate.
It is done when A has been read and N columns have been computed. A commit's mbarrier is written when all that came
before is done.

Source of the two rules: initiation intervals and latencies of 264 shapes on a B200
(github.com/lookup1980/microbench-blackwell).
"""

from __future__ import annotations

from gpusim.model import mshr as table
from gpusim.model import program as op
from gpusim.model.arrivals import TAG_BITS, push
from gpusim.model.compiled import inner
from gpusim.model.messages import COMMIT_DONE, TICKS_PER_CYCLE
from gpusim.model.scheduler import AGE, FREE
from gpusim.model.sm_tables import (
    ARRIVALS,
    COMMITS_OUT,
    FREE_REQUEST,
    TENSOR_DONE_TICK,
    TENSOR_UNIT_FREE,
    USED_REQUEST,
)
from gpusim.model.timing import TENSOR_COLUMN_TICKS, TENSOR_LATENCY, TENSOR_PAIR_LATENCY, TENSOR_SHARED_BYTES
from gpusim.model.trace_tables import A_BULK, B_BLOCKS, B_BYTES, B_COUNT, B_KIND, B_ROW_BYTES
from gpusim.trace.record import MemoryKind, PipeClass

PRODUCT = int(MemoryKind.TENSOR_PRODUCT)
PORT = int(PipeClass.TENSOR_MEMORY)
#: Bytes of a row of A that a product multiplies at once.
_STEP_BYTES = 32
#: Rows that a pair of blocks computes as fast as twice as many.
_HALF_ROWS = 128
#: Cycles of work that may wait: beyond, whoever issues more waits. A guess; silicon is busy from five products on.
QUEUE_CYCLES = 1024
#: Commits that may be under way; each product takes four cycles at least.
MOST_COMMITS = 512


@inner
def take_work(state, tables, sm, sub, access, now):
    """Queue the product or copy that is issued in cycle ``now``."""
    timing, sms = state.timing, state.sms
    box = tables.accesses[access, A_BULK]
    if box == 0:
        return
    row = tables.bulks[box - 1]
    sharers = 2 if row[B_BLOCKS] else 1
    rate = timing[TENSOR_SHARED_BYTES] * sharers
    reads = row[B_BYTES] * TICKS_PER_CYCLE // rate
    works, lead = reads, 0
    if row[B_KIND] == PRODUCT:
        columns = row[B_COUNT + 1]
        of_a = max(0, row[B_BYTES] - columns * row[B_ROW_BYTES])
        lead = of_a * TICKS_PER_CYCLE // rate
        works = columns * timing[TENSOR_COLUMN_TICKS] * max(1, row[B_ROW_BYTES] // _STEP_BYTES)
        if sharers == 2 and row[B_COUNT] <= _HALF_ROWS:
            works //= 2
    start = max(now * TICKS_PER_CYCLE, sms[sm, TENSOR_UNIT_FREE])
    ticks = max(reads, works)
    sms[sm, TENSOR_UNIT_FREE] = start + ticks
    latency = timing[TENSOR_LATENCY] + (timing[TENSOR_PAIR_LATENCY] if sharers == 2 else 0)
    done = start + lead + works + latency * TICKS_PER_CYCLE
    sms[sm, TENSOR_DONE_TICK] = max(sms[sm, TENSOR_DONE_TICK], done)
    waits = (start + ticks) // TICKS_PER_CYCLE - QUEUE_CYCLES
    ports = state.resident.ports
    ports[sub, PORT, FREE] = max(ports[sub, PORT, FREE], waits)


@inner
def put_off(state, sm, warp, signal, now):
    """Whether a commit has to wait for what came before; then its writes, ``signal``, are made when that is done."""
    sms, requests = state.sms, state.mshr.requests
    if sms[sm, TENSOR_DONE_TICK] <= now * TICKS_PER_CYCLE or sms[sm, COMMITS_OUT] >= MOST_COMMITS:
        return False
    tag = table.take(requests, sm, sms, FREE_REQUEST, USED_REQUEST)
    requests[sm, tag, table.CONTENT] = table.content(COMMIT_DONE, 0, 0, signal)
    requests[sm, tag, table.SENDER] = table.sender(warp, state.resident.slots[warp, AGE])
    push(state.heap, sm, sms, ARRIVALS, sms[sm, TENSOR_DONE_TICK] << TAG_BITS | tag)
    sms[sm, COMMITS_OUT] += 1
    return True


@inner
def is_commit(program, pc):
    """Whether the instruction is a commit (UTCBAR)."""
    return program[pc, op.BULK] == op.COMMITS
