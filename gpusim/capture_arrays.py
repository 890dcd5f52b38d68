"""The arrays of a capture, among them those that nobody may write.

Mental model: the device lies on the host's arrays, so that what a kernel writes is there at once. What must not be
written (an array that NumPy calls read-only, above all a file mapped to be read, or the bytes of an immutable object)
has a device array of its own, as on a GPU, which has to be as it was when the launch is over. Python's objects are on
no device.
"""

from __future__ import annotations

import ctypes
import mmap
from weakref import WeakKeyDictionary

import numpy as np

from gpusim.errors import UsageError
from gpusim.launch.arrays import HostArrays
from gpusim.launch.memory import DeviceMemory, extent

#: Of a memory that outlives its launches: the array's place -> the array, which keeps that place, and its device array.
_own: WeakKeyDictionary[DeviceMemory, dict[tuple[int, int], tuple[np.ndarray, np.ndarray]]] = WeakKeyDictionary()


class CaptureArrays(HostArrays):
    """:class:`HostArrays` that no launch writes where nobody may."""

    def __init__(self, memory: DeviceMemory, private: bool, kernel: str, blocks: int = 1):
        super().__init__(memory, private, kernel, blocks)
        self._kept: list[tuple[str, np.ndarray, np.ndarray]] = []

    def map(self, array: np.ndarray, label: str, read_only: bool = False) -> int:
        """As :meth:`HostArrays.map`. Raises UsageError for an array of Python's objects."""
        if array.dtype.hasobject:
            raise UsageError(
                f"{label} of {self.kernel} holds Python objects (dtype {array.dtype}): give an array of numbers"
            )
        if read_only or array.flags.writeable or not array.size or not (self.private or _immutable(array)):
            return super().map(array, label, read_only)
        low, size = extent(array)
        kept = {} if self.private else _own.setdefault(self.memory, {})
        _, own = kept.setdefault((low, size), (array, _bytes_of(low, size).copy()))
        self._kept.append((f"{label} of {self.kernel}", array, own))
        contiguous = array.flags.forc  # for messages: otherwise it is called an array of bytes
        shown = (
            own.view(array.dtype).reshape(array.shape, order="C" if array.flags.c_contiguous else "F")
            if contiguous
            else own
        )
        return super().map(shown, label) + array.ctypes.data - low

    def check_kept(self) -> None:
        """Raise UsageError, naming the argument, where the launch has written what nobody may write."""
        for label, array, own in self._kept:
            before = _bytes_of(*extent(array))
            if not np.array_equal(own, before):
                own[:] = before
                raise UsageError(f"{label} is a read-only array, and the kernel writes to it: give a copy of it")


def _immutable(array: np.ndarray) -> bool:
    """Whether the array lies in memory that is read-only itself, not only for this view of it."""
    base: object = array
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return False
        base = base.base
    return isinstance(base, bytes | memoryview | mmap.mmap)


def _bytes_of(low: int, size: int) -> np.ndarray:
    """The ``size`` bytes at host address ``low``."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(low))
