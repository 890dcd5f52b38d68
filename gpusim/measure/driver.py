"""The interface of a GPU that a measurement needs, real or recorded.

Mental model: a :class:`Driver` is one GPU with one stream. Work is enqueued (``launch``, ``copy``, ``record``)
and happens in order; ``synchronize`` waits for it. Handles and device addresses are whole numbers. The real one
is :mod:`gpusim.measure.cuda_driver`; :mod:`gpusim.measure.session` records what it answered and answers the
same again on a machine with no GPU. Time of the host is asked here too, so that a replay takes every decision
that the recorded run took.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gpusim.launch.kernel_launch import KernelLaunch

#: A clock that runs slower for one of these reasons is held back: nvmlClocksEventReasons of nvml.h.
THROTTLE_REASONS = {
    0x04: "power_cap",
    0x08: "hardware_slowdown",
    0x20: "thermal_software",
    0x40: "thermal_hardware",
    0x80: "power_brake",
}


@dataclass(frozen=True)
class DeviceFacts:
    """The GPU as its driver describes it; sizes in bytes, clocks in kHz (0 where unknown).

    ``uuid_hash``: the first 16 hex digits of the SHA-256 of its UUID, which tells GPUs apart and names none.
    ``driver``: version text. ``capability``: (major, minor).
    """

    name: str
    uuid_hash: str
    driver: str
    capability: tuple[int, int]
    sm_count: int
    l2_bytes: int
    memory_bytes: int
    sm_clock_khz: int
    memory_clock_khz: int


class Driver(Protocol):
    """One GPU. Every method raises SiliconError, naming the call, when the GPU or its driver refuses."""

    def facts(self) -> DeviceFacts:
        """What the GPU is."""

    def now_seconds(self) -> float:
        """Time of the host, from any origin."""

    def allocate(self, size: int) -> int:
        """Device address of ``size`` new bytes."""

    def free(self, address: int) -> None:
        """Give an allocation back."""

    def upload(self, address: int, data: np.ndarray) -> None:
        """Copy uint8[n] from the host, and wait for it."""

    def download(self, address: int, size: int) -> np.ndarray:
        """Wait for the stream; the ``size`` bytes at ``address`` as uint8."""

    def copy(self, target: int, source: int, size: int) -> None:
        """Enqueue a copy within the device."""

    def fill(self, address: int, word: int, words: int) -> None:
        """Enqueue writing ``words`` times the 32-bit ``word``."""

    def load(self, cubin: bytes, entry: str, dynamic_shared_bytes: int) -> int:
        """Load machine code and return its kernel ``entry``, allowed that much dynamic shared memory."""

    def bind(self, function: int, launch: KernelLaunch) -> int:
        """A launch of a loaded kernel made ready, so that enqueuing it costs the host little."""

    def launch(self, bound: int) -> None:
        """Enqueue a bound launch."""

    def event(self) -> int:
        """A new event that takes the time."""

    def record(self, event: int) -> None:
        """Enqueue taking the time."""

    def has_passed(self, event: int) -> bool:
        """Whether the stream has reached the event."""

    def elapsed_us(self, start: int, end: int) -> float:
        """Microseconds between two events that have passed."""

    def synchronize(self) -> None:
        """Wait for everything enqueued; raises for a kernel that failed."""

    def throttle_reasons(self) -> int | None:
        """Bits of nvmlClocksEventReasons at this moment; None where NVML is not there."""

    def profile(self, on: bool) -> None:
        """Tell a profiler that is attached to start or stop looking."""

    def trace(self, on: bool) -> str:
        """Begin or end noting each kernel's start and end on the GPU (CUPTI activity); why that cannot be, or ""."""

    def traced(self, least: int) -> list[list[int]]:
        """Wait for the stream; the kernels since the last call, in order of their start, each as [start ns, end ns,
        grid x, y, z, block x, y, z]. ``least``: how many there must be at least."""

    def close(self) -> None:
        """Free everything."""
