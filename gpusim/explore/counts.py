"""The property ``counts``: what follows from the trace alone, counted twice; and totals that must add up.

Mental model: a wrong cycle count can be argued about, a wrong count of sectors cannot. Every instruction's issues,
lanes, requests, sectors and bank passes are counted from the trace by :mod:`gpusim.explore.trace_counts` and laid
beside what the model counted; blocks, warps, and the split of warp-cycles over stall reasons must add up. Any
difference at all is a divergence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from gpusim.engine.result import LaunchResult
from gpusim.explore.cover import cover
from gpusim.explore.own_properties import COUNTS
from gpusim.explore.property import Outcome, Property
from gpusim.explore.trace_counts import ISSUES, count_trace
from gpusim.gpus.spec import GpuSpec
from gpusim.model.counters import WORK_NAMES
from gpusim.model.stall_reasons import SELECTED
from gpusim.trace.record import Trace


class Counts(Property):
    """Counters against a count of the trace with NumPy, instruction by instruction."""

    name = "counts"
    asks = COUNTS.asks

    def __init__(self, gpu: GpuSpec) -> None:
        self.gpu = gpu

    def measure(self, kernel: str, shape: Mapping[str, Any]) -> Outcome:
        covered = cover(kernel, shape, self.gpu)
        worst, detail, checked = 0.0, "", 0
        for trace, launch in zip(covered.traces, covered.result.launches, strict=True):
            for what, counted, expected in _pairs(trace, launch, self.gpu):
                checked += 1
                off = counted / expected - 1.0 if expected else float(counted != 0)
                if abs(off) > abs(worst):
                    worst, detail = off, f"{launch.kernel}: {what} is {counted:.0f}, the trace has {expected:.0f}"
        return Outcome(worst, detail or f"{checked} counts agree", covered.coverage)


def _pairs(trace: Trace, launch: LaunchResult, gpu: GpuSpec) -> Iterator[tuple[str, float, float]]:
    """(what, as the model counted it, as the trace or the other side of a sum has it)."""
    yield "sm__ctas_launched.sum", launch.counters["sm__ctas_launched.sum"], trace.launch.blocks
    warps = trace.launch.blocks * trace.launch.warps_per_block
    yield "sm__warps_launched.sum", launch.counters["sm__warps_launched.sum"], warps
    stalls = float(sum(launch.stalls.values()))
    yield "the sum of warp-cycles over stall reasons", stalls, launch.counters["sm__warps_active.sum"]
    for column, expected in count_trace(trace, gpu.l1.bank_count).items():
        if column == ISSUES:
            name, counted = "issues", launch.stalls_by_instruction[:, SELECTED]
        else:
            name, counted = WORK_NAMES[column], launch.work_by_instruction[:, column]
        known = expected >= 0
        wrong = np.flatnonzero(known & (counted != expected))
        if wrong.size:
            index = int(wrong[np.argmax(np.abs(counted[wrong] - expected[wrong]))])
            yield f"{name} of instruction {index}", float(counted[index]), float(expected[index])
        else:
            yield name, float(counted[known].sum()), float(expected[known].sum())
