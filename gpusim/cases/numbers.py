"""Whole numbers as people write sizes: ``1e6``, ``1_000_000``, ``2**20``, ``1Mi``, ``64*1024+1``.

Mental model: a small calculator over Python's own syntax tree, with Ki, Mi, Gi and Ti for powers of 1024; what comes
out must be whole. K, M and G alone are refused, since some mean 1000 by them and some 1024. A formula may have names in
it, as ``cdiv(n, 256)``.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

#: Beyond what any size or count here can be; powers are not even computed beyond it.
MOST_BITS = 64
#: What is said of a range where a number is to stand.
NO_RANGE = "is a range, which gpusim explore alone takes: write the values, 32,64,128"
_MOST_LETTERS = 64
_MOST_LETTERS_OF_FORMULA = 400
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40}
_SUFFIXED = re.compile(r"(?<![\w.])([0-9][0-9_.]*)(Ki|Mi|Gi|Ti)\b")
_UNCLEAR = re.compile(r"(?<![\w.])([0-9][0-9_.]*)([kKMGT])[bB]?\b")
_RANGE = re.compile(r"[^.]+\.\.[^.]+")
_OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.LShift: operator.lshift,
    ast.Pow: operator.pow,
}


def parse_integer(text: str, names: Mapping[str, int] | None = None) -> int:
    """The whole number that ``text`` writes; ValueError, with what is wrong with it, for anything else. With ``names``
    these stand for their numbers, ``/`` divides as C does, and there are ``cdiv(a, b)``, which rounds up, ``min`` and
    ``max``."""
    unclear = _UNCLEAR.search(text)
    if unclear:
        number, letter = unclear.groups()
        power = " KMGT".index(letter.upper())
        raise ValueError(f"{text} is unclear: write {number}{letter.upper()}i (times 1024) or {number}e{3 * power}")
    value = parse_number(text, names)
    if isinstance(value, float):
        if not value.is_integer():
            raise ValueError(f"{text} is no whole number")
        value = int(value)
    if value.bit_length() > MOST_BITS:
        raise ValueError(f"{text} is too large")
    return value


def parse_number(text: str, names: Mapping[str, int] | None = None) -> int | float:
    """The number that ``text`` writes, whole or not; ValueError for anything else. ``names`` as for
    :func:`parse_integer`."""
    plain = _SUFFIXED.sub(lambda found: f"({found[1]}*{1 << _BINARY[found[2]]})", text.strip())
    try:
        if len(plain) > (_MOST_LETTERS if names is None else _MOST_LETTERS_OF_FORMULA):
            raise ValueError
        value = _evaluate(ast.parse(plain, mode="eval").body, names)
        if isinstance(value, complex) or value != value or abs(value) == float("inf"):
            raise ValueError
        return value
    except (SyntaxError, ValueError, TypeError, ArithmeticError, RecursionError, MemoryError):
        if is_range(text):
            raise ValueError(f"{text} {NO_RANGE}") from None
        raise ValueError(f"{text} is no number") from None


def is_range(text: str) -> bool:
    """Whether ``text`` is written as a range, ``32..1024``, which stands for no number."""
    return _RANGE.fullmatch(text) is not None


def _evaluate(node: ast.expr, names: Mapping[str, int] | None) -> Any:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        inner = _evaluate(node.operand, names)
        return -inner if isinstance(node.op, ast.USub) else inner
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        left, right = _evaluate(node.left, names), _evaluate(node.right, names)
        if isinstance(node.op, (ast.Pow, ast.LShift)) and not 0 <= right <= MOST_BITS:
            raise ValueError
        if isinstance(left, int) and left.bit_length() > MOST_BITS:
            raise ValueError
        return _OPERATIONS[type(node.op)](left, right)
    if names is not None:
        return _in_formula(node, names)
    raise ValueError


def _in_formula(node: ast.expr, names: Mapping[str, int]) -> Any:
    """What only formulas have: names, functions, division as in C."""
    if isinstance(node, ast.Name) and node.id in names:
        return names[node.id]
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.Mod)):
        left, right = _evaluate(node.left, names), _evaluate(node.right, names)
        if isinstance(node.op, ast.Mod):
            return left % right
        return left // right if isinstance(left, int) and isinstance(right, int) else left / right
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        values = [_evaluate(each, names) for each in node.args]
        if node.func.id == "cdiv" and len(values) == 2:
            return -(-values[0] // values[1])
        if node.func.id in ("min", "max") and values:
            return min(values) if node.func.id == "min" else max(values)
    raise ValueError
