"""Tensor maps (CUtensorMap): checked, written as 128 bytes, and read back.

Mental model: a tensor map tells the tensor memory accelerator where a tensor lies, how long its dimensions and strides
are, and which box of it an instruction moves. NVIDIA does not publish what stands in the 128 bytes, of which the first
64 count. But compilers turn PTX ``tensormap.replace`` into plain stores, a kernel may build a whole map that way, and
the CuTe DSL's host code writes tiled and im2col maps without the driver: so it is read off code. Only what tells a wide
im2col map from others has a place of gpusim's own. Limits: CUDA Driver API, cuTensorMapEncodeTiled,
cuTensorMapEncodeIm2col and cuTensorMapEncodeIm2colWide.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

from gpusim.errors import UsageError

MAP_BYTES = 128
TILED, IM2COL, IM2COL_WIDE = range(3)
#: CUtensorMapDataType -> bits an element.
ELEMENT_BITS = (8, 16, 32, 32, 64, 64, 16, 32, 64, 16, 32, 32, 32, 4, 4, 6)
_FLOATS = frozenset({6, 7, 8, 9, 10, 11, 12})
PACKED_4_IN_8, PACKED_4_IN_16, PACKED_6_IN_16 = 13, 14, 15
_WIDE_PACKED = (PACKED_4_IN_16, PACKED_6_IN_16)
NOT_INTERLEAVED, BY_16, BY_32 = range(3)
#: CUtensorMapSwizzle -> bytes of the span.
SWIZZLE_BYTES = (0, 32, 64, 128, 128, 128, 128)
_SWIZZLE_32, _SWIZZLE_128, _SWIZZLE_128_BY_32, _SWIZZLE_128_BY_64 = 1, 3, 4, 6
_MOST_RANK, _MOST_DIMENSION, _MOST_STRIDE = 5, 1 << 32, 1 << 40
_MOST_BOX, _MOST_ELEMENT_STRIDE, _MOST_CHANNELS, _MOST_PIXELS = 256, 8, 256, 1024
#: Rank -> range of a corner's offsets.
_CORNERS = {3: (-32768, 32767), 4: (-128, 127), 5: (-16, 15)}
#: Byte offsets: the address; word of flags; strides / 16 without their upper four bits, which follow (four a stride);
#: dimensions - 1; element strides - 1 (three bits each); box sizes - 1. Im2col maps have the channels for the first box
#: size, the lower and the upper corner, 16 bits each, for the others, and behind them pixels - 1; a wide one the mode
#: in the byte that gpusim gives it.
ADDRESS_AT, FLAGS_AT, STRIDES_AT, STRIDES_HIGH_AT, DIMENSIONS_AT, STEPS_AT, BOX_AT = 0, 8, 12, 28, 32, 52, 55
CORNERS_AT, PIXELS_AT, MODE_AT = 56, 60, 62
#: Bytes that count: the CuTe DSL leaves the others as they are.
_USED_BYTES = 64
#: Bits of an offset in a corner, by rank: as many as fit 16 bits.
CORNER_BITS = (0, 0, 0, 16, 8, 5)
#: Bits of the flags. Of the lowest one, that tells im2col maps, and the next, which encoders set and a map that a
#: kernel builds on zeros has not, the DSL tells; which bit a wide map has nobody does. The L2 promotion stands where
#: compiled code leaves bits alone.
KIND_SHIFT, RANK_SHIFT, TYPE_SHIFT, INTERLEAVE_SHIFT, SWIZZLE_SHIFT, FILL_SHIFT, TF32_SHIFT = 0, 4, 7, 11, 13, 15, 16
PROMOTION_SHIFT, ATOMICITY_SHIFT = 17, 19
_ENCODED, COLUMNS_BIT, WIDE_BIT = 2, 1, 4
#: Bit 21, which drivers set for large tensors and CUTLASS clears, changes nothing here.
KNOWN_FLAGS = 0x3FFFF7
#: CUtensorMapDataType -> type in the flags, of which those that round to TF32 have a further bit.
_TYPE_CODES = (0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 8, 7 | 0x200, 8 | 0x200, 11, 12, 13)
_KIND_FLAGS = (_ENCODED, _ENCODED | COLUMNS_BIT, _ENCODED | COLUMNS_BIT | WIDE_BIT)
_DATA_TYPES = {code: kind for kind, code in enumerate(_TYPE_CODES)}
_BODY, _COLUMNS = struct.Struct("<QI4IH2x5II5B"), struct.Struct("<2HHB")


@dataclass(frozen=True)
class TensorMap:
    """``dimensions`` and ``strides_bytes`` (of all but the first) of the tensor, fastest first; enumerations by
    cuda.h's numbers. ``box`` of a tiled map; ``lower``, ``upper`` corner (of width, height, depth: what cuda.h calls D,
    H, W, CUTLASS passes so and runs on GPUs), ``channels`` and ``pixels`` of the others, ``mode`` of a wide one."""

    kind: int
    data_type: int
    address: int
    dimensions: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    element_strides: tuple[int, ...]
    interleave: int = NOT_INTERLEAVED
    swizzle: int = 0
    promotion: int = 0
    fill: int = 0
    box: tuple[int, ...] = ()
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()
    channels: int = 0
    pixels: int = 0
    mode: int = 0

    @property
    def rank(self) -> int:
        return len(self.dimensions)

    @property
    def inner_bytes(self) -> int:
        """Bytes of the box's innermost dimension in shared memory; packed types take 8 or 16 bytes for 16 elements."""
        elements = self.box[0] if self.kind == TILED else self.channels
        if self.data_type in _WIDE_PACKED:
            return elements
        return elements * ELEMENT_BITS[self.data_type] // 8


def check(wanted: TensorMap) -> TensorMap:
    """``wanted`` itself; raises UsageError, naming the limit, for a map that CUDA does not encode."""
    kind, interleave, packed = wanted.kind, wanted.interleave, wanted.data_type in _WIDE_PACKED
    least_rank = 1 if kind == TILED and interleave == NOT_INTERLEAVED else 3
    _need(0 <= wanted.data_type < len(ELEMENT_BITS), "data type", wanted.data_type, "0 to 15")
    _need(interleave in range(3), "interleave", interleave, "0 to 2")
    _need(wanted.swizzle in range(len(SWIZZLE_BYTES)), "swizzle", wanted.swizzle, "0 to 6")
    _need(wanted.promotion in range(4), "L2 promotion", wanted.promotion, "0 to 3")
    _need(wanted.fill in range(2), "fill", wanted.fill, "0 or 1")
    _need(
        not wanted.fill or wanted.data_type in _FLOATS, "fill", wanted.fill, "0 unless the elements are floating point"
    )
    _need(least_rank <= wanted.rank <= _MOST_RANK, "rank", wanted.rank, f"{least_rank} to {_MOST_RANK}")
    unit = 32 if interleave == BY_32 or packed else 16
    _need(wanted.address % unit == 0, "address", wanted.address, f"a multiple of {unit}")
    for size in wanted.dimensions:
        _need(0 < size <= _MOST_DIMENSION, "dimension", size, "1 to 2^32")
    elements = {PACKED_4_IN_8: 2}.get(wanted.data_type, 128 if packed else 1)
    _need(
        wanted.dimensions[0] % elements == 0, "innermost dimension", wanted.dimensions[0], f"a multiple of {elements}"
    )
    for stride in wanted.strides_bytes:
        _need(stride % unit == 0 and stride < _MOST_STRIDE, "stride", stride, f"a multiple of {unit} below 2^40")
    for i, step in enumerate(wanted.element_strides):
        ignored = i == 0 and interleave == NOT_INTERLEAVED
        _need(ignored or 0 < step <= _MOST_ELEMENT_STRIDE, "element stride", step, "1 to 8")
    _check_box(wanted) if kind == TILED else _check_columns(wanted)
    _check_swizzle(wanted)
    return wanted


def _check_box(wanted: TensorMap) -> None:
    for size in wanted.box:
        _need(0 < size <= _MOST_BOX, "box size", size, "1 to 256")
    if wanted.data_type in _WIDE_PACKED:
        _need(wanted.box[0] == 128, "innermost box size", wanted.box[0], "128 for this type")
    elif wanted.interleave == NOT_INTERLEAVED:
        _need(wanted.inner_bytes % 16 == 0, "innermost box size in bytes", wanted.inner_bytes, "a multiple of 16")


def _check_columns(wanted: TensorMap) -> None:
    low, high = _CORNERS[3] if wanted.kind == IM2COL_WIDE else _CORNERS[wanted.rank]
    for offset in (*wanted.lower, *wanted.upper):
        _need(low <= offset <= high, "corner", offset, f"{low} to {high}")
    for size, lower, upper in zip(wanted.dimensions[1:-1], wanted.lower, wanted.upper, strict=False):
        _need(size + upper - lower > 0, "box between the corners", size + upper - lower, "at least one pixel")
    _need(0 < wanted.channels <= _MOST_CHANNELS, "channels a pixel", wanted.channels, "1 to 256")
    if wanted.data_type in _WIDE_PACKED:
        _need(wanted.channels == 128, "channels a pixel", wanted.channels, "128 for this type")
    _need(wanted.mode in range(2), "mode", wanted.mode, "0 or 1")
    if wanted.mode == 0:
        _need(0 < wanted.pixels <= _MOST_PIXELS, "pixels a column", wanted.pixels, "1 to 1024")


def _check_swizzle(wanted: TensorMap) -> None:
    swizzle, span = wanted.swizzle, SWIZZLE_BYTES[wanted.swizzle]
    if wanted.kind == IM2COL_WIDE:
        _need(wanted.interleave == NOT_INTERLEAVED, "interleave", wanted.interleave, "none for a wide map")
        _need(swizzle in (2, 3, 4), "swizzle", swizzle, "64B, 128B or 128B in atoms of 32B for a wide map")
    if wanted.interleave == BY_32:
        _need(swizzle == _SWIZZLE_32, "swizzle", swizzle, "32B where the interleave is 32B")
    if wanted.interleave == NOT_INTERLEAVED and span:
        _need(
            wanted.inner_bytes <= span,
            "innermost box size in bytes",
            wanted.inner_bytes,
            f"at most the swizzle's {span}",
        )
    if wanted.data_type == PACKED_6_IN_16:
        _need(wanted.interleave == NOT_INTERLEAVED, "interleave", wanted.interleave, "none for this type")
    if wanted.data_type in _WIDE_PACKED and wanted.kind != IM2COL_WIDE:
        fits = (
            0,
            _SWIZZLE_128,
            _SWIZZLE_128_BY_32,
            *((_SWIZZLE_128_BY_64,) if wanted.data_type == PACKED_6_IN_16 else ()),
        )
        _need(swizzle in fits, "swizzle", swizzle, "none or 128B for this type")


def _need(holds: bool, what: str, value: int, wanted: str) -> None:
    if not holds:
        raise UsageError(f"a tensor map's {what} is {value}, it must be {wanted}")


def encode(tensor_map: TensorMap) -> bytes:
    """The 128 bytes of a checked map."""
    code = _TYPE_CODES[tensor_map.data_type]
    swizzle = min(tensor_map.swizzle, _SWIZZLE_128)
    flags = (
        _KIND_FLAGS[tensor_map.kind] << KIND_SHIFT | (tensor_map.rank - 1) << RANK_SHIFT | code << TYPE_SHIFT
        | tensor_map.interleave << INTERLEAVE_SHIFT | swizzle << SWIZZLE_SHIFT | tensor_map.fill << FILL_SHIFT
        | tensor_map.promotion << PROMOTION_SHIFT | (tensor_map.swizzle - swizzle) << ATOMICITY_SHIFT
    )  # fmt: skip
    sixteenths = [stride >> 4 for stride in _filled(tensor_map.strides_bytes, 4, 0)]
    high = sum((stride >> 32) << 4 * i for i, stride in enumerate(sixteenths))
    steps = sum((step - 1 & 7) << 3 * i for i, step in enumerate(_filled(tensor_map.element_strides, 5, 1)))
    box = _filled(tensor_map.box if tensor_map.kind == TILED else (tensor_map.channels,), 5, 1)
    body = bytearray(
        _BODY.pack(
            tensor_map.address, flags, *(stride & 0xFFFFFFFF for stride in sixteenths), high,
            *(size - 1 for size in _filled(tensor_map.dimensions, 5, 1)), steps, *(size - 1 for size in box),
        )
    )  # fmt: skip
    # The box's sizes begin in the last byte of the word of element strides.
    data = bytes(body[:BOX_AT]) + bytes(body[STEPS_AT + 4 :])
    if tensor_map.kind != TILED:
        bits = 16 if tensor_map.kind == IM2COL_WIDE else CORNER_BITS[tensor_map.rank]
        corners = (_packed(corner, bits) for corner in (tensor_map.lower, tensor_map.upper))
        data = data[:CORNERS_AT] + _COLUMNS.pack(*corners, max(tensor_map.pixels - 1, 0), tensor_map.mode)
    return data.ljust(MAP_BYTES, b"\0")


def decode(data: bytes) -> TensorMap:
    """The map that :func:`encode` wrote, or compiled code did; raises UsageError for other bytes, so also for a damaged
    map."""
    if len(data) < MAP_BYTES:
        raise UsageError(f"a tensor map has {MAP_BYTES} bytes, not {len(data)}")
    flags = struct.unpack_from("<I", data, FLAGS_AT)[0]
    kind, rank = kind_of(flags), (flags >> RANK_SHIFT & 7) + 1
    code = flags >> TYPE_SHIFT & 0x20F
    if flags & ~KNOWN_FLAGS or rank > _MOST_RANK or code not in _DATA_TYPES:
        raise UsageError(f"these {MAP_BYTES} bytes are no tensor map: their flags are 0x{flags:x}")
    address, _, *numbers = _BODY.unpack(data[: STEPS_AT + 3] + b"\0" + data[BOX_AT : BOX_AT + 5])
    high, dimensions, steps, box = numbers[4], numbers[5:10], numbers[10] & 0xFFFFFF, numbers[11:]
    if any(data[PIXELS_AT + (_COLUMNS.size - 4 if kind else 0) : _USED_BYTES]) or steps >> 15:
        raise UsageError(f"these {MAP_BYTES} bytes are no tensor map: there is something where one has nothing")
    strides = [(low | (high >> 4 * i & 15) << 32) << 4 for i, low in enumerate(numbers[:4])]
    found = TensorMap(
        kind=kind,
        data_type=_DATA_TYPES[code],
        address=address,
        dimensions=tuple(size + 1 for size in dimensions[:rank]),
        element_strides=tuple((steps >> 3 * i & 7) + 1 for i in range(rank)),
        strides_bytes=tuple(strides[: rank - 1]),
        interleave=flags >> INTERLEAVE_SHIFT & 3,
        swizzle=_swizzle(flags >> SWIZZLE_SHIFT & 3, flags >> ATOMICITY_SHIFT & 3),
        promotion=flags >> PROMOTION_SHIFT & 3,
        fill=flags >> FILL_SHIFT & 1,
    )
    if kind == TILED:
        return check(replace(found, box=tuple(size + 1 for size in box[:rank])))
    lower, upper, pixels, mode = _COLUMNS.unpack_from(data, CORNERS_AT)
    corners, bits = (1, 16) if kind == IM2COL_WIDE else (max(rank - 2, 0), CORNER_BITS[rank])
    return check(
        replace(
            found, lower=_offsets(lower, corners, bits), upper=_offsets(upper, corners, bits), channels=box[0] + 1,
            pixels=pixels + 1, mode=mode,
        )
    )  # fmt: skip


def kind_of(flags: int) -> int:
    """TILED, IM2COL or IM2COL_WIDE."""
    if not flags & COLUMNS_BIT << KIND_SHIFT:
        return TILED
    return IM2COL_WIDE if flags & WIDE_BIT << KIND_SHIFT else IM2COL


def _packed(corner: tuple[int, ...], bits: int) -> int:
    """The 16 bits of a corner, whose offsets have ``bits`` each, the width's the lowest."""
    return sum((offset & (1 << bits) - 1) << bits * i for i, offset in enumerate(corner))


def _offsets(word: int, count: int, bits: int) -> tuple[int, ...]:
    """The corner that :func:`_packed` wrote."""
    half = 1 << bits - 1 if bits else 0
    return tuple(((word >> bits * i & (1 << bits) - 1) ^ half) - half for i in range(count))


def _swizzle(mode: int, atomicity: int) -> int:
    """CUtensorMapSwizzle of a mode and its atomicity, which only 128 bytes have a choice of."""
    return mode + atomicity if mode == _SWIZZLE_128 else mode


def _filled(values: tuple[int, ...], count: int, with_value: int) -> tuple[int, ...]:
    return (*values, *(with_value,) * (count - len(values)))
