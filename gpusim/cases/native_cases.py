"""A launch of a kernel of CUDA C++, PTX or machine code that a command line describes: grid, block, shared memory, arguments.

Mental model: the launch is the shape: ``grid`` and ``block`` (``4`` or ``4x2x1``), ``shared_bytes``, ``arg0``, ``arg1`` ... An argument says
its type, since machine code does not: ``int:1024``, ``float:2``; an array what it begins with: ``float[1024]`` (zeros),
``float[32,32]=1``, ``int[64]=arange``, ``float[1024]=random:7``; ``null``. There is no check: nobody has said what is right.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gpusim.cases.case_forms import CaseLaunch, UserCase
from gpusim.cases.native_names import CUDA_CPP, PTX, split_native
from gpusim.cases.numbers import parse_integer, parse_number
from gpusim.errors import UnknownKernelError, UsageError
from gpusim.frontend.native import kernels
from gpusim.io.real_path import refuse_no_text

_ARGUMENT = re.compile(
    r"^(?P<type>[A-Za-z_][\w ]*?)\s*(?:\[(?P<lengths>[^\]]*)\](?:=(?P<fill>.*))?|:(?P<value>.*))$", re.DOTALL
)
_RANDOM = re.compile(r"^random:(\d{1,18})$")
_INTEGERS = {"char": "i1", "short": "i2", "int": "i4", "long": "i8", "long long": "i8"}
#: As C++, NumPy and PTX write types on 64-bit Linux.
TYPES: dict[str, np.dtype] = {
    name: np.dtype(code)
    for name, code in (
        *_INTEGERS.items(),
        *((f"unsigned {name}", code.replace("i", "u")) for name, code in _INTEGERS.items()),
        *((f"{sign}{8 * size}", f"{kind}{size}") for sign, kind in (("s", "i"), ("u", "u")) for size in (1, 2, 4, 8)),
        *((f"{sign}int{8 * size}", f"{kind}{size}") for sign, kind in (("", "i"), ("u", "u")) for size in (1, 2, 4, 8)),
        *((f"{sign}int{8 * size}_t", f"{kind}{size}") for sign, kind in (("", "i"), ("u", "u")) for size in (1, 2, 4, 8)),
        *((f"f{8 * size}", f"f{size}") for size in (2, 4, 8)),
        *((f"float{8 * size}", f"f{size}") for size in (2, 4, 8)),
        ("unsigned", "u4"), ("uint", "u4"), ("size_t", "u8"), ("bool", "?"), ("half", "f2"), ("float", "f4"), ("double", "f8"),
    )
}  # fmt: skip


def load_native(name: str) -> Any:
    """The kernel that ``path:kernel`` names, for a front end to compile. Raises UnknownKernelError for a file that is not there."""
    found = split_native(name)
    if found is None:
        raise UnknownKernelError(f"{name!r} does not name a kernel of a file: write FILE:KERNEL")
    path, entry, _ = found
    if not os.path.isfile(path):  # False also for a name that no file can have
        raise UnknownKernelError(f"there is no file {path}")
    refuse_no_text(Path(path))
    suffix = Path(path).suffix
    make: Callable[..., Any] = kernels.cubin
    if suffix in CUDA_CPP or suffix == PTX:
        make = kernels.ptx if suffix == PTX else kernels.cuda_cpp
    return make(Path(path), entry)


def complete_native_shape(name: str, shape: Mapping[str, Any]) -> dict[str, Any]:
    """``shape``, a launch of ``name`` as texts, in order and with what may be left out. Raises UsageError for what is missing,
    unknown or cannot be read."""
    load_native(name)
    given = {axis: str(value) for axis, value in shape.items()}
    missing = [axis for axis in ("grid", "block") if axis not in given]
    if missing:
        options = " ".join(f"--{axis} {example}" for axis, example in (("grid", 4), ("block", 256)) if axis in missing)
        raise UsageError(
            f"{name} needs its launch: give {options}, and --arg TYPE:VALUE or TYPE[LENGTH] for each argument"
        )
    arguments = sorted((axis for axis in given if re.fullmatch(r"arg\d{1,3}", axis)), key=lambda axis: int(axis[3:]))
    unknown = [axis for axis in given if axis not in ("grid", "block", "shared_bytes", *arguments)]
    if unknown:
        raise UsageError(f"{name} has no axis {unknown[0]!r}; a launch has grid, block, shared_bytes, arg0, arg1 ...")
    for place, axis in enumerate(arguments):
        if axis != f"arg{place}":
            raise UsageError(f"{name}: {axis} is given, but not arg{place}")
    whole = {"grid": given["grid"], "block": given["block"], "shared_bytes": given.get("shared_bytes", "0")}
    whole |= {axis: given[axis] for axis in arguments}
    for axis, text in whole.items():
        _read(
            name, axis, text, _kind_only if axis in arguments else _extents if axis != "shared_bytes" else parse_integer
        )
    return whole


def make_native_case(name: str, shape: Mapping[str, Any]) -> UserCase:
    """The launch of ``name`` with a complete ``shape``, its arrays made."""
    arguments = [axis for axis in shape if axis.startswith("arg")]
    launch = CaseLaunch(
        load_native(name),
        _read(name, "grid", shape["grid"], _extents),
        _read(name, "block", shape["block"], _extents),
        tuple(_read(name, axis, shape[axis], parse_kernel_argument) for axis in arguments),
        _read(name, "shared_bytes", shape["shared_bytes"], parse_integer),
    )
    return UserCase((launch,))


def parse_kernel_argument(text: str) -> Any:
    """The value of an argument as written, a NumPy scalar or array or None. Raises ValueError for what is none, MemoryError for
    an array that is too large."""
    if text.strip() in ("null", "nullptr"):
        return None
    kind, lengths, fill, value = _kind_only(text)
    if lengths is None:
        return _number(kind, value)
    shape = tuple(parse_integer(part) for part in lengths.split(","))
    if any(length < 0 for length in shape):
        raise ValueError("a length cannot be negative")
    if fill is None:
        return np.zeros(shape, kind)
    count = math.prod(shape)
    if fill == "arange":
        return np.arange(count).astype(kind).reshape(shape)
    seed = _RANDOM.match(fill)
    if seed is None:
        return np.full(shape, _number(kind, fill))
    random = np.random.default_rng(int(seed[1]))
    if kind.kind == "f":
        return random.random(shape).astype(kind)
    most = 2 if kind.kind == "b" else min(max(count, 1), int(np.iinfo(kind).max) + 1)
    return random.integers(0, most, shape, np.int64 if most <= 1 << 63 else np.uint64).astype(kind)


def _kind_only(text: str) -> tuple[np.dtype, str | None, str | None, str]:
    """Type, lengths, content of an array, value; None for what an argument lacks."""
    if text.strip() in ("null", "nullptr"):
        return np.dtype("u8"), None, None, "0"
    found = _ARGUMENT.match(text.strip())
    if found is None:
        raise ValueError(
            "write TYPE:VALUE (float:2), TYPE[LENGTH] (float[1024], also =1, =arange, =random:SEED) or null"
        )
    kind = TYPES.get(" ".join(found["type"].split()))
    if kind is None:
        raise ValueError(f"there is no type {found['type']}; there are {', '.join(TYPES)}")
    return kind, found["lengths"], found["fill"], found["value"] or ""


def _number(kind: np.dtype, text: str) -> Any:
    if kind.kind == "b":
        if text.lower() not in ("true", "false", "0", "1"):
            raise ValueError(f"{text} is neither true nor false")
        return np.bool_(text.lower() in ("true", "1"))
    if kind.kind == "f":
        return kind.type(float(text) if text.strip("+-").lower() in ("inf", "nan") else parse_number(text))
    try:
        return kind.type(parse_integer(text))
    except OverflowError:
        raise ValueError(f"{text} does not fit in {kind.name}") from None


def _extents(text: str) -> tuple[int, ...]:
    parts = tuple(parse_integer(part) for part in text.split("x"))
    if not 1 <= len(parts) <= 3 or min(parts) < 1:
        raise ValueError("write one to three numbers from 1 on, as in 4x2x1")
    return parts


def _read(name: str, axis: str, text: str, read: Callable[[str], Any]) -> Any:
    try:
        return read(text)
    except ValueError as error:
        raise UsageError(f"{name}: {axis}={text}: {error}") from None
