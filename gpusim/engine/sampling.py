"""Sampled launches: simulate until the throughput is stationary, skip most of the rest, simulate the end.

Mental model: a *wave* is as many blocks as the GPU holds at once. Once a wave's cost, in cycles a warp instruction,
neither drifts nor varies from wave to wave, whole waves are left out: the dispatcher jumps over them to the last
one to two waves, which are simulated, tail and all. A left-out block costs its warp instructions, which the trace
knows, times the steady cost. Leaving out whole waves keeps the phase of what is left.

The test (:func:`steady_cost`): over the last three quarters of the waves seen, at least :data:`LEAST_WAVES` and
:data:`LEAST_CYCLES`, the 95 % confidence interval of the mean cost is within :data:`TOLERANCE` of it, and so is
the difference between the costs of that stretch's halves. The interval is that of the means of :data:`BATCHES` batches
of waves, since neighbouring waves are alike. And all that time the L2 was full (or it would not be full at the launch's
end either), since write-backs begin only then; of an L2 that a
flush left full, so much counts as the launch has brought into it: until then it displaces the flush's lines, all of
which are to be written back. A launch that never passes is simulated in full.

The error estimate is for 95 %: the interval's half-width and the drift, on what was left out; the mix of memory
accesses and instructions of the blocks left out where it differs from that of the blocks simulated; the waves' own
scatter at the seam and at the end; and :data:`SEAM_SHARE` for caches that miss what the left-out blocks would have
left there; :data:`LEAST_SHARE` of the whole at least. A launch behind a sampled one finds the L2 as functional warming
leaves it (:mod:`gpusim.engine.warm`), not as the blocks left out would have: its error is larger by
:data:`BEHIND_SHARE`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from gpusim.engine.block_dispatcher import Dispatcher
from gpusim.gpus.spec import GpuSpec
from gpusim.model import counters as count
from gpusim.model.messages import TICKS_PER_CYCLE
from gpusim.model.occupancy import occupancy
from gpusim.model.stall_reasons import SELECTED
from gpusim.trace.layout import Chunk
from gpusim.trace.record import Trace
from gpusim.trace.synthesis import RegularChunks

#: Waves over which the cost is read at least.
LEAST_WAVES = 4
#: Cycles over which it is read at least: longer than a machine's own rhythms (DRAM rows filling up, batches of writes),
#: which short waves could pass through in step.
LEAST_CYCLES = 20_000
#: Waves of a launch below which there is nothing worth leaving out: a warm-up, four steady ones, two at the end.
LEAST_WAVES_OF_A_LAUNCH = 9
TOLERANCE = 0.02
#: Relative error that remains when all waves were alike: fitted, with a margin, to what ``tools/sampling.py`` prints
#: without it (1.3 % at most: a matrix product whose waves hit the L2 a little more often from one to the next).
SEAM_SHARE = 0.02
#: Least relative error that is claimed where anything was left out, however little: the seam costs its time but once
#: (twice the largest seen where little was left out: 1.02 % in ``tools/sampling.py``, a convolution of which 30 %
#: were).
LEAST_SHARE = 0.02
#: Relative error of a launch on the caches that a sampled one left: fitted, with a margin, to what
#: ``tools/sampling.py --behind`` prints (12 % at most, a launch that fits in L2 about once).
BEHIND_SHARE = 0.15
#: The L2 counts as full from this share of its lines on.
L2_FULL = 0.98
#: Batches of waves, as many as there are waves up to this: few, so that a batch outlasts what neighbouring waves share.
BATCHES = 8
#: Two-sided 95 % quantiles of Student's t by degrees of freedom, 1 to 7 (any table of it).
STUDENT = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365)


@dataclass(frozen=True)
class Sampling:
    """How a launch was sampled: its ``skipped_blocks`` (0: it was simulated in full, ``why_full`` says why), the share
    of its warp instructions that was simulated, the ``steady_waves`` that the cost was read from, and the 95 %
    half-width of its cycles. Of ``iterations`` iterations of the loop that all its blocks make, ``skipped_iterations``
    were left out of each (:mod:`gpusim.engine.sampled.iterations`); ``run_blocks``: blocks that the capture ran, 0:
    all."""

    skipped_blocks: int
    simulated_percent: float
    steady_waves: int
    error_cycles: float
    why_full: str = ""
    skipped_iterations: int = 0
    iterations: int = 0
    run_blocks: int = 0


def left_out(sampling: Sampling | None) -> bool:
    """Whether a launch was simulated in part."""
    return sampling is not None and (sampling.skipped_blocks > 0 or sampling.skipped_iterations > 0)


def behind_sampled(sampling: Sampling, cycles: int) -> Sampling:
    """The same for a launch of ``cycles`` that ran on the caches that a sampled one left."""
    return replace(sampling, error_cycles=sampling.error_cycles + BEHIND_SHARE * cycles)


@dataclass(frozen=True)
class SteadyCost:
    """Cycles a warp instruction over waves ``first`` to ``last`` (readings' indices), its relative half-width and
    drift, and the relative scatter of a wave."""

    cycles: float
    first: int
    last: int
    half_width: float
    drift: float
    scatter: float


def steady_cost(cycles: Sequence[int], issued: Sequence[int], earliest: int = 0) -> SteadyCost | None:
    """The cost of a stationary stretch at the end of the readings, if there is one; see the module's text.

    ``cycles`` and ``issued`` warp instructions at the end of each wave, the first one included; the stretch begins at
    reading ``earliest`` at the earliest.
    """
    waves = len(cycles) - 1
    used = min(max(LEAST_WAVES, 3 * waves // 4), waves - earliest)
    if used < LEAST_WAVES or cycles[-1] - cycles[-used - 1] < LEAST_CYCLES:
        return None
    time = np.diff(np.asarray(cycles[-used - 1 :], float))
    work = np.diff(np.asarray(issued[-used - 1 :], float))
    if (work <= 0).any():
        return None
    cost = time.sum() / work.sum()
    scatter = float(np.std(time / work, ddof=1) / cost)
    batches = min(used, BATCHES)
    ends = [used * i // batches for i in range(batches + 1)]
    means = [time[a:b].sum() / work[a:b].sum() for a, b in pairwise(ends)]
    half_width = STUDENT[batches - 2] * float(np.std(means, ddof=1)) / cost / math.sqrt(batches)
    half = used // 2
    halves = [time[part].sum() / work[part].sum() for part in (slice(0, half), slice(half, None))]
    drift = abs(halves[1] - halves[0]) / cost
    if half_width > TOLERANCE or drift > TOLERANCE:
        return None
    return SteadyCost(cost, len(cycles) - 1 - used, len(cycles) - 1, half_width, drift, scatter)


def block_work(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """Warp instructions and access records of each block, int64[blocks] each."""
    if isinstance(trace.chunk_list, RegularChunks):
        return trace.chunk_list.block_work()
    instructions, accesses = np.zeros((2, trace.launch.blocks), np.int64)
    for chunk in trace.chunk_list:
        mine = slice(chunk.first_block, chunk.first_block + chunk.blocks)
        instructions[mine] += _path_lengths(chunk)[chunk.warps["path"]].reshape(chunk.blocks, -1).sum(axis=1)
        accesses[mine] += chunk.warps["access_count"].astype(np.int64).reshape(chunk.blocks, -1).sum(axis=1)
    return instructions, accesses


def _path_lengths(chunk: Chunk) -> np.ndarray:
    before = np.concatenate(([0], np.cumsum(chunk.runs["count"].astype(np.int64))))
    return before[chunk.path_start[1:]] - before[chunk.path_start[:-1]]


@dataclass(frozen=True)
class Reading:
    """All counters of a launch at some cycle, and the share of the L2's lines that hold something, without what is left
    there of a flush."""

    cycle: int
    issued: int
    l2_filled: float
    stalls: np.ndarray
    work: np.ndarray
    totals: np.ndarray
    memory: Mapping[str, float]


def l2_steady_from(readings: Sequence[Reading], left: float) -> int | None:
    """The reading from which on the L2 is full, 0 if it will not be full within ``left`` readings more, None if that is
    still to come."""
    filled = [reading.l2_filled for reading in readings]
    full = next((i for i, share in enumerate(filled) if share >= L2_FULL), None)
    if full is not None:
        return full
    a_reading = (filled[-1] - filled[0]) / max(1, len(filled) - 1)
    return 0 if filled[-1] + left * a_reading < L2_FULL else None


def is_worth_sampling(trace: Trace, spec: GpuSpec) -> bool:
    """Whether the launch has so many waves of blocks that some could be left out."""
    wave_blocks = min(trace.launch.blocks, occupancy(trace.launch, spec).blocks_per_sm * spec.sm_count)
    return trace.launch.blocks >= LEAST_WAVES_OF_A_LAUNCH * wave_blocks


class WaveReader:
    """Watches a launch at window boundaries and makes its dispatcher jump once it is stationary. ``read(cycle)``
    reads the counters."""

    def __init__(self, trace: Trace, dispatcher: Dispatcher, wave_blocks: int, read: Callable[[int], Reading]) -> None:
        self._dispatcher, self._read, self._wave = dispatcher, read, wave_blocks
        self._readings: list[Reading] = []
        self._cost: SteadyCost | None = None
        self._skipped = self._skipped_work = 0
        self._mix = 0.0
        self._executions: np.ndarray | None = None
        self._blocks = dispatcher.blocks
        self._warps_per_block = trace.launch.warps_per_block
        self._worth = self._blocks >= LEAST_WAVES_OF_A_LAUNCH * wave_blocks
        # Blocks that are left out would write nothing that others poll.
        self._polls = self._worth and any(len(chunk.signals) for chunk in trace.chunk_list)
        self._worth = self._worth and not self._polls
        self._instructions, self._accesses = block_work(trace) if self._worth else (np.zeros(0), np.zeros(0))

    def __call__(self, tick: int) -> None:
        if not self._worth or self._cost or self._dispatcher.finished < (len(self._readings) + 1) * self._wave:
            return
        self._readings.append(self._read(tick // TICKS_PER_CYCLE))
        skipped = (self._blocks - self._dispatcher.next_block) // self._wave - 1
        if skipped < 1:
            self._worth = False
            return
        earliest = l2_steady_from(self._readings, (self._blocks - self._dispatcher.next_block) / self._wave)
        if earliest is None:
            return
        cost = steady_cost([r.cycle for r in self._readings], [r.issued for r in self._readings], earliest)
        if cost is not None:
            self._cost = cost
            self._jump(skipped * self._wave)

    def _jump(self, skipped: int) -> None:
        first = self._dispatcher.next_block
        left_out = np.zeros(self._blocks, bool)
        left_out[first : first + skipped] = True
        self._skipped, self._skipped_work = skipped, int(self._instructions[left_out].sum())
        ratios = [self._accesses[part].sum() / max(1, self._instructions[part].sum()) for part in (left_out, ~left_out)]
        self._mix = abs(ratios[0] - ratios[1]) / max(ratios[1], 1e-9) if ratios[0] or ratios[1] else 0.0
        self._executions = self._dispatcher.skip(first + skipped)

    @property
    def skipped_instructions(self) -> int:
        """Warp instructions of the blocks left out so far."""
        return self._skipped_work

    @property
    def skipped_cycles(self) -> int:
        """What the blocks left out would have taken."""
        return round(self._skipped_work * self._cost.cycles) if self._cost else 0

    def sampling(self, cycles: int) -> Sampling:
        """How the launch was sampled, once it has ended after ``cycles``, those of the blocks left out included."""
        cost = self._cost
        if cost is None:
            why = "no stationary stretch" if self._readings else f"fewer than {LEAST_WAVES_OF_A_LAUNCH} waves of blocks"
            return Sampling(0, 100.0, 0, 0.0, "warps of its blocks poll for each other" if self._polls else why)
        waves = self._readings[cost.first : cost.last + 1]
        wave_cycles = (waves[-1].cycle - waves[0].cycle) / (len(waves) - 1)
        error = self.skipped_cycles * (math.hypot(cost.half_width, cost.drift, self._mix) + SEAM_SHARE)
        error += 2.0 * cost.scatter * wave_cycles
        error = max(error, LEAST_SHARE * cycles)
        total = int(self._instructions.sum())
        return Sampling(self._skipped, 100.0 * (1 - self._skipped_work / total), len(waves) - 1, error)

    def complete(self, end: Reading) -> Reading:
        """The counters at the launch's end with what the blocks left out would have added: issues exactly, all else
        in proportion to the steady waves' instructions."""
        if self._cost is None:
            return end
        first, last = self._readings[self._cost.first], self._readings[self._cost.last]
        share = self._skipped_work / (last.issued - first.issued)

        def more(before: np.ndarray, after: np.ndarray) -> np.ndarray:
            return np.rint(share * (after - before)).astype(np.int64)

        stalls = end.stalls + more(first.stalls, last.stalls)
        stalls[:, SELECTED] = end.stalls[:, SELECTED] + self._executions
        memory = {
            name: value + round(share * (last.memory[name] - first.memory[name])) for name, value in end.memory.items()
        }
        work, totals = end.work + more(first.work, last.work), end.totals + more(first.totals, last.totals)
        totals[count.WARP_CYCLES] = stalls.sum()
        totals[count.BLOCKS] = self._blocks
        totals[count.WARPS] = self._blocks * self._warps_per_block
        return Reading(end.cycle, int(stalls[:, SELECTED].sum()), end.l2_filled, stalls, work, totals, memory)
