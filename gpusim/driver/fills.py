"""Fills as the driver API has them: memory set to a repeated value (:mod:`gpusim.driver.transfers` does it)."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_size_t, c_ubyte, c_uint, c_ushort

from gpusim.driver.abi import WORD, entry
from gpusim.driver.copies import LEGACY
from gpusim.driver.memory import Memory
from gpusim.driver.transfers import Fill
from gpusim.driver.work import Work


class Fills:
    """Entry points cuMemset*; ``submit`` puts work into a stream."""

    def __init__(self, memory: Memory, submit: Callable[[int, Work], None]):
        self._memory, self._submit = memory, submit

    def _fill(
        self, stream: int, address: int, value: int, size: int, width: int, height: int = 1, pitch: int = 0
    ) -> None:
        self._submit(stream, Fill(self._memory, address, value, size, width, height, pitch).check())

    @entry("cuMemsetD8", arguments=(WORD, c_ubyte, c_size_t))
    def set8(self, address: int, value: int, count: int) -> None:
        self._fill(LEGACY, address, value, 1, count)

    @entry("cuMemsetD8Async", arguments=(WORD, c_ubyte, c_size_t, WORD))
    def set8_async(self, address: int, value: int, count: int, stream: int) -> None:
        self._fill(stream, address, value, 1, count)

    @entry("cuMemsetD16", arguments=(WORD, c_ushort, c_size_t))
    def set16(self, address: int, value: int, count: int) -> None:
        self._fill(LEGACY, address, value, 2, count)

    @entry("cuMemsetD16Async", arguments=(WORD, c_ushort, c_size_t, WORD))
    def set16_async(self, address: int, value: int, count: int, stream: int) -> None:
        self._fill(stream, address, value, 2, count)

    @entry("cuMemsetD32", arguments=(WORD, c_uint, c_size_t))
    def set32(self, address: int, value: int, count: int) -> None:
        self._fill(LEGACY, address, value, 4, count)

    @entry("cuMemsetD32Async", arguments=(WORD, c_uint, c_size_t, WORD))
    def set32_async(self, address: int, value: int, count: int, stream: int) -> None:
        self._fill(stream, address, value, 4, count)

    @entry("cuMemsetD2D8", arguments=(WORD, c_size_t, c_ubyte, c_size_t, c_size_t))
    def rows8(self, address: int, pitch: int, value: int, width: int, height: int) -> None:
        self._fill(LEGACY, address, value, 1, width, height, pitch)

    @entry("cuMemsetD2D8Async", arguments=(WORD, c_size_t, c_ubyte, c_size_t, c_size_t, WORD))
    def rows8_async(self, address: int, pitch: int, value: int, width: int, height: int, stream: int) -> None:
        self._fill(stream, address, value, 1, width, height, pitch)

    @entry("cuMemsetD2D16", arguments=(WORD, c_size_t, c_ushort, c_size_t, c_size_t))
    def rows16(self, address: int, pitch: int, value: int, width: int, height: int) -> None:
        self._fill(LEGACY, address, value, 2, width, height, pitch)

    @entry("cuMemsetD2D16Async", arguments=(WORD, c_size_t, c_ushort, c_size_t, c_size_t, WORD))
    def rows16_async(self, address: int, pitch: int, value: int, width: int, height: int, stream: int) -> None:
        self._fill(stream, address, value, 2, width, height, pitch)

    @entry("cuMemsetD2D32", arguments=(WORD, c_size_t, c_uint, c_size_t, c_size_t))
    def rows32(self, address: int, pitch: int, value: int, width: int, height: int) -> None:
        self._fill(LEGACY, address, value, 4, width, height, pitch)

    @entry("cuMemsetD2D32Async", arguments=(WORD, c_size_t, c_uint, c_size_t, c_size_t, WORD))
    def rows32_async(self, address: int, pitch: int, value: int, width: int, height: int, stream: int) -> None:
        self._fill(stream, address, value, 4, width, height, pitch)
