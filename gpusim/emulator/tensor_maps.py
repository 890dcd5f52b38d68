"""A tensor map as the tensor memory accelerator reads it when an instruction names it: checked, and unpacked into
numbers.

Mental model: the 128 bytes (:mod:`gpusim.launch.tensor_map` has their layout) may come from the driver or from a
kernel's own stores, so nothing in them is trusted. What is unpacked lies in ``State.tensor``, by the columns below;
what is wrong is one of :data:`FAULTS`, which errors explain.
"""

from __future__ import annotations

import numpy as np

from gpusim.emulator.pointers import load8, load16, load32, load64
from gpusim.isa import bulk_ops as bulk
from gpusim.isa.jit import inner
from gpusim.launch import tensor_map as layout

#: Columns of ``State.tensor``: of the map ...
ADDRESS, RANK, BITS, TYPE, SWIZZLE, FILL, CHANNELS, PIXELS, ROW_BYTES, PITCH = range(10)
DIMENSION, STRIDE, STEP, BOX, LOWER, UPPER = 10, 15, 20, 25, 30, 33
#: ... and of the instruction: coordinates and offsets.
COORDINATE, OFFSET = 36, 42
#: Pixels of the halo (im2col::w and its kin).
HALO = 41
#: Of the boxes that are recorded: first row, rows and bytes between them, such runs and bytes between them; the run at
#: hand.
RUN_FIRST, RUN_ROWS, RUN_STEP, RUNS, RUNS_STEP, NEW_FIRST, NEW_ROWS, NEW_STEP = range(45, 53)
#: What all boxes of an instruction have in common, for their records.
NOTE_ROW_BYTES, NOTE_BYTES, NOTE_SHARED, NOTE_BLOCKS, NOTE_KIND, NOTE_DESCRIPTOR, NOTE_ACCESS = range(53, 60)

#: What can be wrong, by number; ``{value}`` and ``{bytes}`` are the fault's.
FAULTS = (
    "",
    "global address 0x{value:x} ({bytes} bytes) is outside every allocation, {where}",
    "shared address 0x{value:x} (of {bytes} bytes) is out of bounds",
    "shared address 0x{value:x} (of {bytes} bytes) is of no block of the cluster, or out of its bounds",
    "the mbarrier at shared address 0x{value:x} is of no block of the cluster, out of its bounds or no multiple of 8",
    "the tensor map at 0x{value:x} lies in no allocation, or at no multiple of 64",
    "what stands at 0x{value:x} is no tensor map",
    "the tensor map at 0x{value:x} is of another kind: tiled maps, im2col maps and wide im2col maps have instructions of their own",
    "the tensor map at 0x{value:x} has {bytes} dimensions, the instruction names another number",
    "shared address 0x{value:x} is not a multiple of {bytes}, as a bulk copy needs",
    "the box's innermost dimension has {value} bytes, which is not a multiple of 16",
    "the box's innermost dimension has {value} bytes, more than the {bytes} of the swizzle",
    "the tensor's address or a stride, 0x{value:x}, is not a multiple of {bytes}",
    "coordinate {value} of the innermost dimension is not a multiple of {bytes}, as packed elements need",
    "global address 0x{value:x} is not a multiple of {bytes}, as a bulk copy needs",
    "elements of type {value} (CUtensorMapDataType) have no such reduction",
    "gather4 and scatter4 need a map of two dimensions whose box has one row, not {value}",
    "the mask of the multicast names block {value}, which the cluster, of {bytes} blocks, does not have or which has ended",
)
(
    OUTSIDE, SHARED_OUTSIDE, NO_BLOCK, BAD_BARRIER, NO_MAP, NOT_A_MAP, OTHER_KIND, OTHER_RANK, SHARED_ASKEW, ODD_BOX, WIDE_BOX,
    MAP_ASKEW, ODD_COORDINATE, GLOBAL_ASKEW, NO_REDUCTION, NO_ROWS, NO_RECEIVER,
) = range(1, 18)  # fmt: skip

#: Bits of an element, bytes of the swizzle's span, by their codes in cuda.h.
_BITS = np.array(layout.ELEMENT_BITS, np.int64)
_SPAN = np.array(layout.SWIZZLE_BYTES, np.int64)
_CORNER_BITS = np.array(layout.CORNER_BITS, np.int64)
#: Code in the flags -> CUtensorMapDataType: without and with the bit of TF32; -1 for none.
_TYPES = np.array([0, 1, 2, 3, 4, 5, 6, 7, 10, 8, 9, 13, 14, 15, -1, -1], np.int64)
_TYPES_TF32 = np.array([-1, -1, -1, -1, -1, -1, -1, 11, 12, -1, -1, -1, -1, -1, -1, -1], np.int64)


@inner
def _wrong(state, fault, value, size):
    state.fault_space, state.fault_address, state.fault_bytes = fault, value, size
    return False


@inner
def packed_bytes(kind):
    """Bytes in global memory of 16 elements that take 16 bytes in shared memory; 0 for elements that are not spread
    so."""
    if kind == bulk.PACKED_4_IN_16:
        return np.int64(8)
    return np.int64(12) if kind == bulk.PACKED_6_IN_16 else np.int64(0)


@inner
def read_map(state, host, descriptor, rank, mode):
    """Unpack the map at ``host``, whose address the kernel knows as ``descriptor``, for an instruction of ``rank`` and
    ``mode``; False, with the fault's fields set, for what is none or does not fit."""
    t = state.tensor
    flags = np.int64(load32(host + layout.FLAGS_AT)) & 0xFFFFFFFF
    columns, wide = flags & layout.COLUMNS_BIT, flags & layout.WIDE_BIT
    code = flags >> layout.TYPE_SHIFT & 15
    element = _TYPES_TF32[code] if flags >> layout.TF32_SHIFT & 1 else _TYPES[code]
    t[RANK] = (flags >> layout.RANK_SHIFT & 7) + 1
    if flags & ~layout.KNOWN_FLAGS or t[RANK] > 5 or element < 0:
        return _wrong(state, NOT_A_MAP, descriptor, np.int64(0))
    if t[RANK] != rank:
        return _wrong(state, OTHER_RANK, descriptor, t[RANK])
    wants_wide = mode == bulk.MODE_WIDE or mode == bulk.MODE_WIDE_128
    if (columns != 0) != (mode == bulk.MODE_IM2COL or wants_wide) or (wide != 0) != wants_wide:
        return _wrong(state, OTHER_KIND, descriptor, np.int64(0))
    t[ADDRESS], t[TYPE], t[BITS] = load64(host + layout.ADDRESS_AT), element, _BITS[element]
    t[FILL] = flags >> layout.FILL_SHIFT & 1
    swizzle, atomicity = flags >> layout.SWIZZLE_SHIFT & 3, flags >> layout.ATOMICITY_SHIFT & 3
    t[SWIZZLE] = swizzle + atomicity if swizzle == 3 else swizzle
    high, steps = np.int64(load16(host + layout.STRIDES_HIGH_AT)), np.int64(load32(host + layout.STEPS_AT))
    interleave = flags >> layout.INTERLEAVE_SHIFT & 3
    unit = np.int64(32 if interleave == layout.BY_32 or packed_bytes(element) else 16)
    askew = t[ADDRESS] & (unit - 1)
    for i in range(5):
        inside = i < t[RANK]
        t[DIMENSION + i] = (np.int64(load32(host + layout.DIMENSIONS_AT + 4 * i)) & 0xFFFFFFFF) + 1 if inside else 1
        t[STEP + i] = (steps >> (3 * i) & 7) + 1 if inside and i else 1
        t[BOX + i] = np.int64(load8(host + layout.BOX_AT + i)) + 1 if inside else 1
        t[STRIDE + i] = 0
        if 0 < i < t[RANK]:
            low = np.int64(load32(host + layout.STRIDES_AT + 4 * (i - 1))) & 0xFFFFFFFF
            t[STRIDE + i] = (low | (high >> (4 * (i - 1)) & 15) << 32) << 4
            askew |= t[STRIDE + i] & (unit - 1)
    if askew:
        return _wrong(state, MAP_ASKEW, t[ADDRESS], unit)
    elements = t[BOX]
    if columns:
        if t[RANK] < 3:
            return _wrong(state, NOT_A_MAP, descriptor, np.int64(0))
        bits = np.int64(16) if wide else _CORNER_BITS[t[RANK]]
        lower = np.int64(load16(host + layout.CORNERS_AT))
        upper = np.int64(load16(host + layout.CORNERS_AT + 2))
        for i in range(1 if wide else 3):
            t[LOWER + i], t[UPPER + i] = _signed(lower >> bits * i, bits), _signed(upper >> bits * i, bits)
        t[PIXELS] = (np.int64(load16(host + layout.PIXELS_AT)) & 0x3FF) + 1
        t[PIXELS] = bulk.WIDE_PIXELS if mode == bulk.MODE_WIDE_128 else t[PIXELS]
    t[ROW_BYTES] = elements if packed_bytes(element) else elements * t[BITS] >> 3
    if t[ROW_BYTES] & 15 or elements * t[BITS] & 7 or t[ROW_BYTES] == 0:
        return _wrong(state, ODD_BOX, elements * t[BITS] >> 3, np.int64(0))
    span = _SPAN[t[SWIZZLE]]
    if span and t[ROW_BYTES] > span:
        return _wrong(state, WIDE_BOX, t[ROW_BYTES], span)
    # CUDA C++ Programming Guide, "TMA swizzle": shared memory must hold the whole width of the swizzle for each row.
    t[PITCH] = span if span else t[ROW_BYTES]
    if mode == bulk.MODE_ROWS and (t[RANK] != 2 or t[BOX + 1] != 1):
        return _wrong(state, NO_ROWS, t[BOX + 1], np.int64(0))
    return True


@inner
def _signed(value, bits):
    """The lowest ``bits`` of ``value`` as a signed number."""
    half = np.int64(1) << bits - 1
    return (value & 2 * half - 1 ^ half) - half
