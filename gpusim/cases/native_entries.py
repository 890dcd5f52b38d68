"""A kernel of CUDA C++, PTX or machine code as an entry that can be searched: its axes are those of its request with
several values.

Mental model: ``my.cu:saxpy:n=1..1Mi,block=128,256,grid=cdiv(n,block),arg0=int:n,arg1=float[n]`` is a case function that
was never written: ``n`` and ``block`` are its parameters, a range or several values what they may be, all else is
fixed. An axis of the user's own that has one value, ``n=1000``, is free as a parameter of that name with that default
would be.
"""

from __future__ import annotations

import inspect
from typing import Annotated, Any, Literal

from gpusim.cases.case_forms import UserCase
from gpusim.cases.native_cases import make_native_case
from gpusim.cases.native_names import split_native
from gpusim.cases.native_shapes import RESERVED, complete_native_shape
from gpusim.cases.numbers import parse_integer
from gpusim.cases.requests import split_request
from gpusim.cases.user_entries import UserEntry, function_entry
from gpusim.errors import UsageError

_ANY = inspect.Parameter.KEYWORD_ONLY


def native_entry(name: str) -> UserEntry:
    """The entry of ``FILE:KERNEL`` with a launch behind it. Raises UsageError for one without a launch, or with nothing
    to vary."""
    found = split_native(name)
    if found is None or not found[2]:
        raise UsageError(
            f"{name} is a kernel whose arguments are not known: write its launch, {name}:n=1..1Mi,block=128,256 --grid 'cdiv(n,block)'"
            " --arg int:n --arg 'float[n]', or a case in Python that launches it"
        )
    axes = split_request(name)[1]
    parameters = [
        parameter for axis, values in axes.items() if (parameter := _parameter(name, axis, values)) is not None
    ]
    if not parameters:
        raise UsageError(
            f"{name} has nothing to vary: give an axis a range (n=1..1Mi) or several values (block=128,256)"
        )

    def make(**shape: Any) -> UserCase:
        return make_native_case(name, complete_native_shape(name, shape))

    make.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
    make.__doc__ = f"{found[1]} of {found[0]}"
    return function_entry(name, make)


def _parameter(name: str, axis: str, values: list[str]) -> inspect.Parameter | None:
    """The parameter that an axis is; None for one that is fixed."""
    first, dots, last = values[0].partition("..")
    if len(values) == 1 and dots:
        try:
            bounds = range(parse_integer(first), parse_integer(last) + 1)
        except ValueError as error:
            raise UsageError(f"{name}: {axis}={values[0]}: {error}") from None
        if not bounds:
            raise UsageError(f"{name}: {axis}={values[0]}: the range is empty")
        return inspect.Parameter(axis, _ANY, annotation=Annotated[int, bounds])
    if len(values) > 1:
        return inspect.Parameter(axis, _ANY, annotation=Literal[tuple(_value(each) for each in values)])
    own = axis not in RESERVED and not axis.startswith("arg")
    value = _value(values[0])
    return inspect.Parameter(axis, _ANY, default=value, annotation=int) if own and isinstance(value, int) else None


def _value(text: str) -> int | str:
    try:
        return parse_integer(text)
    except ValueError:
        return text
