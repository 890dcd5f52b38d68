"""Predicted time for the launches of a program: one simulated GPU that keeps its caches from launch to launch.

Mental model: a program's launches run one after another on one machine, each from the state in which the last
one left the L2 (or, *cold*, from a swept one). Only kernels take time; copies and fills change no cache and cost nothing.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from gpusim.driver.device import Device
from gpusim.driver.wanted import Wanted
from gpusim.engine.chain import at_once
from gpusim.engine.graph import gpu_graph
from gpusim.engine.launch import Observation
from gpusim.engine.machine import Machine
from gpusim.engine.sampling import BEHIND_SHARE, behind_sampled, is_worth_sampling
from gpusim.errors import UsageError
from gpusim.trace.record import Trace
from gpusim.uncertainty.interval import interval_of
from gpusim.uncertainty.limiters import Limiter

#: Fewer SMs than this are not worth a second thread.
_SMS_A_THREAD = 16


class Timing(NamedTuple):
    """What a launch takes, and between which times a measurement should lie (:mod:`gpusim.uncertainty`; of a launch in a chain, from its own time less the widest error to all that it ran, unoverlapped, and the error more). ``error_percent``: 95 % half-width of
    a sampled one, 0 of one that was simulated in full. ``overlap_cycles``: of a launch in a chain of programmatic dependent launches, those that
    it ran before the launch before it had completed, which are not among ``cycles``; None elsewhere."""

    cycles: int
    time_us: float
    time_us_low: float
    time_us_high: float
    error_percent: float
    overlap_cycles: int | None = None


class SimulatedClock:
    """Time on the described GPU since the program began; ``wanted`` says whether launches are sampled and begin cold."""

    def __init__(self, device: Device, wanted: Wanted):
        if not device.timed:
            raise UsageError(f"--simulate needs a described GPU (gpusim gpus list), {device.spec.name} is a capability")
        self._spec = device.spec
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._machine = Machine(gpu_graph(device.spec), max(1, min(cores, device.spec.sm_count // _SMS_A_THREAD)))
        self._cold, self._observed = wanted.cold, Observation(sample=wanted.sample)
        self._skipped = False  # whether blocks of an earlier launch were left out
        self._cycles = 0

    def launch(self, trace: Trace) -> Timing:
        """Run a launch on the machine as it stands."""
        device = self._machine.devices[0]
        if self._cold:
            device.sweep_data()
        result = self._machine.launch(trace, wanted=self._observed)
        sampling, error = result.sampling, 0.0
        if sampling is not None:
            if self._skipped and not self._cold:
                sampling = behind_sampled(sampling, result.cycles)
            error = 100.0 * sampling.error_cycles / result.cycles
            if sampling.skipped_blocks:
                self._skipped = True
                if not self._cold:
                    device.warm([trace], trace)  # as the blocks left out would have left the L2
        self._cycles += result.cycles
        interval = replace(result, sampling=sampling).interval
        low, high = (math.nan, math.nan) if interval is None else (interval.low_us, interval.high_us)
        return Timing(result.cycles, result.time_us, low, high, error)

    def chain(self, traces: Sequence[Trace], say: Callable[[str], None]) -> list[Timing]:
        """Run launches of which each depends programmatically on the one before, at once where that can be; ``say`` is told where it cannot."""
        timings: list[Timing] = []
        for group in at_once(traces, say, self._why_apart):
            members = [traces[i] for i in group]
            timings += [self.launch(members[0])] if len(group) == 1 else self._launch_chain(members)
        return timings

    def _why_apart(self, trace: Trace) -> str:
        """Why a launch is not simulated with others: some of its blocks may be left out."""
        if self._observed.sample and is_worth_sampling(trace, self._spec):
            return f"{trace.launch.kernel} is sampled"
        return ""

    def _launch_chain(self, traces: Sequence[Trace]) -> list[Timing]:
        if self._cold:
            self._machine.devices[0].sweep_data()
        chain = self._machine.launch_chain(traces)
        self._cycles += chain.cycles
        error = 100.0 * BEHIND_SHARE if self._skipped and not self._cold else 0.0
        return [self._of_grid(grid.cycles, grid.overlap_cycles, error) for grid in chain.grids]

    def _of_grid(self, cycles: int, overlap_cycles: int, error_percent: float) -> Timing:
        """Of one in a chain: how far launches overlap was never measured, so a measurement may lie anywhere up to none of it at all."""
        own_us, whole_us = (1e-3 * self._spec.ns(each) for each in (cycles, cycles + overlap_cycles))
        low, high = (
            interval_of(each, self._spec, Limiter.LATENCY, error_us=error_percent / 100 * each, chained=True)
            for each in (own_us, whole_us)
        )
        return Timing(cycles, own_us, low.low_us, high.high_us, error_percent, overlap_cycles)

    def pass_by(self, trace: Trace) -> None:
        """Leave the L2 as a launch does that is not simulated."""
        self._machine.devices[0].warm([trace], trace)

    def now_ns(self) -> float:
        """Nanoseconds that the launches so far have taken."""
        return self._spec.ns(self._cycles)

    def close(self) -> None:
        """End the machine's threads."""
        self._machine.__exit__()
