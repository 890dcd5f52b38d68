"""Predicted time for the launches of a program: simulated GPUs that keep their caches from launch to launch.

Mental model: a program's launches run one after another on one machine, each from the state in which the last
one left its device's L2 (or, *cold*, from a swept one). Only kernels take time; copies and fills change no cache and
cost nothing. Several devices are those of one node: what a kernel loads from or stores to another one's memory goes
over the described link (:mod:`gpusim.collective.peers`). Each has a clock of its own, which runs on by its launches,
and is put forward to what it waits for: another device's event, or the program, which has waited for another device. So
launches that wait for nothing overlap in predicted time, but each is simulated alone: they do not share the link.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

from gpusim.collective.peers import peer_machine
from gpusim.driver.device import Device
from gpusim.driver.wanted import Wanted
from gpusim.engine.chain import at_once
from gpusim.engine.graph import MachineGraph, gpu_graph, part_name
from gpusim.engine.launch import Observation
from gpusim.engine.machine import Machine
from gpusim.engine.peer_port import PeerPort
from gpusim.engine.sampling import BEHIND_SHARE, behind_sampled, is_worth_sampling
from gpusim.errors import UsageError
from gpusim.launch.memory import range_of
from gpusim.trace.record import Trace
from gpusim.uncertainty.interval import interval_of
from gpusim.uncertainty.limiters import Limiter

#: Fewer SMs than this are not worth a second thread.
_SMS_A_THREAD = 16


class Timing(NamedTuple):
    """What a launch takes, and between which times a measurement should lie (:mod:`gpusim.uncertainty`; of a launch in
    a chain, from its own time less the widest error to all that it ran, unoverlapped, and the error more).
    ``error_percent``: 95 % half-width of a sampled one, 0 of one that was simulated in full. ``overlap_cycles``: of a
    launch in a chain of programmatic dependent launches, those that it ran before the launch before it had completed,
    which are not among ``cycles``; None elsewhere. ``link_bytes``: that the launch has moved to and from other devices'
    memory, with what packets take beside their data; None in a chain. Where there are any no interval is known: no
    kernel over a link was measured."""

    cycles: int
    time_us: float
    time_us_low: float
    time_us_high: float
    error_percent: float
    overlap_cycles: int | None = None
    link_bytes: int | None = 0


class SimulatedClock:
    """Time on the described GPUs since the program began; ``wanted`` says whether launches are sampled and begin cold.
    Raises UsageError for a device that is not described, or more devices than its node has."""

    def __init__(self, device: Device, wanted: Wanted):
        if not device.timed:
            raise UsageError(f"--simulate needs a described GPU (gpusim gpus list), {device.spec.name} is a capability")
        self._spec = device.spec
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        threads = max(1, min(cores, device.spec.sm_count // _SMS_A_THREAD))
        if device.count > device.spec.node.gpus:
            raise UsageError(
                f"--simulate: a node of {device.spec.name} has {device.spec.node.gpus} GPUs, --devices {device.count} are more"
            )
        graph = gpu_graph(device.spec) if device.count == 1 else _node_graph(device)
        self._machine = Machine(graph, threads)
        self._cold, self._observed = wanted.cold, Observation(sample=wanted.sample)
        self._skipped = False  # whether blocks of an earlier launch were left out
        self._cycles = [0] * device.count  # of each device's clock
        self._program_cycles = 0  # before which the program begins nothing more

    def _begin(self, number: int) -> None:
        """A launch begins on a device: no earlier than the program asks for it."""
        self._cycles[number] = max(self._cycles[number], self._program_cycles)

    def synchronized(self, number: int) -> None:
        """The program has waited for a device."""
        self._program_cycles = max(self._program_cycles, self._cycles[number])

    def waits(self, number: int, time_ns: float) -> None:
        """A device does nothing more before ``time_ns``."""
        self._cycles[number] = max(self._cycles[number], math.ceil(time_ns * self._spec.clock_hz / 1e9))

    def launch(self, trace: Trace, number: int = 0) -> Timing:
        """Run a launch on a device of the machine as it stands."""
        self._begin(number)
        device = self._machine.devices[number]
        if self._cold:
            device.sweep_data()
        before = self._carried_bytes(number)
        result = self._machine.launch(trace, device=number, wanted=self._observed)
        link_bytes = self._carried_bytes(number) - before
        sampling, error = result.sampling, 0.0
        if sampling is not None:
            if self._skipped and not self._cold:
                sampling = behind_sampled(sampling, result.cycles)
            error = 100.0 * sampling.error_cycles / result.cycles
            if sampling.skipped_blocks:
                self._skipped = True
                if not self._cold:
                    device.warm([trace], trace)  # as the blocks left out would have left the L2
        self._cycles[number] += result.cycles
        interval = replace(result, sampling=sampling).interval
        unknown = interval is None or link_bytes > 0
        low, high = (math.nan, math.nan) if unknown else (interval.low_us, interval.high_us)
        return Timing(result.cycles, result.time_us, low, high, error, link_bytes=link_bytes)

    def _carried_bytes(self, number: int) -> int:
        """What a device's SMs have moved over the link so far."""
        ports = self._machine.parts.get(part_name(number, "peer_port"), ())
        return sum(cast(PeerPort, port).carried_bytes for port in ports)

    def chain(self, traces: Sequence[Trace], say: Callable[[str], None], number: int = 0) -> list[Timing]:
        """Run launches on a device of which each depends programmatically on the one before, at once where that can be;
        ``say`` is told where it cannot."""
        timings: list[Timing] = []
        for group in at_once(traces, say, self._why_apart):
            members = [traces[i] for i in group]
            timings += [self.launch(members[0], number)] if len(group) == 1 else self._launch_chain(members, number)
        return timings

    def _why_apart(self, trace: Trace) -> str:
        """Why a launch is not simulated with others: some of its blocks may be left out."""
        if self._observed.sample and is_worth_sampling(trace, self._spec):
            return f"{trace.launch.kernel} is sampled"
        return ""

    def _launch_chain(self, traces: Sequence[Trace], number: int) -> list[Timing]:
        self._begin(number)
        if self._cold:
            self._machine.devices[number].sweep_data()
        before = self._carried_bytes(number)
        chain = self._machine.launch_chain(traces, device=number)
        moved = self._carried_bytes(number) > before
        self._cycles[number] += chain.cycles
        error = 100.0 * BEHIND_SHARE if self._skipped and not self._cold else 0.0
        found = [self._of_grid(grid.cycles, grid.overlap_cycles, error) for grid in chain.grids]
        # Whose bytes they were is not known.
        unknown = {"time_us_low": math.nan, "time_us_high": math.nan, "link_bytes": None}
        return [each._replace(**unknown) for each in found] if moved else found

    def _of_grid(self, cycles: int, overlap_cycles: int, error_percent: float) -> Timing:
        """Of one in a chain: how far launches overlap was never measured, so a measurement may lie anywhere up to none
        of it at all."""
        own_us, whole_us = (1e-3 * self._spec.ns(each) for each in (cycles, cycles + overlap_cycles))
        low, high = (
            interval_of(each, self._spec, Limiter.LATENCY, error_us=error_percent / 100 * each, chained=True)
            for each in (own_us, whole_us)
        )
        return Timing(cycles, own_us, low.low_us, high.high_us, error_percent, overlap_cycles)

    def pass_by(self, trace: Trace, number: int = 0) -> None:
        """Leave a device's L2 as a launch does that is not simulated."""
        self._machine.devices[number].warm([trace], trace)

    def now_ns(self, number: int = 0) -> float:
        """Nanoseconds on a device's clock."""
        return self._spec.ns(self._cycles[number])

    def close(self) -> None:
        """End the machine's threads."""
        self._machine.__exit__()


def _node_graph(device: Device) -> MachineGraph:
    """All devices of the node, each with the others' memory behind its link."""
    ranges = [(*range_of(number), number) for number in range(device.count)]
    windows = {number: tuple(each for each in ranges if each[2] != number) for number in range(device.count)}
    return peer_machine([device.spec] * device.count, windows)
