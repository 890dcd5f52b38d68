"""What a result says of its slowest kernel, as the rules of remedies ask for it.

Mental model: the launches of one kernel are looked at together: their warp-cycles and memory work by instruction,
their loops, and where in the source an instruction stands. Of a run of several kernels it is the one that takes
longest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpusim.engine.result import LaunchResult, Result
from gpusim.gpus.spec import GpuSpec
from gpusim.model.stall_reasons import STALL_NAMES
from gpusim.trace.record import Program, Trace
from gpusim.why.loops import Loop, find_loops, innermost


@dataclass(frozen=True)
class Evidence:
    """The ``launches`` of one kernel with their ``traces``, out of a run of ``run_cycles`` on ``spec``."""

    launches: tuple[LaunchResult, ...]
    traces: tuple[Trace, ...]
    spec: GpuSpec
    run_cycles: int

    @property
    def program(self) -> Program:
        """The kernel's machine code."""
        return self.traces[0].program

    @property
    def first(self) -> LaunchResult:
        """The first launch: shape, occupancy."""
        return self.launches[0]

    @cached_property
    def cycles(self) -> int:
        """Cycles of these launches."""
        return sum(launch.cycles for launch in self.launches)

    @cached_property
    def stalls(self) -> np.ndarray:
        """Warp-cycles by instruction and reason."""
        return np.sum([launch.stalls_by_instruction for launch in self.launches], axis=0)

    @cached_property
    def work(self) -> np.ndarray:
        """Memory work by instruction, columns of :mod:`gpusim.model.counters`."""
        return np.sum([launch.work_by_instruction for launch in self.launches], axis=0)

    @cached_property
    def warp_cycles(self) -> int:
        """All resident warp-cycles, at least 1."""
        return max(1, int(self.stalls.sum()))

    @cached_property
    def loops(self) -> list[Loop]:
        """The loops of the first launch."""
        return find_loops(self.traces[0])

    def counter(self, name: str) -> float:
        """A counter's sum over the launches."""
        return sum(launch.counters.get(name, 0) for launch in self.launches)

    def percent_of(self, reason: int, chosen: np.ndarray | None = None) -> float:
        """Warp-cycles that go to a stall reason, at the ``chosen`` instructions or all, in percent of all."""
        column = self.stalls[:, reason]
        return 100.0 * float((column if chosen is None else column[chosen]).sum()) / self.warp_cycles

    def loop_of(self, index: int) -> Loop | None:
        """The innermost loop around an instruction."""
        return innermost(self.loops, index)

    def place(self, index: int) -> str:
        """``file:line`` of an instruction, or of the nearest one before it that has a line; empty if none has."""
        table = self.program.instructions
        for i in range(index, -1, -1):
            line, file = int(table["line"][i]), int(table["file"][i])
            if line and 0 <= file < len(self.program.files):
                return f"{self.program.files[file].rsplit('/', 1)[-1]}:{line}"
        return ""

    def by_place(self, weights: np.ndarray, least: float) -> list[tuple[str, np.ndarray, float]]:
        """Source lines whose instructions' ``weights`` add up to ``least`` or more: place, bool[instructions], sum; the
        heaviest first."""
        sums: dict[str, list[int]] = {}
        for index in np.flatnonzero(weights > 0):
            sums.setdefault(self.place(int(index)), []).append(int(index))
        found = []
        for place, indices in sums.items():
            chosen = np.zeros(len(weights), bool)
            chosen[indices] = True
            total = float(weights[chosen].sum())
            if total >= least:
                found.append((place, chosen, total))
        return sorted(found, key=lambda one: -one[2])


def evidence(result: Result, traces: Sequence[Trace]) -> Evidence:
    """Of the kernel that takes most of ``result``, the simulation of ``traces``."""
    by_kernel: dict[tuple[str, str], list[int]] = {}
    for number, trace in enumerate(traces):
        by_kernel.setdefault(identity(trace), []).append(number)
    own = max(by_kernel.values(), key=lambda numbers: sum(result.launches[i].cycles for i in numbers))
    return Evidence(tuple(result.launches[i] for i in own), tuple(traces[i] for i in own), result.spec, result.cycles)


def identity(trace: Trace) -> tuple[str, str]:
    """What launches of one kernel have in common."""
    return trace.launch.kernel, trace.launch.cubin_sha256


def reason(name: str) -> int:
    """The column of a stall reason."""
    return STALL_NAMES.index(name)
