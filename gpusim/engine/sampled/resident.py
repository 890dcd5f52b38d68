"""Leaving out the rest of a launch whose blocks are all resident from its start (persistent kernels): its rate in the
steady state, times what is left.

Mental model: such a launch has no waves and often no loop that could be cut short, since its warps do different things
and wait for each other. But how much each block has to do is known, and once the cycles that the GPU takes for a
hundredth of the work neither drift nor vary (:func:`gpusim.engine.sampling.steady_cost`), they are taken for those of
the rest. The launch ends when the SM with the most work does; all are taken to go on alike. Work is warp instructions
but those of rounds of polling, which the trace has once and the simulator makes as time says:

    cycles = cycles so far + (work of the busiest SM x SMs - work so far) x cost + what a launch takes at its end

The machine is left in the middle of the launch, so only the last launch of a simulation is sampled like that.

Claimed error (95 %): of what was left out, the cost's interval and drift and :data:`gpusim.engine.sampling.SEAM_SHARE`;
half of what the busiest SM has to do beyond the mean, since SMs that have less leave it more of what they share; a
reading, for the end that was not simulated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gpusim.engine.block_dispatcher import count_executions
from gpusim.engine.launch import Observation, launch_result
from gpusim.engine.machine import Machine
from gpusim.engine.result import LaunchResult
from gpusim.engine.sampling import (
    LEAST_SHARE,
    SEAM_SHARE,
    Reading,
    Sampling,
    SteadyCost,
    l2_steady_from,
    steady_cost,
)
from gpusim.gpus.spec import GpuSpec
from gpusim.model import counters as count
from gpusim.model.occupancy import occupancy
from gpusim.model.stall_reasons import SELECTED
from gpusim.trace.record import Trace

#: Warp instructions of a launch below which it is simulated in full: some seconds.
LEAST_INSTRUCTIONS = 20_000_000
#: Readings over a launch, one each time as many warp instructions have been issued.
READINGS = 100


class _Stationary(Exception):
    """The launch has been watched for long enough."""


class Work:
    """What a launch has to do: ``counts`` bool[instructions], those that are counted; ``executions`` of each in the
    whole launch, int64[instructions]; ``of_block`` int64[blocks] and ``total``, of those that are counted."""

    def __init__(self, trace: Trace) -> None:
        chunks, size = list(trace.chunk_list), len(trace.program.instructions)
        change, self.executions = np.zeros(size + 1, np.int64), np.zeros(size, np.int64)
        for chunk in chunks:
            rounds = chunk.runs[chunk.polling]
            np.add.at(change, rounds["first"], 1)
            np.add.at(change, rounds["first"].astype(np.int64) + rounds["count"], -1)
            count_executions(chunk, 0, trace.launch.blocks, self.executions)
        self.counts = np.cumsum(change)[:-1] == 0
        self.of_block = np.zeros(trace.launch.blocks, np.int64)
        counted = np.concatenate(([0], np.cumsum(self.counts)))
        for chunk in chunks:
            begin = chunk.runs["first"].astype(np.int64)
            before = np.concatenate(([0], np.cumsum(counted[begin + chunk.runs["count"]] - counted[begin])))
            of_path = before[chunk.path_start[1:]] - before[chunk.path_start[:-1]]
            of_warp = of_path[chunk.warps["path"]].reshape(chunk.blocks, -1)
            self.of_block[chunk.first_block : chunk.first_block + chunk.blocks] += of_warp.sum(axis=1)
        self.total = int(self.of_block.sum())


class ResidentWatch:
    """Reads a launch that has ``work`` at window boundaries, and stops it once its cost is steady. ``readings``: what
    was read, ``issued`` of what is counted; ``cost``: what was found, None if it was not."""

    def __init__(self, work: Work) -> None:
        self._step, self._work = max(1, work.total // READINGS), work
        self._next = self._step
        self.readings: list[Reading] = []
        self.cost: SteadyCost | None = None

    def __call__(self, _cycle: int, executions: Callable[[], np.ndarray], read: Callable[[int], Reading]) -> None:
        issued = int(executions()[self._work.counts].sum())
        if issued < self._next:
            return
        self.readings.append(replace(read(0), issued=issued))
        self._next = (issued // self._step + 1) * self._step
        earliest = l2_steady_from(self.readings, (self._work.total - issued) / self._step)
        if earliest is None:
            return
        self.cost = steady_cost([r.cycle for r in self.readings], [r.issued for r in self.readings], earliest)
        if self.cost is not None:
            raise _Stationary


def is_resident(trace: Trace, spec: GpuSpec) -> bool:
    """Whether all blocks of the launch run from its start on, and they do enough to leave some of it out. Not where SMs
    lie at different distances from L2: the launch ends with the farthest, whose rate is not read."""
    if spec.crossbar.sm_spread_ns:
        return False
    fit = occupancy(trace.launch, spec)
    return trace.launch.blocks <= fit.blocks_per_sm * spec.sm_count and trace.warp_instructions >= LEAST_INSTRUCTIONS


def leave_out_rest(trace: Trace, machine: Machine, keep_l1: bool, wanted: Observation) -> LaunchResult:
    """The launch, simulated until its cost is steady on ``machine``, of which nothing else can be asked then; in full
    if it never is."""
    work = Work(trace)
    watch = ResidentWatch(work)
    sampled = Observation(wanted.samples, wanted.sample, wanted.progress, watch)
    try:
        return machine.launch(trace, keep_l1=keep_l1, wanted=sampled)
    except _Stationary:
        return _extrapolated(trace, machine, watch, work)


def _extrapolated(trace: Trace, machine: Machine, watch: ResidentWatch, work: Work) -> LaunchResult:
    device, cost, end = machine.devices[0], watch.cost, watch.readings[-1]
    assert cost is not None
    spec, times = device.spec, device.dispatcher.block_times
    of_sm = np.bincount(times[:, 2], work.of_block)
    busiest, mean = of_sm.max(), of_sm[of_sm > 0].mean()
    active = int((of_sm > 0).sum())
    left = max(0.0, busiest * active - end.issued) * cost.cycles
    cycles = round(end.cycle + left) + spec.launch.end_cycles
    first = watch.readings[cost.first]
    reading_cycles = (end.cycle - first.cycle) / (cost.last - cost.first)
    error = left * (math.hypot(cost.half_width, cost.drift) + SEAM_SHARE)
    error += 0.5 * (busiest - mean) * active * cost.cycles + reading_cycles
    sampling = Sampling(
        skipped_blocks=trace.launch.blocks,
        simulated_percent=100.0 * end.issued / work.total,
        steady_waves=0,
        error_cycles=float(max(error, LEAST_SHARE * cycles)),
    )
    reading = _whole(work, first, end)
    reading.totals[count.BLOCKS] = trace.launch.blocks
    reading.totals[count.WARPS] = trace.launch.blocks * trace.launch.warps_per_block
    fit = occupancy(trace.launch, spec)
    return launch_result(spec, trace, fit, cycles, reading, np.full_like(times, -1), None, sampling, device.number)


def _whole(work: Work, first: Reading, last: Reading) -> Reading:
    """The counters at ``last`` with what the rest would add: issues exactly, but those of polling, all else as between
    the two readings."""
    share = (work.total - last.issued) / (last.issued - first.issued)

    def more(before: np.ndarray, after: np.ndarray) -> np.ndarray:
        return after + np.rint(share * (after - before)).astype(np.int64)

    stalls, of_work, totals = (more(getattr(first, n), getattr(last, n)) for n in ("stalls", "work", "totals"))
    stalls[work.counts, SELECTED] = work.executions[work.counts]
    totals[count.WARP_CYCLES] = stalls.sum()
    memory = {name: value + round(share * (value - first.memory[name])) for name, value in last.memory.items()}
    return Reading(last.cycle, int(stalls[:, SELECTED].sum()), last.l2_filled, stalls, of_work, totals, memory)
