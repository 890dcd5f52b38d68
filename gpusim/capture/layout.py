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
BLOCK_BARRIERS = 16

# ---- fragment states -----------------------------------------------------------------------------
FREE, READY, AT_CONVERGENCE, AT_WARP_WAIT, AT_BARRIER = range(5)

# ---- what run functions answer -------------------------------------------------------------------
(
    DONE,
    BLOCKED,
    PREEMPTED,
    LOG_FULL,
    LIMIT,
    BAD_ADDRESS,
    MISALIGNED,
    BAD_CONSTANT,
    BAD_TARGET,
    TRAPPED,
    DEADLOCK,
    EXTERNAL_CALL,
) = range(12)


class Code(NamedTuple):
    """A kernel encoded for one launch; nothing in it changes while blocks run."""

    matrix: np.ndarray  # int32[n, COLUMNS]
    index_of: np.ndarray  # int32[code_bytes / 16]: instruction index at that address, -1 for none
    address_of: np.ndarray  # int32[n]
    constants: np.ndarray  # uint8: all banks, one after another
    thread_rows: np.ndarray  # int32[warps, 3, 32]: threadIdx of each lane
    live: np.ndarray  # int64[warps]: lanes that exist
    shape: np.ndarray  # int64: see SHAPE_*
    allocation_base: np.ndarray  # int64[a] device addresses, ascending
    allocation_bytes: np.ndarray  # int64[a]
    allocation_host: np.ndarray  # int64[a] where the bytes lie on the host
    hint: np.ndarray  # int64[n]: allocation that an instruction last touched


# Entries of Code.shape.
(
    S_GRID_X,
    S_GRID_Y,
    S_GRID_Z,
    S_BLOCK_X,
    S_BLOCK_Y,
    S_BLOCK_Z,
    S_WARPS,
    S_OWN_BASE,
    S_OWN_STRIDE,
    S_SHARED_BASE,
    S_SHARED_BYTES,
    S_LOCAL_BYTES,
    S_SHARED_WINDOW,
    S_LOCAL_WINDOW,
    S_SM_COUNT,
    S_QUANTUM,
    S_LIMIT,
    S_BARRIER_ROWS,
    S_SLICE,
    S_BLOCKS,
) = range(20)
SHAPE_ENTRIES = 24


class Block(NamedTuple):
    """The state of one resident block, re-used by block after block."""

    registers: np.ndarray  # int32: shared rows, then each warp's rows
    predicates: np.ndarray  # int64[warps * PREDICATE_SLOTS] lane masks
    pc: np.ndarray  # int32[warps, 32] of fragments
    mask: np.ndarray  # int64[warps, 32]
    state: np.ndarray  # int32[warps, 32]
    wait: np.ndarray  # int64[warps, 32]: convergence row, lane mask or barrier, by state
    stamp: np.ndarray  # int64[warps, 32]: when the fragment last stopped
    ready: np.ndarray  # int64[warps]: fragments that can run
    live: np.ndarray  # int64[warps]
    arrived: np.ndarray  # int64[BLOCK_BARRIERS, warps] lane masks
    expected: np.ndarray  # int64[BLOCK_BARRIERS]: threads, 0 = all of the block
    vote: np.ndarray  # int64[BLOCK_BARRIERS, warps]: predicate lanes of BAR.RED
    reduction: np.ndarray  # int64[BLOCK_BARRIERS]
    result: np.ndarray  # int32[warps]: what the last BAR.RED found
    shared: np.ndarray  # uint8
    local: np.ndarray  # uint8: [warp][word][lane][4]
    where: np.ndarray  # int64: see W_*
    x: np.ndarray  # int32[4, 32] scratch
    y: np.ndarray
    z: np.ndarray
    w: np.ndarray
    xf: np.ndarray  # float32 views of the same
    yf: np.ndarray
    zf: np.ndarray
    wf: np.ndarray
    q: np.ndarray  # uint32[2]
    lane_address: np.ndarray  # int64[32]
    second_address: np.ndarray  # int64[32]
    fault: np.ndarray  # int64[8]: see FAULT_*


# Entries of Block.where.
(
    W_LINEAR,
    W_X,
    W_Y,
    W_Z,
    W_EXECUTED,
    W_CLOCK,
    W_SHARED_HOST,
    W_LOCAL_HOST,
    W_STARTED,
    W_NEXT_WARP,
    W_SLICE_END,
    W_STAMP,
    W_RESULT_HOST,
    W_AT_BARRIER,
) = range(14)
WHERE_ENTRIES = 16

# Entries of Block.fault.
FAULT_INDEX, FAULT_WARP, FAULT_LANE, FAULT_ADDRESS, FAULT_BYTES, FAULT_SPACE = range(6)


class Log(NamedTuple):
    """What the warps of a chunk did, in time order; sorted by warp when the chunk closes."""

    used: np.ndarray  # int64[4]: runs, accesses, scattered
    run_warp: np.ndarray  # int32
    run_first: np.ndarray  # uint32
    run_count: np.ndarray  # uint32
    run_mask: np.ndarray  # uint32
    access_warp: np.ndarray  # int32
    access_address: np.ndarray  # uint64
    access_stride: np.ndarray  # int32
    access_mask: np.ndarray  # uint32
    scattered: np.ndarray  # uint64[s, 32]


USED_RUNS, USED_ACCESSES, USED_SCATTERED = range(3)
