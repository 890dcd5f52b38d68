"""Calls compiled functions by their address, from compiled code that is put together without theirs.

Mental model: what a compiled function calls is compiled once more as a part of it. A loop around large functions that
exist already would double what compiling takes. Here it is given where their machine code lies, and calls that.
Addresses are this process's: they are arguments, never constants.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.core import cgutils, config
from numba.core.dispatcher import Dispatcher
from numba.extending import intrinsic

_PLAIN = vars(config)["DISABLE_JIT"]
#: What a function that is called here may return.
NOTHING, NUMBER, PAIR, FLAG = types.none, types.int64, types.UniTuple(types.int64, 2), types.boolean


def address_of(function: Any, arguments: tuple, returns: types.Type) -> Any:
    """Where the machine code of a compiled ``function`` lies for such ``arguments``; in plain Python the function
    itself. Raises TypeError if it returns anything else than ``returns``."""
    if not isinstance(function, Dispatcher):  # under NUMBA_DISABLE_JIT
        return function
    signature = tuple(function.typeof_pyval(each) for each in arguments)
    if signature not in function.overloads:
        function.compile(signature)
    version = function.overloads[signature]
    if version.signature.return_type != returns:
        raise TypeError(f"{function.__name__} returns {version.signature.return_type}, not {returns}")
    return version.library.get_pointer_to_function(version.fndesc.llvm_func_name)


def _call_plainly(function: Callable[..., Any], arguments: tuple) -> Any:
    return function(*arguments)


def _caller(returns: types.Type) -> Callable[..., Any]:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kinds = signature.args[1].types
        kind = context.call_conv.get_function_type(returns, kinds)
        place = builder.inttoptr(values[0], kind.as_pointer())
        arguments = cgutils.unpack_tuple(builder, values[1], len(kinds))
        _, result = context.call_conv.call_function(builder, place, returns, kinds, arguments)
        return context.get_dummy_value() if returns == NOTHING else result

    @intrinsic
    def call(typing_context: Any, address: Any, arguments: Any) -> Any:
        return returns(address, arguments), generate

    return call


#: Call what lies at ``address`` with a tuple of arguments, of the types for which the address was asked: these do not
#: raise anything.
call_nothing: Any = _call_plainly if _PLAIN else _caller(NOTHING)
#: The same of a function that returns an integer.
call_number: Any = _call_plainly if _PLAIN else _caller(NUMBER)
#: The same of one that returns two.
call_pair: Any = _call_plainly if _PLAIN else _caller(PAIR)
#: The same of one that returns a truth value.
call_flag: Any = _call_plainly if _PLAIN else _caller(FLAG)
