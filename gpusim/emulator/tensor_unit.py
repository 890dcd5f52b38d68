"""One instruction on tensor memory (tcgen05) for one warp: operands from registers, then the unit that serves it.

Mental model: products, copies and shifts are asynchronous on a GPU; here they are done when they are issued, so that
whoever waits for them finds them done. What two blocks of a cluster do together (``.2CTA``) is done by the one that
issues it, in the memory of both.

The unit is called by address, as texture units are: it is compiled apart from the interpreter, when a kernel first
needs it.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import config, from_dtype, types
from numba.extending import intrinsic

from gpusim.emulator import tensor_maps as m
from gpusim.emulator.tensor_boxes import note_box
from gpusim.emulator.tensor_columns import column_shift, most_shift, zero_columns
from gpusim.emulator.tensor_matrices import CHUNK, WORK
from gpusim.emulator.tensor_memory import (
    MEMORY,
    allocate,
    copy,
    copy_shape,
    fault,
    find_statistic,
    release,
    shift_down,
    transfer,
)
from gpusim.emulator.tensor_products import (
    bring_columns,
    check,
    columns_of,
    depth_of,
    format_of,
    is_deep,
    multiply,
    rows_of,
)
from gpusim.isa import tensor_memory_ops as ops
from gpusim.isa import warp as at
from gpusim.isa.dispatch import record_at
from gpusim.isa.jit import entry, inner
from gpusim.isa.lane_masks import first_predicate
from gpusim.trace.record import MemoryKind

#: What wants a further operand: scales, lanes that are off, columns of zeros.
_BESIDE = ops.SCALED | ops.LANES_OFF | ops.COLUMNS_OFF
_PRODUCT, _COPY = int(MemoryKind.TENSOR_PRODUCT), int(MemoryKind.TENSOR_COPY)
#: Bytes of a block's room: tensor memory, and behind it what products work in.
_MEMORY_BYTES = MEMORY.itemsize
ROOM_BYTES = _MEMORY_BYTES + WORK.itemsize

if config.DISABLE_JIT:
    import ctypes

    def _plain_record(dtype):
        def record(address):
            held = (ctypes.c_char * dtype.itemsize).from_address(int(address))
            return np.frombuffer(held, dtype).view(np.recarray)[0]

        return record

    _memory_at, _work_at = _plain_record(MEMORY), _plain_record(WORK)
else:
    _memory_at, _work_at = record_at(from_dtype(MEMORY)), record_at(from_dtype(WORK))


@inner
def _place(row, column, own_base):
    return np.int64(row[column + at.SOURCE_OFFSET]) + (np.int64(row[column + at.SOURCE_OWN]) & own_base)


@inner
def _word(registers, place):
    return np.int64(registers[np.uint64(place)]) & at.FULL


@inner
def _long(registers, place):
    return _word(registers, place) | np.int64(registers[np.uint64(place + at.ROW)]) << 32


@inner
def has_partner(state):
    """Whether the block has a partner in its cluster, the block with the other last bit of the rank, that has not
    ended."""
    partner = state.cluster_rank ^ 1
    return state.cluster_size % 2 == 0 and state.peer_tensor[partner] != 0 and state.peer_shared[partner] != 0


@inner
def _note(state, kind, address, shared, first, blocks, rows, columns, depth):
    """Log a record of what the tensor core is asked for (gpusim/trace/layout.py); the caller has set what else it
    says."""
    t, counts = state.tensor, state.bulk_counts
    t[m.NOTE_KIND], t[m.NOTE_ACCESS], t[m.SWIZZLE], t[m.NOTE_SHARED] = kind, state.used[at.ACCESSES], 0, shared
    t[m.NOTE_BLOCKS] = ((np.int64(1) << blocks) - 1) << first if blocks > 1 else np.int64(0)
    counts[0], counts[1], counts[2], counts[3] = rows, columns, depth, 1
    note_box(state, address, 4, state.bulk_strides, counts)


@inner
def _note_product(state, code, b, d, idesc, first, blocks):
    t, strides = state.tensor, state.bulk_strides
    rows, columns = rows_of(idesc), columns_of(idesc)
    kind = code & ops.KIND_MASK
    depth = depth_of(kind, format_of(kind, idesc >> 7 & 7, False), idesc)
    row_bytes = np.int64(48 if is_deep(kind, idesc) else 32)
    for i in range(4):
        strides[i] = code if i == 0 else np.int64(0)
    t[m.NOTE_DESCRIPTOR], t[m.NOTE_ROW_BYTES] = idesc, row_bytes
    of_a = np.int64(0) if code & ops.A_IN_TENSOR_MEMORY else rows * row_bytes
    t[m.NOTE_BYTES] = of_a + columns * (row_bytes << (idesc >> 2 & 1))
    _note(state, _PRODUCT, d, (b & 0x3FFF) << 4, first, blocks, rows, columns, depth)


@inner
def _note_copy(state, shape, descriptor, address, first, blocks):
    t, strides = state.tensor, state.bulk_strides
    rows, chunks = copy_shape(shape)
    for i in range(4):
        strides[i] = 0
    t[m.NOTE_DESCRIPTOR], t[m.NOTE_ROW_BYTES], t[m.NOTE_BYTES] = 0, CHUNK * chunks, rows * chunks * CHUNK
    _note(state, _COPY, address, (descriptor & 0x3FFF) << 4, first, blocks, rows, chunks, np.int64(1))


@inner
def _product(state, row, registers, warp, own_base):
    work = _work_at(state.tensor_host + _MEMORY_BYTES)
    code = np.int64(row[at.F0])
    x = _place(row, at.A, own_base)
    a = _word(registers, x) if code & ops.A_IN_TENSOR_MEMORY else _long(registers, x)
    b, d = _long(registers, _place(row, at.B, own_base)), _word(registers, _place(row, at.C, own_base))
    d = (d + np.int64(row[at.ADDRESS_OFFSET])) & at.FULL
    beside = x + np.int64(row[at.F1]) * at.ROW
    metadata, idesc = _word(registers, beside), _word(registers, beside + at.ROW)
    further = x + np.int64(row[at.F2]) * at.ROW if code & _BESIDE else np.int64(0)
    holds = state.predicates[first_predicate(warp) + row[at.P0] * at.GROUP_WARPS] ^ np.int64(row[at.P0_FLIP])
    first, blocks = state.cluster_rank, np.int64(1)
    if code & ops.TWO_BLOCKS:
        if not has_partner(state):
            return fault(state, ops.FAULT_PEER, d)
        first, blocks = first & ~1, np.int64(2)
    columns = columns_of(idesc)
    low, high = state.shared_low, state.shared_base + state.shared_bytes - CHUNK
    each, skipped, mask = columns // blocks, np.int64(0), np.int64(0)
    if code & ops.COLUMNS_OFF:
        mask = _long(registers, further)
        skipped = column_shift(mask)
        if skipped > most_shift(idesc) or skipped > (16 if rows_of(idesc) == 32 else 32):
            return fault(state, ops.FAULT_COLUMN_SHIFT, skipped | most_shift(idesc) << 8)
    for i in range(blocks):
        status = check(state, _memory_at(state.peer_tensor[first + i]), code, d, idesc)
        if status != at.DONE:
            return status
    for i in range(blocks):
        if i == 0 or code & ops.SCALED:  # scales are multiplied in
            for part in range(blocks):
                shift = state.peer_shared[first + part] - state.shared_base
                status = bring_columns(state, work, code, b, idesc, each, low, high, shift, each * part, skipped)
                if status != at.DONE:
                    return status
            if code & ops.COLUMNS_OFF:
                kind = code & ops.KIND_MASK
                form = format_of(kind, idesc >> 10 & 7, False)
                depth = depth_of(kind, form, idesc) << (idesc >> 2 & 1)
                zero_columns(work, mask, columns, 128 // rows_of(idesc), depth, form)
        host = state.peer_tensor[first + i]
        shift = state.peer_shared[first + i] - state.shared_base
        status = multiply(
            state, _memory_at(host), host, work, registers, code, d, a, metadata, idesc, further, holds & at.FULL != 0,
            np.int64(i), low, high, shift,
        )  # fmt: skip
        if status != at.DONE:
            return status
    _note_product(state, code, b, d, idesc, first, blocks)
    return np.int64(at.DONE)


@inner
def execute_unit(state, row, registers, warp, own_base):
    """Execute an instruction on tensor memory; returns DONE, BAD_ADDRESS or BAD_TENSOR, with the fault's address and
    reason noted."""
    operation = np.int64(row[at.F3])
    if operation == ops.PRODUCT:
        return _product(state, row, registers, warp, own_base)
    memory = _memory_at(state.tensor_host)
    if operation == ops.LOAD or operation == ops.STORE:
        uniform = np.int64(row[at.UNIFORM_OFFSET]) + (np.int64(row[at.UNIFORM_OWN]) & own_base)
        address = (_word(registers, uniform) + np.int64(row[at.ADDRESS_OFFSET])) & at.FULL
        if operation == ops.STORE:
            place = _place(row, at.A, own_base)
        else:
            place = np.int64(row[at.D_OFFSET]) + (np.int64(row[at.D_OWN]) & own_base)
        shape, repeats = np.int64(row[at.F0]), np.int64(row[at.F1])
        status = transfer(
            state, memory, registers, warp, address, shape, repeats, row[at.F2] & 1 != 0, place,
            np.int64(0 if row[at.F2] & 2 else at.ROW), operation == ops.STORE,
        )  # fmt: skip
        if status == at.DONE and operation == ops.LOAD and row[at.SECOND + 6]:
            result = np.int64(row[at.SECOND]) + (np.int64(row[at.SECOND + 1]) & own_base)
            find_statistic(registers, shape, repeats, place, result, np.int64(row[at.SECOND + 3]))
        return status
    value = _word(registers, _place(row, at.A, own_base))
    if operation == ops.RELEASE:
        release(memory, value)
        return np.int64(at.DONE)
    if operation != ops.ALLOCATE:
        value = (value + np.int64(row[at.ADDRESS_OFFSET])) & at.FULL
    first, blocks = state.cluster_rank, np.int64(1)
    if row[at.F2] != 0:
        if not has_partner(state):
            return fault(state, ops.FAULT_PEER, value)
        first, blocks = first & ~1, np.int64(2)
    if operation == ops.COPY or operation == ops.SHIFT:
        status = np.int64(at.DONE)
        for i in range(first, first + blocks):
            host = state.peer_tensor[i]
            if status == at.DONE and operation == ops.SHIFT:
                status = shift_down(state, _memory_at(host), value)
            elif status == at.DONE:
                status = copy(
                    state, _memory_at(host), host, value, _long(registers, _place(row, at.B, own_base)),
                    np.int64(row[at.F0]), np.int64(row[at.F1]), state.shared_low,
                    state.shared_base + state.shared_bytes - CHUNK, state.peer_shared[i] - state.shared_base,
                )  # fmt: skip
        if operation == ops.COPY and status == at.DONE:
            _note_copy(state, np.int64(row[at.F0]), _long(registers, _place(row, at.B, own_base)), value, first, blocks)
        return status
    status, found = allocate(state, memory, _memory_at(state.peer_tensor[first + blocks - 1]), value, warp)
    if status == at.DONE:
        to = np.int64(row[at.D_OFFSET]) + (np.int64(row[at.D_OWN]) & own_base)
        for lane in range(at.LANES):
            registers[np.uint64(to + lane)] = np.int32(max(found, np.int64(0)))
        slot = first_predicate(warp) + row[at.Q0] * at.GROUP_WARPS
        state.predicates[slot] = np.int64(at.FULL) if found >= 0 else np.int64(0)
    return status


if config.DISABLE_JIT:

    def tensor_entry_address() -> int:
        """No entry point: the interpreter calls the function itself."""
        return 0

else:
    _state_at = record_at(from_dtype(at.STATE))
    _row_at = record_at(from_dtype(np.dtype([("columns", "<i4", (at.COLUMNS,))])))
    _file_at = record_at(from_dtype(np.dtype([("words", "<i4", (1 << 26,))])))

    def _one_warp(state_host, index, warp, own_base):
        state = _state_at(state_host)
        row = _row_at(state.matrix_host + index * (4 * at.COLUMNS)).columns
        return np.int64(execute_unit(state, row, _file_at(state.registers_host).words, warp, own_base))

    _ENTRY = types.int64(*[types.int64] * 4)

    def tensor_entry_address() -> int:
        """Host address of the entry point, compiled when it is first asked for."""
        return entry(_one_warp, _ENTRY).address

    @intrinsic
    def call_tensor_unit(typing_context, address, state_host, index, warp, own_base):
        """:func:`execute_unit` by address."""

        def generate(context, builder, signature, arguments):
            kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64)] * 4)
            return builder.call(builder.inttoptr(arguments[0], ir.PointerType(kind)), arguments[1:])

        return types.int64(*[types.int64] * 5), generate
