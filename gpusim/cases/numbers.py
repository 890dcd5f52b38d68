"""Whole numbers as people write sizes: ``1e6``, ``1_000_000``, ``2**20``, ``1Mi``, ``64*1024+1``.

Mental model: a small calculator over Python's own syntax tree, with Ki, Mi, Gi and Ti for powers of 1024; what comes
out must be whole. K, M and G alone are refused, since some mean 1000 by them and some 1024.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from typing import Any

#: Beyond what any size or count here can be; powers are not even computed beyond it.
MOST_BITS = 64
_MOST_LETTERS = 64
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40}
_SUFFIXED = re.compile(r"(?<![\w.])([0-9][0-9_.]*)(Ki|Mi|Gi|Ti)\b")
_UNCLEAR = re.compile(r"(?<![\w.])([0-9][0-9_.]*)([kKMGT])[bB]?\b")
_OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.LShift: operator.lshift,
    ast.Pow: operator.pow,
}


def parse_integer(text: str) -> int:
    """The whole number that ``text`` writes; ValueError, with what is wrong with it, for anything else."""
    unclear = _UNCLEAR.search(text)
    if unclear:
        number, letter = unclear.groups()
        power = " KMGT".index(letter.upper())
        raise ValueError(f"{text} is unclear: write {number}{letter.upper()}i (times 1024) or {number}e{3 * power}")
    value = parse_number(text)
    if isinstance(value, float):
        if not value.is_integer():
            raise ValueError(f"{text} is no whole number")
        value = int(value)
    if value.bit_length() > MOST_BITS:
        raise ValueError(f"{text} is too large")
    return value


def parse_number(text: str) -> int | float:
    """The number that ``text`` writes, whole or not; ValueError for anything else."""
    plain = _SUFFIXED.sub(lambda found: f"({found[1]}*{1 << _BINARY[found[2]]})", text.strip())
    try:
        if len(plain) > _MOST_LETTERS:
            raise ValueError
        value = _evaluate(ast.parse(plain, mode="eval").body)
        if isinstance(value, complex) or value != value or abs(value) == float("inf"):
            raise ValueError
        return value
    except (SyntaxError, ValueError, TypeError, ArithmeticError, RecursionError, MemoryError):
        raise ValueError(f"{text} is no number") from None


def _evaluate(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        inner = _evaluate(node.operand)
        return -inner if isinstance(node.op, ast.USub) else inner
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        left, right = _evaluate(node.left), _evaluate(node.right)
        if isinstance(node.op, (ast.Pow, ast.LShift)) and not 0 <= right <= MOST_BITS:
            raise ValueError
        if isinstance(left, int) and left.bit_length() > MOST_BITS:
            raise ValueError
        return _OPERATIONS[type(node.op)](left, right)
    raise ValueError
