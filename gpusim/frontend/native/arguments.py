"""Arguments of a kernel that is no Python function, as the bytes of its parameters.

Mental model: a pointer parameter takes an array, whose address is passed; a number takes the size, and where PTX tells it the
kind, of its parameter; a structure is passed by value as bytes laid out by whoever made them (NumPy's structured scalars, ctypes,
``struct``). What has another size than its parameter is refused: a GPU would read beside it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpusim.errors import UsageError
from gpusim.launch.arrays import HostArrays
from gpusim.launch.binary import KernelBinary
from gpusim.launch.texture_argument import Surface, Texture

_POINTER_BYTES = 8
_FLOATS = {2: np.float16, 4: np.float32, 8: np.float64}


def parameter_values(
    binary: KernelBinary, types: Sequence[str], args: Sequence[Any], arrays: HostArrays
) -> list[bytes]:
    """The bytes of each of ``args`` for the parameters of ``binary``, whose PTX ``types`` are given where they are known.
    Raises UsageError, naming the argument, for a wrong number of them or one that does not fit."""
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
    array = _as_array(value, where)
    if array is not None:
        if size != _POINTER_BYTES or kind.startswith("f"):
            raise UsageError(f"{where} is an array, but the parameter is {_told(kind, size)}, not a pointer")
        return arrays.map(array, label).to_bytes(_POINTER_BYTES, "little")
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
        f"{where}: a {type(value).__name__} cannot be passed: give an array, a number, bytes of a structure, or None"
    )


def _as_array(value: Any, where: str) -> np.ndarray | None:
    """``value`` as a NumPy array on the same memory, if it is an array of any library that has one on the host."""
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, np.generic):
        return None
    if hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError) as error:
            raise UsageError(f"{where}: {error}; give an array in host memory") from None
    if hasattr(value, "__cuda_array_interface__"):
        raise UsageError(
            f"{where} lies on a device; capture takes arrays in host memory: a whole program runs in `gpusim run`"
        )
    if hasattr(value, "__array_interface__"):
        return np.asarray(value)
    return None


def _number(value: int | float, size: int, kind: str, where: str) -> bytes:
    """A Python number as a parameter of ``size`` bytes; without a known ``kind`` an int is an integer, a float a float."""
    as_float = kind in ("f32", "f64", "f16") or (isinstance(value, float) and not kind.startswith(("u", "s")))
    if as_float and size in _FLOATS:
        return _FLOATS[size](value).tobytes()
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
