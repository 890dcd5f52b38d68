"""Logs what orders asynchronous work: accesses to shared memory, mbarriers, bulk copies, products, fences and barriers,
as they happen.

Mental model: a listener that asks for events gets one table of all of them, in the order in which the emulator executed
them; who may not rely on that order can be told from it (:mod:`gpusim.sanitizer.asynccheck`). ``State.watch_host`` has
a byte for each instruction that says what is noted of it (WATCH_*); where nobody asks it is 0, and each memory
instruction asks for that byte only.

Addresses are those of the cluster: the block's rank from bit RANK_SHIFT on, below it the shared address.
"""

from __future__ import annotations

import numpy as np

from gpusim.emulator.addresses import AFFINE_NONE, CLUSTER, SHARED, formed_addresses
from gpusim.emulator.cluster_memory import offset_of, rank_of
from gpusim.emulator.pointers import load8, load64, store64
from gpusim.emulator.tensor_memory import ALLOCATED_AT
from gpusim.isa import event_table as table
from gpusim.isa import system_ops as ops
from gpusim.isa import tensor_memory_ops as tensor
from gpusim.isa import warp as at
from gpusim.isa.jit import apart, inner
from gpusim.isa.lane_masks import first_lane, first_predicate
from gpusim.isa.number_ranges import MEMORY_BASE
from gpusim.trace.layout import RANK_SHIFT
from gpusim.trace.record import MemoryKind, Program, Space

GENERIC = int(Space.GENERIC)
#: Events that the log holds: 12 MiB.
EVENT_ROWS = 1 << 17
#: Events of warps in lockstep between two looks at how many there is room for, at most.
_MOST_AT_ONCE = 5 * at.GROUP_WARPS * at.LANES + at.MAX_WARPS
#: Beginnings of instructions that move nothing and are noted all the same; where mbarriers end, with the address.
_STEPS = ("FENCE.VIEW.ASYNC", "UTMACMDFLUSH", "LDGDEPBAR", "DEPBAR.LE", "WARPGROUP.", "SYNCS.CCTL", "UVIRTCOUNT")


def watch_table(program: Program, matrix: np.ndarray) -> np.ndarray:
    """What is noted of each instruction, uint8[n] of WATCH_*."""
    noted = np.zeros(len(matrix), np.uint8)
    for index, text in enumerate(program.texts):
        op, space = int(matrix[index, at.OP]), int(matrix[index, at.SPACE])
        near = space in (SHARED, CLUSTER, GENERIC)
        words = text.split()
        name = words[1] if words and words[0].startswith("@") else words[0] if words else ""
        if op == ops.BULK:
            noted[index] = table.WATCH_BULK
        elif op == ops.TENSOR_MEMORY:
            noted[index] = table.WATCH_TENSOR
        elif op == ops.WARPGROUP_PRODUCT:
            noted[index] = table.WATCH_PRODUCT
        elif op in (ops.ASYNC_STORE, ops.NEXT_WORK):
            noted[index] = table.WATCH_STORE
        elif name.startswith(("SYNCS", "ARRIVES", "UTCBAR")) and op == ops.ATOMIC:
            noted[index] = table.WATCH_OBJECT
        elif op >= MEMORY_BASE and near and int(matrix[index, at.RECORDS]) == 1:
            noted[index] = table.WATCH_LONG if name == "STS.64" else table.WATCH_SHARED
        elif op >= MEMORY_BASE and int(program.instructions["memory_kind"][index]) == MemoryKind.ASYNC_COPY:
            noted[index] = table.WATCH_COPY
        elif op >= MEMORY_BASE and (op == ops.ATOMIC or "STRONG" in name):
            noted[index] = table.WATCH_ORDER
        elif op < MEMORY_BASE and name.startswith(_STEPS):
            noted[index] = table.WATCH_STEP
    return noted


@inner
def events_full(state):
    """Whether events are logged, and there may not be room for those of another instruction."""
    return state.events_room > 0 and state.events_used + _MOST_AT_ONCE > state.events_room


@inner
def note(state, kind, warp, index, mask, a, b, c, d, e, f):
    """Append an event of ``kind`` (WATCH_*, EVENT_*) of lanes ``mask`` of ``warp`` at instruction ``index``."""
    n = state.events_used
    if n >= state.events_room:
        return
    place = state.events_host + 8 * table.EVENT_TABLE_WIDTH * n
    store64(place + 8 * table.EVENT_BLOCK, state.linear)
    store64(place + 8 * table.EVENT_WARP, np.int64(warp))
    store64(place + 8 * table.EVENT_INDEX, np.int64(index))
    store64(place + 8 * table.EVENT_KIND, np.int64(kind))
    store64(place + 8 * table.EVENT_MASK, np.int64(mask))
    store64(place + 8 * table.EVENT_A, np.int64(a))
    store64(place + 8 * table.EVENT_B, np.int64(b))
    store64(place + 8 * table.EVENT_C, np.int64(c))
    store64(place + 8 * table.EVENT_D, np.int64(d))
    store64(place + 8 * table.EVENT_E, np.int64(e))
    store64(place + 8 * table.EVENT_F, np.int64(f))
    state.events_used = n + 1


@inner
def watched(state, index):
    """What is noted of instruction ``index``; 0 where nobody asks."""
    return np.int64(load8(state.watch_host + index)) if state.watch_host else np.int64(0)


@inner
def _in_cluster(state, address, space):
    """The cluster's address of a shared one, -1 for one that is not in shared memory."""
    if space == SHARED:
        return offset_of(address) | state.cluster_rank << RANK_SHIFT
    if space == GENERIC and address >> 32 != state.shared_window >> 32:
        return np.int64(-1)
    return address & at.FULL


@inner
def _of_lane(accesses, scattered, row, lane):
    """Address of a lane in row number ``row`` of the log."""
    pattern, place = accesses[row, at.ACCESS_PATTERN], accesses[row, at.ACCESS_ADDRESS]
    stride = pattern >> 32
    return np.int64(scattered[place, lane]) if stride == AFFINE_NONE else place + stride * lane


@apart
def note_memory(state, matrix, registers, accesses, scattered, what, index, warp, own_base, x, result, logged):
    """Note the memory instruction ``index`` that ``warp`` has just executed, whose row number ``logged`` of the log, if
    it has one, says where.
    ``what``: WATCH_*; ``x``: where its first operand lies; ``result``: lanes whose predicate it has set."""
    row, zero = matrix[index], np.int64(0)
    space = np.int64(row[at.SPACE])
    if what == table.WATCH_PRODUCT:
        uniform = np.int64(row[at.B + at.SOURCE_OFFSET]) + (np.int64(row[at.B + at.SOURCE_OWN]) & own_base)
        note(
            state,
            what,
            warp,
            index,
            at.FULL,
            _long(registers, uniform),
            _long(registers, uniform + 2 * at.ROW),
            zero,
            zero,
            zero,
            zero,
        )
        return
    if what == table.WATCH_TENSOR:
        _note_tensor(state, row, registers, index, warp, own_base)
        return
    kind = np.int64(table.WATCH_SHARED)
    if what == table.WATCH_COPY:  # cp.async: its second row is the shared destination
        kind, logged, space = np.int64(what), logged + 1, np.int64(SHARED)
    if state.used[at.ACCESSES] <= logged:
        return
    pattern = accesses[logged, at.ACCESS_PATTERN]
    mask, stride = pattern & at.FULL, pattern >> 32
    if mask == 0:
        return
    if what == table.WATCH_BULK:
        note(
            state, what, warp, index, mask, state.shown_place, state.shown_bytes, state.shown_blocks, state.shown_barrier,
            state.shown_told, state.shown_source,
        )  # fmt: skip
    elif what == table.WATCH_ORDER:
        note(state, what, warp, index, mask, zero, zero, zero, zero, zero, zero)
    elif what == table.WATCH_STORE:
        formed_addresses(state, matrix, registers, index, own_base)
        size = np.int64(16 if row[at.OP] == ops.NEXT_WORK else row[at.F0])
        first = state.address[first_lane(mask)]
        for lane in range(at.LANES):
            if mask >> lane & 1:
                to = _of_lane(accesses, scattered, logged, lane) & at.FULL
                barrier = state.address[lane] & at.FULL
                if row[at.OP] == ops.NEXT_WORK:
                    barrier = offset_of(first) | rank_of(to) << RANK_SHIFT
                note(
                    state, what, warp, index, np.int64(1) << lane, to, size, np.int64(1) << rank_of(to), barrier, size,
                    zero,
                )  # fmt: skip
    elif what == table.WATCH_OBJECT:
        for lane in range(at.LANES):
            if mask >> lane & 1:
                if row[at.F0] == ops.PHASE and result >> lane & 1 == 0:
                    continue  # it is not over yet
                value = np.int64(registers[x + lane]) & at.FULL
                high = np.int64(registers[x + at.ROW + lane]) & at.FULL
                to = _in_cluster(state, _of_lane(accesses, scattered, logged, lane), space)
                note(state, what, warp, index, np.int64(1) << lane, to, np.int64(row[at.F0]), value, high, zero, zero)
    elif space == SHARED and kind == table.WATCH_SHARED and _is_store(row):
        _note_store(state, accesses, scattered, logged, mask, index, warp, np.int64(row[at.BYTES]))
    elif stride == AFFINE_NONE or space == GENERIC:
        for lane in range(at.LANES):
            if mask >> lane & 1:
                to = _in_cluster(state, _of_lane(accesses, scattered, logged, lane), space)
                if to >= 0:
                    note(state, kind, warp, index, np.int64(1) << lane, to, zero, zero, zero, zero, zero)
    else:
        low = first_lane(mask)
        to = _in_cluster(state, _of_lane(accesses, scattered, logged, low), space) - low * stride
        note(state, kind, warp, index, mask, to, stride, zero, zero, zero, zero)
    if what == table.WATCH_LONG:
        for lane in range(at.LANES):
            value, high = np.int64(registers[x + lane]) & at.FULL, np.int64(registers[x + at.ROW + lane]) & at.FULL
            if mask >> lane & 1 and _begins_object(value, high):
                to = _in_cluster(state, _of_lane(accesses, scattered, logged, lane), space)
                note(state, table.EVENT_INIT, warp, index, np.int64(1) << lane, to, zero, value, high, zero, zero)


@inner
def _is_store(row):
    return (row[at.OP] == ops.STORE or row[at.OP] == ops.MATRIX_STORE) and 0 < row[at.BYTES] <= 16


@inner
def _left(state, place, size):
    """(the first 8 bytes, the next 8) that stand at the block's shared address ``place`` now, of ``size`` bytes."""
    low, high, host = np.int64(0), np.int64(0), place + state.shared_host - state.shared_base
    for i in range(size):
        byte = np.int64(load8(host + i)) & 255
        if i < 8:
            low |= byte << (8 * i)
        else:
            high |= byte << (8 * (i - 8))
    return low, high


@inner
def _note_store(state, accesses, scattered, logged, mask, index, warp, size):
    """Note an ordinary store into the block's own shared memory, lane by lane, with what it has left there."""
    for lane in range(at.LANES):
        if mask >> lane & 1:
            place = _of_lane(accesses, scattered, logged, lane)
            low, high = _left(state, place, size)
            to = _in_cluster(state, place, np.int64(SHARED))
            note(
                state, table.WATCH_SHARED, warp, index, np.int64(1) << lane, to, np.int64(0), np.int64(1), low, high,
                np.int64(0),
            )  # fmt: skip


@inner
def _begins_object(value, high):
    """Whether these halves are the word of an mbarrier whose first phase begins: at addresses that differ among lanes
    compiled code initialises one by an ordinary store."""
    threads = value >> 1 & 0xFFFFF
    return threads != 0 and value == threads << 1 and high == threads << 11 & at.FULL


@inner
def _long(registers, place):
    return np.int64(registers[np.uint64(place)]) & at.FULL | np.int64(registers[np.uint64(place + at.ROW)]) << 32


@inner
def _word(row, registers, column, own_base):
    place = np.int64(row[column + at.SOURCE_OFFSET]) + (np.int64(row[column + at.SOURCE_OWN]) & own_base)
    return np.int64(registers[np.uint64(place)]) & at.FULL


@inner
def _note_tensor(state, row, registers, index, warp, own_base):
    """Note an instruction on tensor memory: what is asked for, the address or column, and what else says how much it
    touches."""
    operation, code, zero = np.int64(row[at.F3]), np.int64(row[at.F0]), np.int64(0)
    place, c, d, e, f = zero, zero, zero, zero, zero
    if operation == tensor.PRODUCT:
        x = np.int64(row[at.A + at.SOURCE_OFFSET]) + (np.int64(row[at.A + at.SOURCE_OWN]) & own_base)
        y = np.int64(row[at.B + at.SOURCE_OFFSET]) + (np.int64(row[at.B + at.SOURCE_OWN]) & own_base)
        c = np.int64(registers[x]) & at.FULL if code & tensor.A_IN_TENSOR_MEMORY else _long(registers, x)
        place, d = _word(row, registers, at.C, own_base) + np.int64(row[at.ADDRESS_OFFSET]), _long(registers, y)
        e = np.int64(registers[x + (np.int64(row[at.F1]) + 1) * at.ROW]) & at.FULL
        holds = state.predicates[first_predicate(warp) + row[at.P0] * at.GROUP_WARPS] ^ np.int64(row[at.P0_FLIP])
        f = code | (np.int64(tensor.ACCUMULATES) if holds & at.FULL else zero)
    elif operation == tensor.LOAD or operation == tensor.STORE:
        uniform = np.int64(row[at.UNIFORM_OFFSET]) + (np.int64(row[at.UNIFORM_OWN]) & own_base)
        place = (np.int64(registers[np.uint64(uniform)]) & at.FULL) + np.int64(row[at.ADDRESS_OFFSET])
        c, d, e = code, np.int64(row[at.F1]), np.int64(row[at.F2]) & 1
    elif operation == tensor.ALLOCATE:
        if state.predicates[first_predicate(warp) + row[at.Q0] * at.GROUP_WARPS] == 0:
            return  # none is free yet
        place, d = load64(state.tensor_host + ALLOCATED_AT), np.int64(row[at.F2])
    else:
        place = _word(row, registers, at.A, own_base)
        if operation != tensor.RELEASE:
            place += np.int64(row[at.ADDRESS_OFFSET])
            c, d = code, np.int64(row[at.F2])
        if operation == tensor.COPY:
            y = np.int64(row[at.B + at.SOURCE_OFFSET]) + (np.int64(row[at.B + at.SOURCE_OWN]) & own_base)
            e = _long(registers, y)
    note(state, table.WATCH_TENSOR, warp, index, np.int64(at.FULL), operation, place & at.FULL, c, d, e, f)


@apart
def note_step(state, matrix, registers, index, warp, own_base, mask):
    """Note an instruction that moves nothing, which lanes ``mask`` of ``warp`` execute; with its address, if it has
    one."""
    place, row = np.int64(0), matrix[index]
    if row[at.UNIFORM_WORDS] or row[at.BASE_WORDS]:
        formed_addresses(state, matrix, registers, index, own_base)
        place = offset_of(state.address[first_lane(mask)]) | state.cluster_rank << RANK_SHIFT
    zero = np.int64(0)
    note(state, table.WATCH_STEP, warp, index, mask, place, zero, zero, zero, zero, zero)
