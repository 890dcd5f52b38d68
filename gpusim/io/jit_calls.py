"""How compiled functions call each other: arguments in parts, and no word about how it went where nothing can go wrong.

Mental model: an inner function is called by compiled functions alone, so how it is called is nobody else's affair. It
takes the parts of its arguments (:mod:`gpusim.io.jit_values`) after the place for its result and the place where an
exception is described, and returns 0 or a code of Numba's. One that fails passes the code up: the place is the same for
all.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir as llvm
from numba.core import cgutils

from gpusim.io.jit_values import argument_types, arguments


def declare_inner(context: Any, module: Any, description: Any) -> Any:
    """The LLVM function of an inner function: (result, exception, parts of the arguments) -> how it went."""
    standard = context.call_conv.get_function_type(description.restype, ())
    words = [word for each in description.argtypes for word in argument_types(context, each)]
    kind = llvm.FunctionType(standard.return_type, [*standard.args, *words])
    function = cgutils.get_or_insert_function(module, kind, description.mangled_name)
    for argument in function.args[:2]:
        argument.add_attribute("noalias")
    if description.inline:
        function.attributes.add("alwaysinline")
    return function


def can_fail(function: Any) -> bool:
    """Whether a function as it was lowered ever returns that it went wrong."""
    for block in function.blocks:
        last = block.terminator
        if last is not None and last.opname == "ret":
            code = last.operands[0]
            if not (isinstance(code, llvm.Constant) and code.constant == 0):
                return True
    return False


class InnerCall:
    """How compiled functions call an inner one: what Numba looks up by the function's type and arguments."""

    def __init__(self, description: Any, library: Any, fails: bool):
        self.description, self.fails = description, fails
        self.signature, self.libs = description.argtypes, (library,)

    def __call__(self, context: Any, builder: Any, signature: Any, values: Any, loc: Any = None) -> Any:
        """From code that Numba lowers itself."""
        function = declare_inner(context, builder.module, self.description)
        return self.emit(context, builder, function, values, cgutils.alloca_once(builder, result_type_of(function)))

    def emit(self, context: Any, builder: Any, function: Any, values: Any, result: Any) -> Any:
        """Call ``function``, the declaration of it, which leaves its value at ``result``; how it failed, it tells our
        own caller, who is told in turn."""
        words = [
            word
            for each, value in zip(self.description.argtypes, values, strict=True)
            for word in arguments(context, builder, each, value)
        ]
        code = builder.call(function, [result, builder.function.args[1], *words])
        if self.fails:
            with cgutils.if_unlikely(builder, builder.icmp_signed("!=", code, code.type(0))):
                builder.ret(code)
        return context.get_returned_value(builder, self.description.restype, builder.load(result))


def result_type_of(function: Any) -> Any:
    return function.function_type.args[0].pointee
