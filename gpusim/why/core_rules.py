"""Rules about what an SM does between its memory accesses: barriers, arithmetic, code, issue slots."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gpusim.engine.bound import ROOF_PERCENT
from gpusim.gpus.spec import GpuSpec
from gpusim.model import counters as count
from gpusim.model import stall_reasons as stall
from gpusim.model.stall_reasons import SELECTED
from gpusim.trace.record import WARP_LANES, Flag, PipeClass, Trace
from gpusim.why.evidence import Evidence
from gpusim.why.proposal import LEAST_PERCENT, Proposal, counterfactual

_ARITHMETIC = (
    PipeClass.ALU, PipeClass.ALU_LITE, PipeClass.FMA, PipeClass.FMA_PAIRS, PipeClass.IMAD, PipeClass.IMAD_WIDE, PipeClass.HALF, PipeClass.HALF_MMA,
    PipeClass.VIADD, PipeClass.FP64,
)  # fmt: skip


def barriers(found: Evidence) -> Iterator[Proposal]:
    """Warps that wait for the other warps of their block."""
    percent = found.percent_of(stall.BARRIER)
    if percent < LEAST_PERCENT:
        return
    table = found.program.instructions
    meets = table["flags"] & Flag.BARRIER_WAIT != 0
    # Warps are charged where they go on: the barrier stands before it.
    waited = int(np.argmax(found.stalls[:, stall.BARRIER]))
    before = np.flatnonzero(meets[:waited])
    place = found.place(int(before[-1]) if len(before) else waited)

    def free(trace: Trace) -> Trace:
        code = trace.program.instructions.copy()
        code["flags"] &= ~np.uint32(Flag.BARRIER_WAIT)
        return replace(trace, program=replace(trace.program, instructions=code))

    yield Proposal(
        "barriers", percent, place, f"warps wait for each other ({percent:.3g} % of the warp-cycles)",
        "let fewer warps meet (smaller blocks, shuffles within a warp), or less often", "nobody waits at a barrier",
        trace=free, at_most=True,
    )  # fmt: skip


def dependency_chains(found: Evidence) -> Iterator[Proposal]:
    """Fixed latencies of arithmetic that the next instruction waits for."""
    table = found.program.instructions
    slow = np.isin(table["pipe"], _ARITHMETIC) & (table["stall_cycles"] >= 3)
    # Warps are charged where they go on: the instruction before it has the stall count.
    charged = np.concatenate((found.stalls[1:, stall.WAIT], [0])) * slow
    percent = 100.0 * float(charged.sum()) / found.warp_cycles
    if percent < LEAST_PERCENT:
        return

    def shorter(trace: Trace) -> Trace:
        code = trace.program.instructions.copy()
        code["stall_cycles"][slow] = (code["stall_cycles"][slow] + 1) // 2
        return replace(trace, program=replace(trace.program, instructions=code))

    yield Proposal(
        "dependency chains", percent, found.place(int(np.argmax(charged))), "each operation needs the one before it",
        "work on two independent values at a time (two accumulators)", "half the cycles between dependent operations",
        trace=shorter,
    )  # fmt: skip


def double_precision(found: Evidence) -> Iterator[Proposal]:
    """Arithmetic on the FP64 pipe."""
    table = found.program.instructions
    double = table["pipe"] == PipeClass.FP64
    issued = found.stalls[double, SELECTED].sum()
    pipe = found.spec.pipes["fp64"]
    copies = found.spec.sm_count * (1 if pipe.shared_by_sm else found.spec.sm.sub_cores)
    busy = 100.0 * issued * pipe.interval_cycles / max(1, found.cycles * copies)
    percent = max(busy, 100.0 * float(found.stalls[double].sum()) / found.warp_cycles)
    if percent < LEAST_PERCENT:
        return
    heaviest = np.where(double, found.stalls[:, SELECTED], 0)

    def single(trace: Trace) -> Trace:
        code = trace.program.instructions.copy()
        code["pipe"][double] = PipeClass.FMA
        return replace(trace, program=replace(trace.program, instructions=code))

    yield Proposal(
        "double precision", percent, found.place(int(np.argmax(heaviest))), "arithmetic in float64",
        "float32 where it is precise enough (a bare 0.5 is a float64)", "its operations on the FP32 pipe", trace=single,
    )  # fmt: skip


def code_size(found: Evidence) -> Iterator[Proposal]:
    """Instructions that the caches of code do not hold, or not yet."""
    percent = found.percent_of(stall.NO_INSTRUCTION)
    if percent < LEAST_PERCENT:
        return
    cache, table = found.spec.instruction_cache, found.program.instructions
    ran = found.stalls[:, SELECTED] > 0
    size = len(np.unique(table["address"][ran] // cache.line_bytes)) * cache.line_bytes
    hottest = found.place(int(np.argmax(found.stalls[:, stall.NO_INSTRUCTION])))
    if size > cache.l0_bytes:
        level, holds = ("L1", cache.l1_bytes) if size > cache.l1_bytes else ("L0", cache.l0_bytes)

        def larger(spec: GpuSpec) -> GpuSpec:
            old = spec.instruction_cache
            new = replace(old, l0_bytes=8 * old.l0_bytes, l1_bytes=8 * old.l1_bytes, l15_bytes=8 * old.l15_bytes)
            return replace(spec, instruction_cache=new)

        yield Proposal(
            "code size", percent, hottest,
            f"{size / 1024:.3g} KiB of code run through an instruction cache ({level}) of {holds / 1024:.3g} KiB",
            "unroll less, split the kernel, or call what is inlined often", "instruction caches that hold it all",
            gpu=larger,
        )  # fmt: skip
    yield Proposal(
        "cold code", percent / 2, "", f"{size / 1024:.3g} KiB of code are fetched for the first time",
        "let one launch do more, or launch again while the caches hold it",
        "the code in the instruction caches", warm_code=True,
    )  # fmt: skip


def issue_roof(found: Evidence) -> Iterator[Proposal]:
    """Issue slots at their peak."""
    slots = found.cycles * found.spec.sm_count * found.spec.sm.sub_cores
    busy = 100.0 * float(found.stalls[:, SELECTED].sum()) / max(1, slots)
    if busy < ROOF_PERCENT:
        return
    more = counterfactual("issue slots").gpu
    lanes = float(found.work[:, count.THREAD_INSTRUCTIONS].sum()) / max(1, int(found.stalls[:, SELECTED].sum()))
    whole = min(WARP_LANES, math.prod(found.first.launch.block))
    roof, remedy = (
        f"at the roof: {busy:.3g} % of the issue slots are used",
        "fewer instructions only (wider accesses, less index arithmetic)",
    )
    if lanes < whole / 2:
        roof += f", with {lanes:.3g} of {whole} lanes active"
        remedy = "let a warp's lanes take one way (sort the work, or cut it by warps)"
    yield Proposal(
        "issue roof", busy, found.place(int(np.argmax(found.stalls[:, SELECTED]))), roof,
        f"{remedy}; with half the instructions", "twice the issue slots", gpu=lambda spec: more(spec, []),
    )  # fmt: skip
