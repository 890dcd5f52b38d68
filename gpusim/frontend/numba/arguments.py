"""Kernel arguments as the launch of Numba's dispatcher lays them out.

Mental model: Numba flattens each argument into plain values (an array is seven or more: two null pointers,
size, item size, data pointer, shape, strides); each value has its place in the parameter bank of the cubin.
Where arrays lie, and how they come back to the host, is :mod:`gpusim.launch.arrays`.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numba.cuda import types
from numba.cuda.args import ArgHint, In

from gpusim.errors import UsageError
from gpusim.launch.arrays import HostArrays


def flatten(types_: tuple, values: tuple, arrays: HostArrays, extensions: tuple = ()) -> list[bytes]:
    """The plain values of all arguments in order; arrays among them are mapped by ``arrays``. ``types_``: their Numba
    types. Raises UsageError for a type that a launch cannot pass."""
    flat = _Flattening(arrays)
    for position, (kind, value) in enumerate(zip(types_, values, strict=True)):
        for extension in reversed(extensions):
            kind, value = extension.prepare_args(kind, value, stream=0, retr=arrays.write_back)
        flat.one(kind, value, f"argument {position}")
    return flat.values


class _Flattening:
    """Values in the making."""

    def __init__(self, arrays: HostArrays):
        self.arrays = arrays
        self.values: list[bytes] = []

    def one(self, kind: Any, value: Any, label: str) -> None:
        """Append the plain values of one argument."""
        if isinstance(kind, types.Array):
            self._array(kind, value, label)
        elif isinstance(kind, types.Record):
            self._record(value, label)
        elif isinstance(kind, types.BaseTuple):
            for i, (part, item) in enumerate(zip(kind, value, strict=True)):
                self.one(part, item, f"{label}[{i}]")
        elif isinstance(kind, types.NoneType):
            self.values.append(bytes(8))  # a place that the kernel never reads
        elif isinstance(kind, types.EnumMember):
            self.one(kind.dtype, value.value, label)
        elif isinstance(kind, types.CPointer):
            self.values.append(struct.pack("<Q", int(value)))
        elif isinstance(kind, types.Boolean):
            self.values.append(struct.pack("<B", bool(value)))
        elif isinstance(kind, types.Integer):
            self.values.append((int(value) & ((1 << kind.bitwidth) - 1)).to_bytes(kind.bitwidth // 8, "little"))
        elif kind == types.float16:
            self.values.append(np.float16(value).tobytes())
        elif kind == types.float32:
            self.values.append(np.float32(value).tobytes())
        elif kind == types.float64:
            self.values.append(np.float64(value).tobytes())
        elif kind == types.complex64:
            self.values += [np.float32(value.real).tobytes(), np.float32(value.imag).tobytes()]
        elif kind == types.complex128:
            self.values += [np.float64(value.real).tobytes(), np.float64(value.imag).tobytes()]
        elif isinstance(kind, (types.NPDatetime, types.NPTimedelta)):
            self.values.append(np.asarray(value).view(np.int64).tobytes())
        else:
            raise UsageError(f"{label} of {self.arrays.kernel}: a value of type {kind} cannot be passed to a kernel")

    def _array(self, kind: types.Array, value: Any, label: str) -> None:
        read_only = False
        if isinstance(value, ArgHint):
            read_only, value = isinstance(value, In), value.value
        if not isinstance(value, np.ndarray):
            raise UsageError(
                f"{label} of {self.arrays.kernel}: expected a NumPy array, got {type(value).__module__}.{type(value).__name__}"
            )
        array = np.asarray(value)
        if read_only and self.arrays.private:
            array = array.copy(order="K")  # the kernel may write to it, and nobody sees that
        address = self.arrays.map(array, label, read_only)
        words = (0, 0, array.size, array.itemsize, address, *array.shape, *array.strides)
        self.values += [word.to_bytes(8, "little", signed=True) for word in words]

    def _record(self, value: Any, label: str) -> None:
        if isinstance(value, ArgHint):
            value = value.value
        host = np.empty(1, value.dtype)
        host[0] = value

        def back() -> None:
            for name in value.dtype.names:
                value[name] = host[0][name]

        self.arrays.write_back.append(back)
        self.values.append(struct.pack("<Q", self.arrays.map_copy(host, f"{label} (record)")))
