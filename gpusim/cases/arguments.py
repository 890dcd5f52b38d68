"""A parameter of a case function, as a command line writes it: text in, the value that its annotation and default call
for.

Mental model: what a parameter is stands in its signature: a ``Literal`` or an enumeration takes one of its values, a
truth value ``true`` or ``false``, a whole number whatever :mod:`gpusim.cases.numbers` reads, a text itself. A parameter
that says nothing of its kind takes a Python literal, a number, or else text.
"""

from __future__ import annotations

import ast
import enum
import inspect
from typing import Annotated, Any, Literal, get_args, get_origin

from gpusim.cases.numbers import parse_integer, parse_number
from gpusim.errors import UsageError

TRUTHS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def parse_argument(reference: str, parameter: inspect.Parameter, value: Any) -> Any:
    """``value`` as ``parameter`` of the function ``reference`` takes it: a text is read, all else stays. Raises
    UsageError naming parameter and value."""
    if not isinstance(value, str):
        return value
    try:
        return _parse(kind_of(parameter), value)
    except ValueError as error:
        raise UsageError(f"{reference}: {parameter.name}={value}: {error}") from None


def kind_of(parameter: inspect.Parameter) -> Any:
    """What the parameter takes: its annotation without Annotated, else the type of its default, else None."""
    hint = parameter.annotation
    if isinstance(hint, str):  # from __future__ import annotations: names of plain types are enough here
        hint = {"int": int, "float": float, "bool": bool, "str": str}.get(hint, parameter.empty)
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if hint is not parameter.empty:
        return hint
    default = parameter.default
    return None if default is parameter.empty or default is None else type(default)


def _parse(kind: Any, text: str) -> Any:
    if get_origin(kind) is Literal:
        chosen = [each for each in get_args(kind) if str(each) == text]
        # Values beyond those that are listed are for the function to judge.
        return chosen[0] if chosen else _parse(type(get_args(kind)[0]), text)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        if text not in kind.__members__:
            raise ValueError(f"there are {', '.join(kind.__members__)}")
        return kind[text]
    if kind is bool:
        if text.lower() not in TRUTHS:
            raise ValueError("it is true or false")
        return TRUTHS[text.lower()]
    if kind is int:
        return parse_integer(text)
    if kind is float:
        return float(parse_number(text))
    if kind is str and text[:1] not in "'\"":
        return text
    return _guess(text)


def _guess(text: str) -> Any:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        try:
            return parse_integer(text)
        except ValueError:
            return text
    # 1e6 without a word on its kind: most parameters are counts.
    return int(value) if isinstance(value, float) and "." not in text and value.is_integer() else value
