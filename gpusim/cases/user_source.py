"""What the text of a user's file says of a case function in it, read without importing the file and what it imports.

Mental model: a slip in a name or an axis is told from the file's syntax tree, where that leaves no doubt: the name is
bound nowhere at the top of the file, or once, by a plain function whose parameters are there to read. Whatever else a
file may do, only its import tells.

Raises UnknownKernelError for a name, UsageError for an axis or a value.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpusim.cases.arguments import parse_argument
from gpusim.errors import UnknownKernelError, UsageError
from gpusim.io.nearest import hint

#: What may bind names that no statement shows.
_BINDS_UNSEEN = frozenset(
    {"globals", "vars", "locals", "exec", "eval", "setattr", "__getattr__", "modules", "__dict__"}
)
_PLAIN = frozenset({"int", "float", "bool", "str"})
_MOST_BYTES = 1 << 20


def refuse_by_source(path: Path, name: str, shape: Mapping[str, str]) -> None:
    """Raise for what ``path.py:name`` with ``shape`` cannot be, as far as the text of ``path`` tells."""
    try:
        tree = ast.parse(path.read_bytes()) if path.stat().st_size <= _MOST_BYTES else None
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        tree = None
    if tree is None or any(_binds_unseen(node) for node in ast.walk(tree)):
        return
    bound = [node for node in _top_level(tree) if name in _names_of(node)]
    if not bound:
        found = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
        raise UnknownKernelError(f"{path} has no {name}; {hint(name, found) if found else 'it has no function'}")
    function = bound[0]
    if (
        len(bound) == 1
        and isinstance(function, ast.FunctionDef)
        and function in tree.body
        and not function.decorator_list
    ):
        _refuse_shape(f"{path}:{name}", function.args, shape)


def _refuse_shape(reference: str, arguments: ast.arguments, shape: Mapping[str, str]) -> None:
    parameters = {each.name: each for each in _parameters(arguments)}
    for axis, text in shape.items():
        if axis not in parameters:
            raise no_parameter(reference, axis, parameters)
        parameter = parameters[axis]
        if parameter.annotation in _PLAIN or (
            parameter.annotation == "" and type(parameter.default) in (int, float, bool)
        ):
            known = inspect.Parameter.empty if parameter.annotation == "" else parameter.annotation
            parse_argument(reference, parameter.replace(annotation=known), text)


def no_parameter(reference: str, axis: str, parameters: Mapping[str, Any]) -> UsageError:
    """What is said of an axis that a case function has not."""
    return UsageError(f"{reference} has no parameter {axis!r}; it has {', '.join(parameters) or 'none'}")


def _parameters(arguments: ast.arguments) -> Iterator[inspect.Parameter]:
    """The named ones: annotation as written, "" for none; the default if it is a literal."""
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [*[None] * (len(plain) - len(arguments.defaults)), *arguments.defaults, *arguments.kw_defaults]
    for argument, default in zip([*plain, *arguments.kwonlyargs], defaults):
        value = default.value if isinstance(default, ast.Constant) else inspect.Parameter.empty
        annotation = "" if argument.annotation is None else ast.unparse(argument.annotation)
        yield inspect.Parameter(argument.arg, inspect.Parameter.KEYWORD_ONLY, default=value, annotation=annotation)


def _top_level(tree: ast.Module) -> Iterator[ast.AST]:
    """The nodes that run when the file is imported, bodies of functions and classes left out."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            waiting += ast.iter_child_nodes(node)


def _names_of(node: ast.AST) -> list[str]:
    """What one node binds."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Name(ctx=ast.Store()):
            return [node.id]
        case ast.alias():
            return [(node.asname or node.name).partition(".")[0]]
        case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar():
            return [node.name] if node.name else []
        case ast.MatchMapping():
            return [node.rest] if node.rest else []
    return []


def _binds_unseen(node: ast.AST) -> bool:
    match node:
        case ast.Name():
            return node.id in _BINDS_UNSEEN
        case ast.Attribute():
            return node.attr in _BINDS_UNSEEN
        case ast.FunctionDef():
            return node.name in _BINDS_UNSEEN
        case ast.alias():
            return node.name == "*" or node.name in _BINDS_UNSEEN
        case ast.Global():
            return True
    return False
