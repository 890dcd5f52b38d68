"""Copies and fills as work: boxes of bytes from one place to another.

Mental model: each end of a copy is a box in a pitched block of rows and slices: host memory, device memory, or an
array. A copy resolves both ends to host addresses, refuses what leaves an allocation, and moves the bytes at once.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gpusim.driver.abi import INVALID_VALUE, DriverError
from gpusim.driver.arrays import Arrays
from gpusim.driver.graphs import PARAMETERS_CHANGED
from gpusim.driver.memory import Memory
from gpusim.driver.structures import Copy3D, CopyNode, FillNode
from gpusim.driver.work import COPY, FILL, Work

ON_HOST, ON_DEVICE, IN_ARRAY, UNIFIED = 1, 2, 3, 4  # CUmemorytype
MAX_PITCH = 2**31 - 1
_ELEMENTS = {1: np.uint8, 2: np.uint16, 4: np.uint32}


@dataclass
class LinearCopy(Work):
    """``size`` bytes from ``source`` to ``target``: device addresses, host addresses, or whichever of both it is
    (UNIFIED)."""

    memory: Memory
    target: int
    target_type: int
    source: int
    source_type: int
    size: int
    kind: ClassVar[int] = COPY

    def run(self) -> None:
        if self.size:
            ctypes.memmove(
                self._host(self.target, self.target_type), self._host(self.source, self.source_type), self.size
            )

    def _host(self, address: int, kind: int) -> int:
        if kind == ON_DEVICE:
            return self.memory.host_address(address, self.size)
        return address if kind == ON_HOST else self.memory.either_address(address, self.size)

    def parameters(self) -> CopyNode:
        copy = Copy3D(width=self.size, height=1, depth=1)
        for side, address, kind in (
            ("source", self.source, self.source_type),
            ("target", self.target, self.target_type),
        ):
            setattr(copy, f"{side}_type", kind)
            setattr(copy, f"{side}_host" if kind == ON_HOST else f"{side}_device", address)
            setattr(copy, f"{side}_pitch", self.size)
            setattr(copy, f"{side}_height", 1)
        return CopyNode(copy=copy)


@dataclass
class BoxCopy(Work):
    """What CUDA_MEMCPY3D describes. ``check`` raises DriverError for what its documentation forbids."""

    memory: Memory
    arrays: Arrays
    box: Copy3D
    kind: ClassVar[int] = COPY

    def check(self) -> BoxCopy:
        """Raise DriverError for a description that makes no sense; returns self."""
        for side in ("source", "target"):
            kind = getattr(self.box, f"{side}_type")
            pitch, height = getattr(self.box, f"{side}_pitch"), getattr(self.box, f"{side}_height")
            if kind not in (ON_HOST, ON_DEVICE, IN_ARRAY, UNIFIED):
                raise DriverError(INVALID_VALUE, f"memory type {kind} of the {side} is none of 1 to 4")
            if getattr(self.box, f"{side}_level"):
                raise DriverError(INVALID_VALUE, f"the {side}'s level of detail must be 0")
            if kind == IN_ARRAY:
                self.arrays.get(getattr(self.box, f"{side}_array"))
                continue
            if pitch > MAX_PITCH:
                raise DriverError(INVALID_VALUE, f"a pitch of {pitch} bytes, the most is {MAX_PITCH}")
            if pitch and pitch < self.box.width + getattr(self.box, f"{side}_x"):
                raise DriverError(
                    INVALID_VALUE, f"the {side}'s pitch of {pitch} bytes is less than the row that is copied"
                )
            if height and height < self.box.height + getattr(self.box, f"{side}_y"):
                raise DriverError(
                    INVALID_VALUE, f"the {side}'s height of {height} rows is less than the rows that are copied"
                )
        return self

    def run(self) -> None:
        if self.box.width and self.box.height and self.box.depth:
            self._view("target")[...] = self._view("source")

    def _view(self, side: str) -> np.ndarray:
        """uint8[depth, height, width] of one end."""
        box = self.box
        kind, x, y, z = (getattr(box, f"{side}_{name}") for name in ("type", "x", "y", "z"))
        pitch, height = getattr(box, f"{side}_pitch"), getattr(box, f"{side}_height")
        if kind == IN_ARRAY:
            found = self.arrays.get(getattr(box, f"{side}_array"))
            return found.bytes_of(x, y, z, (box.width, box.height, box.depth))
        pitch = pitch or box.width + x
        height = height or box.height + y
        first = (z * height + y) * pitch + x
        size = ((box.depth - 1) * height + box.height - 1) * pitch + box.width
        if kind == ON_HOST:
            address = getattr(box, f"{side}_host") + first
        else:
            device = getattr(box, f"{side}_device") + first
            address = (
                self.memory.host_address(device, size)
                if kind == ON_DEVICE
                else self.memory.either_address(device, size)
            )
        flat = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
        shape, strides = (box.depth, box.height, box.width), (height * pitch, pitch, 1)
        return np.lib.stride_tricks.as_strided(flat, shape, strides)

    def clone(self) -> BoxCopy:
        return BoxCopy(self.memory, self.arrays, Copy3D.from_buffer_copy(self.box))

    def parameters(self) -> CopyNode:
        return CopyNode(copy=self.box)


@dataclass
class Fill(Work):
    """``height`` rows, ``pitch`` bytes apart, of ``width`` elements of ``element_bytes`` bytes."""

    memory: Memory
    target: int
    value: int
    element_bytes: int
    width: int
    height: int = 1
    pitch: int = 0
    kind: ClassVar[int] = FILL

    def check(self) -> Fill:
        """Raise DriverError for a fill that is not aligned; returns self."""
        if self.element_bytes not in _ELEMENTS:
            raise DriverError(INVALID_VALUE, f"elements of {self.element_bytes} bytes: 1, 2 and 4 can be set")
        name = f"{8 * self.element_bytes}-bit elements"
        if self.target % self.element_bytes:
            raise DriverError(INVALID_VALUE, f"0x{self.target:x} is not aligned for {name}")
        if self.height > 1 and (self.pitch % self.element_bytes or self.pitch < self.width * self.element_bytes):
            raise DriverError(INVALID_VALUE, f"a pitch of {self.pitch} bytes does not hold rows of {self.width} {name}")
        return self

    def run(self) -> None:
        row = self.width * self.element_bytes
        if not row or not self.height:
            return
        pitch = self.pitch if self.height > 1 else row
        size = (self.height - 1) * pitch + row
        data = (ctypes.c_uint8 * size).from_address(self.memory.host_address(self.target, size))
        if pitch == row or self.height == 1:
            np.ctypeslib.as_array(data).view(_ELEMENTS[self.element_bytes])[:] = (
                self.value & (1 << 8 * self.element_bytes) - 1
            )
            return
        element = np.array(self.value & (1 << 8 * self.element_bytes) - 1, _ELEMENTS[self.element_bytes])
        rows = np.lib.stride_tricks.as_strided(np.ctypeslib.as_array(data), (self.height, row), (pitch, 1))
        rows[...] = np.frombuffer(np.tile(element, self.width).tobytes(), np.uint8)

    def parameters(self) -> FillNode:
        return FillNode(self.target, self.pitch, self.value, self.element_bytes, self.width, self.height)

    def why_not(self, old: Work) -> int | None:
        """An instantiated fill keeps its number of rows if it has one, as the CUDA Driver API says of updates."""
        assert isinstance(old, Fill)
        return PARAMETERS_CHANGED if (old.height > 1) != (self.height > 1) else None
