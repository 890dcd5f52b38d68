"""Small sets as the bits of one integer: how many members, and which is the lowest or the highest.

Mental model: the warps of a sub-core, the sectors of a line and the lanes of a warp are few, so a set of them is a
mask, and the host's processor answers what is asked of a mask in one instruction. Masks are not negative; the lowest
and the highest member are asked for of sets that are not empty.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import config
from numba.extending import intrinsic

_WORD = ir.IntType(64)
_BITS = 64


def _plain_population(mask: int) -> int:
    return int(mask).bit_count()


def _plain_lowest(mask: int) -> int:
    return (int(mask) & -int(mask)).bit_length() - 1


def _plain_highest(mask: int) -> int:
    return int(mask).bit_length() - 1


def _word(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return context.cast(builder, arguments[0], signature.args[0], types.int64)


@intrinsic
def _population(typing_context, mask):
    """``mask`` any integer."""

    def generate(context, builder, signature, arguments):
        return builder.ctpop(_word(context, builder, signature, arguments))

    return types.int64(mask), generate


@intrinsic
def _lowest(typing_context, mask):
    """``mask`` any integer."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(_word(context, builder, signature, arguments), ir.IntType(1)(1))

    return types.int64(mask), generate


@intrinsic
def _highest(typing_context, mask):
    """``mask`` any integer."""

    def generate(context, builder, signature, arguments):
        zeros = builder.ctlz(_word(context, builder, signature, arguments), ir.IntType(1)(1))
        return builder.sub(_WORD(_BITS - 1), zeros)

    return types.int64(mask), generate


#: How many members a set has.
population: Any = _plain_population if config.DISABLE_JIT else _population
#: The lowest member of a set that is not empty.
lowest: Any = _plain_lowest if config.DISABLE_JIT else _lowest
#: The highest member of a set that is not empty.
highest: Any = _plain_highest if config.DISABLE_JIT else _highest
