"""Leaving iterations of a loop out of every block: what an iteration costs in the steady state, times the iterations left out.

Mental model: all blocks of a launch make the same loop of N iterations, and N is large. The launch is simulated with a few iterations only, three
times, with n, 2 n and 4 n of them, or with 2 n, 3 n and 4 n where those are few (n such that a walk through memory has come to the next line): once the loop is in its steady state every further iteration costs the same, so the last two give
the cost of those left out, and the first two say how steady it is. Of a launch of many *waves* (as many blocks as the GPU holds at
once) only the first ones are simulated, and the last one with the blocks left over behind it: those between cost what the simulated ones
between cost. With s the mean start of a wave's blocks, of M waves simulated and F in all,

    cycles(iterations) = s[1] + (F - 2) (s[M-1] - s[1]) / (M - 2) + end - s[M-1]

and every counter likewise, in proportion. What a wave finds in L2 of what the wave before it read: if a whole wave's lines
fit, all waves make the same iterations and find them; if they do not nearly fit, each wave makes other iterations and finds none, as it
would; in between both are simulated and the truth is taken to lie between.

Claimed error (95 %), of the cycles left out: by how much the cost of an iteration differs from n to 2 n iterations and from 2 n to 4 n, by how much
waves differ from each other where any were left out, and :data:`SEAM_SHARE` for what neither shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpusim.engine.graph import gpu_graph
from gpusim.engine.machine import Machine
from gpusim.engine.result import LaunchResult
from gpusim.engine.sampled.footprint import iterations_to_a_line, lines_of, lines_of_an_iteration
from gpusim.engine.sampling import LEAST_SHARE, Sampling
from gpusim.gpus.spec import GpuSpec
from gpusim.io.progress import task
from gpusim.model.counters import COUNTER_NAMES, WARP_CYCLES
from gpusim.model.occupancy import occupancy
from gpusim.model.stall_reasons import SELECTED, STALL_NAMES
from gpusim.trace.record import Trace
from gpusim.trace.synthesis import Part, RegularChunks

#: Warp instructions from which on iterations are left out, and about as many as are then simulated.
SAMPLE_INSTRUCTIONS = 80_000_000
#: Warp instructions that take as long to simulate as one line of memory that an access asks for (measured: SGEMM's first rung, whose
#: loads ask for 32).
INSTRUCTIONS_OF_A_LINE = 0.65
#: Iterations below which a loop is simulated whole, and those of the longest simulation below which fewer waves are simulated.
WORTH_ITERATIONS, ENOUGH_ITERATIONS = 32, 16
#: Waves simulated of a launch of more: the first, two between, the last; one less where iterations would be too few.
WAVES, LEAST_WAVES = 4, 3
#: Share of what is left out that is claimed as error whatever was seen: fitted, with a margin, to ``tools/sgemm_ladder.py --full``
#: (4.5 % at most, of which 0.9 % was seen: warps drift apart over more iterations than are simulated).
SEAM_SHARE = 0.06
#: A wave's lines stay in L2 for the next one below the first of these shares of its bytes, and are gone above the second.
STAYS, GONE = 0.6, 1.6


@dataclass(frozen=True)
class IterationPlan:
    """What is simulated of ``trace`` on ``spec``: of its ``iterations`` iterations ``counts``, multiples of ``whole``, of its ``waves`` of ``wave`` blocks
    ``simulated``, the last of them with the ``rest`` of the blocks behind it."""

    trace: Trace
    spec: GpuSpec
    iterations: int
    counts: tuple[int, int, int]
    whole: int
    wave: int
    waves: int
    rest: int
    simulated: int


def plan_iterations(trace: Trace, spec: GpuSpec, instructions: int = SAMPLE_INSTRUCTIONS) -> IterationPlan | None:
    """How to leave iterations out of a launch; None where it is not of that kind, or is simulated soon enough without."""
    chunks, regular = trace.chunk_list, trace.regular
    if (
        regular is None
        or not isinstance(chunks, RegularChunks)
        or not regular.equally_iterated
        or regular.iterations < WORTH_ITERATIONS
    ):
        return None
    blocks = trace.launch.blocks
    wave = min(blocks, occupancy(trace.launch, spec).blocks_per_sm * spec.sm_count)
    waves, rest = divmod(blocks, wave)
    iteration = trace.warp_instructions / blocks / regular.iterations
    iteration += INSTRUCTIONS_OF_A_LINE * lines_of_an_iteration(regular, trace.launch.allocations)
    for simulated in (min(waves, WAVES), min(waves, LEAST_WAVES)):
        # n, 2 n and 4 n iterations.
        longest = int(instructions / (1.75 * iteration * (simulated * wave + rest)))
        if longest >= ENOUGH_ITERATIONS:
            break
    # An iteration that takes no new line is cheap: whole numbers of iterations from one line to the next.
    whole = iterations_to_a_line(regular, trace.launch.allocations)
    quarter = max(1, longest // 4 // whole) * whole
    if 4 * quarter > regular.iterations // 2:
        return None
    # With so few iterations the first of them, when the pipeline fills, says nothing of the others.
    first, second = (2, 3) if 4 * quarter < ENOUGH_ITERATIONS else (1, 2)
    counts = (first * quarter, second * quarter, 4 * quarter)
    return IterationPlan(trace, spec, regular.iterations, counts, whole, wave, waves, rest, simulated)


def leave_out_iterations(plan: IterationPlan, machine: Machine, warmed: bool) -> LaunchResult:
    """The launch of ``plan``, simulated in part on machines like ``machine``, whose caches it leaves as the part does.
    ``warmed``: something ran there before."""
    stays = _stays(plan, warmed)
    found = []
    for reuse in {0.0: [False], 1.0: [True], 0.5: [False, True]}[stays]:
        found.append(_extrapolated(plan, [_simulated(plan, n, machine, reuse, warmed) for n in plan.counts]))
    machine.devices[0].warm([_part(plan, plan.counts[-1], stays > 0)], plan.trace)
    if len(found) == 1:
        return _result(plan, found[0], 0.0)
    low, high = sorted(found, key=lambda each: each.cycles)
    return _result(plan, replace(high, cycles=(low.cycles + high.cycles) / 2), (high.cycles - low.cycles) / 2)


def _part(plan: IterationPlan, iterations: int, reuse: bool) -> Trace:
    """The waves that are simulated as a launch of their own; ``reuse``: all make the same iterations."""
    regular, left_out = plan.trace.regular, plan.waves - plan.simulated
    assert regular is not None
    parts, spare = [], plan.iterations - plan.counts[-1]
    for number in range(plan.simulated):
        last = number == plan.simulated - 1
        first = plan.wave * (number + (left_out if last else 0))
        begin = spare // 2 if reuse else spare * number // max(1, plan.simulated - 1)
        begin -= begin % plan.whole
        parts.append(Part(first, plan.wave + (plan.rest if last else 0), iterations, begin))
    launch = replace(plan.trace.launch, grid=(sum(part.blocks for part in parts), 1, 1))
    return Trace(plan.trace.program, launch, RegularChunks(regular, launch.warps_per_block, parts))


def _simulated(plan: IterationPlan, iterations: int, machine: Machine, reuse: bool, warmed: bool) -> LaunchResult:
    trace = _part(plan, iterations, reuse)
    what = f"{plan.trace.launch.kernel} with {iterations} of {plan.iterations} iterations"
    with task(what), Machine(gpu_graph(plan.spec), len(machine.devices[0].groups)) as alone:
        if reuse and warmed:
            alone.devices[0].warm([_part(plan, plan.counts[-1], reuse)], trace)
        return alone.launch(trace)


def _stays(plan: IterationPlan, warmed: bool) -> float:
    """Whether a wave finds in L2 what ones before it read: 1 yes, 0 no or there is nothing to find, 0.5 nobody knows."""
    if plan.waves + bool(plan.rest) == 1 and not warmed:
        return 0.0
    capacity = plan.spec.l2.total_bytes
    if sum(size for _, size in plan.trace.launch.allocations) < STAYS * capacity:
        return 1.0
    middle = plan.wave * (plan.waves // 2)
    few, more = _lines(plan, middle, 2), _lines(plan, middle, 10)
    of_a_wave = (len(few) + (len(more) - len(few)) / 8 * (plan.iterations - 2)) * plan.spec.l2.line_bytes
    if of_a_wave > GONE * capacity:
        return 0.0
    others = {0, middle - plan.wave, middle + plan.wave, plan.wave * (plan.waves - 1)} - {middle}
    seen = [_lines(plan, first, 10) for first in others if 0 <= first < plan.wave * plan.waves]
    return 0.5 if any(np.isin(more, lines, assume_unique=True).any() for lines in seen) else 0.0


def _lines(plan: IterationPlan, first: int, iterations: int) -> np.ndarray:
    """Lines that a wave touches in its first iterations."""
    regular = plan.trace.regular
    assert regular is not None
    launch = replace(plan.trace.launch, grid=(plan.wave, 1, 1))
    chunks = RegularChunks(regular, launch.warps_per_block, [Part(first, plan.wave, iterations)])
    return lines_of(Trace(plan.trace.program, launch, chunks))


@dataclass(frozen=True)
class Extrapolated:
    """``cycles`` of the whole launch, the relative ``error`` of what was left out of them, and the ``part`` simulated with most
    iterations and with half as many."""

    cycles: float
    error: float
    parts: tuple[LaunchResult, ...]


def _extrapolated(plan: IterationPlan, results: Sequence[LaunchResult]) -> Extrapolated:
    cycles = [_all_waves(plan, result) for result in results]
    n, twice, most = plan.counts
    early, late = (cycles[1] - cycles[0]) / (twice - n), (cycles[2] - cycles[1]) / (most - twice)
    error = abs(early / late - 1)
    if plan.simulated < plan.waves:
        iterations = [np.diff(_starts(plan, result))[1:] for result in results[1:]]
        of_an_iteration = (iterations[1] - iterations[0]) / (most - twice)
        unlike = (of_an_iteration.max() - of_an_iteration.min()) / 2 / of_an_iteration.mean()
        error += unlike * (plan.waves - plan.simulated) / plan.waves
    return Extrapolated(cycles[2] + (plan.iterations - most) * late, error, tuple(results))


def _starts(plan: IterationPlan, result: LaunchResult) -> np.ndarray:
    """Mean start of each simulated wave's blocks, in cycles."""
    whole = result.block_times[: plan.simulated * plan.wave, 0]
    return whole.reshape(plan.simulated, plan.wave).mean(axis=1)


def _all_waves(plan: IterationPlan, result: LaunchResult) -> float:
    """Cycles of the launch with all its waves."""
    if plan.simulated == plan.waves:
        return float(result.cycles)
    start = _starts(plan, result)
    between = (start[-1] - start[1]) / (plan.simulated - 2)
    return float(result.cycles + (plan.waves - plan.simulated) * between)


def _result(plan: IterationPlan, found: Extrapolated, between: float) -> LaunchResult:
    """What is said of the launch; ``between``: cycles either way that nobody knows."""
    _, half, part = found.parts
    _, twice, most = plan.counts
    iterations = (plan.iterations - most) / (most - twice)
    waves = plan.trace.launch.blocks / part.launch.blocks

    def whole(less: np.ndarray, more: np.ndarray) -> np.ndarray:
        return np.maximum(0, np.rint(waves * (more + iterations * (more - less)))).astype(np.int64)

    chunks = plan.trace.chunk_list
    assert isinstance(chunks, RegularChunks)
    stalls = whole(half.stalls_by_instruction, part.stalls_by_instruction)
    stalls[:, SELECTED] = chunks.executions(len(plan.trace.program.instructions))
    cycles, total, warp_cycles = round(found.cycles), int(stalls[:, SELECTED].sum()), int(stalls.sum())
    names = [name for name in part.counters if not _is_no_sum(name)]
    values = whole(*(np.array([each.counters[name] for name in names]) for each in (half, part)))
    counters: dict[str, float] = dict(part.counters) | dict(zip(names, values.tolist(), strict=True))
    active = 100.0 * warp_cycles / (cycles * plan.spec.sm_count * plan.spec.sm.max_warps)
    counters |= {
        "sm__cycles_elapsed.max": cycles,
        "smsp__inst_executed.sum": total,
        "sm__warps_active.avg.pct_of_peak_sustained_active": active,
        "sm__warps_launched.sum": plan.trace.launch.blocks * plan.trace.launch.warps_per_block,
        "sm__ctas_launched.sum": plan.trace.launch.blocks,
        COUNTER_NAMES[WARP_CYCLES]: warp_cycles,
    }
    simulated = sum(int(each.stalls_by_instruction[:, SELECTED].sum()) for each in found.parts)
    error = (found.error + SEAM_SHARE) * (found.cycles - part.cycles) + between
    sampling = Sampling(
        skipped_blocks=(plan.waves - plan.simulated) * plan.wave,
        simulated_percent=min(100.0, 100.0 * simulated / total),
        steady_waves=plan.simulated,
        error_cycles=float(max(error, LEAST_SHARE * cycles)),
        skipped_iterations=plan.iterations - most,
        iterations=plan.iterations,
    )
    return replace(
        part,
        cycles=cycles,
        counters=counters,
        stalls={name: int(stalls[:, i].sum()) for i, name in enumerate(STALL_NAMES)},
        stalls_by_instruction=stalls,
        work_by_instruction=whole(half.work_by_instruction, part.work_by_instruction),
        block_times=np.full((plan.trace.launch.blocks, part.block_times.shape[1]), -1, np.int64),
        launch=plan.trace.launch,
        sampling=sampling,
    )


def _is_no_sum(counter: str) -> bool:
    """Whether a counter is no sum over iterations."""
    return any(part in counter for part in ("pct", "launch__occupancy_limit", ".max"))
