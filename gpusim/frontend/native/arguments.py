"""Arguments of a kernel that is no Python function, as the bytes of its parameters.

Mental model: a pointer parameter takes an array, whose address is passed; a number takes the size, and where PTX tells
it the kind, of its parameter; a structure is passed by value as bytes laid out by whoever made them (NumPy's structured
scalars, ctypes, ``struct``). A list of arrays is an array of pointers to them where the parameter is a pointer, and its
members where it is a structure. What has another size than its parameter is refused: a GPU would read beside it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpusim.errors import UsageError
from gpusim.frontend.native.foreign_arrays import as_array
from gpusim.launch.arrays import HostArrays
from gpusim.launch.binary import KernelBinary
from gpusim.launch.tensor_map_argument import TensorMap
from gpusim.launch.texture_argument import Surface, Texture

_POINTER_BYTES = 8
_FLOATS = {2: np.float16, 4: np.float32, 8: np.float64}


def parameter_values(
    binary: KernelBinary, types: Sequence[str], args: Sequence[Any], arrays: HostArrays
) -> list[bytes]:
    """The bytes of each of ``args`` for the parameters of ``binary``, whose PTX ``types`` are given where they are
    known. Raises UsageError, naming the argument, for a wrong number of them or one that does not fit."""
    parameters = binary.image.parameters
    if len(args) != len(parameters):
        wanted = ", ".join(types[i] if i < len(types) else f"{each.size} bytes" for i, each in enumerate(parameters))
        raise UsageError(f"{binary.name} takes {len(parameters)} arguments ({wanted or 'none'}), not {len(args)}")
    return [
        _value(value, each.size, types[i] if i < len(types) else "", f"argument {i}", arrays)
        for i, (value, each) in enumerate(zip(args, parameters, strict=True))
    ]


def _value(value: Any, size: int, kind: str, label: str, arrays: HostArrays) -> bytes:
    where = f"{label} of {arrays.kernel}"
    if value is None:
        value = b"\0" * _POINTER_BYTES
    if isinstance(value, (Texture, Surface)):
        return _sized(arrays.map_texture(value, label).to_bytes(_POINTER_BYTES, "little"), size, kind, where)
    if hasattr(
        type(value), "__tensor_map__"
    ):  # an argument that says itself, without a class of gpusim's, what it maps
        value = TensorMap(**value.__tensor_map__())
    if isinstance(value, TensorMap):
        return _sized(arrays.map_tensor(value, label), size, kind, where)
    array = as_array(value, where, arrays) if not _is_sized(value, size) else None
    if array is not None:
        if array.nbytes == size and (size != _POINTER_BYTES or "[" in kind):
            return np.ascontiguousarray(array).tobytes()  # a small vector, such as float4, by value
        if size != _POINTER_BYTES or kind.startswith("f"):
            raise UsageError(f"{where} is an array, but the parameter is {_told(kind, size)}, not a pointer")
        return arrays.map(array, label).to_bytes(_POINTER_BYTES, "little")
    if isinstance(value, (list, tuple)) and value:
        by_value = "[" in kind or size != _POINTER_BYTES
        return (_structure if by_value else _pointers)(value, size, kind, label, arrays)
    if isinstance(value, np.void):
        return _record(value, size, kind, label, arrays)
    if isinstance(value, (bool, np.bool_)):
        return _sized(bytes([bool(value)]) if size == 1 else int(value).to_bytes(size, "little"), size, kind, where)
    if isinstance(value, (int, float)) and not isinstance(value, np.generic):
        return _number(value, size, kind, where)
    if isinstance(value, (bytes, bytearray, memoryview, ctypes.Structure, ctypes.Array, ctypes._SimpleCData)):
        return _sized(bytes(value), size, kind, where)
    if isinstance(value, np.generic):
        if kind in ("f32", "f64") and value.dtype.kind != "f":
            raise UsageError(f"{where} is a {value.dtype}, but the parameter is {_told(kind, size)}")
        return _sized(value.tobytes(), size, kind, where)
    raise UsageError(
        f"{where}: a {type(value).__name__} cannot be passed: give an array, a list of arrays (pointers to them), a number, a"
        " structure (its bytes, or a tuple of its members), or None"
    )


def _is_sized(value: Any, size: int) -> bool:
    """Whether it is the bytes of a parameter, rather than memory that one points to."""
    return isinstance(value, memoryview) and value.nbytes == size


def _pointers(values: Sequence[Any], size: int, kind: str, label: str, arrays: HostArrays) -> bytes:
    """The address of an array of the addresses of ``values``, arrays each or None, as batched kernels take them."""
    where = f"{label} of {arrays.kernel}"
    if size != _POINTER_BYTES or kind.startswith("f"):
        raise UsageError(f"{where} is a list of arrays, but the parameter is {_told(kind, size)}, not a pointer")
    addresses = np.zeros(len(values), np.uint64)
    for place, each in enumerate(values):
        array = None if each is None else as_array(each, f"{label}[{place}] of {arrays.kernel}", arrays)
        if each is not None and array is None:
            raise UsageError(
                f"{label}[{place}] of {arrays.kernel}: a list holds arrays, or None, not a {type(each).__name__}"
            )
        addresses[place] = 0 if array is None else arrays.map(array, f"{label}[{place}]")
    return arrays.map_copy(addresses, f"{label} ({len(values)} pointers)").to_bytes(_POINTER_BYTES, "little")


def _members(values: Sequence[Any], label: str, arrays: HostArrays) -> np.dtype:
    """The type of a structure of ``values`` as C lays them out."""
    kinds = []
    for place, each in enumerate(values):
        where = f"{label}[{place}] of {arrays.kernel}"
        if isinstance(each, (list, tuple)):
            kinds.append((f"m{place}", _members(each, f"{label}[{place}]", arrays)))
        elif each is None or as_array(each, where, arrays) is not None:
            kinds.append((f"m{place}", np.dtype(np.uint64)))
        elif isinstance(each, (np.generic, bool)):
            kinds.append((f"m{place}", np.asarray(each).dtype))
        else:
            raise UsageError(
                f"{where}: a member of a structure says its size: give np.int32({each}), np.float32(...), an array, not a {type(each).__name__}"
            )
    return np.dtype(kinds, align=True)


def _filled(values: Sequence[Any], label: str, arrays: HostArrays) -> tuple:
    """``values`` with the addresses of arrays in their place."""
    made: list[Any] = []
    for place, each in enumerate(values):
        inner = f"{label}[{place}]"
        array = None
        if isinstance(each, (list, tuple)):
            made.append(_filled(each, inner, arrays))
            continue
        if each is not None:
            array = as_array(each, f"{inner} of {arrays.kernel}", arrays)
        made.append(arrays.map(array, inner) if array is not None else 0 if each is None else each)
    return tuple(made)


def _structure(values: Sequence[Any], size: int, kind: str, label: str, arrays: HostArrays) -> bytes:
    """A structure by value, given by its members: arrays are pointers in it."""
    layout = _members(values, label, arrays)
    return _sized(np.array(_filled(values, label, arrays), layout).tobytes(), size, kind, f"{label} of {arrays.kernel}")


def _record(value: np.void, size: int, kind: str, label: str, arrays: HostArrays) -> bytes:
    """A structured scalar; where it holds arrays (fields of dtype object), these are pointers in it."""
    fields = value.dtype.fields or {}
    if not any(each[0].kind == "O" for each in fields.values()):
        return _sized(value.tobytes(), size, kind, f"{label} of {arrays.kernel}")
    content = bytearray(value.dtype.itemsize)
    for name, (dtype, offset, *_) in fields.items():
        one = value[name]
        if dtype.kind == "O":
            one = np.uint64(_filled([one], f"{label}.{name}", arrays)[0])
        content[offset : offset + dtype.itemsize] = np.asarray(one, None if dtype.kind == "O" else dtype).tobytes()
    return _sized(bytes(content), size, kind, f"{label} of {arrays.kernel}")


def _number(value: int | float, size: int, kind: str, where: str) -> bytes:
    """A Python number as a parameter of ``size`` bytes; without a known ``kind`` an int is an integer, a float a
    float."""
    as_float = kind in ("f32", "f64", "f16") or (isinstance(value, float) and not kind.startswith(("u", "s")))
    if as_float and size in _FLOATS:
        with np.errstate(over="ignore"):
            held = _FLOATS[size](value)
        if np.isinf(held) and abs(value) != np.inf:
            raise UsageError(f"{where} is {value!r}, which {_told(kind, size)} cannot hold")
        return held.tobytes()
    if isinstance(value, float):
        raise UsageError(f"{where} is {value!r}, but the parameter is {_told(kind, size)}")
    bits = 8 * size
    if not -(1 << (bits - 1)) <= value < 1 << bits:
        raise UsageError(f"{where} is {value}, which {_told(kind, size)} cannot hold")
    return (value & ((1 << bits) - 1)).to_bytes(size, "little")


def _sized(content: bytes, size: int, kind: str, where: str) -> bytes:
    if len(content) != size:
        raise UsageError(f"{where} has {len(content)} bytes, the parameter {_told(kind, size)}")
    return content


def _told(kind: str, size: int) -> str:
    return f"{size} bytes" + (f" ({kind})" if kind and "[" not in kind else "")
