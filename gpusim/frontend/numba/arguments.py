"""Kernel arguments as the launch of Numba's dispatcher lays them out, and their way back to the host.

Mental model: Numba flattens each argument into plain values (an array is seven or more: two null pointers,
size, item size, data pointer, shape, strides); each value has its place in the parameter bank of the cubin.
Host arrays are copied to the device and back by a real launch. Here the device lies on the arrays
themselves; only what a launch would keep apart (two arguments that overlap) gets a copy of its own, and a
kernel that fails leaves the arrays as they were.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numba.cuda import types
from numba.cuda.args import ArgHint, In

from gpusim.emulator.memory import Allocation, DeviceMemory, extent
from gpusim.errors import UsageError
from gpusim.isa.binary.cubin import KernelImage

#: Name of a dtype for messages; NumPy takes longer to make it than the rest of an argument.
_name_of = lru_cache(maxsize=256)(str)


class Arguments:
    """The packed parameters of one launch, and what to do with the arrays when it is over."""

    def __init__(self, memory: DeviceMemory, private: bool, kernel: str):
        self.memory, self.private, self.kernel = memory, private, kernel
        self.values: list[bytes] = []
        self.mapped: list[Allocation] = []
        self._ranges: list[tuple[int, int]] = []
        self._write_back: list[Callable[[], Any]] = []
        self._snapshots: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, types_: tuple, values: tuple, extensions: tuple = ()) -> None:
        """Flatten all arguments; raises UsageError for a type that a launch cannot pass."""
        for position, (kind, value) in enumerate(zip(types_, values, strict=True)):
            for extension in reversed(extensions):
                kind, value = extension.prepare_args(kind, value, stream=0, retr=self._write_back)
            self._one(kind, value, f"argument {position}")

    def _one(self, kind: Any, value: Any, label: str) -> None:
        if isinstance(kind, types.Array):
            self._array(kind, value, label)
        elif isinstance(kind, types.Record):
            self._record(value, label)
        elif isinstance(kind, types.BaseTuple):
            for i, (part, item) in enumerate(zip(kind, value, strict=True)):
                self._one(part, item, f"{label}[{i}]")
        elif isinstance(kind, types.NoneType):
            self.values.append(bytes(8))  # a place that the kernel never reads
        elif isinstance(kind, types.EnumMember):
            self._one(kind.dtype, value.value, label)
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
            raise UsageError(f"{label} of {self.kernel}: a value of type {kind} cannot be passed to a kernel")

    def _array(self, kind: types.Array, value: Any, label: str) -> None:
        read_only = False
        if isinstance(value, ArgHint):
            read_only, value = isinstance(value, In), value.value
        if not isinstance(value, np.ndarray):
            raise UsageError(
                f"{label} of {self.kernel}: expected a NumPy array, got {type(value).__module__}.{type(value).__name__}"
            )
        array = np.asarray(value)
        if self.private and read_only:
            array = array.copy(order="K")
        address = self._map(array, label, read_only) if array.size else 0
        words = (0, 0, array.size, array.itemsize, address, *array.shape, *array.strides)
        self.values += [word.to_bytes(8, "little", signed=True) for word in words]

    def _map(self, array: np.ndarray, label: str, read_only: bool) -> int:
        """Device address of ``array``'s first element."""
        low, size = extent(array)
        text = f"{label} ({_name_of(array.dtype)}{list(array.shape)})"
        if not self.private:
            allocation = self.memory.keep(low, size, text, array)
            return allocation.base + array.ctypes.data - low
        overlaps = any(low < end and start < low + size for start, end in self._ranges)
        if overlaps:
            # A launch gives each argument a device array of its own and copies them back in order.
            own = array.copy(order="K")
            own_low, own_size = extent(own)
            if own.strides != array.strides:
                raise UsageError(
                    f"{label} of {self.kernel} overlaps another argument and is not contiguous: pass a copy"
                )
            if array.flags.writeable:
                self._write_back.append(partial(np.copyto, array, own))
            array, low, size = own, own_low, own_size
        self._ranges.append((low, low + size))
        if array.flags.writeable and not read_only and not overlaps:
            self._snapshots.append((array, array.copy()))
        allocation = self.memory.add(low, size, text, array)
        self.mapped.append(allocation)
        return allocation.base + array.ctypes.data - low

    def _record(self, value: Any, label: str) -> None:
        if isinstance(value, ArgHint):
            value = value.value
        host = np.empty(1, value.dtype)
        host[0] = value

        def back() -> None:
            for name in value.dtype.names:
                value[name] = host[0][name]

        self._write_back.append(back)
        allocation = self.memory.add(host.ctypes.data, host.nbytes, f"{label} (record)", host)
        self.mapped.append(allocation)
        self.values.append(struct.pack("<Q", allocation.base))

    def pack(self, image: KernelImage) -> bytes:
        """The parameter bytes, each value at the offset that the cubin gives it."""
        if len(self.values) != len(image.parameters):
            raise UsageError(
                f"{self.kernel} takes {len(image.parameters)} flattened parameters, the arguments give"
                f" {len(self.values)}"
            )
        bank = bytearray(image.parameter_bytes)
        for parameter, value in zip(image.parameters, self.values, strict=True):
            room = min(parameter.size, len(bank) - parameter.offset)
            bank[parameter.offset : parameter.offset + min(len(value), room)] = value[:room]
        return bytes(bank)

    def succeed(self) -> None:
        """Copy back what a launch would copy back, in argument order."""
        for write in self._write_back:
            write()
        self._release()

    def fail(self) -> None:
        """Leave the arrays as they were before the launch."""
        for array, before in self._snapshots:
            np.copyto(array, before)
        self._release()

    def _release(self) -> None:
        self._snapshots.clear()
        self.memory.remove(self.mapped)
