"""Launches that kernels make: what the device runtime (``libcudadevrt``) asks the driver for.

Mental model: a thread asks for a buffer, writes the parameters of a kernel into it and launches that kernel with it. A
kernel cannot wait for those that it launches (CUDA Programming Guide, "CUDA Dynamic Parallelism"), and they may begin
when it has ended; so launches are collected here, and whoever runs the launch makes them afterwards, one after another,
each with what it has launched itself. That is an order which all streams and events of the device allow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: Where parameter buffers lie, out of reach of allocations.
BUFFERS_ADDRESS = 0x7C00_0000_0000
#: The most that the parameters of a kernel take.
BUFFER_BYTES = 4096
#: Launches of one kernel that may be outstanding: on a GPU 2048 unless a program sets
#: cudaLimitDevRuntimePendingLaunchCount.
MOST_LAUNCHES = 1 << 14
#: cudaStreamTailLaunch: behind everything else that the kernel has launched.
_TAIL_STREAM = 3


@dataclass(frozen=True)
class DeviceLaunch:
    """A launch of the kernel ``symbol``, as its thread described it; ``parameters``: its buffer, longer than they
    are."""

    symbol: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    parameters: bytes


class DeviceLaunches:
    """The launches that one launch makes; ``kernels``: what stands for each kernel, to its name."""

    def __init__(self, kernels: dict[int, str]):
        self._kernels = kernels
        self.buffers = np.zeros(MOST_LAUNCHES * BUFFER_BYTES if kernels else 0, np.uint8)
        self._asked: list[tuple[str, tuple[int, ...]]] = []
        self._made: list[DeviceLaunch] = []
        self._last: list[DeviceLaunch] = []
        self._handles = 0

    def is_kernel(self, kernel: int) -> bool:
        """Whether ``kernel`` stands for one that can be launched."""
        return kernel in self._kernels

    def buffer(self, kernel: int, shape: tuple[int, ...]) -> int:
        """The address of a buffer for the parameters of a launch with ``shape``: grid, block, bytes of shared memory.
        0: there are too many."""
        if len(self._asked) == MOST_LAUNCHES:
            return 0
        self._asked.append((self._kernels[kernel], shape))
        return BUFFERS_ADDRESS + (len(self._asked) - 1) * BUFFER_BYTES

    def launch(self, buffer: int, stream: int) -> bool:
        """Launch with the parameters in ``buffer``; False if it is none."""
        number, rest = divmod(buffer - BUFFERS_ADDRESS, BUFFER_BYTES)
        if rest or not 0 <= number < len(self._asked):
            return False
        symbol, shape = self._asked[number]
        parameters = self.buffers[number * BUFFER_BYTES : (number + 1) * BUFFER_BYTES].tobytes()
        launches = self._last if stream == _TAIL_STREAM else self._made
        x, y, z, wide, high, deep, shared_bytes = shape
        launches.append(DeviceLaunch(symbol, (x, y, z), (wide, high, deep), shared_bytes, parameters))
        return True

    def handle(self) -> int:
        """A new stream or event."""
        self._handles += 1
        return 16 * self._handles

    def made(self) -> list[DeviceLaunch]:
        """All launches, in an order in which they may run."""
        return self._made + self._last
