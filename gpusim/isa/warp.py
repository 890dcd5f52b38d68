"""How a kernel looks to the interpreter: the columns of its code matrix and the state of a block.

Mental model: :mod:`gpusim.emulator.encode` turns micro-ops into one int32 row each; the interpreter reads
nothing else. Eight warps of a block are a group, and a register is one row of the group: 8 x 32 lanes side
by side, so that warps in lockstep are executed by one loop over them all. All rows lie in one flat int32 array:
first those that all groups share (zeros, a sink, scratch, constants, immediates; the same value in each lane),
then each group's own. An operand is an offset plus a mask that is -1 for a group's own rows (add the group's
base) and 0 for shared ones; a warp's lanes of an own row begin at 32 times its place in the group.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

LANES = 32
FULL = 0xFFFFFFFF
GROUP_WARPS = 8
#: Lanes from one row of the register file to the next; the last 16 are unused, so that the rows of a
#: group with few warps do not all fall into the same sets of the host's L1 cache.
ROW = GROUP_WARPS * LANES + 16

# ---- columns of the code matrix ------------------------------------------------------------------
OP = 0
GUARD = 1  # predicate slot
GUARD_FLIP = 2  # 0 or -1
A, B, C = 3, 9, 15  # six columns each, see below
SOURCE_OFFSET, SOURCE_OWN, SOURCE_WORDS, SOURCE_MODE, SOURCE_KEEP, SOURCE_FLIP = range(6)
D_OFFSET = 21
D_OWN = 22
D_WORDS = 23  # 0: no register is written
P0, P0_FLIP, P1, P1_FLIP, P2, P2_FLIP = range(24, 30)  # predicate inputs
Q0, Q1 = 30, 31  # predicate outputs, SINK_PREDICATE for none
F0, F1, F2, F3 = 32, 33, 34, 35
SCOPE = 36  # LANE_WISE, UNIFORM or WARP_WIDE
PREDICATES_OUT = 37  # 1: predicates are written
VECTOR_BODY = 38  # number of a body for all warps at once (bodies/wide, masked, loops, launch), 0 for none
APART = 39  # 1: no source row is a destination row, so a loop may write its result in place
PLAIN = 40  # 1: no source needs a sign change
ARITHMETIC_RUN = 41  # arithmetic instructions from here on, up to the next one of another kind
TARGET = 42  # instruction index, or byte offset of an indexed branch
CONVERGENCE = 43  # offset of the convergence barrier's row among the warp's rows
RECORDS = 44
BYTES = 45
SPACE = 46
BASE_OFFSET, BASE_OWN, BASE_WORDS, BASE_SIGNED, BASE_SHIFT = range(47, 52)
UNIFORM_OFFSET, UNIFORM_OWN, UNIFORM_WORDS = range(52, 55)
ADDRESS_OFFSET = 55
SECOND = 56  # second address recipe (LDGSTS): base offset, own, words, shift, uniform offset, own, offset
ORDERED = 63  # 1: the order in which warps execute it shows in the result
COLUMNS = 64

MODE_PLAIN, MODE_MASK, MODE_NEGATE = range(3)
LANE_WISE, UNIFORM, WARP_WIDE = range(3)

# ---- predicate slots of a group, each GROUP_WARPS lane masks -------------------------------------
TRUE_PREDICATE = 7
UNIFORM_PREDICATES = 8  # UP0..UP6, UPT at 15
TRUE_UNIFORM_PREDICATE = 15
SINK_PREDICATE = 16
PREDICATE_SLOTS = 20

BLOCK_BARRIERS = 16

# ---- fragment states -----------------------------------------------------------------------------
FREE, READY, AT_CONVERGENCE, AT_WARP_WAIT, AT_BARRIER, AT_GRID = range(6)

# ---- rows that all groups share ------------------------------------------------------------------
# Where operand areas of four rows begin: zeros, one that nobody reads, and scratch for sources x, y, z with
# sign changes and for results.
ZERO_ROW, SINK_ROW, X_ROW, Y_ROW, Z_ROW, W_ROW, FIRST_POOL_ROW = range(0, 28, 4)

# ---- what run functions answer -------------------------------------------------------------------
(
    DONE,
    PREEMPTED,
    LOG_FULL,
    LIMIT,
    BAD_ADDRESS,
    MISALIGNED,
    BAD_CONSTANT,
    BAD_TARGET,
    TRAPPED,
    DEADLOCK,
    HOST_CALL,  # Python must serve a driver function
    GRID_WAIT,
    SPLIT,
) = range(13)


class Machine(NamedTuple):
    """The arrays of a launch whose sizes differ from launch to launch."""

    matrix: np.ndarray  # int32[n, COLUMNS]: the encoded kernel
    registers: np.ndarray  # int32, 64-byte aligned: shared rows, then each group's own
    index_of: np.ndarray  # int32[code_bytes / 16]: instruction index at that address, -1 for none
    allocations: np.ndarray  # int64[a, 3]: device address (ascending), bytes, host address
    hint: np.ndarray  # int64[n]: allocation that an instruction last touched
    constants: np.ndarray  # uint8: all banks, one after another
    runs: np.ndarray  # uint32[r, 4]: the log, see LOG columns
    accesses: np.ndarray  # int64[a, 3]
    scattered: np.ndarray  # uint64[s, 32]


# Columns of the log. It is in time order; the warps' records are sorted apart when a chunk closes.
RUN_WARP, RUN_FIRST, RUN_COUNT, RUN_MASK = range(4)
ACCESS_WARP, ACCESS_ADDRESS, ACCESS_PATTERN = range(3)  # pattern: stride << 32 | mask
RUNS, ACCESSES, SCATTERED_ROWS = range(3)  # entries of State.used

MAX_WARPS = 32
TENSOR_RULES = 4
TENSOR_WORK_WORDS = 1536
#: Room for the entry points of all bodies.
ENTRY_POINTS = 160
_LANES64 = ("<i8", (LANES,))
_WARPS64 = ("<i8", (MAX_WARPS,))
_GROUP64 = ("<i8", (GROUP_WARPS,))
_FRAGMENTS32 = ("<i4", (MAX_WARPS, LANES))
_FRAGMENTS64 = ("<i8", (MAX_WARPS, LANES))

#: The state of one resident block, with the launch facts that it needs, as one record: compiled functions
#: take it as a single pointer. Fields by warp have room for the largest block.
STATE = np.dtype(
    [
        # launch facts, set once
        ("grid_dim", "<i8", (3,)),
        ("block_dim", "<i8", (3,)),
        ("warps", "<i8"),
        ("own_base", "<i8"),  # offset of group 0's rows among the registers
        ("own_stride", "<i8"),  # from group to group
        ("shared_base", "<i8"),  # first shared address of the kernel
        ("shared_bytes", "<i8"),
        ("local_bytes", "<i8"),  # of one thread
        ("shared_window", "<i8"),
        ("local_window", "<i8"),
        ("sm_count", "<i8"),
        ("quantum", "<i8"),  # warp instructions of a warp before the next one runs
        ("limit", "<i8"),
        ("slice", "<i8"),  # warp instructions of a block before another one runs
        ("slice_end", "<i8"),  # of State.executed: end of the block's slice, 0 between two
        ("shared_host", "<i8"),  # host addresses
        ("local_host", "<i8"),  # [warp][word][lane][4 bytes]
        ("state_host", "<i8"),  # of this record
        ("registers_host", "<i8"),
        ("matrix_host", "<i8"),
        ("arithmetic_entry", "<i8"),  # entry point of emulator/runs.py
        ("lockstep", "<i8"),  # 1: warps at the same instruction are executed together
        ("entries", "<i8", (ENTRY_POINTS,)),  # of the bodies, by number (body.py); 0: not needed here
        ("exists", "<i8", (MAX_WARPS,)),  # lanes that the launch gives each warp
        ("thread", "<i4", (MAX_WARPS, 3, LANES)),  # threadIdx of each lane
        # the block
        ("linear", "<i8"),
        ("block_index", "<i8", (3,)),
        ("started", "<i8"),
        ("next_group", "<i8"),
        ("in_quantum", "<i8"),  # the next group's quantum has begun
        ("one_by_one", "<i8"),  # warps run one by one until the next block barrier
        ("executed", "<i8"),  # warp instructions of the launch so far
        ("clock", "<i8"),  # the same up to the instruction that reads the clock
        ("now", "<i8"),  # counts fragments that stopped, for fairness
        ("at_barrier", "<i8"),  # fragments waiting at block barriers
        ("used", "<i8", (3,)),  # log entries
        # its warps
        ("alive", "<i8"),  # warps with lanes that have not ended
        ("live", "<i8", (MAX_WARPS,)),
        ("ready", "<i8", (MAX_WARPS,)),  # fragments that can run
        ("result", "<i4", (MAX_WARPS,)),  # of the last BAR.RED
        ("spin_pc", "<i8", (MAX_WARPS,)),  # last YIELD with nobody to yield to, and
        ("spin_hash", "<i8", (MAX_WARPS,)),  # a hash of the registers then
        ("predicates", "<i8", (MAX_WARPS * PREDICATE_SLOTS,)),  # lane masks [group][slot][warp]
        ("quantum_left", *_WARPS64),  # instructions until the warp's quantum is used up, at a jump
        ("quantum_spent", *_WARPS64),  # 1: it is used up for the fragment held
        # the fragment of each warp that runs, or was stopped in the middle
        ("held", *_WARPS64),  # 1: there is one
        ("held_pc", *_WARPS64),
        ("held_mask", *_WARPS64),
        ("held_first", *_WARPS64),  # instruction at which its run began
        ("held_left", *_WARPS64),  # instructions until it gives way to another fragment of the warp
        ("fragments", *_WARPS64),  # entries of the table below that have been used
        # their other fragments
        ("pc", *_FRAGMENTS32),
        ("fragment", *_FRAGMENTS32),  # FREE, READY, ...
        ("mask", *_FRAGMENTS64),
        ("wait", *_FRAGMENTS64),  # convergence row, lane mask or barrier, by state
        ("stamp", *_FRAGMENTS64),  # State.now when the fragment stopped
        # block barriers
        ("arrived", "<i8", (BLOCK_BARRIERS, MAX_WARPS)),  # lane masks
        ("vote", "<i8", (BLOCK_BARRIERS, MAX_WARPS)),  # predicate lanes of BAR.RED
        ("arrivals", "<i8"),  # 1: some warp of the block has arrived at one
        ("expected", "<i8", (BLOCK_BARRIERS,)),  # threads, 0 = all of the block
        ("reduction", "<i8", (BLOCK_BARRIERS,)),
        # where an instruction went wrong
        ("fault_index", "<i8"),
        ("fault_warp", "<i8"),
        ("fault_lane", "<i8"),
        ("fault_address", "<i8"),
        ("fault_bytes", "<i8"),
        ("fault_space", "<i8"),
        # the warps that run in lockstep
        ("active", *_GROUP64),  # their active masks; 0 for warps of the group that are elsewhere
        ("span", *_GROUP64),  # all lanes of the warps from the first to the last of them
        ("executing", *_GROUP64),  # lanes that execute the instruction
        ("condition", *_GROUP64),  # lanes where the first predicate operand holds
        ("outcome", *_GROUP64),  # of a control-flow instruction: kind and instruction to go on with
        ("goal", *_GROUP64),
        # scratch of one instruction
        ("address", *_LANES64),
        ("second", *_LANES64),
        ("skipped", *_LANES64),
        ("p0", "<u4", (GROUP_WARPS,)),
        ("p1", "<u4", (GROUP_WARPS,)),
        ("q", "<u4", (GROUP_WARPS, 2)),
        # of the tensor family: what this generation does (tensor_rules.py), and room for two decoded matrices
        ("rules", "<i4", (TENSOR_RULES,)),
        ("work", "<i4", (TENSOR_WORK_WORDS,)),
    ]
)
