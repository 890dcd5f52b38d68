"""An argument of a kernel that is no Python function, as a command line writes it.

Mental model: an argument says its type, since machine code does not: ``int:1024``, ``float:2``; an array what it begins
with: ``float[1024]`` (zeros), ``float[32,32]=1``, ``int[64]=arange``, ``float[1024]=random:7``; an array of pointers to
such, ``float*[8,1024]``; a file that NumPy has written, ``x.npy``; a structure by value, ``{int:3,float:2}``; ``null``.
Numbers may be formulas of the launch's other axes: ``float[n*m]``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpusim.cases.numbers import parse_integer, parse_number
from gpusim.io.late_ml_dtypes import small_float
from gpusim.io.nearest import hint

_ARGUMENT = re.compile(
    r"^(?P<type>[A-Za-z_][\w ]*?)\s*(?P<stars>\*?)\s*(?:\[(?P<lengths>[^\]]*)\](?:=(?P<fill>.*))?|:(?P<value>.*))$", re.DOTALL
)  # fmt: skip
_RANDOM = re.compile(r"^random(?::(\d{1,18}))?$")
_VECTOR = re.compile(r"^(?:u?(?:char|short|int|long|longlong)|float|double|half|uint|uchar|ushort|ulong)([1-4])$")
#: A comma that stands in no bracket.
_COMMA = re.compile(r"[,;](?![^(\[{]*[)\]}])")
_INTEGERS = {"char": "i1", "short": "i2", "int": "i4", "long": "i8", "long long": "i8", "longlong": "i8"}
#: As C++, NumPy and PTX write types on 64-bit Linux.
TYPES: dict[str, np.dtype] = {
    name: np.dtype(code)
    for name, code in (
        *_INTEGERS.items(),
        *((f"unsigned {name}", code.replace("i", "u")) for name, code in _INTEGERS.items()),
        *((f"u{name}", code.replace("i", "u")) for name, code in _INTEGERS.items() if " " not in name),
        *((f"{sign}{8 * size}", f"{kind}{size}") for sign, kind in (("s", "i"), ("u", "u")) for size in (1, 2, 4, 8)),
        *((f"{sign}int{8 * size}", f"{kind}{size}") for sign, kind in (("", "i"), ("u", "u")) for size in (1, 2, 4, 8)),
        *((f"{sign}int{8 * size}_t", f"{kind}{size}") for sign, kind in (("", "i"), ("u", "u")) for size in (1, 2, 4, 8)),
        *((f"f{8 * size}", f"f{size}") for size in (2, 4, 8)),
        *((f"float{8 * size}", f"f{size}") for size in (2, 4, 8)),
        ("unsigned", "u4"), ("size_t", "u8"), ("bool", "?"), ("half", "f2"), ("float", "f4"), ("double", "f8"),
    )
}  # fmt: skip
#: Those that NumPy has not and ml_dtypes has, as CUDA names them.
SMALL_FLOATS = {
    "bf16": "bfloat16", "bfloat16": "bfloat16", "__nv_bfloat16": "bfloat16", "fp8_e4m3": "float8_e4m3fn", "e4m3": "float8_e4m3fn",
    "__nv_fp8_e4m3": "float8_e4m3fn", "fp8_e5m2": "float8_e5m2", "e5m2": "float8_e5m2", "__nv_fp8_e5m2": "float8_e5m2",
}  # fmt: skip
FORMS = (
    "write TYPE:VALUE (float:2), TYPE[LENGTH] (float[1024], also =1, =arange, =random, =random:SEED), TYPE*[COUNT,LENGTH] (an array of pointers),"
    " FILE.npy, {TYPE:VALUE,...} (a structure) or null"
)


@dataclass(frozen=True)
class _Parts:
    """What an argument's text says: ``lengths`` and ``fill`` of an array (None for what it lacks), ``value`` of a
    number."""

    kind: np.dtype
    width: int
    pointers: bool
    lengths: str | None
    fill: str | None
    value: str


def check_kernel_argument(text: str) -> None:
    """Raise ValueError for a text that is no argument, as far as that shows before its numbers are known."""
    text = text.strip()
    if text in ("null", "nullptr") or text.endswith(".npy"):
        return
    if text.startswith("{") and text.endswith("}"):
        for part in _COMMA.split(text[1:-1]):
            check_kernel_argument(part)
        return
    _parts(text)


def parse_kernel_argument(text: str, names: Mapping[str, int] | None = None) -> Any:
    """The value of an argument as written, a NumPy scalar or array, a list of arrays (pointers to them), bytes or None,
    with ``names`` for those that stand in its numbers. Raises ValueError for what is none, MemoryError for an array
    that is too large."""
    text, names = text.strip(), names or {}
    if text in ("null", "nullptr"):
        return None
    if text.endswith(".npy"):
        return _loaded(Path(text))
    if text.startswith("{") and text.endswith("}"):
        return _structure([parse_kernel_argument(part, names) for part in _COMMA.split(text[1:-1])])
    parts = _parts(text)
    if parts.lengths is None:
        if parts.width > 1:
            raise ValueError("a vector by value is a structure: {float:1,float:2}")
        return _number(parts.kind, parts.value, names)
    shape = tuple(parse_integer(part, names) for part in _COMMA.split(parts.lengths))
    if any(length < 0 for length in shape):
        raise ValueError("a length cannot be negative")
    if parts.width > 1:
        shape = (*shape, parts.width)
    if parts.pointers:
        if len(shape) < 2:
            raise ValueError("an array of pointers has a count and a length: float*[8,1024]")
        return [_array(parts, shape[1:], names, place) for place in range(shape[0])]
    return _array(parts, shape, names, 0)


def _array(parts: _Parts, shape: tuple[int, ...], names: Mapping[str, int], place: int) -> np.ndarray:
    kind, fill = parts.kind, parts.fill
    if fill is None:
        return np.zeros(shape, kind)
    count = math.prod(shape)
    if fill == "arange":
        return np.arange(count).astype(kind).reshape(shape)
    drawn = _RANDOM.match(fill)
    if drawn is None:
        try:
            return np.full(shape, _number(kind, fill, names))
        except ValueError as error:
            raise ValueError(f"{error}: an array begins with a number, arange, random or random:SEED") from None
    seed = int(drawn[1] or 0)
    random = np.random.default_rng([seed, place] if place else seed)
    if kind.kind in "fV":
        return random.random(shape).astype(kind)
    most = 2 if kind.kind == "b" else min(max(count, 1), int(np.iinfo(kind).max) + 1)
    return random.integers(0, most, shape, np.int64 if most <= 1 << 63 else np.uint64).astype(kind)


def _parts(text: str) -> _Parts:
    found = _ARGUMENT.match(text)
    if found is None:
        raise ValueError(FORMS)
    name, width = " ".join(found["type"].split()), 1
    vector = _VECTOR.match(name)
    if vector is not None and name not in TYPES:
        name, width = name[:-1], int(vector[1])
    kind = small_float(SMALL_FLOATS[name]) if name in SMALL_FLOATS else TYPES.get(name)
    if kind is None:
        known = (*TYPES, *SMALL_FLOATS)
        there = f"there are {', '.join(known)}"
        raise ValueError(f"there is no type {found['type']}; {hint(name, known, there)}")
    if found["stars"] and found["lengths"] is None:
        raise ValueError("an array of pointers has a count and a length: float*[8,1024]")
    return _Parts(kind, width, bool(found["stars"]), found["lengths"], found["fill"], found["value"] or "")


def _number(kind: np.dtype, text: str, names: Mapping[str, int]) -> Any:
    if kind.kind == "b":
        if text.lower() not in ("true", "false", "0", "1"):
            raise ValueError(f"{text} is neither true nor false")
        return np.bool_(text.lower() in ("true", "1"))
    if kind.kind in "fV":
        if text.strip("+-").lower() in ("inf", "nan"):
            return kind.type(float(text))
        with np.errstate(over="ignore"):
            value = kind.type(parse_number(text, names))
        if np.isinf(value):
            raise ValueError(f"{text} does not fit in {kind.name}; inf is written inf")
        return value
    try:
        return kind.type(parse_integer(text, names))
    except OverflowError:
        raise ValueError(f"{text} does not fit in {kind.name}") from None


def _structure(members: list[Any]) -> Any:
    """The members one behind another as C lays them out."""
    if not members or any(not isinstance(each, np.generic) for each in members):
        raise ValueError("a structure holds numbers: {int:3,float:2}")
    layout = np.dtype([(f"m{place}", each.dtype) for place, each in enumerate(members)], align=True)
    return np.array(tuple(members), layout)[()]


def _loaded(path: Path) -> np.ndarray:
    try:
        return np.load(path, allow_pickle=False)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from None
