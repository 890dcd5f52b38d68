"""Blocks and warps that live on an SM: where a warp stands in its path, and what it waits for.

Mental model: a warp is a cursor over the runs of its path plus a few facts that decide when its next
instruction may issue: the end of its stall count, its six counters (``scoreboard``), its barrier, its
fence, its asynchronous copies. :func:`earliest_issue` joins them; it is asked after every issue and
after every event that could have been the last one missing.

Warp ``w`` of the tables is slot ``w % max_warps`` of SM ``w // max_warps``; a sub-core's warps stand side by
side. ``warps`` is int64[warps, columns], ``blocks`` int64[sms * max_blocks, columns].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpusim.model import program as op
from gpusim.model.compiled import inner
from gpusim.model.messages import MOST_PEERS, NEVER
from gpusim.model.scheduler import AGE, PORT, note_start, sleep
from gpusim.model.scoreboard import COUNTERS, clear, few_from, pending, reason_of, zero_from
from gpusim.model.stall_reasons import (
    BARRIER,
    GMMA,
    GRIDDEPCONTROL,
    IMC_MISS,
    LONG_SCOREBOARD,
    MEMBAR,
    NO_INSTRUCTION,
    SHORT_SCOREBOARD,
    SLEEPING,
)
from gpusim.model.timing import MOST_QUEUED_PRODUCTS, SUB_CORES, WARPS_PER_SUB_CORE
from gpusim.model.trace_tables import RUN_COUNT, RUN_FIRST, RUN_MASK
from gpusim.model.whole_division import quotient
from gpusim.state_tables import Table
from gpusim.trace.layout import CLOCK_SLOTS
from gpusim.trace.record import Flag

#: Asynchronous-copy groups that a warp can have open; older ones share the oldest entry's fate.
COPY_GROUPS = 8
#: Groups of products (wgmma) of which a warp remembers the end: PTX lets it wait for all but 7 at most.
PRODUCT_GROUPS = 8

#: Named barriers of a block.
BARRIERS = 16

# What every issue reads or writes comes first, in a cache line of the host; then what all but plain arithmetic needs,
# in a second one; then what the end of a run needs.
WARP_TABLE = Table(
    __name__, "warps", "a warp slot", "Where the warp stands in its path, and what it waits for.", whole_lines=True
)
PC = WARP_TABLE.column("index", "its next instruction")
LEFT = WARP_TABLE.column("count", "instructions left in the run, the next one included")
MASK = WARP_TABLE.column("mask", "lanes that are on")
ISSUED = WARP_TABLE.column("cycle", "of the last issue")
STALL_END = WARP_TABLE.column("cycle", "at which the stall count of the last issue ends")
BRANCHED = WARP_TABLE.column("flag", "the last issue was a taken branch")
FENCED = WARP_TABLE.column("flag", "the last issue was a fence")
POLL_END = WARP_TABLE.column("index", "behind its last run; 0: it does not poll")
ACCESS = WARP_TABLE.column("index", "access record of its next memory instruction")
WAIT_REASON = WARP_TABLE.column("code", "the stall reason of what it waits for")
BLOCK = WARP_TABLE.column("index", "its block's row in ``blocks``")
AT_BARRIER = WARP_TABLE.column("index", "1 + number of the barrier at which it waits; 0: at none")
FETCHED = WARP_TABLE.column("cycle", "the same of the next instruction, as far as fetch goes")
CONSTANT_READY = WARP_TABLE.column("cycle", "and as far as its constant operand goes")
BARRIER_END = WARP_TABLE.column("cycle", "at which the last barrier opened")
SLEEP_END = WARP_TABLE.column("cycle", "at which it wakes from a NANOSLEEP")
RUN = WARP_TABLE.column("index", "the run that it is in")
RUN_END = WARP_TABLE.column("index", "behind the last run of its part of the trace")
ROW = WARP_TABLE.column("index", "of the warp's current part in the trace's tables")
LINE_READY = WARP_TABLE.column("cycle", "at which the next line's first instruction can issue at the earliest")
STORES = WARP_TABLE.column("count", "stores and reductions not acknowledged yet")
LAST_ACK = WARP_TABLE.column("cycle", "of the latest acknowledgement")
BARRIER_PC = WARP_TABLE.column("index", "instruction at which it last waited at a barrier")
LOCAL_BASE = WARP_TABLE.column("address", "of its local memory")
GROUP = WARP_TABLE.column("count", "asynchronous-copy groups closed so far")
UNSEEN = WARP_TABLE.column("count", "polls since the last decision that have not seen what they wait for")
POLL_RUN = WARP_TABLE.column("index", "first run of the round of polling that it is in")
POLL_ACCESS = WARP_TABLE.column("index", "access record at the round's begin")
POLL_FROM = WARP_TABLE.column("cycle", "of the first decision to go on polling")
POLL_ONCE = WARP_TABLE.column("flag", "the round that it is in is made once: the next one follows")
SUSPENDED = WARP_TABLE.column("index", "1 + first row of ``signals`` for which it is suspended; 0: it is not")
SUSPENDED_FROM = WARP_TABLE.column("cycle", "since when")
SUSPENDED_COUNTER = WARP_TABLE.column("index", "counter that falls with the answer")
CLOCK_READ = WARP_TABLE.column("cycle", "at which it last read the clock in a loop that waits for a time")
CLOCK_END = WARP_TABLE.column("cycle", "for which the loop that it is in waits; 0: it waits for no time")
CLOCK_FROM = WARP_TABLE.column("cycle", "from which on its loops wait, as it read the clock then", span=CLOCK_SLOTS)
CLUSTER_PHASE = WARP_TABLE.column(
    "count", "of the cluster's barrier at which it has arrived and not waited, from 1 on; 0: it has not arrived"
)
COPIES_OPEN = WARP_TABLE.column("count", "copies of each group entry that are under way", span=COPY_GROUPS)
COPIES_DONE = WARP_TABLE.column("cycle", "at which the latest copy of each group entry was there", span=COPY_GROUPS)
PRODUCTS_END = WARP_TABLE.column("cycle", "at which the latest product (wgmma) of the warp is there")
PRODUCT_ROOM = WARP_TABLE.column("cycle", "from which the tensor core's queue has room for another of its products")
PRODUCTS_ISSUED = WARP_TABLE.column("count", "products issued so far")
PRODUCTS_LEAVE = WARP_TABLE.column(
    "cycle", "at which the core has done with each of the latest products", span=MOST_QUEUED_PRODUCTS
)
PRODUCTS_LATE = WARP_TABLE.column(
    "cycles", "by which the tensor core's clock, of whose cycles those of products are, was behind at the last look"
)
PRODUCTS_CLOSED = WARP_TABLE.column("count", "groups of products closed so far")
GROUPS_END = WARP_TABLE.column("cycle", "at which the latest groups of products are there", span=PRODUCT_GROUPS)
HELD_END = WARP_TABLE.column(
    "cycle", "at which the grid has completed that its own depends on; NEVER: not known yet; 0: it depends on none"
)
WARP_COLUMNS = WARP_TABLE.width

BLOCK_TABLE = Table(__name__, "blocks", "a block slot", "The block that is resident there.")
BLOCK_NUMBER = BLOCK_TABLE.column("index", "in the grid")
LIVE = BLOCK_TABLE.column("count", "warps that have not ended")
WAITING = BLOCK_TABLE.column("count", "warps at a barrier")
QUEUED = BLOCK_TABLE.column(
    "count", "memory instructions that the LSU has not taken yet (registers are in use until then)"
)
STORES_LEFT = BLOCK_TABLE.column("tick", "at which the last store so far has left the SM; 0: none has")
ARRIVED = BLOCK_TABLE.column("count", "warps that have come to each named barrier", span=BARRIERS)
EXPECTED = BLOCK_TABLE.column(
    "count", "the warps that the last to arrive there said will meet; 0: all that live", span=BARRIERS
)

CLUSTER = BLOCK_TABLE.column("index", "its cluster, of those of the grid")
CLUSTER_BLOCKS = BLOCK_TABLE.column("count", "blocks of the cluster; 0: the launch has none")
RANK = BLOCK_TABLE.column("index", "of the block in its cluster")
PEERS = BLOCK_TABLE.column("packed", "where each block of the cluster is: SM << PLACE_SHIFT | slot", span=MOST_PEERS)
CLUSTER_ARRIVED = BLOCK_TABLE.column("count", "live warps that have arrived at the barrier of the cluster")
CLUSTER_CAME = BLOCK_TABLE.column("mask", "blocks of the cluster, by rank, all of whose threads have arrived there")
CLUSTER_ENDED = BLOCK_TABLE.column("mask", "blocks of the cluster, by rank, that have ended")
CLUSTER_OPENED = BLOCK_TABLE.column("count", "how often the barrier has opened")
FIRST_WARP = BLOCK_TABLE.column("index", "warp slot of the SM with which its warps begin")
BLOCK_WARPS = BLOCK_TABLE.column("count", "its warps")
GRID = BLOCK_TABLE.column("index", "of the chain; 0: the launch is none")
LETS_GO = BLOCK_TABLE.column("flag", "it has let the grid begin that depends on its own")
#: AT_BARRIER of a warp that waits for its cluster.
AT_CLUSTER = BARRIERS + 1

FLAG_GRID_WAIT = int(Flag.GRID_WAIT)
FLAG_DEPBAR, FLAG_PRODUCT, FLAG_PRODUCT_WAIT = int(Flag.DEPBAR), int(Flag.PRODUCT), int(Flag.PRODUCT_WAIT)


class ResidentState(NamedTuple):
    """What decides when each warp of a group issues."""

    warps: np.ndarray
    ready: np.ndarray  # see ``scheduler``, as for ``slots``, ``ports`` and ``sets``
    slots: np.ndarray
    ports: np.ndarray
    sets: np.ndarray
    board: np.ndarray  # see ``scoreboard``
    blocks: np.ndarray
    subs_next: np.ndarray  # int64[sub-cores]: next cycle in which a sub-core looks at its warps


@inner
def earliest_issue(warps, board, program, warp):
    """First cycle at which the warp's next instruction has all it depends on; NEVER while unknown.

    Sets WAIT_REASON, with which the cycles after the stall count are charged.
    """
    if warps[warp, AT_BARRIER]:
        warps[warp, WAIT_REASON] = BARRIER
        return NEVER
    pc = warps[warp, PC]
    cycle = warps[warp, STALL_END]
    if warps[warp, FETCHED] > cycle:
        cycle = warps[warp, FETCHED]
        warps[warp, WAIT_REASON] = NO_INSTRUCTION
    if warps[warp, CONSTANT_READY] > cycle:
        cycle = warps[warp, CONSTANT_READY]
        warps[warp, WAIT_REASON] = IMC_MISS
    if warps[warp, BARRIER_END] > cycle:
        cycle = warps[warp, BARRIER_END]
        warps[warp, WAIT_REASON] = BARRIER
    if warps[warp, SLEEP_END] > cycle:
        cycle = warps[warp, SLEEP_END]
        warps[warp, WAIT_REASON] = SLEEPING
    if warps[warp, FENCED]:
        if warps[warp, STORES] > 0:
            warps[warp, WAIT_REASON] = MEMBAR
            return NEVER
        if warps[warp, LAST_ACK] > cycle:
            cycle = warps[warp, LAST_ACK]
            warps[warp, WAIT_REASON] = MEMBAR
    wait_mask = program[pc, op.WAIT_MASK]
    if wait_mask:
        cycle, counter = zero_from(board, warp, wait_mask, cycle)
        if counter >= 0:
            warps[warp, WAIT_REASON] = reason_of(board, warp, counter)
        if cycle == NEVER:
            return NEVER
    if program[pc, op.FLAGS] & FLAG_DEPBAR:
        cycle = _depbar_end(warps, board, warp, program[pc, op.DEPBAR_INDEX], program[pc, op.DEPBAR_LEVEL], cycle)
    if program[pc, op.FLAGS] & FLAG_PRODUCT and warps[warp, PRODUCT_ROOM] + warps[warp, PRODUCTS_LATE] > cycle:
        cycle = warps[warp, PRODUCT_ROOM] + warps[warp, PRODUCTS_LATE]
        warps[warp, WAIT_REASON] = GMMA
    if program[pc, op.FLAGS] & FLAG_PRODUCT_WAIT:
        # Groups complete in order: that of the last one that must be there decides.
        group = warps[warp, PRODUCTS_CLOSED] - program[pc, op.DEPBAR_LEVEL]
        if group > 0 and program[pc, op.DEPBAR_LEVEL] < PRODUCT_GROUPS:
            end = warps[warp, GROUPS_END + group % PRODUCT_GROUPS] + warps[warp, PRODUCTS_LATE]
            if end > cycle:
                cycle = end
                warps[warp, WAIT_REASON] = GMMA
    if program[pc, op.FLAGS] & FLAG_GRID_WAIT and warps[warp, HELD_END] > cycle:
        cycle = warps[warp, HELD_END]
        warps[warp, WAIT_REASON] = GRIDDEPCONTROL
    return cycle


@inner
def _depbar_end(warps, board, warp, counter, level, cycle):
    """When counter ``counter`` is at most ``level``: of its falls as many may still be to come, the unknown ones last.
    Copy groups complete in order, so all but the last ``level`` of them must be done."""
    if counter < COUNTERS:
        unknown = pending(board, warp, counter)
        if unknown > level:
            warps[warp, WAIT_REASON] = reason_of(board, warp, counter)
            return NEVER
        fallen = few_from(board, warp, counter, level - unknown) if level else board[warp, counter]
        if fallen > cycle:
            cycle = fallen
            warps[warp, WAIT_REASON] = reason_of(board, warp, counter)
    closed = warps[warp, GROUP]
    for group in range(max(0, closed - COPY_GROUPS + 1), closed - level):
        entry = group % COPY_GROUPS
        if warps[warp, COPIES_OPEN + entry] > 0:
            warps[warp, WAIT_REASON] = LONG_SCOREBOARD
            return NEVER
        if warps[warp, COPIES_DONE + entry] > cycle:
            cycle = warps[warp, COPIES_DONE + entry]
            warps[warp, WAIT_REASON] = LONG_SCOREBOARD
    return cycle


@inner
def wake(resident, program, timing, warp, now):
    """Ask a warp that waits for something unknown whether the answer has come; tell its sub-core."""
    ready, subs_next = resident.ready, resident.subs_next
    if ready[warp] != NEVER or resident.slots[warp, AGE] == 0:  # age 0: the warp has ended
        return
    cycle = earliest_issue(resident.warps, resident.board, program, warp)
    if cycle != NEVER:
        cycle = max(cycle, now)
        sub = quotient(warp, timing[WARPS_PER_SUB_CORE])
        sleep(ready, resident.sets, sub, sub * timing[WARPS_PER_SUB_CORE], warp, cycle)
        if cycle < subs_next[sub]:
            subs_next[sub] = cycle


@inner
def warp_index(timing, sm, slot):
    """Row of hardware warp ``slot`` of an SM: consecutive slots go round the sub-cores."""
    subs = timing[SUB_CORES]
    place = quotient(slot, subs)
    return (sm * subs + slot - place * subs) * timing[WARPS_PER_SUB_CORE] + place


@inner
def load_run(warps, runs, warp):
    """Point the cursor at the start of run RUN."""
    run = warps[warp, RUN]
    warps[warp, PC] = runs[run, RUN_FIRST]
    warps[warp, LEFT] = runs[run, RUN_COUNT]
    warps[warp, MASK] = runs[run, RUN_MASK]


@inner
def start_warp(resident, program, timing, runs, warp, fellows, cursor, block, age, local_base, now):
    """Make a warp resident: ``cursor`` is (first run, end run, first access, row of the trace's warps), ``fellows`` the
    set of its sub-core's warps that its block has started before it."""
    warps, slots = resident.warps, resident.slots
    for i in range(WARP_COLUMNS):
        warps[warp, i] = 0
    clear(resident.board, warp)
    warps[warp, RUN] = cursor[0]
    warps[warp, RUN_END] = cursor[1]
    warps[warp, ACCESS] = cursor[2]
    warps[warp, ROW] = cursor[3]
    warps[warp, BLOCK] = block
    warps[warp, ISSUED] = now - 1
    warps[warp, STALL_END] = now
    warps[warp, WAIT_REASON] = SHORT_SCOREBOARD
    warps[warp, LOCAL_BASE] = local_base
    load_run(warps, runs, warp)
    slots[warp, PORT] = program[warps[warp, PC], op.PORT]
    per_sub = timing[WARPS_PER_SUB_CORE]
    first = quotient(warp, per_sub) * per_sub
    note_start(slots, first, per_sub, warp, age, fellows)


@inner
def release_barrier(resident, program, timing, sm, block, number, end, now):
    """Let all warps of the block that wait at barrier ``number`` go on from cycle ``end``."""
    warps, blocks = resident.warps, resident.blocks
    blocks[block, ARRIVED + number] = 0
    first = blocks[block, FIRST_WARP]
    for i in range(blocks[block, BLOCK_WARPS]):
        warp = warp_index(timing, sm, first + i)
        if warps[warp, AT_BARRIER] == number + 1 and warps[warp, BLOCK] == block:
            warps[warp, AT_BARRIER] = 0
            warps[warp, BARRIER_END] = end
            blocks[block, WAITING] -= 1
            wake(resident, program, timing, warp, now)
