"""What the asynchronous check remembers of a cluster while it runs: clocks, mbarriers and shared memory.

Mental model: *vector clocks*. Each warp of a cluster (an *agent*) counts its own steps; its clock says of every other
agent up to which step that agent's work is ordered before the agent's own. Beside steps a clock counts what goes on by
itself: bulk copies whose sources have been read, copies of cp.async, products of a warp group, work of tcgen05, phases
of mbarriers. A barrier, or an mbarrier's phase, gathers the clocks of those who arrive and gives them to those who
wait. Two accesses that no clock orders could happen in either order on a GPU, whatever the emulator did.

``FENCED`` is a second count of an agent's steps: up to which one its stores are visible to the asynchronous proxy,
which a proxy fence on the way makes them; ``STORED`` a third: up to which one its stores into tensor memory are
complete, for which it waits.

Shared memory is followed in granules of 16 bytes, the unit of bulk copies and of matrices.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpusim.isa import warp as at
from gpusim.isa.tensor_memory_ops import UNITS
from gpusim.trace.record import Launch

GRANULE_BITS = 4
GRANULE = 1 << GRANULE_BITS
#: mbarriers of a block that are followed, and groups of asynchronous work that a warp may have closed and not waited
#: for.
MOST_OBJECTS, MOST_GROUPS = 64, 32
#: A step and the instruction at which it was taken, in one number; 0: none.
CODE_BITS = 24
CODE_MASK = (1 << CODE_BITS) - 1

# ---- facts int64[FACTS]: of the launch --------------------------------------------------------------
(
    WARPS,  # of a block
    BLOCKS,  # of a cluster
    AGENTS,
    GROUPS,  # warp groups of a block
    GRANULES,  # of a block
    SHARED_BASE, SHARED_BYTES,
    GRID_X, GRID_Y, GRID_Z, CLUSTER_X, CLUSTER_Y, CLUSTER_Z,
    # where the parts of a clock begin, and how long it is
    FENCED, READ_OUT, TENSOR_DONE, STORED, COPIED, PRODUCT_DONE, PHASES, CLOCK_WIDTH,
    # rows of clocks: agents first, then these
    BARRIER_ROWS, CLUSTER_ROW, PENDING_ROWS, DONE_ROWS, FLAG_ROW, CLOCK_ROWS,
    RACES, UNWRITTEN_READS,  # whether ordinary accesses are laid beside each other, and whether what is read has to be written
    COPY_WORDS,  # of a block's shared memory that are followed because of cp.async; 0: the kernel has none
    FACTS,
) = range(31)  # fmt: skip

# ---- code int64[n, CODE_COLUMNS]: an instruction as the check sees it -------------------------------
(ROLE, SIZE, READS, WRITES, LEVEL, ROWS, COLUMNS, DEPTH_BYTES, ELEMENT_BYTES, FORM, TELLS, GUARDED, CODE_COLUMNS) = (
    range(13)
)
TELLS_NAMED, TELLS_EACH, TELLS_PAIRS = range(
    3
)  # whose mbarrier a copy tells: the address's, each receiver's, one of each receiver's pair
# values of ROLE beside the event's kind
(
    NO_ROLE, FENCE, CLOSE_BULK, WAIT_BULK, WAIT_PRODUCTS, INVALIDATE, INIT, COMMIT, WAIT_STORED, RELINQUISH, CLOSE_COPIES,
    ARRIVE_COPIED,
) = range(12)  # fmt: skip
# bits of FORM of a warp group's product
A_IN_SHARED, A_TURNED, B_TURNED, CLOSES = 1, 2, 4, 8

# ---- agents int64[slots, AGENTS, AGENT_COLUMNS] ------------------------------------------------------
(
    WAITING,  # 1 + row of clocks at whose barrier it waits
    LANES,  # that have not ended
    COPIES, COPY_GROUPS,  # bulk copies from shared memory, and groups of them that it has closed
    PRODUCTS, PRODUCT_GROUPS, TENSOR_WORK,
    CLUSTER_LANES, CLUSTER_TURN,
    LANE_COPIES, LANE_GROUPS,  # instructions cp.async, and groups of them that it has closed
    AGENT_COLUMNS,
) = range(12)  # fmt: skip

# ---- objects int64[slots, objects, OBJECT_COLUMNS]: mbarriers ---------------------------------------
(
    ADDRESS, COUNT, MISSING, PENDING, CAME,  # CAME: bytes that have come in this phase
    PHASE, INIT_AGENT, INIT_STEP, INIT_CODE, LIVE, TOUCHED, EXPECT_CODE, EXPECT_AGENT,
    OBJECT_COLUMNS,
) = range(14)  # fmt: skip

# ---- shared int64[slots, BLOCKS, GRANULES, columns] --------------------------------------------------
(LOAD_OBJECT, LOAD_PHASE, LOAD_AGENT, LOAD_CODE) = range(4)
COPY_READ, TENSOR_READ, READ_SLOTS, READ_COLUMNS = 4, 10, 2, 3  # twice (1 + agent, number, code)
OBJECT_HERE = 16  # 1 + object, of both halves
FAR_READ, FAR_WRITE = 18, 20  # by an agent of another block: (1 + agent, step and code)
PRODUCT_READ = 22  # by warp group; then steps and codes of reads and of writes by warp
# ---- blocks int64[slots, BLOCKS, BLOCK_COLUMNS] ------------------------------------------------------
(
    LEFT,
    RELINQUISHED,  # 1 + instruction that gave up allocating
    ALLOCATED,  # units of tensor memory, as a mask
    ALLOCATORS,  # 1 + agent that has allocated each unit, for the block alone
) = range(4)  # fmt: skip
ALLOCATION_STEPS = ALLOCATORS + UNITS  # the steps at which
BLOCK_COLUMNS = ALLOCATION_STEPS + UNITS

# ---- touched int64[slots, BLOCKS, bytes, TOUCH_COLUMNS]: of each byte, where ordinary accesses are looked at
# ------------ its last writer and readers of two warps (1 + agent, step and code, whether atomic) TOUCH_VALUE: 1 + what
# the last write left there, 0: not known
WRITTEN, TOUCH_WRITER, TOUCH_READER, TOUCH_VALUE, TOUCH_COLUMNS = 0, 1, 4, 10, 11

# ---- copying int64[slots, BLOCKS, COPY_WORDS, 3]: the last cp.async into each word (1 + agent, number, code)
# ------------

# ---- tensor int64[slots, BLOCKS, halves of the lanes, MEMORY_COLUMNS, columns] -------------------------
# the tensor core's last work that writes and that reads a column (1 + agent, number, code), then steps and codes of
# loads and of stores by warp
COLUMN_WRITER, COLUMN_READ, WARP_COLUMNS = 0, 3, 6

# ---- found int64[limit, FOUND_COLUMNS] ---------------------------------------------------------------
(WHAT, CODE, OTHER_CODE, BLOCK, WARP, OTHER_BLOCK, OTHER_WARP, PLACE, VALUE, EXTRA, TIMES, FOUND_COLUMNS) = range(12)
(
    READ_UNFILLED, WRITE_UNFILLED, LOAD_OVER_LOAD, LOAD_OVER_READ, LOAD_OVER_WRITE, OVER_COPY, OVER_PRODUCT, OVER_TENSOR,
    UNORDERED, UNFENCED,
    NO_OBJECT, OBJECT_UNSEEN, OBJECT_AGAIN, OBJECT_OVERWRITTEN, TOO_MANY, BYTES_TOO_MANY, BYTES_TOO_FEW, BYTES_RANGE,
    COUNT_RANGE, WRONG_PARITY,
    ENDS_LOADING, ENDS_MULTIPLYING, ENDS_ACCESSED,
    TENSOR_UNFILLED, TENSOR_UNWRITTEN, TENSOR_OVER_WORK, TENSOR_OVER_READ, TENSOR_OVER_STORE, TENSOR_UNSTORED, TWO_PRODUCTS,
    ALLOCATED_LATE, FREED_BUSY, FREED_READ, ALLOCATION_UNSEEN,
    RACE_WRITE_WRITE, RACE_READ_WRITE, READ_UNWRITTEN,
    READ_COPIED, WRITE_COPIED, COPY_COPIED,
) = range(40)  # fmt: skip


class Tables(NamedTuple):
    """The arrays above; the first axis of most is the *slot*: one of the clusters that run side by side."""

    facts: np.ndarray
    code: np.ndarray
    clusters: np.ndarray  # int64[slots]: which cluster each slot holds, -1: none
    clock: np.ndarray  # int32[slots, CLOCK_ROWS, CLOCK_WIDTH]
    turns: np.ndarray  # int64[slots, CLOCK_ROWS]: turn of the barrier that a row gathers
    agents: np.ndarray
    copy_ends: np.ndarray  # int64[slots, AGENTS, MOST_GROUPS]: number of the last one of each group, a ring
    lane_ends: np.ndarray  # the same of cp.async
    product_ends: np.ndarray
    objects: np.ndarray
    object_count: np.ndarray  # int64[slots]
    waits: np.ndarray  # int64[slots, AGENTS, objects]: 1 + phase in which a warp's last wait ended, and code; below 0: it learnt of a phase
    shared: np.ndarray
    touched: np.ndarray
    copying: np.ndarray
    tensor: np.ndarray
    blocks: np.ndarray
    found: np.ndarray
    counts: np.ndarray  # int64[2]: findings, and those for which there was no room


def facts_of(launch: Launch, shared_base: int) -> np.ndarray:
    """The facts of a launch."""
    warps, blocks = launch.warps_per_block, launch.cluster_blocks
    agents, groups = warps * blocks, -(-warps // at.PRODUCT_WARPS)
    facts = np.zeros(FACTS, np.int64)
    facts[WARPS], facts[BLOCKS], facts[AGENTS], facts[GROUPS] = warps, blocks, agents, groups
    facts[SHARED_BASE], facts[SHARED_BYTES] = shared_base, launch.shared_bytes
    facts[GRANULES] = (shared_base % GRANULE + launch.shared_bytes >> GRANULE_BITS) + 2
    facts[GRID_X : GRID_X + 3], facts[CLUSTER_X : CLUSTER_X + 3] = launch.grid, launch.cluster
    objects = MOST_OBJECTS * blocks
    facts[FENCED], facts[READ_OUT], facts[TENSOR_DONE] = (agents * i for i in range(1, 4))
    facts[STORED], facts[COPIED], facts[PRODUCT_DONE] = 4 * agents, 5 * agents, 6 * agents
    facts[PHASES] = 6 * agents + groups * blocks
    facts[CLOCK_WIDTH] = facts[PHASES] + objects
    facts[BARRIER_ROWS] = agents
    facts[CLUSTER_ROW] = agents + at.BLOCK_BARRIERS * blocks
    facts[PENDING_ROWS] = facts[CLUSTER_ROW] + 1
    facts[DONE_ROWS] = facts[PENDING_ROWS] + objects
    facts[FLAG_ROW] = facts[DONE_ROWS] + objects
    facts[CLOCK_ROWS] = facts[FLAG_ROW] + 1
    return facts


def tables(facts: np.ndarray, code: np.ndarray, slots: int, limit: int, tensor_columns: int) -> Tables:
    """Room for ``slots`` clusters at a time and ``limit`` findings, all empty; ``tensor_columns``: of tensor memory, 0
    where nothing uses it."""
    touched_bytes = int(facts[SHARED_BYTES]) if facts[RACES] or facts[UNWRITTEN_READS] else 0
    agents, blocks, warps, width, rows, groups, granules = (
        int(facts[i]) for i in (AGENTS, BLOCKS, WARPS, CLOCK_WIDTH, CLOCK_ROWS, GROUPS, GRANULES)
    )
    return Tables(
        facts=facts,
        code=code,
        clusters=np.full(slots, -1, np.int64),
        clock=np.zeros((slots, rows, width), np.int32),
        turns=np.full((slots, rows), -1, np.int64),
        agents=np.zeros((slots, agents, AGENT_COLUMNS), np.int64),
        copy_ends=np.zeros((slots, agents, MOST_GROUPS), np.int64),
        lane_ends=np.zeros((slots, agents, MOST_GROUPS), np.int64),
        product_ends=np.zeros((slots, agents, MOST_GROUPS), np.int64),
        objects=np.zeros((slots, MOST_OBJECTS * blocks, OBJECT_COLUMNS), np.int64),
        object_count=np.zeros(slots, np.int64),
        waits=np.zeros((slots, agents, MOST_OBJECTS * blocks), np.int64),
        shared=np.zeros((slots, blocks, granules, PRODUCT_READ + groups + 2 * warps), np.int64),
        touched=np.zeros((slots, blocks, touched_bytes, TOUCH_COLUMNS), np.int64),
        copying=np.zeros((slots, blocks, int(facts[COPY_WORDS]), 3), np.int64),
        tensor=np.zeros((slots, blocks, 2, tensor_columns, WARP_COLUMNS + 2 * warps), np.int64),
        blocks=np.zeros((slots, blocks, BLOCK_COLUMNS), np.int64),
        found=np.zeros((limit, FOUND_COLUMNS), np.int64),
        counts=np.zeros(2, np.int64),
    )
