"""How a kernel looks to the interpreter: the columns of its code matrix and the state of a block.

Mental model: :mod:`gpusim.capture.encode` turns micro-ops into one int32 row each; the interpreter reads
nothing else. Registers are rows of 32 lanes in one flat int32 array: first the rows that all warps share
(zeros, a sink, constants, immediates), then each warp's own. An operand is an offset plus a mask that is
-1 for a warp's own rows (add the warp's base) and 0 for shared ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

LANES = 32
FULL = 0xFFFFFFFF

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
TARGET = 38  # instruction index, or byte offset of an indexed branch
CONVERGENCE = 39  # offset of the convergence barrier's row among the warp's rows
RECORDS = 40
BYTES = 41
SPACE = 42
BASE_OFFSET, BASE_OWN, BASE_WORDS, BASE_SIGNED, BASE_SHIFT = range(43, 48)
UNIFORM_OFFSET, UNIFORM_OWN, UNIFORM_WORDS = range(48, 51)
ADDRESS_OFFSET = 51
SECOND = 52  # second address recipe (LDGSTS): base offset, own, words, shift, uniform offset, own, offset
KIND = 59  # MemoryKind
COLUMNS = 64

MODE_PLAIN, MODE_MASK, MODE_NEGATE = range(3)
LANE_WISE, UNIFORM, WARP_WIDE = range(3)

# ---- predicate slots of a warp -------------------------------------------------------------------
TRUE_PREDICATE = 7
UNIFORM_PREDICATES = 8  # UP0..UP6, UPT at 15
TRUE_UNIFORM_PREDICATE = 15
SINK_PREDICATE = 16
PREDICATE_SLOTS = 20

CONVERGENCE_BARRIERS = 16
RETURN_ADDRESS_ROWS = 2  # Rpc.LO and Rpc.HI, kept behind the convergence barriers
BLOCK_BARRIERS = 16

# ---- fragment states -----------------------------------------------------------------------------
FREE, READY, AT_CONVERGENCE, AT_WARP_WAIT, AT_BARRIER, AT_GRID = range(6)

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
) = range(12)


class Machine(NamedTuple):
    """The arrays of a launch whose sizes differ from launch to launch."""

    matrix: np.ndarray  # int32[n, COLUMNS]: the encoded kernel
    registers: np.ndarray  # int32: shared rows, then each warp's own
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
_LANES64 = ("<i8", (LANES,))
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
        ("own_base", "<i8"),  # offset of warp 0's rows among the registers
        ("own_stride", "<i8"),
        ("shared_base", "<i8"),  # first shared address of the kernel
        ("shared_bytes", "<i8"),
        ("local_bytes", "<i8"),  # of one thread
        ("shared_window", "<i8"),
        ("local_window", "<i8"),
        ("sm_count", "<i8"),
        ("quantum", "<i8"),  # warp instructions of a warp's turn
        ("limit", "<i8"),
        ("slice", "<i8"),  # warp instructions of a block's turn
        ("slice_end", "<i8"),  # of State.executed: end of the block's turn, 0 between two
        ("shared_host", "<i8"),  # host addresses
        ("local_host", "<i8"),  # [warp][word][lane][4 bytes]
        ("result_host", "<i8"),  # of field w
        ("scratch_host", "<i8"),  # of fields x, y, z, w, q
        ("family", "<i8", (5,)),  # entry points of the arithmetic families
        ("exists", "<i8", (MAX_WARPS,)),  # lanes that the launch gives each warp
        ("thread", "<i4", (MAX_WARPS, 3, LANES)),  # threadIdx of each lane
        # the block
        ("linear", "<i8"),
        ("block_index", "<i8", (3,)),
        ("started", "<i8"),
        ("next_warp", "<i8"),
        ("executed", "<i8"),  # warp instructions of the launch so far
        ("now", "<i8"),  # counts fragments that stopped, for fairness
        ("at_barrier", "<i8"),  # fragments waiting at block barriers
        ("used", "<i8", (3,)),  # log entries
        # its warps
        ("live", "<i8", (MAX_WARPS,)),
        ("ready", "<i8", (MAX_WARPS,)),  # fragments that can run
        ("result", "<i4", (MAX_WARPS,)),  # of the last BAR.RED
        ("spin_pc", "<i8", (MAX_WARPS,)),  # last YIELD with nobody to yield to, and
        ("spin_hash", "<i8", (MAX_WARPS,)),  # a hash of the registers then
        ("predicates", "<i8", (MAX_WARPS * PREDICATE_SLOTS,)),  # lane masks
        # their fragments
        ("pc", *_FRAGMENTS32),
        ("fragment", *_FRAGMENTS32),  # FREE, READY, ...
        ("mask", *_FRAGMENTS64),
        ("wait", *_FRAGMENTS64),  # convergence row, lane mask or barrier, by state
        ("stamp", *_FRAGMENTS64),  # State.now when the fragment stopped
        # block barriers
        ("arrived", "<i8", (BLOCK_BARRIERS, MAX_WARPS)),  # lane masks
        ("vote", "<i8", (BLOCK_BARRIERS, MAX_WARPS)),  # predicate lanes of BAR.RED
        ("expected", "<i8", (BLOCK_BARRIERS,)),  # threads, 0 = all of the block
        ("reduction", "<i8", (BLOCK_BARRIERS,)),
        # where an instruction went wrong
        ("fault_index", "<i8"),
        ("fault_warp", "<i8"),
        ("fault_lane", "<i8"),
        ("fault_address", "<i8"),
        ("fault_bytes", "<i8"),
        ("fault_space", "<i8"),
        # scratch of one instruction
        ("address", *_LANES64),
        ("second", *_LANES64),
        ("fill", *_LANES64),
        ("x", "<i4", (4, LANES)),
        ("y", "<i4", (4, LANES)),
        ("z", "<i4", (4, LANES)),
        ("w", "<i4", (4, LANES)),
        ("q", "<u4", (2,)),
        # of the tensor family: what this generation does (tensor_rules.py), and room for two decoded matrices
        ("rules", "<i4", (TENSOR_RULES,)),
        ("work", "<i4", (TENSOR_WORK_WORDS,)),
    ]
)
SCRATCH_BYTES = 4 * LANES * 4  # of each of x, y, z, w, which follow one another, q behind them
