"""A case in a file of the user's own as an entry that can be searched: axes and a small shape, read from its signature.

Mental model: an entry of the suite says which values of each axis are worth trying and which shape is simplest; a
function says as much by its parameters::

    def scale_case(n=1 << 20, stride: Literal[1, 2, 32] = 1, block=256): ...

A ``Literal`` lists the values; a parameter with a name that counts work (``n``, ``rows``, ``tokens`` ...) is any size, simplest
at its default or :data:`SMALL_SIZE`, whichever is less; one named after a block takes usual block sizes; another number
its default and what lies beside; a truth value both; all else keeps its default.

Raises UsageError for a function that cannot be read so, and what :mod:`gpusim.cases.user_kernels` raises.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

from gpusim.cases.user_kernels import load_object, make_user_case
from gpusim.errors import UsageError
from gpusim.frontend.registry import is_kernel
from gpusim.io.sibling import load_sibling

#: The simplest size of an axis that counts work, unless its default is smaller: a few blocks.
SMALL_SIZE = 1000
BLOCK_SIZES = (32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True)
class UserEntry:
    """What a search needs of a kernel, as an entry of the suite has it."""

    name: str
    purpose: str
    axes: dict[str, tuple[Any, ...]]
    default: dict[str, Any]
    small: dict[str, Any]
    make: Callable[..., Any]


def user_entry(reference: str) -> UserEntry:
    """The entry of ``path.py:function``."""
    function = load_object(reference)
    if is_kernel(function) or not callable(function):
        make_user_case(reference, {})  # says what is wrong with it
    hints = get_type_hints(function)
    axes, default = {}, {}
    for name, parameter in inspect.signature(function).parameters.items():
        choices = _literal(hints.get(name))
        if parameter.default is parameter.empty and not choices:
            raise UsageError(f"{reference}: a search needs a default of {name}, or values of it as Literal[...]")
        default[name] = choices[0] if parameter.default is parameter.empty else parameter.default
        axes[name] = choices or _values(name, default[name])
    sizes = axes_of_work()
    small = {
        name: min(value, SMALL_SIZE) if name in sizes and _is_number(value) and not _literal(hints.get(name)) else value
        for name, value in default.items()
    }
    purpose = (inspect.getdoc(function) or "").partition("\n")[0]
    return UserEntry(reference, purpose, axes, default, small, lambda **shape: make_user_case(reference, shape))


def _values(name: str, default: Any) -> tuple[Any, ...]:
    if isinstance(default, bool):
        return (False, True)
    if not _is_number(default) or name in axes_of_work():
        return (default,)
    if name.startswith(("block", "threads")):
        return tuple(sorted({*BLOCK_SIZES, default}))
    return tuple(sorted({max(1, each) for each in (default // 2, default - 1, default, default + 1, 2 * default)}))


def _literal(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) is Literal else ()


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def axes_of_work() -> frozenset[str]:
    """Names of axes that count work, in the suite as in a user's file."""
    load_sibling("workloads", "the workloads")
    return importlib.import_module("gpusim.workloads.strategies").SIZES
