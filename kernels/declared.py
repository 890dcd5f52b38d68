"""What an entry's source says of its shape, read without importing it: its axes, their types, and what ``make`` asks of
them.

Mental model: an entry's module imports its language's compiler, which takes most of a second, and a slip in a shape is
to be told sooner. So the module's syntax tree is searched for the call ``Kernel(...)`` of that name; its ``default`` is
evaluated with nothing but the constants of the module, and the statements at the head of its ``make`` that raise for a
shape are tried one by one with the values at hand. What cannot be told so is left out: making the case tells it.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .expressions import value_of

_FOLDER = Path(__file__).parent
#: Fields of :class:`~.case.Kernel`, for who gives them by place.
_FIELDS = ("name", "purpose", "axes", "default", "small", "make")
_REQUIRE = "require_"


@dataclass(frozen=True)
class Declared:
    """``default``: axis -> value, as the entry's. ``fractional``: axes of whole numbers that also take fractions."""

    default: dict[str, Any]
    fractional: frozenset[str]
    _make: ast.FunctionDef | None
    _constants: _Constants

    def refuse(self, shape: Mapping[str, Any]) -> None:
        """Raise ValueError, as ``make`` would, for a value of ``shape`` that it refuses before all else."""
        names = _Constants(self._constants.module, shape)
        for statement in _guards(self._make):
            if isinstance(statement, ast.If):
                raised = statement.body[0]
                if isinstance(raised, ast.Raise) and raised.exc is not None and names.value(statement.test) is True:
                    error = names.value(raised.exc)
                    if isinstance(error, ValueError):
                        raise error
                continue
            call = statement.value
            given = [names.value(argument) for argument in call.args]
            named = {each.arg: names.value(each.value) for each in call.keywords}
            known = {name: value for name, value in named.items() if value is not _UNKNOWN}
            if _UNKNOWN not in given and (given or known):
                getattr(importlib.import_module(".case", __package__), call.func.id)(*given, **known)


def declared(name: str, module: str) -> Declared | None:
    """What the source of ``module``, a module of this package, says of entry ``name``; None where it cannot be read
    there."""
    constants = _Constants(module)
    for call in ast.walk(constants.tree):
        if not isinstance(call, ast.Call):
            continue
        fields = dict(zip(_FIELDS, call.args)) | {keyword.arg: keyword.value for keyword in call.keywords}
        named = fields.get("name")
        if not isinstance(named, ast.Constant) or named.value != name or "default" not in fields:
            continue
        default = constants.value(fields["default"])
        make = _function(constants.tree, fields.get("make"))
        if isinstance(default, dict):
            return Declared(default, frozenset(_fractional(make)), make, constants)
    return None


_UNKNOWN = object()


class _Constants(Mapping[str, Any]):
    """Names of a module that are bound to expressions of other such names and of literals, worked out when they are
    asked for."""

    def __init__(self, module: str, beside: Mapping[str, Any] | None = None):
        self.module = module
        self.tree = ast.parse(_FOLDER.joinpath(*module.split(".")).with_suffix(".py").read_bytes())
        self._known = dict(beside or {})

    def __getitem__(self, name: str) -> Any:
        if name not in self._known:
            self._known[name] = self._found(name)
        if self._known[name] is _UNKNOWN:
            raise KeyError(name)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def _found(self, name: str) -> Any:
        for statement in self.tree.body:
            if isinstance(statement, ast.Assign) and [name] == [ast.unparse(target) for target in statement.targets]:
                return self.value(statement.value)
            if isinstance(statement, ast.ImportFrom) and statement.level == 1 and statement.module:
                if name in [alias.asname or alias.name for alias in statement.names]:
                    return _Constants(statement.module).get(name, _UNKNOWN)
        return _UNKNOWN

    def value(self, expression: ast.expr) -> Any:
        """What ``expression`` of this module comes to; _UNKNOWN where the source alone does not tell."""
        try:
            return value_of(expression, self)
        except Exception:  # whatever an operation of it raises, making the case raises too
            return _UNKNOWN


def _function(tree: ast.Module, make: ast.expr | None) -> ast.FunctionDef | None:
    """The function that ``make=`` names: itself, the first argument of a ``partial``, or what a function of this module
    returns."""
    if isinstance(make, ast.Call):
        if ast.unparse(make.func).endswith("partial") and make.args:
            return _function(tree, make.args[0])
        maker = _function(tree, make.func)
        return next((each for each in maker.body if isinstance(each, ast.FunctionDef)), None) if maker else None
    name = make.id if isinstance(make, ast.Name) else None
    return next((each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == name), None)


def _fractional(make: ast.FunctionDef | None) -> Iterator[str]:
    for argument in (*make.args.args, *make.args.kwonlyargs) if make else ():
        if isinstance(argument.annotation, ast.Name) and argument.annotation.id == "float":
            yield argument.arg


def _guards(make: ast.FunctionDef | None) -> Iterator[Any]:
    """The statements at the head of ``make`` that do nothing but raise."""
    for statement in make.body if make else ():
        if isinstance(statement, ast.If):
            if len(statement.body) != 1 or not isinstance(statement.body[0], ast.Raise) or statement.orelse:
                return
            yield statement
            continue
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Constant):
            continue
        if (
            not isinstance(call, ast.Call)
            or not isinstance(call.func, ast.Name)
            or not call.func.id.startswith(_REQUIRE)
        ):
            return
        yield statement
