"""What a case function computes, as a text that changes when that does: by it kept predictions are found again.

Mental model: a function is its code, the file that it stands in, and the values that it finds rather than is given:
defaults, what a closure or :func:`functools.partial` binds, and the globals that it names. A script's ``n`` from its
command line, a kernel's source in a notebook's cell, and a helper module beside the script decide a prediction as much
as the function's own lines do. Values of kinds that say nothing of themselves go by their type.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from gpusim.cases.names import is_reference
from gpusim.cases.requests import parse_request
from gpusim.cases.user_kernels import case_function
from gpusim.frontend.native.kernels import CubinKernel, CudaCppKernel, PtxKernel

_PLAIN = (int, float, complex, str, bytes, bool, type(None), np.generic)


def identity_of(case: str | Callable[..., Any]) -> str:
    """The digest of all that decides what ``case`` makes of a configuration, as far as it can be told."""
    seen: dict[int, Any] = {}  # by their addresses, which stay theirs for as long as they are kept here
    if isinstance(case, str):
        name = parse_request(case)[0]
        said = [case, *(_said(case_function(name), seen) if is_reference(name) else ())]
    else:
        said = _said(case, seen)
    digest = hashlib.sha256()
    for each in said:
        digest.update(f"{len(each)} {each}\n".encode(errors="backslashreplace"))
    return digest.hexdigest()


def _said(value: Any, seen: dict[int, Any]) -> Iterator[str]:
    """Texts of ``value``, of whatever it refers to, and of the files that these stand in."""
    if isinstance(value, _PLAIN):
        yield repr(value)
        return
    if id(value) in seen:
        return
    seen[id(value)] = value
    yield type(value).__name__
    if isinstance(value, functools.partial):
        inner: tuple = (value.func, value.args, value.keywords)
    elif isinstance(value, MethodType):
        inner = (value.__func__, value.__self__)
    elif isinstance(value, (FunctionType, CodeType)):
        yield from _of_code(value)
        inner = tuple(_found_by(value))
    elif isinstance(value, (list, tuple, set, frozenset)):
        inner = tuple(sorted(value, key=repr)) if isinstance(value, (set, frozenset)) else tuple(value)
    elif isinstance(value, Mapping):
        inner = tuple(value.items())
    elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
        yield f"{value.dtype} {value.shape} {hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()}"
        return
    elif isinstance(value, (CudaCppKernel, PtxKernel, CubinKernel)):
        inner = tuple(vars(value).items())
    elif isinstance(value, ModuleType):
        yield value.__name__
        yield from _own_file(getattr(value, "__file__", None))
        return
    elif isinstance(function := getattr(value, "py_func", None) or getattr(value, "fn", None), FunctionType):
        inner = (function,)  # what Numba or Triton has decorated
    elif callable(value) and not isinstance(value, type) and isinstance(type(value).__call__, FunctionType):
        inner = (type(value).__call__, getattr(value, "__dict__", {}))
    else:
        return
    for each in inner:
        yield from _said(each, seen)


def _of_code(value: FunctionType | CodeType) -> Iterator[str]:
    code = value if isinstance(value, CodeType) else value.__code__
    yield f"{code.co_name} {code.co_code.hex()} {code.co_names} {code.co_varnames}"
    if isinstance(value, FunctionType):
        yield value.__qualname__
        yield from _own_file(inspect.getsourcefile(value))


def _found_by(value: FunctionType | CodeType) -> Iterator[Any]:
    """Constants and, of a function, defaults, what it closes over and the globals that it or a function in it names."""
    code = value if isinstance(value, CodeType) else value.__code__
    yield code.co_consts
    if isinstance(value, CodeType):
        return
    yield value.__defaults__
    yield value.__kwdefaults__
    for cell in value.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not bound yet
            continue
    for name in sorted(_names_in(code)):
        if name in value.__globals__:
            yield name
            yield value.__globals__[name]


def _names_in(code: CodeType) -> set[str]:
    inner = (each for each in code.co_consts if isinstance(each, CodeType))
    return set(code.co_names).union(*map(_names_in, inner))


def _own_file(path: str | None) -> Iterator[str]:
    """The text of a file of the user's own; installed packages are told by gpusim's and the compilers' versions."""
    if path is None or any(Path(path).is_relative_to(each) for each in _INSTALLED):
        return
    try:
        yield Path(path).read_text()
    except (OSError, ValueError):  # a notebook's cell
        return


_INSTALLED = tuple(
    dict.fromkeys(
        Path(each)
        for each in (
            *(path for path in sys.path if path.endswith("-packages")),
            Path(inspect.__file__).parent,
            Path(__file__).parents[1],
        )
    )
)
