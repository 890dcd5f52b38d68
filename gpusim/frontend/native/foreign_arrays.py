"""Arrays of other libraries as NumPy arrays on the same memory.

Mental model: DLPack says where a tensor lies and how (PyTorch, JAX, CuPy); buffers (``array.array``, ``memoryview``,
ctypes) are memory too. What lies on a real device is copied to the host for the launch and back behind it, in its
library's own way. Source of the structures: DLPack, ``dlpack.h`` (``DLTensor``, ``DLDeviceType``).
"""

from __future__ import annotations

import array
import ctypes
from functools import partial
from typing import Any

import numpy as np

from gpusim.errors import UsageError
from gpusim.launch.arrays import HostArrays

_ON_HOST = (1, 3, 13)  # kDLCPU, kDLCUDAHost, kDLCUDAManaged
#: How a library's device arrays give a copy on the host, and take it back.
_COPIES = (("copy_to_host", "copy_to_device"), ("get", "set"))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("dimensions", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset_bytes", ctypes.c_uint64),
    )


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def as_array(value: Any, where: str, arrays: HostArrays) -> np.ndarray | None:
    """``value`` as a NumPy array on the same memory, or on a copy that goes back when the launch has succeeded; None if
    it is no array. ``where`` names it in the UsageError for one that cannot be reached."""
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, np.generic):
        return None
    if hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            found = _of_capsule(value)
            found = _copied(value, arrays) if found is None else found
            if found is None:
                raise UsageError(f"{where}: {error}; give an array in host memory") from None
            return found
    if hasattr(value, "__cuda_array_interface__"):
        found = _copied(value, arrays)
        if found is None:
            raise UsageError(
                f"{where} lies on a device; capture takes arrays in host memory: a whole program runs in `gpusim run`"
            )
        return found
    if hasattr(value, "__array_interface__"):
        return np.asarray(value)
    if isinstance(value, (array.array, memoryview)):
        return np.asarray(value)
    return None


def _of_capsule(value: Any) -> np.ndarray | None:
    """A tensor on the host of a type that NumPy has not (bfloat16, 8-bit floats), as whole numbers of its size; else
    None."""
    try:
        capsule = value.__dlpack__()
        tensor = _Tensor.from_address(_pointer_of(capsule, b"dltensor"))
    except (BufferError, RuntimeError, TypeError, ValueError):
        return None
    size, odd = divmod(tensor.bits * tensor.lanes, 8)
    if tensor.device[0] not in _ON_HOST or odd or size not in (1, 2, 4, 8):
        return None
    shape = tuple(tensor.shape[i] for i in range(tensor.dimensions))
    strides = tuple(tensor.strides[i] * size for i in range(tensor.dimensions)) if tensor.strides else None
    reach = sum((length - 1) * abs(step) for length, step in zip(shape, strides, strict=True)) if strides else 0
    count = size * int(np.prod(shape, dtype=np.int64)) if strides is None else reach + size
    memory = (ctypes.c_uint8 * (count if all(shape) else 0)).from_address(tensor.data + tensor.offset_bytes)
    memory.owner = (capsule, value)  # the memory is theirs
    return np.ndarray(shape, f"u{size}", memory, 0, strides)


def _copied(value: Any, arrays: HostArrays) -> np.ndarray | None:
    """A copy on the host of an array that lies on a device, which goes back when the launch has succeeded."""
    for to_host, to_device in _COPIES:
        if hasattr(value, to_host) and hasattr(value, to_device):
            host = np.ascontiguousarray(getattr(value, to_host)())
            arrays.write_back.append(partial(getattr(value, to_device), host))
            return host
    return None
