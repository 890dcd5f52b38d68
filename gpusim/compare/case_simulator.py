"""Suite cases captured once, and simulated as often as a comparison needs: other clocks, cache states and costs.

Mental model: the simulator keeps the traces of each case in files of a folder, so that a whole suite takes bounded
memory, and answers one question: what does this launch cost, with the caches in this state, at this clock, on a machine
whose units cost so much. Equal questions are simulated once.

States, as measurements leave them: ``alone``: empty caches before this very launch (a profiler that flushes before each
kernel). ``cold``: the case's preparation, then its timed launches in order, once; their code is in the instruction
caches, as a repeat finds it. ``warm``: the timed launches run twice, and the second time counts, so that L2 holds what
the case leaves in it. ``overwritten``: repeats of the timed launches alone, with as many bytes as L2 holds written
before each (NVBench's cold measurement).

What a method reports besides the launch (:mod:`gpusim.silicon.methods`) is added to the cycles of a row that it
measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpusim.cases.run_case import run_case
from gpusim.cases.suite import complete_shape, shape_text
from gpusim.compare.join import LaunchFacts
from gpusim.compare.unit_costs import program_with_costs, with_costs
from gpusim.engine.gpu import simulate
from gpusim.engine.result import LaunchResult
from gpusim.gpus.clock import at_clock
from gpusim.gpus.spec import GpuSpec
from gpusim.silicon.methods import OVERWRITTEN, method_of
from gpusim.silicon.row import SiliconRow
from gpusim.trace.record import Program, Trace

#: Units and their cost, as a factor of the description's: ``(("L2 latency", 1.5), ...)``.
Costs = tuple[tuple[str, float], ...]
#: Where a measuring program says what it has taken off each time (gpusim measure, method "events").
EMPTY_LAUNCH = "gpusim__empty_launch_us"


def cache_state(row: SiliconRow) -> tuple[str, str]:
    """(state to simulate, note on what was assumed) of a row."""
    if row.method == "ncu" and row.cache in ("cold", ""):
        return "alone", "" if row.cache else "no cache state was recorded: Nsight Compute flushes before each kernel"
    method = method_of(row)
    if method is not None and method.state == OVERWRITTEN:
        return method.state, ""
    if row.cache:
        return row.cache, ""
    return "warm", "no cache state was recorded: warm taken, as repeats leave it"


@dataclass
class _Case:
    preparation: list[Trace]
    timed: list[Trace]


class CaseSimulator:
    """See the module's docstring. ``spec`` is the GPU as described, ``folder`` holds the traces."""

    def __init__(self, spec: GpuSpec, folder: Path) -> None:
        self.spec = spec
        self._folder = folder
        #: What it took to capture each case, by kernel and shape.
        self.capture_seconds: dict[tuple[str, str], float] = {}
        self._cases: dict[tuple[str, str], _Case] = {}
        self._answers: dict[tuple, list[LaunchResult]] = {}
        self._cycles: dict[tuple, list[int]] = {}  # at other costs: results in full would be many

    def add(self, kernel: str, shape: dict[str, Any]) -> list[LaunchFacts]:
        """Capture a case; its timed launches. Raises as :func:`gpusim.cases.run_case.run_case` does."""
        text = shape_text(complete_shape(kernel, shape, self.spec))
        key = (kernel, text)
        if key not in self._cases:
            start = time.monotonic()
            folder = self._folder / str(len(self._cases))
            folder.mkdir()
            launches = run_case(kernel, shape, self.spec, folder=folder).launches
            self._cases[key] = _Case(
                [launch.trace for launch in launches if not launch.timed],
                [launch.trace for launch in launches if launch.timed],
            )
            self.capture_seconds[key] = time.monotonic() - start
        timed = self._cases[key].timed
        return [
            LaunchFacts(
                kernel,
                text,
                index,
                trace.launch.kernel,
                tuple(trace.launch.grid),
                tuple(trace.launch.block),
                trace.launch.cubin_sha256,
                alone=len(timed) == 1,
            )
            for index, trace in enumerate(timed)
        ]

    def on(self, spec: GpuSpec, program: Callable[[Program], Program] = lambda program: program) -> CaseSimulator:
        """The same captured launches on another machine of the same architecture, ``program`` changed for it."""
        other = CaseSimulator(spec, self._folder)
        other._cases = {
            key: _Case(
                *(
                    [replace(trace, program=program(trace.program)) for trace in part]
                    for part in (case.preparation, case.timed)
                )
            )
            for key, case in self._cases.items()
        }
        return other

    def trace(self, launch: LaunchFacts) -> Trace:
        """The launch's trace."""
        return self._cases[launch.kernel, launch.shape].timed[launch.index]

    def machine(self, clock_hz: float, costs: Costs = ()) -> GpuSpec:
        """The GPU at that clock, with ``costs`` times those of its units."""
        return with_costs(at_clock(self.spec, clock_hz), costs)

    def simulate(self, launch: LaunchFacts, state: str, clock_hz: float) -> LaunchResult:
        """The launch's result; all launches of its case that run with it are kept too."""
        key, position = self._place(launch, state)
        if (*key, clock_hz) not in self._answers:
            self._answers[*key, clock_hz] = self._run(launch, state, clock_hz, ())
        return self._answers[*key, clock_hz][position]

    def _simulated_cycles(self, launch: LaunchFacts, state: str, clock_hz: float, costs: Costs) -> int:
        if not costs:
            return self.simulate(launch, state, clock_hz).cycles
        key, position = self._place(launch, state)
        if (*key, clock_hz, costs) not in self._cycles:
            results = self._run(launch, state, clock_hz, costs)
            self._cycles[*key, clock_hz, costs] = [result.cycles for result in results]
        return self._cycles[*key, clock_hz, costs][position]

    @staticmethod
    def _place(launch: LaunchFacts, state: str) -> tuple[tuple, int]:
        """What runs together with the launch, and its place there."""
        alone = state == "alone"
        return (launch.kernel, launch.shape, state, launch.index if alone else None), 0 if alone else launch.index

    def _run(self, launch: LaunchFacts, state: str, clock_hz: float, costs: Costs) -> list[LaunchResult]:
        case = self._cases[launch.kernel, launch.shape]
        timed = [case.timed[launch.index]] if state == "alone" else case.timed
        changed = [replace(trace, program=program_with_costs(trace.program, costs)) for trace in timed]
        before = case.preparation if state not in ("alone", OVERWRITTEN) else []
        runs = 2 * changed if state == "warm" else changed
        # A repeat finds its code in the SMs, though its data were swept out of L2.
        code = changed if state in ("cold", OVERWRITTEN) else ()
        machine = self.machine(clock_hz, costs)
        overwritten = machine.l2.total_bytes if state == OVERWRITTEN else None
        result = simulate(runs, machine, warm=before, code=code, overwritten_bytes=overwritten)
        return list(result.launches[-len(timed) :])

    def cycles(self, row: SiliconRow, launch: LaunchFacts, clock_hz: float, costs: Costs = ()) -> float:
        """Simulated cycles as ``row`` counts them: without the launch overhead where an empty launch was taken off,
        with what the method reports besides."""
        cycles = self._simulated_cycles(launch, cache_state(row)[0], clock_hz, costs)
        if EMPTY_LAUNCH not in row.counters:
            method = method_of(row)
            besides_us = method.besides_us(clock_hz, generation=self.spec.generation) if method else 0.0
            return float(cycles) + 1e-6 * besides_us * clock_hz
        overhead = self.machine(clock_hz, costs).launch
        return max(1.0, float(cycles - overhead.start_cycles - overhead.end_cycles))
