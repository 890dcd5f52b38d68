"""A hint to the host's processor: this element will be wanted soon.

Mental model: the model's tables are larger than the host's near caches and are entered at random, so
most of a streaming simulation's time is waiting for them. Whoever knows a few events ahead which row comes up
asks for it early. A hint changes no result, and in plain Python it is nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic

#: llvm.prefetch: for reading, keep in all levels of the cache, or in all but the nearest, data.
_READ, _KEEP, _KEEP_BEHIND, _DATA = 0, 3, 2, 1


def _no_hint(array, index):
    """Plain Python's :func:`prefetch`."""


def _hint_into(level: int) -> Callable:
    """What generates the hint to fetch an element and keep it so near."""

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
        how = [ir.Constant(number, value) for value in (_READ, level, _DATA)]
        builder.call(function, [builder.bitcast(place, byte), *how])
        return context.get_dummy_value()

    return generate


@intrinsic
def _hint(typing_context, array, index):
    """``array`` any numeric array, ``index`` a tuple of as many integers (never negative)."""
    return types.void(array, index), _hint_into(_KEEP)


@intrinsic
def _hint_behind(typing_context, array, index):
    return types.void(array, index), _hint_into(_KEEP_BEHIND)


#: For what is wanted within some hundred instructions.
prefetch = _no_hint if config.DISABLE_JIT else _hint
#: For what is wanted later: it does not displace what is in use now.
prefetch_for_later = _no_hint if config.DISABLE_JIT else _hint_behind
