"""One GPU of a machine: its parts, known by what they are.

Mental model: the machine runs parts without knowing what they do. A launch does know: it needs the SM groups, the L2,
the DRAM and the dispatcher of its device, to load a program, warm caches, and read counters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpusim.engine.block_dispatcher import Dispatcher
from gpusim.engine.hbm import HbmPart
from gpusim.engine.l2 import L2Part
from gpusim.engine.sm import SmGroup
from gpusim.engine.warm import warm_machine
from gpusim.gpus.spec import GpuSpec
from gpusim.io.progress import task
from gpusim.model.occupancy import occupancy
from gpusim.trace.record import Trace


@dataclass(frozen=True)
class Device:
    """The parts of device ``number``, which ``spec`` describes."""

    number: int
    spec: GpuSpec
    groups: list[SmGroup]
    l2: L2Part
    hbm: HbmPart
    dispatcher: Dispatcher

    def warm(self, traces: list[Trace], next_trace: Trace) -> None:
        """Leave the caches as ``traces`` would, with the L1 as large as ``next_trace`` will find it."""
        l1_bytes = occupancy(next_trace.launch, self.spec).l1_bytes
        for trace in traces:
            with task(f"warming the caches with {trace.launch.kernel}"):
                warm_machine(trace, self.spec, self.groups, self.l2, l1_bytes)

    def sweep_data(self) -> None:
        """Empty L1, L2 and what lies behind it, as a kernel that reads much else does; code stays in the instruction
        caches."""
        self.l2.reset()
        self.hbm.reset()
        for group in self.groups:
            group.state.l1[:] = 0

    def memory_counters(self) -> dict[str, int]:
        """Cumulative counters of L2 and DRAM."""
        return {**self.l2.counters(), **self.hbm.counters()}

    def stalls(self) -> np.ndarray:
        """Warp-cycles of the running launch, int64[instructions, reasons]."""
        return np.sum([group.state.stalls for group in self.groups], axis=0)
