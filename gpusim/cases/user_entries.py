"""A case in a file or test of the user's own as an entry that can be searched: axes and a small shape, read from its
signature (:mod:`gpusim.cases.signature`) or given.

Raises UsageError for a function that cannot be read so, and what :mod:`gpusim.cases.user_kernels` raises.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpusim.cases.case_forms import as_case
from gpusim.cases.signature import Axis, axes_of_work, axis_of, parameters_of
from gpusim.cases.user_kernels import case_function
from gpusim.errors import UsageError

_EMPTY = inspect.Parameter.empty


@dataclass(frozen=True)
class UserEntry:
    """What a search needs of a kernel, as an entry of the suite has it; ``bounds``: the whole numbers that an axis may
    be, for those whose annotation says so; ``listed``: axes that take none but the values of ``axes``. ``make`` lets
    errors of the user's code through as they are."""

    name: str
    purpose: str
    axes: dict[str, tuple[Any, ...]]
    default: dict[str, Any]
    small: dict[str, Any]
    make: Callable[..., Any]
    bounds: dict[str, range] = field(default_factory=dict)
    listed: frozenset[str] = frozenset()

    def allows(self, axis: str, value: Any) -> bool:
        """Whether the annotation of ``axis`` lets it be ``value``."""
        if axis in self.listed:
            return value in self.axes[axis]
        return axis not in self.bounds or value in self.bounds[axis]


def user_entry(reference: str) -> UserEntry:
    """The entry of ``path.py:function``."""
    return function_entry(reference, case_function(reference))


def function_entry(
    name: str,
    function: Callable[..., Any],
    axes: Mapping[str, Sequence[Any]] | None = None,
    small: Mapping[str, Any] | None = None,
) -> UserEntry:
    """The entry of a case function that is called ``name``. ``axes``: the axes with values worth trying, in place of
    those that its signature says; ``small``: simplest values, of all axes or of some."""
    read = {each: axis_of(parameter) for each, parameter in parameters_of(function).items()}
    takes_any = any(each.kind is each.VAR_KEYWORD for each in inspect.signature(function).parameters.values())
    for each in {**(axes or {}), **(small or {})}:
        if each not in read and not (takes_any and axes and each in axes):
            raise UsageError(f"{name} has no parameter {each!r}; it has {', '.join(read) or 'none'}")
    if axes is not None:
        # What is not named keeps its default, and is no axis.
        left_out = [each for each, axis in read.items() if each not in axes and axis.default is _EMPTY]
        if left_out:
            raise UsageError(f"{name} needs values of {left_out[0]}: name it in axes=, or give it a default")
        read = {each: _with_values(read.get(each), tuple(values)) for each, values in axes.items()}
    for each, axis in read.items():
        if axis.default is _EMPTY and each not in (small or {}):
            raise UsageError(
                f"{name}: a search needs a default of {each}, or values of it as Literal[...], bounds as"
                " Annotated[int, range(...)], or axes= in a test"
            )
    simplest = {each: axis.small for each, axis in read.items()} | dict(small or {})
    return UserEntry(
        name=name,
        purpose=(inspect.getdoc(function) or "").partition("\n")[0],
        axes={each: axis.values or (simplest[each],) for each, axis in read.items()},
        default={each: simplest[each] if axis.default is _EMPTY else axis.default for each, axis in read.items()},
        small=simplest,
        make=lambda **shape: as_case(name, function(**shape)),
        bounds={each: axis.bounds for each, axis in read.items() if axis.bounds is not None},
        listed=frozenset(each for each, axis in read.items() if axis.listed),
    )


def _with_values(axis: Axis | None, values: tuple[Any, ...]) -> Axis:
    """An axis whose values are given: they are in its bounds by what they are."""
    if not values:
        raise UsageError("axes= needs at least one value of each axis")
    small = axis.small if axis is not None and axis.small is not _EMPTY else values[0]
    default = axis.default if axis is not None and axis.default is not _EMPTY else values[0]
    return Axis(values, axis.bounds if axis is not None else None, default, small)


__all__ = ["UserEntry", "axes_of_work", "function_entry", "user_entry"]
