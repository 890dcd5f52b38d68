"""Leaving turns of a loop out of every block: what a turn costs in the steady state, times the turns left out.

Mental model: all blocks of a launch make the same loop of N turns, and N is large. With few turns a whole launch costs
little; what is missing is the cost of the other turns. A *wave* is as many blocks as the GPU holds at once, and while a
wave is in its loop nothing changes from turn to turn, so the wave is simulated alone, twice, with n1 and with n2 turns; the
difference is what n2 - n1 turns cost. The blocks left over behind the last whole wave are a launch of their own with a cost of
their own. So, with F whole waves,

    cycles = launch with n0 turns + (N - n0) (F x turn of a wave + turn of the rest)

and every counter likewise. A wave's turn costs the mean over its blocks, since the SMs that are ahead take the next wave's blocks
earlier; the last wave's turn costs what its slowest block takes. The wave stands behind blocks of the wave before it, as
the dispatcher places them when blocks end, and its turns are from the middle of the loop, so that it reads what it would
read there. What of that the L2 holds since the wave before it is found out from the lines that both touch: all of it (it is warmed with the
wave before), none of it, or, in between, both are simulated and the truth taken to lie between.

Claimed error (95 %), of the cycles left out: how far the throughput inside the loop varies between stretches of it and drifts
from its first half to its second, what the two ways of reading the turn's cost differ by (blocks' ends, and instructions issued over
time), and :data:`SEAM_SHARE` for what neither sees; of the launch with few turns: its own error, and :data:`OVERLAP_SHARE` of what is
not its turns (beginnings and ends of blocks, which the turns of other blocks may hide).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpusim.engine.graph import gpu_graph
from gpusim.engine.launch import Observation
from gpusim.engine.machine import Machine
from gpusim.engine.result import LaunchResult
from gpusim.engine.samples import COLUMNS
from gpusim.engine.sampled.footprint import lines_of
from gpusim.engine.sampling import LEAST_SHARE, LEAST_WAVES_OF_A_LAUNCH, Sampling
from gpusim.gpus.spec import GpuSpec
from gpusim.model.counters import COUNTER_NAMES, WARP_CYCLES
from gpusim.model.occupancy import occupancy
from gpusim.model.stall_reasons import SELECTED, STALL_NAMES
from gpusim.trace.record import Trace
from gpusim.trace.synthesis import Part, RegularChunks

#: Warp instructions from which on turns are left out, and about as many as are then simulated.
SAMPLE_INSTRUCTIONS = 40_000_000
#: Turns of the whole launch, of the shorter simulation of a wave, and the least of its longer one.
FEW, SHORTER_SHARE, LEAST_TURNS = 2, 3, 6
#: Turns below which a loop is simulated whole.
WORTH_TURNS = 16
#: Turns of the blocks before the wave.
BEFORE = 1
#: Share of what is left out that is claimed as error whatever was seen: fitted with a margin to ``tools/sampling.py --turns``.
SEAM_SHARE = 0.02
#: Share of beginnings and ends of blocks that the turns of other blocks may hide: a guess, from both sides of what
#: ``tools/sampling.py --turns`` shows.
OVERLAP_SHARE = 0.5
#: A wave's lines stay in L2 for the next one below the first of these shares of its bytes, and are gone above the second.
STAYS, GONE = 0.6, 1.6
_BATCHES = 6


@dataclass(frozen=True)
class TurnPlan:
    """What is simulated of ``trace`` on ``spec``: the launch with FEW turns, and a wave of ``wave`` blocks with ``shorter`` and
    ``longer`` turns; ``waves`` whole ones and ``rest`` blocks more make the launch."""

    trace: Trace
    spec: GpuSpec
    turns: int
    wave: int
    waves: int
    rest: int
    shorter: int
    longer: int


def plan_turns(trace: Trace, spec: GpuSpec, instructions: int = SAMPLE_INSTRUCTIONS) -> TurnPlan | None:
    """How to leave turns out of a launch; None where it is not of that kind, or is simulated soon enough without."""
    chunks, regular = trace.chunk_list, trace.regular
    if regular is None or not isinstance(chunks, RegularChunks) or not regular.evenly_turned or regular.turns < WORTH_TURNS:
        return None
    wave = min(trace.launch.blocks, occupancy(trace.launch, spec).blocks_per_sm * spec.sm_count)
    per_block = trace.warp_instructions / trace.launch.blocks
    waves, rest = divmod(trace.launch.blocks, wave)
    if min(waves + 1, LEAST_WAVES_OF_A_LAUNCH + 3) * wave * per_block < instructions:
        return None
    turn = per_block / regular.turns
    # A wave with n and a third of n turns, and the rest's two.
    longest = instructions / ((wave + rest) * turn * (1 + 1 / SHORTER_SHARE))
    longer = int(min(max(longest, LEAST_TURNS), regular.turns - 1))
    shorter = max(FEW, longer // SHORTER_SHARE)
    return TurnPlan(trace, spec, regular.turns, wave, waves, rest, shorter, longer)


def leave_out_turns(
    plan: TurnPlan, machine: Machine, keep_l1: bool, warmed: bool, wanted: Observation
) -> LaunchResult:
    """The launch of ``plan``: with few turns on ``machine`` as it stands, the rest extrapolated. ``warmed``: something ran on the machine
    before."""
    few = machine.launch(_with(plan, [Part(0, plan.trace.launch.blocks, FEW)]), keep_l1=keep_l1, wanted=wanted)
    middle = plan.wave * (plan.waves // 2)
    turn = _turn(plan, Part(middle, plan.wave, 0), plan.waves > 1, warmed, machine)
    parts = [(turn, plan.waves)]
    if plan.rest:
        parts.append((_turn(plan, Part(plan.waves * plan.wave, plan.rest, 0), False, warmed, machine), 1))
    return _joined(plan, few, parts)


@dataclass(frozen=True)
class Turn:
    """What one turn of some blocks adds: cycles by the mean and the slowest of them (``mean``, ``slowest``), the relative error of
    that, and the difference of two results of ``span`` turns apart, for the counters."""

    mean: float
    slowest: float
    error: float
    shorter: LaunchResult
    longer: LaunchResult
    span: int


def _with(plan: TurnPlan, parts: Sequence[Part]) -> Trace:
    """The blocks of ``parts`` as a launch of their own."""
    regular = plan.trace.regular
    assert regular is not None
    launch = replace(plan.trace.launch, grid=(sum(part.blocks for part in parts), 1, 1))
    return Trace(plan.trace.program, launch, RegularChunks(regular, launch.warps_per_block, parts))


def _turn(plan: TurnPlan, of: Part, behind: bool, warmed: bool, machine: Machine) -> Turn:
    """What a turn of the blocks ``of`` costs; ``behind``: they follow as many others."""
    first_turn = (plan.turns - plan.longer) // 2
    before = [Part(max(0, of.first - of.blocks), of.blocks, BEFORE, 0)] if behind else []
    neighbours = Part(max(0, of.first - plan.wave), min(of.first, plan.wave) or of.blocks, plan.longer, first_turn)
    stays = _stays(plan, of, neighbours, warmed, first_turn)
    found = []
    for warm in sorted({stays > 0, stays == 1}):
        runs = []
        for turns in (plan.shorter, plan.longer):
            trace = _with(plan, [*before, replace(of, turns=turns, first_turn=first_turn)])
            with Machine(gpu_graph(plan.spec), len(machine.devices[0].groups)) as alone:
                if warm:
                    alone.devices[0].warm([_with(plan, [neighbours])], trace)
                runs.append(alone.launch(trace, wanted=Observation(samples=True)))
        found.append(_turn_of(plan, runs[0], runs[1], of.blocks))
    if len(found) == 1:
        return found[0]
    low, high = sorted(found, key=lambda turn: turn.mean)
    between = abs(high.mean - low.mean) / 2
    middle = (high.mean + low.mean) / 2
    error = max(low.error, high.error) + between / middle
    return replace(high, mean=middle, slowest=(high.slowest + low.slowest) / 2, error=error)


def _stays(plan: TurnPlan, of: Part, neighbours: Part, warmed: bool, first_turn: int) -> float:
    """Share of certainty that what the blocks ``of`` read and others read before is in L2 still: 1 yes, 0 no or there is nothing,
    0.5 nobody knows."""
    capacity = plan.spec.l2.total_bytes
    line = plan.spec.l2.line_bytes
    one, two = (lines_of(_with(plan, [replace(of, turns=n, first_turn=first_turn)])) for n in (1, 3))
    of_a_wave = (len(one) + (len(two) - len(one)) / 2 * (plan.turns - 1)) * line
    if of_a_wave < STAYS * capacity:
        return 1.0 if warmed or of.first else 0.0
    if of_a_wave > GONE * capacity or not (warmed or of.first):
        return 0.0
    shared = np.isin(two, lines_of(_with(plan, [replace(neighbours, turns=3)])), assume_unique=True)
    return 0.5 if shared.any() else 0.0


def _turn_of(plan: TurnPlan, shorter: LaunchResult, longer: LaunchResult, blocks: int) -> Turn:
    span = plan.longer - plan.shorter
    ends = [result.block_times[-blocks:, 1] for result in (shorter, longer)]
    mean = float(ends[1].mean() - ends[0].mean()) / span
    slowest = float(longer.cycles - shorter.cycles) / span
    issued = _issued(longer) - _issued(shorter)
    rates = _rates(longer, _issued(longer) - issued, _issued(longer))
    by_rate = issued / span / rates.mean()
    half = len(rates) // 2
    drift = abs(rates[half:].mean() / rates[:half].mean() - 1)
    spread = float(np.std(rates, ddof=1)) / float(rates.mean()) / math.sqrt(len(rates))
    error = math.hypot(drift / 2, 2.6 * spread, by_rate / mean - 1)
    return Turn(mean, max(slowest, mean), error, shorter, longer, span)


def _issued(result: LaunchResult) -> int:
    return int(result.stalls_by_instruction[:, SELECTED].sum())


def _rates(result: LaunchResult, low: int, high: int) -> np.ndarray:
    """Instructions a cycle in even stretches between so many issued and so many, without the last few, when blocks end."""
    assert result.samples is not None
    cycle = result.samples[:, 0].astype(float)
    done = result.samples[:, COLUMNS.index(f"stall.{STALL_NAMES[SELECTED]}")].astype(float)
    marks = np.linspace(low, low + 0.9 * (high - low), _BATCHES + 1)
    times = np.interp(marks, done, cycle)
    return np.diff(marks) / np.maximum(np.diff(times), 1.0)


def _is_no_sum(counter: str) -> bool:
    """Whether a counter is no sum over turns."""
    return any(part in counter for part in ("pct", "launch__occupancy_limit", ".max"))


def _joined(plan: TurnPlan, few: LaunchResult, parts: Sequence[tuple[Turn, int]]) -> LaunchResult:
    """The launch with few turns, and what the turns left out add to it."""
    skipped = plan.turns - FEW
    cost, error = 0.0, 0.0
    for number, (turn, times) in enumerate(parts):
        last = number == len(parts) - 1
        of_all = (times - 1) * turn.mean + turn.slowest if last else times * turn.mean
        cost += of_all
        error += of_all * turn.error + (turn.slowest - turn.mean) * (1 if last else min(1, times))
    cycles = few.cycles + round(skipped * cost)
    beginnings = max(0.0, few.cycles - FEW * cost)
    own = few.sampling.error_cycles if few.sampling else 0.0
    claimed = skipped * (error + SEAM_SHARE * cost) + own + OVERLAP_SHARE * beginnings
    stalls, work = few.stalls_by_instruction.astype(float), few.work_by_instruction.astype(float)
    counters = dict(few.counters)
    simulated = _issued(few) * (few.sampling.simulated_percent / 100.0 if few.sampling else 1.0)
    for turn, times in parts:
        share = skipped * times / turn.span
        stalls += share * (turn.longer.stalls_by_instruction - turn.shorter.stalls_by_instruction)
        work += share * (turn.longer.work_by_instruction - turn.shorter.work_by_instruction)
        for name in counters:
            if not _is_no_sum(name):
                counters[name] += share * (turn.longer.counters[name] - turn.shorter.counters[name])
        simulated += _issued(turn.longer) + _issued(turn.shorter)
    chunks = plan.trace.chunk_list
    assert isinstance(chunks, RegularChunks)
    rounded = np.rint(stalls).astype(np.int64)
    rounded[:, SELECTED] = chunks.executions(len(plan.trace.program.instructions))
    total = int(rounded[:, SELECTED].sum())
    counters = {name: value if _is_no_sum(name) else round(value) for name, value in counters.items()}
    counters["sm__cycles_elapsed.max"] = cycles
    counters["smsp__inst_executed.sum"] = total
    active = 100.0 * float(rounded.sum()) / (cycles * plan.spec.sm_count * plan.spec.sm.max_warps)
    counters["sm__warps_active.avg.pct_of_peak_sustained_active"] = active
    counters[COUNTER_NAMES[WARP_CYCLES]] = int(rounded.sum())
    sampling = Sampling(
        skipped_blocks=few.sampling.skipped_blocks if few.sampling else 0,
        simulated_percent=min(100.0, 100.0 * simulated / total),
        steady_waves=1,
        error_cycles=max(claimed, LEAST_SHARE * cycles),
        skipped_turns=skipped,
        turns=plan.turns,
    )
    return replace(
        few,
        cycles=cycles,
        counters=counters,
        stalls={name: int(rounded[:, i].sum()) for i, name in enumerate(STALL_NAMES)},
        stalls_by_instruction=rounded,
        work_by_instruction=np.rint(work).astype(np.int64),
        block_times=np.full_like(few.block_times, -1),
        launch=plan.trace.launch,
        sampling=sampling,
    )
