"""Formulas over a configuration's parameters, as people write them for an autotuner: ``block_size_x * tile <= 1024``.

Mental model: Python's own syntax tree, of which only what computes, compares and chooses is taken: arithmetic on
numbers (``/`` divides as Python does), comparisons, ``and``, ``or``, ``not``, ``in``, ``a if b else c``, and the
functions abs, max, min and cdiv, which rounds up. Nothing else can be reached from a formula, so that one from a file
or a command line runs no code. What a formula cannot be is told when it is made, what it cannot compute when it is
asked.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gpusim.errors import UsageError
from gpusim.io.nearest import hint

_MOST_LETTERS = 4000
#: Beyond what any size, count or time here can be; powers are not computed beyond it.
_MOST_BITS = 1024
_ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.BitAnd: operator.and_,
}  # fmt: skip
_COMPARISONS: dict[type, Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.In: lambda value, among: value in among, ast.NotIn: lambda value, among: value not in among,
}  # fmt: skip
_UNARY: dict[type, Callable[[Any], Any]] = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_}
_FUNCTIONS: dict[str, Callable[..., Any]] = {"abs": abs, "max": max, "min": min, "cdiv": lambda a, b: -(-a // b)}
_NUMBERS = (int, float, bool)


class Formula:
    """What ``text`` computes of named values; ``names`` are those that it uses and that ``fixed`` does not give."""

    def __init__(self, text: str, fixed: Mapping[str, Any] | None = None) -> None:
        self.text, self._fixed = text, dict(fixed or {})
        try:
            if len(text) > _MOST_LETTERS:
                raise ValueError
            self._body = ast.parse(text.strip(), mode="eval").body
            names = list(_names(self._body))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            told = str(error) if isinstance(error, _NotTakenError) else ""
            raise UsageError(
                f"{text[:200]!r} is no formula of parameters{': ' + told if told else ''}; write as in"
                " 'block_size_x * block_size_y <= 1024 and tile % 2 == 0'"
            ) from None
        self.names = tuple(name for name in dict.fromkeys(names) if name not in self._fixed)

    def refuse_unknown(self, known: Iterable[str]) -> None:
        """Raise UsageError for a name that is none of ``known``."""
        known = list(known)
        for name in self.names:
            if name not in known:
                raise UsageError(f"{self.text!r} names {name}, which is no parameter; {hint(name, known)}")

    def __call__(self, values: Mapping[str, Any]) -> Any:
        """Its value. Raises UsageError where ``values`` lack a name or it cannot be computed of them."""
        try:
            return _value(self._body, {**self._fixed, **values})
        except KeyError as error:
            self.refuse_unknown(values)
            raise UsageError(f"{self.text!r}: {error}") from None
        except (ArithmeticError, TypeError, ValueError) as error:
            of = ", ".join(f"{name}={values[name]}" for name in self.names if name in values)
            raise UsageError(f"{self.text!r} cannot be computed of {of}: {error}") from None

    def __repr__(self) -> str:
        return f"Formula({self.text!r})"


class _NotTakenError(ValueError):
    """What no formula has."""


def _names(node: ast.expr) -> Iterable[str]:
    """The names in a formula, which is looked through for what it may not have."""
    if isinstance(node, ast.Name):
        yield node.id
        return
    if isinstance(node, ast.Call):
        if not isinstance(node.func, ast.Name) or node.func.id not in _FUNCTIONS or node.keywords:
            raise _NotTakenError(f"{ast.unparse(node)} calls something other than {', '.join(_FUNCTIONS)}")
        inner = node.args
    elif isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        inner = [node.left, node.right]
    elif isinstance(node, ast.Compare) and all(type(each) in _COMPARISONS for each in node.ops):
        inner = [node.left, *node.comparators]
    elif isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
        inner = [node.operand]
    elif isinstance(node, ast.BoolOp):
        inner = node.values
    elif isinstance(node, ast.IfExp):
        inner = [node.test, node.body, node.orelse]
    elif isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        inner = node.elts
    elif isinstance(node, ast.Constant) and isinstance(node.value, (*_NUMBERS, str)):
        return
    else:
        raise _NotTakenError(f"{ast.unparse(node)} is not taken")
    for each in inner:
        yield from _names(each)


def _value(node: ast.expr, values: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return values[node.id]
    if isinstance(node, ast.BinOp):
        return _computed(type(node.op), _value(node.left, values), _value(node.right, values))
    if isinstance(node, ast.UnaryOp):
        return _UNARY[type(node.op)](_value(node.operand, values))
    if isinstance(node, ast.BoolOp):
        found: Any = None
        for each in node.values:
            found = _value(each, values)
            if bool(found) is isinstance(node.op, ast.Or):
                break
        return found
    if isinstance(node, ast.Compare):
        left = _value(node.left, values)
        for kind, each in zip(node.ops, node.comparators, strict=True):
            right = _value(each, values)
            if not _COMPARISONS[type(kind)](left, right):
                return False
            left = right
        return True
    if isinstance(node, ast.IfExp):
        return _value(node.body if _value(node.test, values) else node.orelse, values)
    if isinstance(node, ast.Call):
        assert isinstance(node.func, ast.Name)
        return _FUNCTIONS[node.func.id](*(_value(each, values) for each in node.args))
    assert isinstance(node, (ast.Tuple, ast.List, ast.Set))
    return [_value(each, values) for each in node.elts]


def _computed(kind: type, left: Any, right: Any) -> Any:
    for each in (left, right):
        if not isinstance(each, _NUMBERS):
            raise TypeError(f"{each!r} is no number")
    is_power = kind is ast.Pow and isinstance(left, int) and isinstance(right, int)
    if is_power and abs(right) * left.bit_length() > _MOST_BITS:
        raise ValueError(f"{left} to the power {right} is too large")
    return _ARITHMETIC[kind](left, right)
