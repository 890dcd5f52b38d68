"""The axes of a case function, read from its signature: values worth trying, bounds, the default and the simplest
shape.

Mental model: a function says by its parameters what an entry of the suite says in tables::

    def scale_case(n=1 << 20, stride: Literal[1, 2, 32] = 1, rows: Annotated[int, range(1, 4097)] = 64, block=256): ...

A ``Literal`` or an enumeration lists the values; ``Annotated`` with a range, a pair (least, most) or what has ``ge``,
``gt``, ``le``, ``lt`` bounds them; a name that counts work (``n``, ``rows``, ``tokens`` ...) is any size, simplest at
its default or :data:`SMALL_SIZE`, whichever is less; one named after a block takes usual block sizes; another number
its default and what lies beside; a truth value both; all else keeps its default.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from gpusim.cases.arguments import kind_of
from gpusim.io.sibling import load_sibling

#: The simplest size of an axis that counts work, unless its default is smaller: a few blocks.
SMALL_SIZE = 1000
BLOCK_SIZES = (32, 64, 128, 256, 512, 1024)
#: Values that stand for a bounded axis where a few are to be listed.
MOST_LISTED = 8
#: An upper bound that was left out.
UNBOUNDED = 1 << 40
_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True)
class Axis:
    """``values`` worth trying; ``bounds`` within which whole numbers lie, None where there are none; ``default`` and
    the ``small`` value, ``inspect.Parameter.empty`` where nothing says one. ``listed``: it takes no others (a
    ``Literal``, an enumeration)."""

    values: tuple[Any, ...]
    bounds: range | None
    default: Any
    small: Any
    listed: bool = False


def parameters_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The named parameters of ``function``, their annotations as types wherever these can be found."""
    try:
        hints = get_type_hints(
            function.__init__ if isinstance(function, type) else function,  # pyright: ignore[reportGeneralTypeIssues]
            include_extras=True,
        )
    except (NameError, TypeError, AttributeError):
        hints = {}
    return {
        name: parameter.replace(annotation=hints.get(name, parameter.annotation))
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind not in _VARIABLE
    }


def axis_of(parameter: inspect.Parameter) -> Axis:
    """The axis that ``parameter`` is."""
    default, choices, bounds = parameter.default, _choices(parameter), bounds_of(parameter)
    is_open = default is parameter.empty
    if choices:
        return Axis(choices, None, choices[0] if is_open else default, choices[0] if is_open else default, listed=True)
    if bounds is not None:
        if is_open:
            default = _clamp(SMALL_SIZE, bounds)
        return Axis(_listed(bounds, default), bounds, default, _clamp(min(default, SMALL_SIZE), bounds))
    if is_open:
        return Axis((), None, default, default)
    small = min(default, SMALL_SIZE) if parameter.name in axes_of_work() and _is_count(default) else default
    return Axis(_values(parameter.name, default) if _is_count(default) or isinstance(default, bool)
                else _real_values(parameter), None, default, small)  # fmt: skip


def bounds_of(parameter: inspect.Parameter) -> range | None:
    """The whole numbers that its annotation allows, None where it says nothing."""
    if get_origin(parameter.annotation) is not Annotated or kind_of(parameter) is not int:
        return None
    least, most = None, None
    for extra in get_args(parameter.annotation)[1:]:
        if isinstance(extra, range):
            return extra or None
        if isinstance(extra, tuple) and len(extra) == 2 and all(map(_is_count, extra)):
            least, most = extra
        for name, step in (("ge", 0), ("gt", 1)):
            least = getattr(extra, name) + step if isinstance(getattr(extra, name, None), int) else least
        for name, step in (("le", 0), ("lt", -1)):
            most = getattr(extra, name) + step if isinstance(getattr(extra, name, None), int) else most
    if least is None and most is None:
        return None
    return range(1 if least is None else least, (UNBOUNDED if most is None else most) + 1) or None


def axes_of_work() -> frozenset[str]:
    """Names of axes that count work, in the suite as in a user's file."""
    load_sibling("workloads", "the workloads")
    return importlib.import_module("gpusim.workloads.strategies").SIZES


def _choices(parameter: inspect.Parameter) -> tuple[Any, ...]:
    kind = kind_of(parameter)
    if get_origin(kind) is Literal:
        return get_args(kind)
    return tuple(kind) if isinstance(kind, type) and issubclass(kind, enum.Enum) else ()


def _values(name: str, default: Any) -> tuple[Any, ...]:
    if isinstance(default, bool):
        return (False, True)
    if name in axes_of_work():
        return (default,)
    if name.startswith(("block", "threads")):
        return tuple(sorted({*BLOCK_SIZES, default}))
    return tuple(sorted({max(1, each) for each in (default // 2, default - 1, default, default + 1, 2 * default)}))


def _real_values(parameter: inspect.Parameter) -> tuple[Any, ...]:
    """A default, and the ends of a pair of numbers that bounds it."""
    found = [parameter.default]
    if get_origin(parameter.annotation) is Annotated:
        for extra in get_args(parameter.annotation)[1:]:
            if isinstance(extra, tuple) and all(isinstance(each, (int, float)) for each in extra):
                found += [each for each in extra if each not in found]
    return tuple(found)


def _listed(bounds: range, default: int) -> tuple[int, ...]:
    """A few values within ``bounds``: both ends, the default and what lies between in equal ratios."""
    low, high = bounds[0], bounds[-1]
    ratio = (max(2.0, high / max(1, low))) ** (1 / (MOST_LISTED - 1))
    between = (_clamp(math.ceil(max(1, low) * ratio**step), bounds) for step in range(1, MOST_LISTED - 1))
    return tuple(sorted({low, *between, high, default}))


def _clamp(value: int, bounds: range) -> int:
    """The number of ``bounds`` at ``value`` or next below it, the least where there is none."""
    return bounds[min(len(bounds) - 1, max(0, (value - bounds.start) // bounds.step))]


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
