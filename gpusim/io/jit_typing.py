"""What Numba's typing has found, remembered: which types operators, attributes and elements have.

Mental model: wherever an operator occurs, Numba tries all its implementations again, up to forty for ``+``, and with
each that does not fit builds an error message, in colours. What comes of it depends on the types alone; here each
question is asked once.
"""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.core.compiler import Flags
from numba.core.typing.context import Context
from numba.core.typing.templates import signature


class Options(Flags):
    """Numba's options of one function, compared by those that are set.

    Numba looks into its table of implementations with the options as part of the key, for every candidate of every
    operator, and compares all thirty each time: a fifth of the compilation.
    """

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(tuple(sorted(self._values)))

    def __eq__(self, other: object) -> bool:
        return type(other) is Options and self._values == other._values


class _Typing:
    """A typing context that remembers what it has found. ``lean``: for functions that :mod:`gpusim.io.jit_lowering`
    lowers, which knows ``min`` and ``max`` of integers itself."""

    def __init__(self, context: Context, lean: bool):
        self._context, self._lean = context, lean
        self._functions: dict[Any, Any] = {}
        self._elements: dict[Any, Any] = {}
        self._attributes: dict[Any, Any] = {}
        self._values: dict[Any, Any] = {}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._context, name)
        if name in ("can_convert", "unify_pairs", "unify_types"):  # asked for by the thousand; they have no state
            setattr(self, name, found)
        return found

    def resolve_function_type(self, function: Any, arguments: Any, named: Any) -> Any:
        """The signature with which ``function`` is called; those of compiled functions are found quickly as it is."""
        if named or isinstance(function, types.Dispatcher):
            return self._context.resolve_function_type(function, arguments, named)
        key = function, tuple(arguments)
        found = self._functions.get(key)
        if found is None:
            found = self._extreme(function, arguments) if self._lean else None
            if found is None:
                found = self._context.resolve_function_type(function, arguments, named)
            if found is not None:
                self._functions[key] = found
        return found

    def _extreme(self, function: Any, arguments: Any) -> Any:
        """The signature of ``min`` or ``max`` of integers of one type."""
        if not (isinstance(function, types.Function) and function.typing_key in (min, max) and len(arguments) > 1):
            return None
        kinds = {types.unliteral(each) for each in arguments}
        kind = kinds.pop()
        if kinds or not isinstance(kind, types.Integer):
            return None
        return signature(kind, *[kind] * len(arguments))

    def resolve_setitem(self, target: Any, index: Any, value: Any) -> Any:
        key = target, index, value
        found = self._elements.get(key)
        if found is None:
            found = self._elements[key] = self._context.resolve_setitem(target, index, value)
        return found

    def resolve_static_setitem(self, target: Any, index: Any, value: Any) -> Any:
        if not isinstance(target, types.Array):  # elements of arrays are found by the index's type
            return self._context.resolve_static_setitem(target, index, value)
        return None

    def resolve_static_getitem(self, value: Any, index: Any) -> Any:
        if (
            isinstance(value, types.Array)
            and isinstance(index, (int, tuple))
            and not isinstance(value.dtype, types.Record)
        ):
            return None
        return self._context.resolve_static_getitem(value, index)

    def resolve_getattr(self, type: Any, name: str) -> Any:
        key = type, name
        found = self._attributes.get(key)
        if found is None:
            found = self._attributes[key] = self._context.resolve_getattr(type, name)
        return found

    def resolve_value_type(self, value: Any) -> Any:
        known = self._values.get(id(value))
        if known is None:  # the value is kept, so that no other gets its address
            known = self._values[id(value)] = self._context.resolve_value_type(value), value
        return known[0]


_MADE: dict[Any, _Typing] = {}


def remembering(context: Context, options: Options) -> _Typing:
    """The typing context that remembers what ``context`` finds under ``options``."""
    key = context, options.copy()
    made = _MADE.get(key)
    if made is None:
        made = _MADE[key] = _Typing(context, not options.nrt)
    return made
