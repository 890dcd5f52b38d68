"""Tensor memory of a thread block (tcgen05): allocation, transfers between it, registers and shared memory.

Mental model: 128 lanes of 512 columns of 32 bits; an address has the lane in its upper half and the column in the lower
one. Columns are allocated 32 at a time, in all lanes. A warp reaches 32 lanes, those of its place in its warp group;
loads and stores are spread over its threads in shapes; what copies and products do reaches all lanes.

A block has all of an SM's tensor memory here: that of other blocks on the SM is another's. What is allocated is zeroed,
so that results do not depend on what ran before; on a GPU it holds anything.

Sources: PTX ISA, "Tensor Memory", tcgen05.alloc, ld, st, cp, shift; how threads, registers and lanes belong together:
CUTLASS, cute/atom/copy_traits_sm100.hpp. Chosen where nothing says: tcgen05.st.unpack::16b clears the upper halves;
tcgen05.cp.4x256b writes the addressed lane of each warp's 32; tcgen05.shift moves the 32 lanes that the address names.
"""

from __future__ import annotations

import ctypes

import numpy as np

from gpusim.emulator.pointers import copy_bytes, load64, store8, store64
from gpusim.emulator.tensor_matrices import CHUNK, E2M1_PACKED, E2M3_PACKED, chunk_address, code_at, layout_of
from gpusim.isa import tensor_memory_ops as ops
from gpusim.isa import warp as at
from gpusim.isa.jit import inner

#: One resident block's.
MEMORY = np.dtype(
    [
        ("words", "<i4", (ops.MEMORY_LANES, ops.MEMORY_COLUMNS)),
        ("allocated", "<i8"),  # bit i: columns 32 i to 32 i + 31
        ("refused", "<i8"),  # allocations since the last one that succeeded
        (
            "holders",
            "<i1",
            (ops.UNITS,),
        ),  # 1 + warp that has allocated each unit; of a pair the warp of the issuing block
        ("unused", "<i8", (4,)),  # what lies behind begins at a cache line of the host
    ]
)
#: Where the notes begin, and how long they are (read off compiled code).
_NOTES, _NOTES_BYTES = 0x40, 0x40
#: An mbarrier's word for one thread (gpusim/emulator/atomics.py).
_ONE_TO_COME = np.int64(0xFFFFF << 1 | 0xFFFFF << 43)
#: Where a block's memory says which units are allocated.
ALLOCATED_AT = MEMORY.fields["allocated"][1]
#: Allocations that find nothing, each of which lets other warps run, after which nobody will free anything.
_PATIENCE = 1 << 16


@inner
def fault(state, reason, address):
    """Note why an instruction cannot be executed (ops.FAULT_*) and about which address or number."""
    state.fault_bytes, state.fault_address = reason, address
    return np.int64(at.BAD_TENSOR)


@inner
def columns_allocated(memory, column, columns):
    """Whether the block has all of ``columns`` columns from ``column`` on."""
    if column < 0 or column + columns > ops.MEMORY_COLUMNS:
        return False
    for unit in range(column // ops.UNIT_COLUMNS, (column + columns - 1) // ops.UNIT_COLUMNS + 1):
        if memory.allocated >> unit & 1 == 0:
            return False
    return True


@inner
def _take(memory, first, units, warp):
    memory.allocated |= ((np.int64(1) << units) - 1) << first
    memory.refused = 0
    for unit in range(first, first + units):
        memory.holders[unit] = 1 + warp
    for lane in range(ops.MEMORY_LANES):
        for column in range(first * ops.UNIT_COLUMNS, (first + units) * ops.UNIT_COLUMNS):
            memory.words[lane, column] = 0


@inner
def allocate(state, memory, other, units, warp):
    """(status, first unit or -1) of ``units`` units beside each other for ``warp``, aligned to their number, that are
    free in ``memory`` and in
    ``other``: that of the partner where two blocks allocate together, else the same."""
    if units < 1 or units > ops.UNITS or units & (units - 1):
        return fault(state, ops.FAULT_SIZE, units), np.int64(-1)
    wanted = (np.int64(1) << units) - 1
    for first in range(0, ops.UNITS, units):
        if (memory.allocated | other.allocated) >> first & wanted == 0:
            _take(memory, first, units, warp)
            if other.allocated >> first & wanted == 0:
                _take(other, first, units, warp)
            return np.int64(at.DONE), np.int64(first)
    memory.refused += 1
    if memory.refused > _PATIENCE:
        return fault(state, ops.FAULT_EXHAUSTED, units * ops.UNIT_COLUMNS), np.int64(-1)
    return np.int64(at.DONE), np.int64(-1)


@inner
def release(memory, kept):
    """Free the units whose bits are not set in ``kept``."""
    memory.allocated &= kept & ((np.int64(1) << ops.UNITS) - 1)
    memory.refused = 0


@inner
def end_tensor_memory(state):
    """The block has ended: what it has not given back is free again, and noted."""
    place = state.tensor_host + ALLOCATED_AT
    left = load64(place)
    if left:
        if state.tensor_left == 0:
            state.tensor_left_block, state.tensor_left_units = state.linear, left
        state.tensor_left += 1
        store64(place, np.int64(0))
    reset_allocation(state)


@inner
def reset_allocation(state):
    """What compiled code notes of allocations, in the shared memory that the system keeps: nothing yet; of the mbarrier
    by which two blocks tell each other what they have, a phase with one arrival has begun. Who writes that on a GPU is
    not published; it follows from how it is used."""
    words = state.shared_host - state.shared_base
    for i in range(_NOTES, _NOTES + _NOTES_BYTES, 8):
        store64(words + i, np.int64(0))
    store64(words + state.pair_allocation[0], _ONE_TO_COME)


def tell_rank(state: np.record, rank: int) -> None:
    """Begin the notes of a block that takes its place in a cluster. Which parity of the mbarrier lets it allocate: of
    each pair of blocks the first may do so at once."""
    place = int(state.shared_host) - int(state.shared_base)
    ctypes.c_int64.from_address(place + int(state.pair_allocation[0])).value = int(_ONE_TO_COME)
    ctypes.c_uint32.from_address(place + int(state.pair_allocation[1])).value = 1 - rank % 2


# ---- loads and stores -------------------------------------------------------------------------------


@inner
def _cell(shape, thread, register):
    """(lane, column) of a thread's register, -1 for a thread that has none: 32 lanes of a column for each register; 16
    lanes of two, four or eight columns for one, two or four; half of the threads."""
    if shape == ops.LANES_32:
        return thread, register
    if shape == ops.LANES_16x64:
        return (thread >> 2) + 8 * (thread & 1), (thread >> 1 & 1) + 2 * register
    if shape == ops.LANES_16x128:
        return (thread >> 2) + 8 * (register & 1), (thread & 3) + 4 * (register >> 1)
    if shape == ops.LANES_16x256:
        return (thread >> 2) + 8 * (register >> 1 & 1), 2 * (thread & 3) + (register & 1) + 8 * (register >> 2)
    if shape == ops.FIRST_HALF:
        return (thread, register) if thread < 16 else (np.int64(-1), register)
    return (thread - 16, register) if thread >= 16 else (np.int64(-1), register)


@inner
def transfer(state, memory, registers, warp, address, shape, repeats, packed, place, step, stores):
    """LDTM and STTM: ``place`` is where the first of the registers begins, ``step`` from one to the next; with
    ``packed`` a register holds the lower halves of two columns."""
    lane, column = address >> ops.LANE_SHIFT, address & ((1 << ops.LANE_SHIFT) - 1)
    within = lane & 31
    if lane >> 5 != warp & 3 or (within if shape == ops.LANES_32 else within & 15):
        return fault(state, ops.FAULT_LANES, address)
    registers_each = np.int64(1)
    width = np.int64(1)
    if shape == ops.LANES_16x64:
        width = np.int64(2)
    elif shape == ops.LANES_16x128:
        registers_each, width = np.int64(2), np.int64(4)
    elif shape == ops.LANES_16x256:
        registers_each, width = np.int64(4), np.int64(8)
    if packed:
        width *= 2
    if not columns_allocated(memory, column, width * repeats):
        return fault(state, ops.FAULT_COLUMNS, address)
    words = memory.words
    for register in range(registers_each * repeats):
        row = place + register * step
        for thread in range(at.LANES):
            down, across = _cell(shape, np.int64(thread), np.int64(register))
            if down < 0:
                continue
            if packed:
                low, high = column + 2 * across, column + 2 * across + 1
                if stores:
                    word = registers[row + thread]
                    words[lane + down, low], words[lane + down, high] = word & 0xFFFF, word >> 16 & 0xFFFF
                else:
                    both = np.int64(words[lane + down, low]) & 0xFFFF | np.int64(words[lane + down, high]) << 16
                    registers[row + thread] = np.int32(((both & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000)
            elif stores:
                words[lane + down, column + across] = registers[row + thread]
            else:
                registers[row + thread] = words[lane + down, column + across]
    return np.int64(at.DONE)


@inner
def _order(word, operation):
    """A key by which patterns compare as the numbers of LDTM.STAT do: -0 below +0; -1: NaN."""
    if operation < ops.STAT_S32:
        return np.int64(word) & 0xFFFFFFFF
    if operation < ops.STAT_F32:
        return np.int64(word) + (np.int64(1) << 31)
    magnitude = np.int64(word) & 0x7FFFFFFF
    if magnitude > 0x7F800000:
        return np.int64(-1)
    return (np.int64(1) << 32) + (magnitude if word >= 0 else -magnitude - 1)


@inner
def find_statistic(registers, shape, repeats, place, result, operation):
    """The smallest or largest of each thread's ``repeats`` registers from ``place`` on goes to ``result``; of floats
    NaN counts for nothing unless it wins, and where nothing counts the result is NaN (as PTX min and max)."""
    kind = operation % ops.STAT_OPERATIONS
    floats, wins = operation >= ops.STAT_F32, operation >= ops.STAT_F32_NAN
    for thread in range(at.LANES):
        if _cell(shape, np.int64(thread), np.int64(0))[0] < 0:
            continue
        best, best_key, nan = np.int32(0), np.int64(-1), False
        for register in range(repeats):
            word = registers[place + register * at.ROW + thread]
            if kind >= ops.STAT_MIN_ABS:
                word = np.int32(word & 0x7FFFFFFF)
            key = _order(word, operation)
            if key < 0:
                nan = True
            elif best_key < 0 or (
                key < best_key if kind == ops.STAT_MIN or kind == ops.STAT_MIN_ABS else key > best_key
            ):
                best, best_key = word, key
        if floats and (best_key < 0 or (nan and wins)):
            best = np.int32(0x7FFFFFFF)
        registers[result + thread] = best


# ---- copies from shared memory, and the shift -------------------------------------------------------


@inner
def copy_shape(shape):
    """(rows, chunks of 16 bytes of each) that a copy reads."""
    chunks = np.int64(2 if shape == ops.COPY_128x256 or shape == ops.COPY_4x256 else 1)
    if shape == ops.COPY_4x256:
        return np.int64(4), chunks
    if shape == ops.COPY_64x128_02_13 or shape == ops.COPY_64x128_01_23:
        return np.int64(64), chunks
    return np.int64(32 if shape == ops.COPY_32x128 else 128), chunks


@inner
def copy(state, memory, words_host, address, descriptor, shape, unpacked, low, high, shift):
    """UTCCP: rows of shared memory to lanes. ``words_host``: host address of ``memory.words``; ``low``, ``high``,
    ``shift``: as of :func:`gpusim.emulator.tensor_matrices.bring`."""
    lane, column = address >> ops.LANE_SHIFT, address & ((1 << ops.LANE_SHIFT) - 1)
    rows, chunks = copy_shape(shape)
    copies = np.int64(1)
    if rows == 64 or rows == 32:
        copies = 128 // rows
    if not columns_allocated(memory, column, 4 * chunks):
        return fault(state, ops.FAULT_COLUMNS, address)
    if lane >= 32 if shape == ops.COPY_4x256 else lane != 0:
        return fault(state, ops.FAULT_LANES, address)
    if layout_of(descriptor)[0] == 0:
        return fault(state, ops.FAULT_DESCRIPTOR, descriptor)
    for row in range(rows):
        for chunk in range(chunks):
            source = chunk_address(descriptor, False, np.int64(chunk), np.int64(row))
            if source < low or source > high:
                state.fault_bytes, state.fault_address = CHUNK, source
                return np.int64(at.BAD_ADDRESS)
            for twin in range(copies):
                if shape == ops.COPY_4x256:
                    to = lane + 32 * row
                elif shape == ops.COPY_64x128_02_13:
                    to = row + 64 * twin
                elif shape == ops.COPY_64x128_01_23:
                    to = (row & 31) + 64 * (row >> 5) + 32 * twin
                else:
                    to = row + 32 * twin
                host = words_host + 4 * (to * ops.MEMORY_COLUMNS + column + 4 * chunk)
                if unpacked == ops.COPY_AS_IS:
                    copy_bytes(host, source + shift, np.int64(CHUNK))
                    continue
                for i in range(16):
                    if unpacked == ops.COPY_4_BITS:
                        store8(host + i, np.int32(code_at(np.int64(E2M1_PACKED), source + shift, np.int64(i)) << 2))
                    else:
                        store8(host + i, np.int32(code_at(np.int64(E2M3_PACKED), source + shift, np.int64(i))))
    return np.int64(at.DONE)


@inner
def shift_down(state, memory, address):
    """UTCSHIFT: 32 bytes of each of 32 lanes but the last become those of the lane above it."""
    lane, column = address >> ops.LANE_SHIFT, address & ((1 << ops.LANE_SHIFT) - 1)
    if lane & 31 or lane >= ops.MEMORY_LANES:
        return fault(state, ops.FAULT_LANES, address)
    if not columns_allocated(memory, column, np.int64(8)):
        return fault(state, ops.FAULT_COLUMNS, address)
    for i in range(31):
        for j in range(8):
            memory.words[lane + i, column + j] = memory.words[lane + i + 1, column + j]
    return np.int64(at.DONE)
