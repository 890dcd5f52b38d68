"""Executes an instruction of the tensor memory accelerator (TMA): operands, checks, the copy, the mbarriers that are
told.

Mental model: on a GPU the copy is made some time later; here it is made at once, and so are the arrivals of its bytes
at mbarriers. The trace gets one access, of the mbarriers (one lane a block of the cluster that is told), and the boxes
that were moved; when that happens is the engine's business. Everything is checked before anything is moved, but for
rows that lie in no allocation. The accelerator is called by address, as texture units are: it is compiled apart from
the interpreter, when a kernel first needs it.

Elements of 4 and 6 bits that are spread over bytes (16U4_ALIGN16B, 16U6_ALIGN16B) count at the mbarrier with the bytes
that they take in global memory: so CUTLASS's collectives expect them (``TmaTransactionBytes``: elements times
``sizeof_bits``, 4 or 6), and Triton's, by the packed block's bytes.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import config, from_dtype, types
from numba.extending import intrinsic

from gpusim.emulator import tensor_maps as m
from gpusim.emulator.addresses import formed_addresses, log_addresses
from gpusim.emulator.atomics import complete_transactions
from gpusim.emulator.cluster_memory import NO_PEER, offset_of, peer_shared, rank_of
from gpusim.emulator.pointers import copy_bytes, load8, store8
from gpusim.emulator.tensor_boxes import box_rows, find_host, move_box, note_box
from gpusim.emulator.tensor_elements import has_reduction, reduce_element
from gpusim.emulator.tensor_maps import FAULTS
from gpusim.isa import bulk_ops as bulk
from gpusim.isa import warp as at
from gpusim.isa.dispatch import record_at
from gpusim.isa.jit import apart, entry, inner
from gpusim.isa.lane_masks import first_lane
from gpusim.launch.tensor_map import MAP_BYTES
from gpusim.trace.record import MemoryKind

assert len(FAULTS) == m.NO_RECEIVER + 1
_LOW = 0xFFFFFFFF
_MAP_ALIGNMENT, _TILE_ALIGNMENT, _UNIT = 64, 128, 16
_LOAD, _STORE, _REDUCTION = int(MemoryKind.BULK_LOAD), int(MemoryKind.BULK_STORE), int(MemoryKind.BULK_REDUCTION)
_PREFETCH, _SHARED_COPY = int(MemoryKind.BULK_PREFETCH), int(MemoryKind.BULK_SHARED_COPY)
_SHARED_REDUCTION = int(MemoryKind.BULK_SHARED_REDUCTION)
_KINDS = np.array(
    [_LOAD, _STORE, _REDUCTION, _PREFETCH, _LOAD, _STORE, _REDUCTION, _PREFETCH, _SHARED_COPY, _SHARED_REDUCTION]
)


@inner
def _word(row, registers, source, own_base, i):
    """Uniform register number ``i`` of a source operand, zero-extended."""
    place = np.int64(row[source + at.SOURCE_OFFSET]) + (np.int64(row[source + at.SOURCE_OWN]) & own_base)
    return np.int64(registers[place + i * at.ROW]) & _LOW


@inner
def _signed(value):
    return value - ((value & 0x80000000) << 1)


@inner
def _long(row, registers, source, own_base):
    return _word(row, registers, source, own_base, 0) | _word(row, registers, source, own_base, 1) << 32


@inner
def _fault(state, what, value, size):
    state.fault_space, state.fault_address, state.fault_bytes = what, value, size
    return np.int64(at.BAD_BULK)


@inner
def told_lanes(state, row, registers, own_base, mask):
    """The lanes of the access that the trace gets of a bulk instruction that ``mask`` executes: the lowest one or,
    where blocks of the cluster are named by a mask, one for each of their ranks."""
    if mask == 0 or not row[at.F3] & bulk.MULTICAST:
        return mask & -mask
    return _word(row, registers, at.C, own_base, 0) >> 16


@inner
def _receivers(state, row, registers, own_base, place, size, named):
    """Ranks, as a mask, of the blocks whose shared memory gets ``size`` bytes at shared address ``place``, whose hosts
    go to ``State.bulk_targets``; 0 where one of them has no such bytes."""
    targets = named if row[at.F3] & bulk.MULTICAST else np.int64(1) << min(rank_of(place), np.int64(16))
    for rank in range(16):
        if targets >> rank & 1:
            host = peer_shared(state, np.int64(rank), offset_of(place), size)
            if host == NO_PEER:
                return np.int64(0)
            state.bulk_targets[rank] = host - offset_of(place)
    return targets if targets >> 16 == 0 else np.int64(0)


@inner
def _unreceived(state, row, place, size, named, to_shared):
    """The fault of a copy to shared address ``place`` that some block cannot receive (:func:`_receivers`)."""
    if row[at.F3] & bulk.MULTICAST:
        for rank in range(16):
            if named >> rank & 1 and (rank >= state.cluster_size or state.peer_shared[rank] == 0):
                return _fault(state, m.NO_RECEIVER, np.int64(rank), np.int64(state.cluster_size))
    return _fault(state, m.NO_BLOCK if to_shared else m.SHARED_OUTSIDE, place, size)


@inner
def _tell(state, row, registers, barrier, targets, size):
    """Tell the mbarriers that ``size`` bytes have arrived at each of the blocks ``targets``; False if there is none."""
    for rank in range(16):
        if targets >> rank & 1:
            at_rank = np.int64(rank)
            if not row[at.F3] & bulk.MULTICAST:
                at_rank = rank_of(barrier)
            elif row[at.F3] & bulk.PAIRED:
                at_rank = np.int64(rank) & -2 | rank_of(barrier) & 1
            host = peer_shared(state, at_rank, offset_of(barrier), np.int64(8))
            if host == NO_PEER or barrier & 7:
                return False
            complete_transactions(host, size)
    return True


@inner
def _show(state, place, size, blocks, barrier, told):
    """Say what the copy at hand does to shared memory, for the log of events."""
    state.shown_place, state.shown_bytes, state.shown_blocks = place, size, blocks
    state.shown_barrier, state.shown_told = barrier, told


@inner
def run_bulk(state, row, registers, own_base, named, access):
    """Execute a bulk instruction, of whose access number ``access`` the lanes ``named`` tell; DONE or BAD_BULK."""
    form = np.int64(row[at.F0]) & bulk.FORM_MASK
    t = state.tensor
    _show(state, np.int64(0), np.int64(0), np.int64(0), np.int64(-1), np.int64(0))
    t[m.NOTE_KIND], t[m.NOTE_ACCESS], t[m.SWIZZLE] = _KINDS[form], access, 0
    t[m.NOTE_BLOCKS] = t[m.NOTE_DESCRIPTOR] = t[m.NOTE_BYTES] = t[m.NOTE_SHARED] = 0
    state.shown_source = -1
    if form >= bulk.BYTES_LOAD:
        return _bytes(state, row, registers, own_base, named, form)
    rank, mode = np.int64(row[at.F0]) >> bulk.RANK_SHIFT & 15, np.int64(row[at.F0]) >> bulk.MODE_SHIFT
    descriptor = _long(row, registers, at.B, own_base)
    host = find_host(state, descriptor, np.int64(MAP_BYTES))
    if host == 0 or descriptor & (_MAP_ALIGNMENT - 1):
        return _fault(state, m.NO_MAP, descriptor, np.int64(MAP_BYTES))
    if not m.read_map(state, host, descriptor, rank, mode):
        return np.int64(at.BAD_BULK)
    before = 2 if form == bulk.TENSOR_LOAD else 0 if form == bulk.TENSOR_PREFETCH else 1
    for i in range(5):
        t[m.COORDINATE + i] = 0
        if i < (5 if mode == bulk.MODE_ROWS else rank):
            t[m.COORDINATE + i] = _signed(_word(row, registers, at.A, own_base, before + i))
        t[m.OFFSET + i] = 0
    t[m.HALO] = 0
    if mode == bulk.MODE_IM2COL and row[at.F3] & bulk.HAS_THIRD:
        bits = np.int64(16) if rank == 3 else np.int64(8) if rank == 4 else np.int64(5)
        offsets = _word(row, registers, at.C, own_base, 0)
        for i in range(rank - 2):
            t[m.OFFSET + i] = offsets >> (bits * i) & ((np.int64(1) << bits) - 1)
    elif mode == bulk.MODE_WIDE or mode == bulk.MODE_WIDE_128:
        word = _word(row, registers, at.C, own_base, 0) & 0xFFFF
        t[m.HALO], t[m.OFFSET] = word & ((1 << bulk.WIDE_OFFSET_SHIFT) - 1), word >> bulk.WIDE_OFFSET_SHIFT
    rows = box_rows(state, mode)
    t[m.NOTE_DESCRIPTOR], size = descriptor, rows * t[m.ROW_BYTES]
    if form == bulk.TENSOR_PREFETCH:
        return _finish(state, move_box(state, form, mode, np.int64(0), np.int64(0), np.int64(0)))
    place = _word(row, registers, at.A, own_base, 0)
    if form != bulk.TENSOR_LOAD:
        place = offset_of(place) | state.cluster_rank << 24
    if place & (_TILE_ALIGNMENT - 1):
        return _fault(state, m.SHARED_ASKEW, place, np.int64(_TILE_ALIGNMENT))
    held = (rows - 1) * t[m.PITCH] + t[m.ROW_BYTES] if t[m.SWIZZLE] == 0 else rows * t[m.PITCH]
    targets = _receivers(state, row, registers, own_base, place, held, named)
    if targets == 0:
        return _unreceived(state, row, place, held, named, form == bulk.TENSOR_LOAD)
    operation = np.int64(row[at.F1])
    if form == bulk.TENSOR_REDUCE and not has_reduction(operation, t[m.TYPE]):
        return _fault(state, m.NO_REDUCTION, t[m.TYPE], np.int64(0))
    t[m.NOTE_BYTES], t[m.NOTE_SHARED] = size, offset_of(place)
    if form == bulk.TENSOR_LOAD and targets != np.int64(1) << state.cluster_rank:
        t[m.NOTE_BLOCKS] = targets
    moving = np.int64(bulk.TENSOR_PREFETCH) if state.without_data else form  # which notes the box and moves nothing
    if not move_box(state, moving, mode, operation, offset_of(place), targets):
        return np.int64(at.BAD_BULK)
    barrier, packed = _word(row, registers, at.A, own_base, 1), m.packed_bytes(t[m.TYPE])
    arrived = size // 16 * packed if packed else size  # elements that are spread count as they lie in global memory
    _show(state, place, held, targets, barrier if form == bulk.TENSOR_LOAD else np.int64(-1), arrived)
    if form == bulk.TENSOR_LOAD and not _tell(state, row, registers, barrier, targets, arrived):
        return _fault(state, m.BAD_BARRIER, barrier, np.int64(8))
    return np.int64(at.DONE)


@inner
def _finish(state, done):
    return np.int64(at.DONE) if done else np.int64(at.BAD_BULK)


@inner
def _bytes(state, row, registers, own_base, named, form):
    """Bulk copies of bytes: their number is a multiple of 16, which is what the register holds."""
    t = state.tensor
    third = _word(row, registers, at.C, own_base, 0)
    size = (third & 0xFFFF) * _UNIT
    to_shared = form == bulk.BYTES_LOAD or form == bulk.SHARED_COPY or form == bulk.SHARED_REDUCE
    t[m.NOTE_ROW_BYTES], t[m.NOTE_BYTES] = size, size
    if size == 0:  # CUB asks for such copies, at addresses that are aligned to nothing
        note_box(state, np.int64(0), -1, state.bulk_strides, state.bulk_counts)
        return np.int64(at.DONE)
    source = target = np.int64(0)  # host addresses
    if form <= bulk.BYTES_PREFETCH:
        address = _long(row, registers, at.B if form == bulk.BYTES_LOAD else at.A, own_base)
        if address & (_UNIT - 1):
            return _fault(state, m.GLOBAL_ASKEW, address, np.int64(_UNIT))
        host = find_host(state, address, size)
        if host == 0:
            return _fault(state, m.OUTSIDE, address, size)
        source = target = host
    else:
        address = _word(row, registers, at.B, own_base, 0) & 0xFFFFFF
    strides, counts = state.bulk_strides, state.bulk_counts
    if form == bulk.BYTES_PREFETCH:
        t[m.NOTE_BYTES] = 0
        note_box(state, address, 0, strides, counts)
        return np.int64(at.DONE)
    if form == bulk.BYTES_LOAD or form >= bulk.SHARED_COPY:
        place = _word(row, registers, at.A, own_base, 0)
    else:
        place = offset_of(_word(row, registers, at.B, own_base, 0)) | state.cluster_rank << 24
    if (place | (address if form >= bulk.SHARED_COPY else 0)) & (_UNIT - 1):
        return _fault(state, m.SHARED_ASKEW, place if place & (_UNIT - 1) else address, np.int64(_UNIT))
    targets = _receivers(state, row, registers, own_base, place, size, named)
    if targets == 0:
        return _unreceived(state, row, place, size, named, to_shared)
    if form >= bulk.SHARED_COPY:
        source = peer_shared(state, state.cluster_rank, address, size)
        if source == NO_PEER:
            return _fault(state, m.SHARED_OUTSIDE, address, size)
    t[m.NOTE_SHARED] = offset_of(place)
    if to_shared and targets != np.int64(1) << state.cluster_rank:
        t[m.NOTE_BLOCKS] = targets
    if state.without_data:
        pass
    elif form == bulk.BYTES_STORE or form == bulk.BYTES_REDUCE:
        source = state.bulk_targets[state.cluster_rank] + offset_of(place)
        _copy(row, form, target, source, size, third >> 16)
    else:
        for rank in range(16):
            if targets >> rank & 1:
                _copy(row, form, state.bulk_targets[rank] + offset_of(place), source, size, np.int64(0))
    note_box(state, address, 0, strides, counts)
    barrier = _word(row, registers, at.A, own_base, 1)
    _show(state, place, size, targets, barrier if to_shared else np.int64(-1), size)
    if form >= bulk.SHARED_COPY:
        state.shown_source = address
    if to_shared and not _tell(state, row, registers, barrier, targets, size):
        return _fault(state, m.BAD_BARRIER, barrier, np.int64(8))
    return np.int64(at.DONE)


@inner
def _copy(row, form, target, source, size, chosen):
    """Copy or reduce ``size`` bytes; of a copy by a mask, those of each 16 that are ``chosen``."""
    if form == bulk.BYTES_REDUCE or form == bulk.SHARED_REDUCE:
        byte = np.int64(0)
        while byte < size:
            byte += reduce_element(target + byte, source + byte, np.int64(row[at.F1]), np.int64(row[at.F2]))
    elif row[at.F3] & bulk.BYTE_MASK:
        for byte in range(size):
            if chosen >> (byte & 15) & 1:
                store8(target + byte, load8(source + byte))
    else:
        copy_bytes(target, source, size)


if config.DISABLE_JIT:

    def bulk_entry_address() -> int:
        """No entry point: the interpreter calls the function itself."""
        return 0

    def _serve(state, matrix, registers, index, own_base, named, access):
        return run_bulk(state, matrix[index], registers, own_base, named, access)

else:
    _state_at = record_at(from_dtype(at.STATE))
    _row_at = record_at(from_dtype(np.dtype([("columns", "<i4", (at.COLUMNS,))])))
    _file_at = record_at(from_dtype(np.dtype([("words", "<i4", (1 << 26,))])))

    def _one_instruction(state_host, index, own_base, named, access):
        state = _state_at(state_host)
        row = _row_at(state.matrix_host + index * (4 * at.COLUMNS)).columns
        return np.int64(run_bulk(state, row, _file_at(state.registers_host).words, own_base, named, access))

    _ENTRY = types.int64(*[types.int64] * 5)

    def bulk_entry_address() -> int:
        """Host address of the entry point, compiled when it is first asked for."""
        return entry(_one_instruction, _ENTRY).address

    @intrinsic
    def _call_accelerator(typing_context, address, state_host, index, own_base, named, access):
        """:func:`run_bulk` by address."""

        def generate(context, builder, signature, arguments):
            kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64)] * 5)
            return builder.call(builder.inttoptr(arguments[0], ir.PointerType(kind)), arguments[1:])

        return types.int64(*[types.int64] * 6), generate

    @inner
    def _serve(state, matrix, registers, index, own_base, named, access):
        return _call_accelerator(
            state.bulk_entry, state.state_host, np.int64(index), np.int64(own_base), np.int64(named), np.int64(access)
        )


@apart
def execute_bulk(state, matrix, registers, accesses, scattered, index, warp, own_base, global_warp, named):
    """Execute the bulk instruction ``index``, of whose access the lanes ``named`` are (:func:`told_lanes`); DONE or
    BAD_BULK."""
    if named == 0:
        log_addresses(state, accesses, scattered, global_warp, named)
        return np.int64(at.DONE)
    formed_addresses(state, matrix, registers, index, own_base)
    log_addresses(state, accesses, scattered, global_warp, named)
    access = state.used[at.ACCESSES] - 1
    status = _serve(state, matrix, registers, index, own_base, named, access)
    if status != at.DONE:
        state.fault_index, state.fault_warp, state.fault_lane = index, warp, first_lane(named)
    return status
