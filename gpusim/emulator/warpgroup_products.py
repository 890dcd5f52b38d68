"""A warp's part of a warp group's product: 16 rows of A times B, added to its accumulators.

Mental model: A and B are brought to planes of numbers (:mod:`gpusim.emulator.warpgroup_tiles`), C from the warp's registers to a plane of
patterns, then summed (:mod:`gpusim.emulator.warpgroup_sums`), and D goes back to the registers. Warps in lockstep execute the instruction
one after another and share the planes of B. The product is complete when the instruction has been executed: what a program may not look
at before it has waited is there early.

D's registers (PTX ISA, "Register Fragments for wgmma.mma_async"): register 4 j + 2 h + c of lane 4 g + t holds row g + 8 h and column
8 j + 2 t + c; of 16-bit accumulators register 2 j + h holds columns 8 j + 2 t (lower half) and the next one.

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


@inner
def _load_accumulators(work, registers, c, columns, form, accumulates):
    """C from the registers at ``c`` to ``sums``, as FP32 patterns or integers; zeros if it does not count."""
    sums, half = work.sums, form == ops.ACCUMULATE_F16
    if not accumulates:
        for row in range(tiles.ROWS):
            for place in range(row * tiles.COLUMNS, row * tiles.COLUMNS + columns):
                sums[place] = 0
        return
    for register in range(columns // (4 if half else 2)):
        upper = register & 1 if half else register >> 1 & 1
        first = 8 * (register >> (1 if half else 2)) + (0 if half else register & 1)
        for lane in range(at.LANES):
            place = ((lane >> 2) + 8 * upper) * tiles.COLUMNS + first + 2 * (lane & 3)
            word = registers[c + register * at.ROW + lane]
            if half:
                sums[place] = bits_of(decode_half(np.int32(word & 0xFFFF), float_ops.F16))
                sums[place + 1] = bits_of(decode_half(np.int32(word >> 16 & 0xFFFF), float_ops.F16))
            else:
                sums[place] = word


@inner
def _store_results(work, registers, d, columns, form):
    """D from ``sums`` to the registers at ``d``."""
    sums, half = work.sums, form == ops.ACCUMULATE_F16
    for register in range(columns // (4 if half else 2)):
        upper = register & 1 if half else register >> 1 & 1
        first = 8 * (register >> (1 if half else 2)) + (0 if half else register & 1)
        for lane in range(at.LANES):
            place = ((lane >> 2) + 8 * upper) * tiles.COLUMNS + first + 2 * (lane & 3)
            word = sums[place]
            if half:
                word = np.int32((word & 0xFFFF) | sums[place + 1] << 16)
            registers[d + register * at.ROW + lane] = word


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
    """Execute the product ``index`` for ``warp``: A's registers begin at ``a``, the descriptors' at ``descriptors``, metadata's at
    ``metadata``, D's at ``d``. ``fresh``: shared memory may have changed since the planes of B were made. Returns DONE, BAD_ADDRESS, or BAD_TENSOR for a
    warp whose group lacks warps."""
    styles, shape, options, floating = np.int64(row[at.F0]), np.int64(row[at.F1]), np.int64(row[at.F2]), row[at.F3] != 0
    form, bits = styles >> 16 & 15, styles >> 20
    columns, depth, lane = shape & 0xFFFF, shape >> 16, 2 * (options >> 8)
    padded = -(-columns // tiles.NARROW) * tiles.NARROW
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
            options & ops.A_TURNED != 0, np.int64(tiles.A_PLACE), products, np.int64(1), low, high, shift,
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
        for k in range(depth):
            for n in range(columns, padded):
                work.raw[k * tiles.COLUMNS + n] = 0
        bad = tiles.gather_matrix(
            work, b_descriptor, np.int64(0), columns, depth, size, options & ops.B_TURNED != 0, np.int64(0), np.int64(1),
            np.int64(tiles.COLUMNS), low, high, shift,
        )  # fmt: skip
        if bad >= 0:
            fail(state, index, warp, 0, bad, np.int64(tiles.CHUNK), SHARED)
            return np.int64(at.BAD_ADDRESS)
        if bits > 1:
            _decode_plane(
                work, np.int64(0), depth, padded, np.int64(tiles.COLUMNS), floating, b_style,
                options & ops.B_NEGATED != 0,
            )  # fmt: skip
        work.b_descriptor = b_descriptor
    if sparse:
        tiles.choose_half(work, registers, metadata, lane, size, products)
    else:
        tiles.choose_all(work, products)
    slot = first_predicate(warp) + row[at.P0] * at.GROUP_WARPS
    accumulates = (state.predicates[slot] ^ np.int64(row[at.P0_FLIP])) & at.FULL != 0
    _load_accumulators(work, registers, d, columns, form, accumulates)
    if padded > columns:  # what an earlier product left there might need to be computed one by one
        for row_of_d in range(tiles.ROWS):
            for place in range(row_of_d * tiles.COLUMNS + columns, row_of_d * tiles.COLUMNS + padded):
                work.sums[place] = 0
    if floating:
        fraction_bits = np.int64(FRACTION_BITS_8 if bits == 8 else FRACTION_BITS)
        add_floats(work, padded, products, fraction_bits, form)
    else:
        add_integers(work, padded, products, bits, options & ops.SATURATES != 0)
    _store_results(work, registers, d, columns, form)
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
