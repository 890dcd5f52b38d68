"""Quotients and remainders of whole numbers that are not negative, by a divisor that only the GPU's description knows.

Mental model: where a line lives is a chain of divisions by numbers of slices, sets and ways. A host divides 64-bit
integers in up to ninety cycles, one at a time, and Numba adds the cases of zero and of negative numbers; doubles it
divides in a quarter of that, several at once. The double nearest to a quotient of whole numbers never lies on the other
side of a whole number as long as the dividend is below 2**52: the quotient is 1 / divisor or more away from the next
one, and the rounding error less. So its whole part is exact.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import config
from numba.extending import intrinsic

from gpusim.model.compiled import inner

_DOUBLE, _WORD = ir.DoubleType(), ir.IntType(64)


def _plain_quotient(number: int, divisor: int) -> int:
    return number // divisor


@intrinsic
def _quotient(typing_context, number, divisor):
    """``number`` 0 to 2**52 - 1, ``divisor`` 1 or more, any integers."""

    def generate(context, builder, signature, arguments):
        doubles = [
            builder.sitofp(context.cast(builder, value, type_, types.int64), _DOUBLE)
            for value, type_ in zip(arguments, signature.args, strict=True)
        ]
        return builder.fptosi(builder.fdiv(*doubles), _WORD)

    return types.int64(number, divisor), generate


#: ``number // divisor``, for numbers below 2**52 that are not negative.
quotient: Any = _plain_quotient if config.DISABLE_JIT else _quotient  # pyright: ignore[reportAttributeAccessIssue]


@inner
def remainder(number: int, divisor: int) -> int:
    """``number % divisor``, of the same numbers."""
    return number - quotient(number, divisor) * divisor
