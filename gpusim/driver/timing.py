"""Predicted time for the launches of a program: one simulated GPU that keeps its caches from launch to launch.

Mental model: a program's launches run one after another on one machine, each from the state in which the last
one left the caches. Only kernels take time; copies and fills change no cache and cost nothing.
"""

from __future__ import annotations

import os

from gpusim.driver.device import Device
from gpusim.engine.graph import gpu_graph
from gpusim.engine.machine import Machine
from gpusim.errors import UsageError
from gpusim.trace.record import Trace

#: Fewer SMs than this are not worth a second thread.
_SMS_A_THREAD = 16


class SimulatedClock:
    """Time on the described GPU since the program began; a :class:`gpusim.driver.ledger.Clock`."""

    def __init__(self, device: Device):
        if not device.timed:
            raise UsageError(f"--simulate needs a described GPU (gpusim gpus list), {device.spec.name} is a capability")
        self._spec = device.spec
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._machine = Machine(gpu_graph(device.spec), max(1, min(cores, device.spec.sm_count // _SMS_A_THREAD)))
        self._cycles = 0

    def launch(self, trace: Trace) -> tuple[int, float]:
        """Run a launch on the machine as it stands; (cycles, microseconds)."""
        result = self._machine.launch(trace)
        self._cycles += result.cycles
        return result.cycles, self._spec.ns(result.cycles) / 1e3

    def now_ns(self) -> float:
        """Nanoseconds that the launches so far have taken."""
        return self._spec.ns(self._cycles)

    def close(self) -> None:
        """End the machine's threads."""
        self._machine.__exit__()
