"""Numbers of the interpreter's own micro-ops: control flow, memory, and what looks across lanes.

Mental model: the shared vocabulary of the lowerings (which choose a number) and of the interpreter (whose compiled
if-chains know it). They need the state of a warp or block, so they are no bodies (:mod:`gpusim.isa.body`). Ranges come
from :mod:`gpusim.isa.number_ranges`.
"""

from __future__ import annotations

from gpusim.isa.number_ranges import CONTROL_BASE, LANES_BASE, MEMORY_BASE

# ---- control flow --------------------------------------------------------------------------------
NOP = CONTROL_BASE + 0
EXIT = CONTROL_BASE + 1
BRANCH = CONTROL_BASE + 2
BRANCH_INDEXED = CONTROL_BASE + 3  # target = label + 64-bit register, may differ by lane; flags: INDEXED_*
BRANCH_DIVERGENT = CONTROL_BASE + 4  # taken when lanes of a mask are elsewhere
CONVERGE_SET = CONTROL_BASE + 5  # BSSY
CONVERGE_WAIT = CONTROL_BASE + 6  # BSYNC
CONVERGE_LEAVE = CONTROL_BASE + 7  # BREAK
WARP_WAIT = CONTROL_BASE + 8  # WARPSYNC; flags: WAIT_*
GIVE_WAY = CONTROL_BASE + 9  # YIELD, NANOSLEEP
BARRIER_WAIT = CONTROL_BASE + 10  # BAR.SYNC, BAR.RED
BARRIER_ARRIVE = CONTROL_BASE + 11
CONVERGE_READ = CONTROL_BASE + 12  # BMOV R, B
CONVERGE_WRITE = CONTROL_BASE + 13  # BMOV B, R
TRAP = CONTROL_BASE + 14
EXTERNAL = CONTROL_BASE + 15  # stub of a driver function behind the code
CONVERGE_COPY = CONTROL_BASE + 16  # BMOV B, B; flags: clear the source
CLUSTER_ARRIVE = CONTROL_BASE + 17  # UCGABAR_ARV
CLUSTER_AWAIT = CONTROL_BASE + 18  # UCGABAR_WAIT
REGISTERS_GIVE = CONTROL_BASE + 19  # USETMAXREG.DEALLOC; flags: registers a thread from now on
REGISTERS_TAKE = (
    CONTROL_BASE + 20
)  # USETMAXREG.TRY_ALLOC; the same, and the slot of the predicate that says that it was done
WARPGROUP_WAIT = CONTROL_BASE + 24  # WARPGROUP.DEPBAR: the four warps of a group have issued their products

# What the target of BRANCH_INDEXED is (flags[0]): an address of the kernel's code, or what a pointer to a function
# holds.
INDEXED_CODE, INDEXED_POINTER = range(2)
# How BRANCH_DIVERGENT decides (flags[0]): lanes of the mask are elsewhere, all of them are here, or any guard holds.
DIVERGENT_DIV, DIVERGENT_CONV, DIVERGENT_ANY = range(3)
# How WARP_WAIT goes on where lanes name different sets (flags[0]): together, or one set at a time.
WAIT_TOGETHER, WAIT_EXCLUSIVE, WAIT_COLLECTIVE = range(3)

# What a stub does (flags[1] of EXTERNAL).
CALL_HOST, CALL_GRID_HANDLE, CALL_GRID_SYNC = range(3)

# Where a block barrier has its number of threads (flags[0] of BARRIER_WAIT and BARRIER_ARRIVE): nowhere, in an operand
# of its own, or in the high half of the one that has the barrier's number.
COUNT_NONE, COUNT_ALONE, COUNT_PACKED = range(3)
# Reductions of BAR.RED (flags[1] of BARRIER_WAIT).
RED_NONE, RED_POPC, RED_AND, RED_OR = range(4)

# ---- memory --------------------------------------------------------------------------------------
LOAD = MEMORY_BASE + 0  # flags: sign-extend
STORE = MEMORY_BASE + 1
ATOMIC = MEMORY_BASE + 2  # flags: operation, type
ASYNC_COPY = MEMORY_BASE + 3  # LDGSTS; flags: bypass
CONSTANT_LOAD = MEMORY_BASE + 4  # flags: bank start, bank bytes, bytes, sign-extend
MATRIX_LOAD = MEMORY_BASE + 5  # LDSM; flags: matrices, form (MATRIX_*), bits of an element in memory
MATRIX_STORE = MEMORY_BASE + 6
ASYNC_FILL = MEMORY_BASE + 7  # LDGSTS that writes zeros where its predicate does not hold; flags: ZFILL
TEXTURE = MEMORY_BASE + 8  # textures and surfaces; flags: what and how (gpusim/isa/forms/texture.py), channels, bytes
WIDE_LOAD = MEMORY_BASE + 9  # 32 bytes a lane: the lower half to source A's registers, the upper one to the destination
WIDE_STORE = MEMORY_BASE + 10  # 32 bytes a lane: of sources A and B
BULK = MEMORY_BASE + 12  # what the tensor memory accelerator is asked for; flags: gpusim/isa/bulk_ops.py
#: In the place of a base's shift: lane i names the same place in the shared memory of the block with rank i.
EACH_BLOCK = 32
TENSOR_MEMORY = MEMORY_BASE + 40  # tcgen05; flags: as gpusim/isa/tensor_memory_ops.py says
ASYNC_STORE = (
    MEMORY_BASE + 11
)  # STAS, REDAS; flags: bytes, operation (STORED: none), type; the address is the mbarrier's
NEXT_WORK = MEMORY_BASE + 13  # UGETNEXTWORKID; flags: for all blocks of the cluster; the address is the mbarrier's
#: Operation of an ASYNC_STORE that stores.
STORED = -1
# A warp group's product; flags: formats (as tensor bodies have them) and accumulator, columns and depth, bits of
# gpusim/isa/tensor_ops.py and the lane where metadata begins, bits of an element
WARPGROUP_PRODUCT = MEMORY_BASE + 24

# What LDSM and STSM move: 8 x 8 elements of 16 bits, the same transposed, 8 x 16 bytes, 16 x 16 bytes transposed,
# 16 x 8 bytes transposed.
MATRIX_PLAIN, MATRIX_TURNED, MATRIX_BYTES, MATRIX_TURNED_BYTES, MATRIX_TALL = range(5)

# Atomic operations.
# CAST is a CAS that returns 1 or 0: swapped or not. ARRIVE, PHASE, DROP (arrive for good), EXPECT and COMPLETE (of
# transactions) are those of an mbarrier, ARRIVE_AMPERE is that of Ampere's, which lays out its word otherwise.
ADD, MIN, MAX, AND, OR, XOR, EXCH, INC, DEC, CAS, CAST, SAFEADD, ARRIVE, PHASE, ARRIVE_AMPERE = range(15)
DROP, EXPECT, COMPLETE, EXPECT_ARRIVE, EXPECT_DROP = range(15, 20)
# Spaces in which an atomic on a generic address is done (flags[2] of ATOMIC).
SERVED_ALL, SERVED_GLOBAL, SERVED_GLOBAL_SHARED = range(3)
# Bits of flags[3] of ATOMIC: at the mbarrier of each block of the cluster that a mask names; done when earlier
# asynchronous work is.
EACH_NAMED, WHEN_DONE = 1, 2
# Atomic operand types.
U32, S32, U64, S64, F32, F64, F16X2, BF16X2, B128, F32_FTZ, F32X2_FTZ = range(11)
# Several words, each an operation of its own.
F32X4_FTZ, F16X4, F16X8, BF16X4, BF16X8 = range(11, 16)

# ---- lanes ---------------------------------------------------------------------------------------
SHUFFLE = LANES_BASE + 0  # flags: mode
VOTE = LANES_BASE + 1  # flags: mode
MATCH = LANES_BASE + 2  # flags: mode, words
REDUCE = LANES_BASE + 3  # flags: operation, how
SPECIAL = LANES_BASE + 4  # flags: register
FIRST_LANE = (
    LANES_BASE + 5
)  # R2UR: the value of the lowest executing lane in all lanes; flags: join the predicate by OR
PACK_PREDICATES = LANES_BASE + 6  # P2R; flags: byte, uniform file
UNPACK_PREDICATES = LANES_BASE + 7  # R2P
BARRIER_RESULT = LANES_BASE + 8  # B2R.RESULT
ELECT = LANES_BASE + 9
CODE_ADDRESS = LANES_BASE + 10  # LEPC; flags: address
QUERY_SPACE = LANES_BASE + 11  # QSPC; flags: space (QUERY_*)

# What QSPC asks of a generic address: global memory, the block's own shared memory, local memory, shared memory of any
# block of the cluster.
QUERY_GLOBAL, QUERY_SHARED, QUERY_LOCAL, QUERY_CLUSTER = range(4)
SHUFFLE_INDEX, SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_BUTTERFLY = range(4)
VOTE_ANY, VOTE_ALL, VOTE_EQUAL = range(3)
MATCH_ANY, MATCH_ALL = range(2)
# How REDUCE reads its operands (flags[1]), as bits.
REDUCE_SIGNED, REDUCE_FLOAT, REDUCE_ABSOLUTE, REDUCE_NAN = 1, 2, 4, 8

# Special registers (flags[0] of SPECIAL).
(
    SR_ZERO,
    SR_TID_X,
    SR_TID_Y,
    SR_TID_Z,
    SR_CTAID_X,
    SR_CTAID_Y,
    SR_CTAID_Z,
    SR_NTID_X,
    SR_NTID_Y,
    SR_NTID_Z,
    SR_NCTAID_X,
    SR_NCTAID_Y,
    SR_NCTAID_Z,
    SR_LANE,
    SR_WARP,
    SR_EQ_MASK,
    SR_LT_MASK,
    SR_LE_MASK,
    SR_GT_MASK,
    SR_GE_MASK,
    SR_CLOCK,
    SR_CLOCK_HIGH,
    SR_CLOCK_64,
    SR_ACTIVE_MASK,
    SR_SM,
    SR_SM_COUNT,
    SR_SHARED_WINDOW_HIGH,
    SR_ONE,
    SR_SHARED_BYTES,
    SR_TID_PACKED,
    SR_WARP_COUNT,
    SR_SM_WARPS,
    SR_CLUSTER_RANK,
) = range(33)
#: Second flag of SPECIAL that reads a clock: bits. It counts nanoseconds; and from CLOCK_SLOT_SHIFT on, for which loops
#: that wait for a time it says when they began to (emulator/clock_waits.py).
CLOCK_NANOSECONDS, CLOCK_SLOT_SHIFT = 1, 1
CLOCKS = (SR_CLOCK, SR_CLOCK_HIGH, SR_CLOCK_64)
