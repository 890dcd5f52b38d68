"""Expressions over literals and known names, as the modules of the suite write shapes and messages, worked out from
their syntax tree.

Mental model: a calculator for what :mod:`.declared` reads; nothing of a module runs.

Raises Unknown for whatever is more than that, and what an operation itself raises.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

_OPERATIONS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Div: operator.truediv, ast.Pow: operator.pow, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
    ast.BitOr: operator.or_, ast.BitAnd: operator.and_, ast.Not: operator.not_, ast.USub: operator.neg, ast.UAdd: operator.pos,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.In: lambda one, many: one in many, ast.NotIn: lambda one, many: one not in many,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": min, "max": max, "len": len, "tuple": tuple, "sorted": sorted, "str": str, "ValueError": ValueError,
    "map": lambda function, values: [function(value) for value in values],
}  # fmt: skip


class Unknown(Exception):
    """Its value is not told by the source alone."""


def value_of(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """What ``node`` comes to with ``names``."""
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            found = names.get(node.id, _FUNCTIONS.get(node.id))
            if found is None:
                raise Unknown(node.id)
            return found
        case ast.Tuple() | ast.List() | ast.Set():
            return tuple(value_of(each, names) for each in node.elts)
        case ast.Dict():
            return {value_of(key, names): value_of(value, names) for key, value in zip(node.keys, node.values) if key}
        case ast.UnaryOp() if type(node.op) in _OPERATIONS:
            return _OPERATIONS[type(node.op)](value_of(node.operand, names))
        case ast.BinOp() if type(node.op) in _OPERATIONS:
            return _OPERATIONS[type(node.op)](value_of(node.left, names), value_of(node.right, names))
        case ast.BoolOp():
            ends_at = isinstance(node.op, ast.Or)
            return next((True for each in node.values if bool(value_of(each, names)) is ends_at), False) is ends_at
        case ast.Compare():
            return _compared(node, names)
        case ast.JoinedStr():
            return "".join(_formatted(each, names) for each in node.values)
        case ast.Call():
            return _called(node, names)
    raise Unknown(ast.unparse(node))


def _compared(node: ast.Compare, names: Mapping[str, Any]) -> bool:
    left = value_of(node.left, names)
    for operation, right_node in zip(node.ops, node.comparators):
        right = value_of(right_node, names)
        if type(operation) not in _OPERATIONS:
            raise Unknown(ast.unparse(node))
        if not _OPERATIONS[type(operation)](left, right):
            return False
        left = right
    return True


def _formatted(node: ast.expr, names: Mapping[str, Any]) -> str:
    if not isinstance(node, ast.FormattedValue):
        return value_of(node, names)
    value = value_of(node.value, names)
    value = {ord("r"): repr, ord("s"): str}.get(node.conversion, lambda same: same)(value)
    return format(value, _formatted_text(node.format_spec, names))


def _formatted_text(spec: ast.expr | None, names: Mapping[str, Any]) -> str:
    return "" if spec is None else value_of(spec, names)


def _called(node: ast.Call, names: Mapping[str, Any]) -> Any:
    if node.keywords:
        raise Unknown(ast.unparse(node))
    if isinstance(node.func, ast.Attribute) and node.func.attr == "join":
        return value_of(node.func.value, names).join(value_of(node.args[0], names))
    if not isinstance(node.func, ast.Name) or node.func.id not in _FUNCTIONS:
        raise Unknown(ast.unparse(node))
    return _FUNCTIONS[node.func.id](*(value_of(each, names) for each in node.args))
