"""Host arrays that a launch works on: where they lie on the device, and their way back.

Mental model: a real launch copies host arrays to the device and back. Here the device lies on the arrays themselves;
only what a launch would keep apart (two arguments that overlap) gets a copy of its own, and a launch that fails
leaves the arrays as they were. A front end maps each array that it finds among the arguments and passes on the
address.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np

from gpusim.errors import UsageError
from gpusim.launch.memory import Allocation, DeviceMemory, extent
from gpusim.launch.tensor_map import encode
from gpusim.launch.tensor_map_argument import TensorMap
from gpusim.launch.texture_argument import Surface, Texture

#: Name of a dtype for messages; NumPy takes longer to make it than the rest of an argument.
_name_of = lru_cache(maxsize=256)(str)


class HostArrays:
    """The arrays of one launch of ``kernel`` with ``blocks`` in ``memory``. ``private``: the memory is this launch's
    alone, and arrays leave it when the launch is over; else they stay, each at one address from launch to launch.
    ``write_back``: what to do, in order, when the launch has succeeded."""

    def __init__(self, memory: DeviceMemory, private: bool, kernel: str, blocks: int = 1):
        self.memory, self.private, self.kernel, self.blocks = memory, private, kernel, blocks
        self._mapped: list[Allocation] = []
        self._ranges: list[tuple[int, int]] = []
        self.write_back: list[Callable[[], Any]] = []
        self._snapshots: list[tuple[np.ndarray, np.ndarray]] = []

    def map(self, array: np.ndarray, label: str, read_only: bool = False) -> int:
        """Device address of ``array``'s first element, 0 for an empty one; ``label`` for messages. ``read_only``:
        nothing is copied back, and the caller sees to it that nothing is written. Raises UsageError for an overlap that
        cannot be copied."""
        if not array.size:
            return 0
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
                self.write_back.append(partial(np.copyto, array, own))
            array, low, size = own, own_low, own_size
        self._ranges.append((low, low + size))
        if array.flags.writeable and not read_only and not overlaps:
            self._snapshots.append((array, array.copy()))
        allocation = self.memory.add(low, size, text, array)
        self._mapped.append(allocation)
        return allocation.base + array.ctypes.data - low

    def map_copy(self, copy: np.ndarray, label: str) -> int:
        """Device address of ``copy``, an array of the caller's own that lives for this launch only."""
        allocation = self.memory.add(copy.ctypes.data, copy.nbytes, label, copy)
        self._mapped.append(allocation)
        return allocation.base

    def map_texture(self, texture: Texture | Surface, label: str) -> int:
        """The handle of a texture or surface object for this launch."""
        address = self.map(texture.data, label, read_only=not texture.writes)
        return self.memory.add_texture(texture.descriptor(address).pack())

    def map_tensor(self, tensor: TensorMap, label: str) -> bytes:
        """The bytes of a tensor map for this launch."""
        return encode(tensor.map(self.map(tensor.data, label)))

    def succeed(self) -> None:
        """Copy back what a launch would copy back, in argument order."""
        for write in self.write_back:
            write()
        self._release()

    def fail(self) -> None:
        """Leave the arrays as they were before the launch."""
        for array, before in self._snapshots:
            np.copyto(array, before)
        self._release()

    def _release(self) -> None:
        self._snapshots.clear()
        self.memory.remove(self._mapped)
