"""Tensor cores from Numba: ldmatrix and mma.sync as device functions, through inline PTX.

Mental model: tiles go to shared memory 16 bytes at a time (:func:`load_four`, :func:`store_four`). A warp's
fragments are tuples of registers (32-bit words, or the accumulator's type). :func:`load_matrices` reads 8 x 8
matrices of 16-bit elements from shared memory, lane 8 i + r naming row r of matrix i; :func:`multiply` makes the
function that adds one product to an accumulator. Which lane holds which element is in the PTX ISA, "Matrix
Fragments for mma". All 32 lanes must call them together.
"""

from __future__ import annotations

from functools import cache

from llvmlite import ir
from numba import types
from numba.cuda.extending import intrinsic

_WORD = ir.IntType(32)
_LLVM = {types.uint32: (_WORD, "r"), types.int32: (_WORD, "r"), types.float32: (ir.FloatType(), "f")}
#: mma shape and types -> (accumulator, registers of the accumulator, of A, of B). m16n8k8 and m8n8k16 exist on every
#: GPU since Turing, the others since Ampere.
PRODUCTS = {
    "m16n8k8.row.col.f32.f16.f16.f32": (types.float32, 4, 2, 1),
    "m16n8k16.row.col.f32.f16.f16.f32": (types.float32, 4, 4, 2),
    "m8n8k16.row.col.s32.s8.s8.s32": (types.int32, 2, 1, 1),
    "m16n8k32.row.col.s32.s8.s8.s32": (types.int32, 4, 4, 2),
}


@intrinsic
def shared_address(typingctx, array):
    """The 32-bit shared-memory address of a shared array's first element."""

    def lower(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        function = ir.FunctionType(_WORD, [ir.IntType(64)])
        text = "{ .reg .u64 %place; cvta.to.shared.u64 %place, $1; cvt.u32.u64 $0, %place; }"
        pointer = builder.ptrtoint(data, ir.IntType(64))
        return builder.call(ir.InlineAsm(function, text, "=r,l"), [pointer])

    return types.uint32(array), lower


def _names(first: int, count: int) -> str:
    return "{" + ", ".join(f"${first + i}" for i in range(count)) + "}"


def _call(builder, text: str, kind, count: int, values, constraints: list[str]):
    """Run ``text`` with ``count`` results of ``kind``; the results as an LLVM array (a Numba tuple)."""
    llvm, letter = _LLVM[kind]
    result = llvm if count == 1 else ir.LiteralStructType([llvm] * count)
    function = ir.FunctionType(result, [value.type for value in values])
    # "memory": shared memory must be written before and may be written again behind it
    code = ir.InlineAsm(
        function, text, ",".join([f"={letter}"] * count + constraints + ["~{memory}"]), side_effect=True
    )
    got = builder.call(code, values)
    out = ir.Constant(ir.ArrayType(llvm, count), ir.Undefined)
    for i in range(count):
        out = builder.insert_value(out, got if count == 1 else builder.extract_value(got, i), i)
    return out


FOUR_WORDS = types.UniTuple(types.uint32, 4)


@intrinsic
def load_four(typingctx, array, index):
    """Four words of a one-dimensional uint32 array from ``index`` on, a multiple of 4, in one 16-byte load."""

    def lower(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        place = builder.ptrtoint(builder.gep(data, [args[1]]), ir.IntType(64))
        return _call(builder, "ld.global.v4.u32 {$0, $1, $2, $3}, [$4];", types.uint32, 4, [place], ["l"])

    return FOUR_WORDS(array, types.int64), lower


@intrinsic
def store_four(typingctx, address, words):
    """The same to a shared-memory address."""

    def lower(context, builder, signature, args):
        values = [args[0]] + [builder.extract_value(args[1], i) for i in range(4)]
        function = ir.FunctionType(ir.VoidType(), [_WORD] * 5)
        text = "st.shared.v4.u32 [$0], {$1, $2, $3, $4};"
        builder.call(ir.InlineAsm(function, text, "r,r,r,r,r,~{memory}", side_effect=True), values)
        return context.get_dummy_value()

    return types.void(types.uint32, FOUR_WORDS), lower


@cache
def load_matrices(count: int, transposed: bool = False):
    """``load(address)``: ``count`` (1, 2, 4) matrices, a word of each a lane, as a tuple; 16-byte aligned rows."""
    option = ".trans" if transposed else ""

    def lower(context, builder, signature, args):
        text = f"ldmatrix.sync.aligned.m8n8.x{count}{option}.shared.b16 {_names(0, count)}, [${count}];"
        return _call(builder, text, types.uint32, count, [args[0]], ["r"])

    @intrinsic
    def load(typingctx, address):
        return types.UniTuple(types.uint32, count)(types.uint32), lower

    return load


@cache
def multiply(product: str):
    """``mma(c, a, b)`` for an entry of :data:`PRODUCTS`: the tuple c + a x b."""
    kind, of_c, of_a, of_b = PRODUCTS[product]
    c_type, a_type, b_type = (
        types.UniTuple(k, n) for k, n in ((kind, of_c), (types.uint32, of_a), (types.uint32, of_b))
    )

    def lower(context, builder, signature, args):
        counts = (of_c, of_a, of_b)
        values = [builder.extract_value(args[n], i) for n in (1, 2, 0) for i in range(counts[n])]
        starts = (of_c, of_c + of_a, of_c + of_a + of_b)
        lists = ", ".join(_names(s, n) for s, n in zip((0, *starts), (of_c, of_a, of_b, of_c), strict=True))
        text = f"mma.sync.aligned.{product} {lists};"
        letters = ["r"] * (of_a + of_b) + [_LLVM[kind][1]] * of_c
        return _call(builder, text, kind, of_c, values, letters)

    @intrinsic
    def mma(typingctx, c, a, b):
        return c_type(c_type, a_type, b_type), lower

    return mma
