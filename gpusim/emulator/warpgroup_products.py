"""A warp's part of a warp group's product: 16 rows of A times B, added to its accumulators.

Mental model: A and B are brought to planes of numbers (:mod:`gpusim.emulator.warpgroup_tiles`), C from the warp's
registers to a plane of patterns, then summed (:mod:`gpusim.emulator.warpgroup_sums`), and D goes back to the registers.
Warps in lockstep execute the instruction one after another and share the planes of B. The product is complete when the
instruction has been executed: what a program may not look at before it has waited is there early.

D's registers (PTX ISA, "Register Fragments for wgmma.mma_async"): register 4 j + 2 h + c of lane 4 g + t holds row g +
8 h and column 8 j + 2 t + c; of 16-bit accumulators register 2 j + h holds columns 8 j + 2 t (lower half) and the next
one.

It is called by address, as texture units are: compiled apart from the interpreter, when a kernel first needs it.
"""

from __future__ import annotations

import ctypes

import numpy as np
from llvmlite import ir
from numba import config, from_dtype, types
from numba.extending import intrinsic

from gpusim.emulator import warpgroup_tiles as tiles
from gpusim.emulator.access import SHARED, fail
from gpusim.emulator.pointers import copy_bytes
from gpusim.emulator.warpgroup_sums import FRACTION_BITS, FRACTION_BITS_8, add_floats, add_integers
from gpusim.isa import float_ops
from gpusim.isa import tensor_ops as ops
from gpusim.isa import warp as at
from gpusim.isa.bodies.scalar import bits_of
from gpusim.isa.bodies.small import decode_half
from gpusim.isa.dispatch import record_at
from gpusim.isa.jit import entry, inner
from gpusim.isa.lane_masks import first_predicate
from gpusim.isa.tensor_memory_ops import FAULT_GROUP
from gpusim.isa.warp import PRODUCT_WARPS

#: B's planes hold nothing that could be used again: no descriptor has all its unused bits set.
_NO_TILE = -1
#: Where in the room to work in accumulators stand.
_SUMS = int((tiles.WORK.fields or {})["sums"][1])


@inner
def _load_accumulators(state, work, registers, c, columns, half, form, accumulates):
    """C from the registers at ``c`` to ``sums``, as FP32 patterns or integers; zeros if it does not count, and beyond
    the last column.
    ``half``: where odd columns begin."""
    sums = work.sums
    if not accumulates or columns != 2 * half:
        for row in range(tiles.ROWS):
            place = np.uint64(row * tiles.PITCH)
            for n in range(np.uint64(2 * half)):
                sums[place + n] = 0
        if not accumulates:
            return
    if form != ops.ACCUMULATE_F16:
        from_host, to_host = state.registers_host + 4 * c, state.product_host + _SUMS
        for register in range(columns // 2):
            source = from_host + register * (4 * at.ROW)
            target = to_host + _bytes_before(register >> 1 & 1, register >> 2, (register & 1) * half)
            for _ in range(8):
                copy_bytes(target, source, np.int64(16))
                source, target = source + 16, target + 4 * tiles.PITCH
        return
    for register in range(columns // 4):
        for lane in range(at.LANES):
            place = np.uint64(((lane >> 2) + 8 * (register & 1)) * tiles.PITCH + 4 * (register >> 1) + (lane & 3))
            word = registers[np.uint64(c + register * at.ROW + lane)]
            sums[place] = bits_of(decode_half(np.int32(word & 0xFFFF), float_ops.F16))
            sums[place + np.uint64(half)] = bits_of(decode_half(np.int32(word >> 16 & 0xFFFF), float_ops.F16))


@inner
def _bytes_before(upper, eight, odd):
    """How far into ``sums`` a register's first lane stands: rows 8 on if ``upper``, the columns from 8 * ``eight``
    on."""
    return 4 * (upper * (8 * tiles.PITCH) + 4 * eight + odd)


@inner
def _store_results(state, work, registers, d, columns, half, form):
    """D from ``sums`` to the registers at ``d``."""
    sums = work.sums
    if form != ops.ACCUMULATE_F16:
        to_host, from_host = state.registers_host + 4 * d, state.product_host + _SUMS
        for register in range(columns // 2):
            target = to_host + register * (4 * at.ROW)
            source = from_host + _bytes_before(register >> 1 & 1, register >> 2, (register & 1) * half)
            for _ in range(8):
                copy_bytes(target, source, np.int64(16))
                target, source = target + 16, source + 4 * tiles.PITCH
        return
    for register in range(columns // 4):
        for lane in range(at.LANES):
            place = np.uint64(((lane >> 2) + 8 * (register & 1)) * tiles.PITCH + 4 * (register >> 1) + (lane & 3))
            word = np.int32((sums[place] & 0xFFFF) | sums[place + np.uint64(half)] << 16)
            registers[np.uint64(d + register * at.ROW + lane)] = word


@inner
def _decode_plane(work, first, lines, length, pitch, floating, style, negated):
    """Decode ``lines`` lines of ``length`` elements. ``style``: of integers whether they are signed."""
    for line in range(lines):
        if floating:
            tiles.decode(work, first + line * pitch, length, style, negated)
        else:
            tiles.decode_integers(work, first + line * pitch, length, style != 0)


@inner
def multiply_rows(state, work, row, registers, index, warp, a, descriptors, metadata, d, fresh):
    """Execute the product ``index`` for ``warp``: A's registers begin at ``a``, the descriptors' at ``descriptors``,
    metadata's at ``metadata``, D's at ``d``. ``fresh``: shared memory may have changed since the planes of B were made.
    Returns DONE, BAD_ADDRESS, or BAD_TENSOR for a warp whose group lacks warps."""
    styles, shape, options, floating = np.int64(row[at.F0]), np.int64(row[at.F1]), np.int64(row[at.F2]), row[at.F3] != 0
    form, bits = styles >> 16 & 15, styles >> 20
    columns, depth, lane = shape & 0xFFFF, shape >> 16, 2 * (options >> 8)
    padded = -(-columns // tiles.NARROW) * tiles.NARROW
    half = padded >> 1
    size = np.int64(4) if bits == 1 else bits >> 3
    sparse = options & ops.HALF_OF_A != 0
    products = depth >> 1 if sparse else depth
    a_style, b_style = styles & 0xFF, styles >> 8 & 0xFF
    if not floating:
        a_style, b_style = styles & ops.A_SIGNED, styles & ops.B_SIGNED
    if warp // PRODUCT_WARPS * PRODUCT_WARPS + PRODUCT_WARPS > state.warps:
        fail(state, index, warp, 0, np.int64(state.warps), np.int64(FAULT_GROUP), np.int64(0))
        return np.int64(at.BAD_TENSOR)
    low = np.int64(state.shared_base)
    high, shift = low + state.shared_bytes - tiles.CHUNK, state.shared_host - low
    b_descriptor = np.int64(registers[descriptors + 2 * at.ROW]) & at.FULL
    b_descriptor |= np.int64(registers[descriptors + 3 * at.ROW]) << 32
    if options & ops.A_IN_SHARED:
        descriptor = np.int64(registers[descriptors]) & at.FULL | np.int64(registers[descriptors + at.ROW]) << 32
        bad = tiles.gather_matrix(
            work, descriptor, np.int64(tiles.ROWS * (warp % PRODUCT_WARPS)), np.int64(tiles.ROWS), products, size,
            options & ops.A_TURNED != 0, True, half, low, high, shift,
        )  # fmt: skip
        if bad >= 0:
            fail(state, index, warp, 0, bad, np.int64(tiles.CHUNK), SHARED)
            return np.int64(at.BAD_ADDRESS)
    else:
        tiles.gather_fragment(work, registers, a, size, products)
    if bits > 1:
        _decode_plane(
            work, np.int64(tiles.A_PLACE), np.int64(1), tiles.ROWS * products, np.int64(0), floating, a_style,
            options & ops.A_NEGATED != 0,
        )  # fmt: skip
    if fresh or work.b_descriptor != b_descriptor:
        work.b_descriptor = _NO_TILE
        for n in range(columns, padded):
            place = tiles.place_of(n, half)
            for k in range(depth):
                work.raw[k * tiles.PITCH + place] = 0
        bad = tiles.gather_matrix(
            work, b_descriptor, np.int64(0), columns, depth, size, options & ops.B_TURNED != 0, False, half, low, high,
            shift,
        )  # fmt: skip
        if bad >= 0:
            fail(state, index, warp, 0, bad, np.int64(tiles.CHUNK), SHARED)
            return np.int64(at.BAD_ADDRESS)
        if bits > 1:
            _decode_plane(
                work, np.int64(0), depth, padded, np.int64(tiles.PITCH), floating, b_style,
                options & ops.B_NEGATED != 0,
            )  # fmt: skip
        work.b_descriptor = b_descriptor
    if sparse:
        tiles.choose_half(work, registers, metadata, lane, size, products)
    slot = first_predicate(warp) + row[at.P0] * at.GROUP_WARPS
    accumulates = (state.predicates[slot] ^ np.int64(row[at.P0_FLIP])) & at.FULL != 0
    _load_accumulators(state, work, registers, d, columns, half, form, accumulates)
    if floating:
        fraction_bits = np.int64(FRACTION_BITS_8 if bits == 8 else FRACTION_BITS)
        add_floats(work, padded, products, sparse, fraction_bits, form)
    else:
        add_integers(work, padded, products, sparse, bits, options & ops.SATURATES != 0)
    _store_results(state, work, registers, d, columns, half, form)
    return np.int64(at.DONE)


if config.DISABLE_JIT:

    def execute_product(state, matrix, registers, index, warp, a, descriptors, metadata, d, fresh):
        """:func:`multiply_rows` in the state's room to work in."""
        buffer = (ctypes.c_uint8 * tiles.WORK.itemsize).from_address(int(state.product_host))
        work = np.frombuffer(buffer, tiles.WORK).view(np.recarray)[0]
        return multiply_rows(state, work, matrix[index], registers, index, warp, a, descriptors, metadata, d, fresh)

    def product_entry_address() -> int:
        """No entry point: the interpreter calls the function itself."""
        return 0

else:
    _state_at = record_at(from_dtype(at.STATE))
    _work_at = record_at(from_dtype(tiles.WORK))
    _row_at = record_at(from_dtype(np.dtype([("columns", "<i4", (at.COLUMNS,))])))
    _file_at = record_at(from_dtype(np.dtype([("words", "<i4", (1 << 26,))])))

    def _one_warp(state_host, index, warp, a, descriptors, metadata, d, fresh):
        state = _state_at(state_host)
        row = _row_at(state.matrix_host + index * (4 * at.COLUMNS)).columns
        registers = _file_at(state.registers_host).words
        work = _work_at(state.product_host)
        return multiply_rows(state, work, row, registers, index, warp, a, descriptors, metadata, d, fresh != 0)

    _ENTRY = types.int64(*[types.int64] * 8)

    def product_entry_address() -> int:
        """Host address of the entry point, compiled when it is first asked for."""
        return entry(_one_warp, _ENTRY).address

    @intrinsic
    def _call(typing_context, address, state_host, index, warp, a, descriptors, metadata, d, fresh):
        def generate(context, builder, signature, arguments):
            kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64)] * 8)
            return builder.call(builder.inttoptr(arguments[0], ir.PointerType(kind)), arguments[1:])

        return types.int64(*[types.int64] * 9), generate

    @inner
    def execute_product(state, matrix, registers, index, warp, a, descriptors, metadata, d, fresh):
        """:func:`multiply_rows` by address."""
        return _call(
            state.product_entry, state.state_host, np.int64(index), np.int64(warp), np.int64(a), np.int64(descriptors),
            np.int64(metadata), np.int64(d), np.int64(fresh),
        )  # fmt: skip
