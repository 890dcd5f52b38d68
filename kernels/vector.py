"""Vector memory access in Numba: several consecutive array elements by one load or store.

Mental model: CUDA C++'s ``reinterpret_cast<float4 *>(p)[i]``. Numba compiles a subscript to one element,
and the compiler may not join neighbouring ones because it cannot know that their address is aligned.
These intrinsics promise it. ``registers`` is a local array that the compiler keeps in registers, as it
does when every loop over it has constant bounds:

    values = cuda.local.array(4, float32)
    load_vector(values, 0, x, i, 4)     # one LDG.128
    for j in range(4):                  # unrolled
        values[j] *= 2
    store_vector(out, i, values, 0, 4)  # one STG.128

Each takes (to, to_offset, source, source_offset, count), as a copy does. Offsets count elements from the
start of a C-contiguous array, over all its dimensions; the address on the memory side (both sides of
``copy_vector``) must be a multiple of the vector's bytes, or the hardware faults. ``count`` is a constant
and count x itemsize 1, 2, 4, 8 or 16 bytes; both arrays have one dtype. Raises numba's TypingError
otherwise. The host picks the count by :func:`vector_width`.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.errors import TypingError
from numba.cuda.extending import intrinsic

#: Bytes that a memory instruction of every architecture can move for a thread (PTX ISA, ``ld``).
VECTOR_BYTES = (1, 2, 4, 8, 16)
_WORD = ir.IntType(32)


def vector_width(dtype, *lengths: int) -> int:
    """Elements of the widest access that divides all ``lengths``, such as a row's (1 where none does)."""
    width = VECTOR_BYTES[-1] // np.dtype(dtype).itemsize
    while any(length % width for length in lengths):
        width //= 2
    return width


@intrinsic
def load_vector(typingctx, registers, registers_offset, source, source_offset, count):
    """Load ``count`` elements of ``source`` into ``registers`` by one load instruction."""
    return _copy(registers, registers_offset, source, source_offset, count, read=_read, write=_scatter)


@intrinsic
def store_vector(typingctx, to, to_offset, registers, registers_offset, count):
    """Store ``count`` elements of ``registers`` in ``to`` by one store instruction."""
    return _copy(to, to_offset, registers, registers_offset, count, read=_gather, write=_write)


@intrinsic
def copy_vector(typingctx, to, to_offset, source, source_offset, count):
    """Copy ``count`` elements between two arrays in memory by one load and one store instruction."""
    return _copy(to, to_offset, source, source_offset, count, read=_read, write=_write)


def _copy(to, to_offset, source, source_offset, count, *, read, write):
    """What an intrinsic returns: its signature, and a function that emits ``read`` and then ``write``."""
    if not isinstance(count, types.IntegerLiteral):
        return None  # Numba asks again with the constant
    elements = count.literal_value
    for array in (to, source):
        if not isinstance(array, types.Array) or array.layout != "C":
            raise TypingError(f"a vector access needs a C-contiguous array, not {array}")
    if to.dtype != source.dtype:
        raise TypingError(f"a vector access needs one dtype, not {source.dtype} to {to.dtype}")
    bits = to.dtype.bitwidth
    if elements * bits // 8 not in VECTOR_BYTES:
        raise TypingError(f"no memory instruction moves {elements} elements of {to.dtype}")

    def generate(context, builder, signature, args):
        def pointer(position):
            array_type, offset_type = signature.args[position : position + 2]
            data = context.make_array(array_type)(context, builder, args[position]).data
            return builder.gep(data, [context.cast(builder, args[position + 1], offset_type, types.intp)])

        write(builder, pointer(0), read(builder, pointer(2), elements, bits), elements, bits)
        return context.get_dummy_value()

    return types.none(to, to_offset, source, source_offset, count), generate


# Between reading and writing, a value is the list of its lanes: 32-bit words, or whole elements where
# those are wider (or the vector narrower). Elements narrower than a lane are packed by shifts: the
# compiler takes a vector of halves or bytes, or a cast to one, for leave to split the access into several.


def _read(builder, pointer, elements: int, bits: int) -> list:
    vector = _vector(elements, bits)
    loaded = builder.load(builder.bitcast(pointer, vector.as_pointer()))
    loaded.align = elements * bits // 8
    return [builder.extract_element(loaded, _index(i)) for i in range(vector.count)]


def _write(builder, pointer, lanes: list, elements: int, bits: int) -> None:
    vector = _vector(elements, bits)
    values = ir.Constant(vector, ir.Undefined)
    for i, lane in enumerate(lanes):
        values = builder.insert_element(values, lane, _index(i))
    stored = builder.store(values, builder.bitcast(pointer, vector.as_pointer()))
    stored.align = elements * bits // 8


def _gather(builder, pointer, elements: int, bits: int) -> list:
    lane_type = _vector(elements, bits).element
    per_lane = lane_type.width // bits
    lanes = []
    for i in range(elements):
        element = builder.load(builder.gep(pointer, [_index(i)]))
        part = builder.zext(builder.bitcast(element, ir.IntType(bits)), lane_type)
        if i % per_lane == 0:
            lanes.append(part)
        else:
            shift = ir.Constant(lane_type, i % per_lane * bits)
            lanes[-1] = builder.or_(lanes[-1], builder.shl(part, shift))
    return lanes


def _scatter(builder, pointer, lanes: list, elements: int, bits: int) -> None:
    lane_type = _vector(elements, bits).element
    per_lane = lane_type.width // bits
    for i in range(elements):
        shift = ir.Constant(lane_type, i % per_lane * bits)
        part = builder.trunc(builder.lshr(lanes[i // per_lane], shift), ir.IntType(bits))
        address = builder.gep(pointer, [_index(i)])
        builder.store(builder.bitcast(part, pointer.type.pointee), address)


def _vector(elements: int, bits: int) -> ir.VectorType:
    lane_bits = max(bits, min(32, elements * bits))
    return ir.VectorType(ir.IntType(lane_bits), elements * bits // lane_bits)


def _index(i: int) -> ir.Constant:
    return ir.Constant(_WORD, i)
