"""A hint to the host's processor: this element will be wanted soon.

Mental model: the model's tables are larger than the host's near caches and are entered at random, so
most of a streaming simulation's time is waiting for them. Whoever knows a few events ahead which row comes up
asks for it early. A hint changes no result, and in plain Python it is nothing.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic

#: llvm.prefetch: for reading, keep in all levels of the cache, data.
_READ, _KEEP, _DATA = 0, 3, 1


def _no_hint(array, index):
    """Plain Python's :func:`prefetch`."""


@intrinsic
def _hint(typing_context, array, index):
    """``array`` any numeric array, ``index`` a tuple of as many integers (never negative)."""

    def generate(context, builder, signature, arguments):
        array_type, index_type = signature.args
        view = context.make_array(array_type)(context, builder, arguments[0])
        numbers = [
            context.cast(builder, number, index_type.dtype, types.intp)
            for number in cgutils.unpack_tuple(builder, arguments[1], index_type.count)
        ]
        place = cgutils.get_item_pointer(context, builder, array_type, view, numbers, wraparound=False)
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        shape = ir.FunctionType(ir.VoidType(), (byte, number, number, number))
        function = cgutils.get_or_insert_function(builder.module, shape, "llvm.prefetch.p0")
        how = [ir.Constant(number, value) for value in (_READ, _KEEP, _DATA)]
        builder.call(function, [builder.bitcast(place, byte), *how])
        return context.get_dummy_value()

    return types.void(array, index), generate


prefetch = _no_hint if config.DISABLE_JIT else _hint
