"""The kernels that stand around a timed launch: one that does nothing, one that waits, one that reads the clock,
one that fills L2.

Mental model: they are compiled as every other kernel here, and loaded once a run (:class:`Helpers`).

- ``empty``, one block of one warp: what an event pair sees of a launch that does nothing. Timed the same way in the
  same run, it is what is taken off a kernel's time.
- ``spin`` holds the stream until the host has enqueued what follows, so that no gap of the host's stands between a
  start event and its kernel.
- ``clock`` counts SM cycles (%clock64) between two steps of the nanosecond timer (%globaltimer): the SM clock that
  is really held. Both ends wait for the timer to step, so its resolution (32 ns to 1 us) does not matter.
- ``sweep`` reads a buffer of SWEEP_FACTOR times L2. Afterwards L2 holds clean lines of it and nothing else: what was
  written before has gone to memory, so that the next kernel does not pay for its write-back, as it would after a
  flush that writes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
from llvmlite import ir
from numba import cuda, types
from numba.cuda.extending import intrinsic

from gpusim.isa.target import make_target
from gpusim.launch.binary import KernelBinary
from gpusim.launch.kernel_launch import KernelLaunch
from gpusim.measure.driver import DeviceFacts, Driver

CLOCK_NS = 200_000
#: L2 is not strictly least-recently-used, and the H200's is in two halves that may both hold a line.
SWEEP_FACTOR = 3
SWEEP_BLOCK, SWEEP_BLOCKS_PER_SM = 1024, 2
#: An idle GPU runs at a fraction of its clock (345 of 1980 MHz on an H200) and takes some tenths of a second to come
#: up.
WAKE_SECONDS, LONGEST_WAKE_SECONDS, WAKE_SWEEPS, SAME_CLOCK = 0.2, 3.0, 4, 0.005


def _special(register: str):
    @intrinsic
    def read(typingctx):
        def lower(context, builder, signature, args):
            kind = ir.FunctionType(ir.IntType(64), [])
            return builder.asm(kind, f"mov.u64 $0, %{register};", "=l", [], side_effect=True)

        return types.int64(), lower

    return read


_clock64, _globaltimer = _special("clock64"), _special("globaltimer")


@cuda.jit
def empty():
    pass


@cuda.jit
def spin(ns):
    start = _globaltimer()
    while _globaltimer() - start < ns:
        pass


@cuda.jit
def clock(out, ns):
    before = _globaltimer()
    start = before
    while start == before:
        start = _globaltimer()
    first = _clock64()
    end = start
    while end - start < ns:
        end = _globaltimer()
    last = _clock64()
    out[0], out[1] = end - start, last - first


@cuda.jit
def sweep(buffer, sink):
    total = np.int64(0)
    for i in range(cuda.grid(1), buffer.size, cuda.gridsize(1)):
        total += buffer[i]
    if total == -1:  # never: the buffer is full of zeros
        sink[0] = total


_WORDS = np.zeros(1, np.int64)
#: Name -> the kernel and arguments of the types that it is built for.
HELPERS = {
    "empty": (empty, ()),
    "spin": (spin, (CLOCK_NS,)),
    "clock": (clock, (_WORDS, CLOCK_NS)),
    "sweep": (sweep, (_WORDS, _WORDS)),
}


class Helpers:
    """The helper kernels on one GPU, and what they need there. ``build(kernel, args, capability, key)`` gives their
    machine code."""

    def __init__(self, driver: Driver, facts: DeviceFacts, build: Callable[..., KernelBinary]):
        self._driver, self._facts, self._build = driver, facts, build
        self._out = driver.allocate(16)
        size = max(1 << 20, SWEEP_FACTOR * facts.l2_bytes) // 8
        self._buffer = driver.allocate(8 * size)
        driver.fill(self._buffer, 0, 2 * size)
        self._empty = self._bind("empty", [], 1, 32)
        self._spins: dict[int, int] = {}
        out, buffer = _array(self._out, 2), _array(self._buffer, size)
        self._clock = self._bind("clock", [*out, _word(CLOCK_NS)], 1, 1)
        blocks = SWEEP_BLOCKS_PER_SM * facts.sm_count
        self._sweep = self._bind("sweep", [*buffer, *out], blocks, SWEEP_BLOCK)

    def _bind(self, name: str, values: list[bytes], blocks: int, threads: int) -> int:
        kernel, args = HELPERS[name]
        capability = tuple(self._facts.capability)
        binary = self._build(kernel, args, capability, f"helper:{name}")
        launch = KernelLaunch(
            binary,
            make_target(capability),
            (blocks, 1, 1),
            (threads, 1, 1),
            parameters=binary.place_parameters(values),
        )
        return self._driver.bind(self._driver.load(binary.cubin, binary.entry_name, 0), launch)

    def empty(self) -> None:
        """Enqueue the kernel that does nothing."""
        self._driver.launch(self._empty)

    def spin(self, ns: int) -> None:
        """Enqueue waiting for ``ns`` nanoseconds (rounded up to a power of two)."""
        ns = 1 << (ns - 1).bit_length()
        if ns not in self._spins:
            self._spins[ns] = self._bind("spin", [_word(ns)], 1, 1)
        self._driver.launch(self._spins[ns])

    def sweep(self) -> None:
        """Enqueue filling L2 with clean lines of a buffer of our own."""
        self._driver.launch(self._sweep)

    def wake(self) -> None:
        """Keep the GPU busy until its clock has come up from idle: two readings WAKE_SECONDS apart agree."""
        start = self._driver.now_seconds()
        before, now = 0.0, self.clock_mhz()
        while abs(now - before) > SAME_CLOCK * now and self._driver.now_seconds() - start < LONGEST_WAKE_SECONDS:
            until = self._driver.now_seconds() + WAKE_SECONDS
            while self._driver.now_seconds() < until:
                for _ in range(WAKE_SWEEPS):
                    self.sweep()
                self._driver.synchronize()
            before, now = now, self.clock_mhz()

    def clock_mhz(self) -> float:
        """The SM clock at this moment, after everything enqueued."""
        self._driver.launch(self._clock)
        ns, cycles = self._driver.download(self._out, 16).view(np.int64)
        return float(cycles) / float(ns) * 1e3


def _word(value: int) -> bytes:
    return struct.pack("<q", value)


def _array(address: int, length: int) -> list[bytes]:
    """A one-dimensional int64 array as Numba flattens it: two null pointers, size, item size, data, shape, strides."""
    return [_word(n) for n in (0, 0, length, 8, address, length, 8)]
