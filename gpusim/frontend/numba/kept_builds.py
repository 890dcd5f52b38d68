"""Machine code of Numba kernels, kept on disk from one process to the next.

Mental model: Numba takes a second to compile the smallest kernel, most of it to set itself up. What comes of it depends
on the kernel's byte code and lines, on what its code refers to (device functions with all of theirs, numbers, arrays),
on the argument types and options, and on the tools. All of these make one digest; where anything is met whose content
cannot be told, or that compiles differently each time (files to link, a debug build), nothing is kept and the kernel is
compiled. A file that is damaged or of another version counts as not there.
"""

from __future__ import annotations

import base64
import builtins
import hashlib
import json
import os
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numba.core.extending
import numba.cuda.extending
import numpy as np
from numba.core.types import Type
from numba.cuda.dispatcher import CUDADispatcher
from numba.cuda.types import Type as CudaType  # pyright: ignore[reportAttributeAccessIssue]

from gpusim.io.cache_folder import cache_folder
from gpusim.io.kept_files import keep, read_kept

VERSION = 1
#: A larger file is not read: the largest kernels have some megabytes of machine code.
MOST_BYTES = 64 << 20
#: Modules whose functions are what they are in this version of Numba and NumPy, which the digest names.
_LIBRARIES = ("numba", "numba_cuda", "llvmlite", "numpy", "math", "cmath", "operator", "builtins")
_INTRINSICS: Any = tuple(getattr(module, "_Intrinsic") for module in (numba.core.extending, numba.cuda.extending))  # noqa: B009
_SCALARS = (bool, int, float, complex, str, bytes, type(None), np.generic)


class _Unknown(Exception):
    """Something whose content cannot be told."""


def fingerprint(kernel: CUDADispatcher, argument_types: tuple, capability: tuple[int, int], tools: str) -> str | None:
    """The digest of all that the machine code of ``kernel`` depends on; None where that cannot be told."""
    options = kernel.targetoptions
    if options.get("debug") or options.get("link") or kernel.extensions:
        return None
    settings = {name: value for name, value in os.environ.items() if name.startswith("NUMBA_")}
    digest = hashlib.sha256()
    about = (
        VERSION,
        tools,
        numba.__version__,
        llvmlite.__version__,
        np.__version__,
        sorted(settings.items()),
        tuple(capability),
    )
    digest.update(repr(about).encode())
    digest.update(repr([f"{type(each).__qualname__} {each}" for each in argument_types]).encode())
    try:
        for part in _parts(kernel, set()):
            digest.update(part)
    except _Unknown:
        return None
    return digest.hexdigest()


def read_build(name: str | None) -> dict[str, Any] | None:
    """What :func:`write_build` kept under ``name``: cubin, line_cubin, entry_name, cooperative; None if there is
    none."""
    path = _path(name)
    try:
        if path is None:
            return None
        kept = json.loads(read_kept(path, MOST_BYTES) or b"")
        found = {part: base64.b64decode(kept[part], validate=True) for part in ("cubin", "line_cubin")}
        entry, cooperative = kept["entry_name"], kept["cooperative"]
        if not isinstance(entry, str) or not isinstance(cooperative, bool) or not found["cubin"]:
            return None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return {**found, "entry_name": entry, "cooperative": cooperative}


def write_build(name: str | None, cubin: bytes, line_cubin: bytes, entry_name: str, cooperative: bool) -> None:
    """Keep a build under the digest ``name``; a file system that does not take it is no error."""
    path = _path(name)
    if path is None:
        return
    kept = {
        "entry_name": entry_name,
        "cooperative": cooperative,
        "cubin": base64.b64encode(cubin).decode(),
        "line_cubin": base64.b64encode(line_cubin).decode(),
    }
    keep(path, json.dumps(kept).encode())


def _path(name: str | None) -> Path | None:
    folder = cache_folder()
    return None if folder is None or name is None else folder / "numba" / f"{name}.json"


def _parts(value: Any, seen: set[int]) -> Iterator[bytes]:
    """``value`` in bytes, with all that it refers to. Raises _Unknown."""
    if isinstance(value, CUDADispatcher):
        if value.targetoptions.get("link"):
            raise _Unknown
        yield repr(sorted((str(k), repr(v)) for k, v in value.targetoptions.items())).encode()
        yield from _function_parts(value.py_func, seen)
    elif isinstance(value, _SCALARS):
        yield f"{type(value).__qualname__} {value!r}".encode()
    elif isinstance(value, (tuple, frozenset)):
        yield f"{type(value).__qualname__} {len(value)}".encode()
        for item in sorted(value, key=repr) if isinstance(value, frozenset) else value:
            yield from _parts(item, seen)
    elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
        yield f"array {value.dtype.descr} {value.shape} {value.flags.c_contiguous}".encode()
        yield value.tobytes()
    elif isinstance(value, np.dtype):
        yield f"dtype {value.descr}".encode()
    elif isinstance(value, (Type, CudaType)):
        yield f"type {type(value).__qualname__} {value}".encode()
    elif isinstance(value, types.ModuleType):
        yield f"module {_of_library(value.__name__)}".encode()
    elif isinstance(value, types.FunctionType) and value.__module__.partition(".")[0] not in _LIBRARIES:
        yield from _function_parts(value, seen)
    elif isinstance(value, _INTRINSICS):  # a function that writes code for the compiler
        yield from _function_parts(getattr(value, "_defn"), seen)  # noqa: B009
    elif isinstance(value, types.CodeType):
        yield from _code_parts(value, seen)
    else:
        module = getattr(value, "__module__", None) or type(value).__module__
        name = getattr(value, "__qualname__", None) or type(value).__qualname__
        yield f"library {_of_library(module)}.{name}".encode()


def _of_library(module: str) -> str:
    """``module`` if it belongs to one of the libraries that the digest names."""
    if module.partition(".")[0] not in _LIBRARIES:
        raise _Unknown
    return module


def _function_parts(function: types.FunctionType, seen: set[int]) -> Iterator[bytes]:
    if id(function) in seen:  # it calls itself, or is called twice
        yield function.__qualname__.encode()
        return
    seen.add(id(function))
    code = function.__code__
    yield from _code_parts(code, seen)
    yield from _parts(function.__defaults__ or (), seen)
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        yield name.encode()
        try:
            yield from _parts(cell.cell_contents, seen)
        except ValueError:
            raise _Unknown from None
    for name in sorted(_names(code)):
        if name in function.__globals__:
            yield name.encode()
            yield from _parts(function.__globals__[name], seen)
        elif hasattr(builtins, name):
            yield f"builtin {name}".encode()


def _names(code: types.CodeType) -> set[str]:
    """Names that the code looks up, or takes attributes by."""
    inner = (each for each in code.co_consts if isinstance(each, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _code_parts(code: types.CodeType, seen: set[int]) -> Iterator[bytes]:
    about = (
        code.co_name, code.co_filename, code.co_firstlineno, code.co_varnames, code.co_names, code.co_freevars,
        code.co_cellvars, code.co_argcount, code.co_kwonlyargcount, code.co_flags,
    )  # fmt: skip
    yield repr(about).encode()
    yield code.co_code
    yield code.co_linetable
    for constant in code.co_consts:
        yield from _parts(constant, seen)
