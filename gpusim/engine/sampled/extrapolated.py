"""Counters of a launch of which waves and iterations were left out.

Mental model: an instruction makes the SM do the same whenever it issues (sectors asked for, wavefronts, bank
conflicts), and how often it issues in the whole launch is known, so its work is the simulated work times that ratio.
What it finds in a cache, stalls, L2 and DRAM are added as they were measured: what an iteration adds while all warps
are in their loops, for each iteration left out, and what the second wave added from the first one's end to its own, for
each wave left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from gpusim.engine.result import LaunchResult
from gpusim.engine.sampled.loop_watch import LoopWatch
from gpusim.engine.sampled.plan import IterationPlan
from gpusim.engine.sampling import Reading
from gpusim.model.counters import (
    ATOMIC_SECTORS,
    COUNTER_NAMES,
    LOAD_SECTOR_HITS,
    LOCAL_LOAD_SECTOR_HITS,
    SECTORS_TO_L2,
    WARP_CYCLES,
    WORK_NAMES,
)
from gpusim.model.stall_reasons import SELECTED, STALL_NAMES
from gpusim.trace.synthesis import RegularChunks

#: Columns of an instruction's work that depend on what a cache holds.
_MEASURED = (LOAD_SECTOR_HITS, LOCAL_LOAD_SECTOR_HITS)
#: Counters of L2 that are as many as a column of the work says: what is written through, and atomics.
_FOLLOWS = {
    "lts__t_sectors_op_write.sum": SECTORS_TO_L2,
    "lts__t_sectors_op_atom.sum": ATOMIC_SECTORS,
    "lts__t_sectors_op_red.sum": ATOMIC_SECTORS,
}


def extrapolated(
    plan: IterationPlan, watch: LoopWatch, part: LaunchResult, rates: list[Reading | None], surest: int, cycles: int
) -> LaunchResult:
    """The result of the whole launch, which takes ``cycles``, from that of the ``part`` simulated and the ``rates``:
    what an iteration of a block of each part adds, None where that could not be read; ``surest``: the part of which it
    is known best."""
    known = [each for each in rates if each is not None]
    measured = [name for name in part.counters if _is_measured(name)]

    def flat(reading: Reading) -> np.ndarray:
        totals = dict(zip(COUNTER_NAMES, reading.totals.tolist(), strict=True)) | dict(reading.memory)
        values = np.array([totals[name] for name in measured], np.float64)
        return np.concatenate((values, reading.stalls.ravel(), reading.work[:, _MEASURED].ravel()))

    work = part.work_by_instruction
    end = np.concatenate((
        np.array([part.counters[name] for name in measured], np.float64),
        part.stalls_by_instruction.ravel(), work[:, _MEASURED].ravel(),
    ))  # fmt: skip
    if not known:
        whole = end * (plan.trace.warp_instructions / plan.part().warp_instructions)
    else:
        # What caches hold is that of the second wave on, what SMs do is seen best where most of a wave was in its loop.
        instead = flat(rates[1] if len(rates) > 1 and rates[1] is not None else known[0])
        instead[len(measured) :] = flat(rates[surest] or known[0])[len(measured) :]
        whole = end.copy()
        for each, rate in zip(plan.parts, rates, strict=True):
            whole += each.blocks * (plan.iterations - each.iterations) * (instead if rate is None else flat(rate))
        if plan.left_out:
            of_a_wave, done = watch.second_wave()
            whole += plan.left_out * (flat(of_a_wave) + (plan.iterations * plan.wave - done) * instead)
    values = np.rint(np.maximum(whole, 0)).astype(np.int64)
    n = len(measured)
    stalls = values[n : n + part.stalls_by_instruction.size].reshape(part.stalls_by_instruction.shape)
    chunks = plan.trace.chunk_list
    assert isinstance(chunks, RegularChunks)
    executions = chunks.executions(len(stalls))
    ratio = executions / np.maximum(1, part.stalls_by_instruction[:, SELECTED])
    every_work = np.rint(work * ratio[:, None]).astype(np.int64)
    for name, column in _FOLLOWS.items():
        if of_part := int(work[:, column].sum()):
            values[measured.index(name)] = round(part.counters[name] * int(every_work[:, column].sum()) / of_part)
    every_work[:, _MEASURED] = values[n + stalls.size :].reshape(-1, len(_MEASURED))
    stalls[:, SELECTED] = executions
    return with_tables(plan, part, cycles, stalls, every_work, dict(zip(measured, values[:n].tolist(), strict=True)))


def with_tables(
    plan: IterationPlan,
    part: LaunchResult,
    cycles: int,
    stalls: np.ndarray,
    work: np.ndarray,
    memory: Mapping[str, float],
) -> LaunchResult:
    """The ``part`` made the whole launch: its ``cycles``, what its instructions waited for and did, and the ``memory``
    counters."""
    warp_cycles, launch = int(stalls.sum()), plan.trace.launch
    active = 100.0 * warp_cycles / (cycles * plan.spec.sm_count * plan.spec.sm.max_warps)
    counters: dict[str, float] = dict(part.counters) | dict(memory)
    counters |= dict(zip(WORK_NAMES, work.sum(axis=0).tolist(), strict=True))
    for name in counters:
        every = name.replace(".max", ".sum")
        if name != every and part.counters.get(every):  # of the busiest one of several
            counters[name] = round(part.counters[name] * counters[every] / part.counters[every])
    counters |= {
        "sm__cycles_elapsed.max": cycles,
        "smsp__inst_executed.sum": int(stalls[:, SELECTED].sum()),
        "sm__warps_active.avg.pct_of_peak_sustained_active": active,
        "sm__warps_launched.sum": launch.blocks * launch.warps_per_block,
        "sm__ctas_launched.sum": launch.blocks,
        COUNTER_NAMES[WARP_CYCLES]: warp_cycles,
    }
    return replace(
        part,
        cycles=cycles,
        counters=counters,
        stalls={name: int(stalls[:, i].sum()) for i, name in enumerate(STALL_NAMES)},
        stalls_by_instruction=stalls,
        work_by_instruction=work,
        block_times=np.full((launch.blocks, part.block_times.shape[1]), -1, np.int64),
        launch=launch,
    )


def _is_measured(counter: str) -> bool:
    """Whether a counter is a sum over the launch that does not follow from how often instructions issue."""
    if counter in WORK_NAMES or counter == "smsp__inst_executed.sum":
        return False
    return not any(part in counter for part in ("pct", "launch__occupancy_limit", ".max"))
