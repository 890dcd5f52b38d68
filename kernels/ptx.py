"""Inline PTX for micro-benchmarks: chains of one instruction that no compiler shortens.

Mental model: :func:`chain` makes a function that a kernel calls with values and operands; each value goes
through ``length`` copies of one PTX statement, every copy taking the result of the one before. LLVM
sees volatile assembly and keeps every statement; what ptxas makes of it is the caller's to look up
in the machine code. :func:`statement` makes a function that runs a PTX statement once.

Operands of a statement, in LLVM's notation: ``$0`` is the result; see :func:`chain` for the others.
"""

from __future__ import annotations

from functools import cache

from llvmlite import ir
from numba import types
from numba.cuda.extending import intrinsic

#: Numba type -> (LLVM type, PTX register constraint): LLVM's NVPTX back end, inline assembly.
_REGISTERS = {
    types.int32: (ir.IntType(32), "r"),
    types.uint32: (ir.IntType(32), "r"),
    types.int64: (ir.IntType(64), "l"),
    types.uint64: (ir.IntType(64), "l"),
    types.float32: (ir.FloatType(), "f"),
    types.float64: (ir.DoubleType(), "d"),
}


def _assembly(text: str, result, arguments) -> ir.InlineAsm:
    """The volatile statement ``text`` as a callable of LLVM."""
    kind, constraint = _REGISTERS[result]
    inputs = [_REGISTERS[argument] for argument in arguments]
    constraints = ",".join([f"={constraint}", *(letter for _, letter in inputs)])
    function = ir.FunctionType(kind, [llvm for llvm, _ in inputs])
    return ir.InlineAsm(function, text, constraints, side_effect=True)


@cache
def statement(text: str, result, *arguments):
    """A device function of ``arguments`` (Numba types) that runs ``text``; ``$1``, ``$2`` ... are they."""

    def lower(context, builder, signature, values):
        return builder.call(_assembly(text, result, arguments), values)

    # Numba reads an intrinsic's number of arguments from its Python signature.
    if len(arguments) == 0:

        @intrinsic
        def run(typingctx):
            return result(), lower

    elif len(arguments) == 1:

        @intrinsic
        def run(typingctx, first):
            return result(*arguments), lower

    else:
        raise ValueError(f"a statement of {len(arguments)} arguments")
    return run


@cache
def chain(text: str, kind, length: int, width: int = 1):
    """``run(values, a, b)``: ``width`` values, each through ``length`` dependent copies of ``text``.

    ``values`` is a tuple of ``width`` values of the Numba type ``kind``, and so is the result; ``a`` and
    ``b`` are of type ``kind``. In the text, ``$0`` is the new value, ``$1`` the value before, ``$2`` the value
    before that one (``a`` at first), ``$3`` and ``$4`` are a and b. The copies of different values
    alternate, so that ``width`` independent instructions lie between dependent ones.
    """
    several = types.UniTuple(kind, width)

    def lower(context, builder, signature, args):
        code = _assembly(text, kind, (kind,) * 4)
        values = [builder.extract_value(args[0], k) for k in range(width)]
        older = [args[1]] * width
        for _ in range(length):
            for k in range(width):
                new = builder.call(code, [values[k], older[k], args[1], args[2]])
                older[k], values[k] = values[k], new
        result = args[0]
        for k in range(width):
            result = builder.insert_value(result, values[k], k)
        return result

    @intrinsic
    def run(typingctx, values, a, b):
        return several(several, kind, kind), lower

    return run


#: The SM's cycle counter. On a GPU, differences of it are what the micro-benchmarks time.
clock64 = statement("mov.u64 $0, %clock64;", types.int64)
