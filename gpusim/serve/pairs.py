"""GPU against GPU: what the same launches take on two of them.

Mental model: two series are a pair when they differ in the GPU alone; what is compared is time, at each GPU's own
clock, at the newest commit of each. A mean of ratios is geometric, so that twice as fast and twice as slow cancel.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations

from gpusim.serve.newest import Newest, PlanState


@dataclass(frozen=True)
class GpuPair:
    """A launch on two GPUs; ``ratio``: time on the second over time on the first, below 1 where the second is
    faster."""

    first: Newest
    second: Newest
    first_us: float
    second_us: float

    @property
    def ratio(self) -> float:
        return self.second_us / self.first_us


@dataclass(frozen=True)
class KernelRatio:
    """The geometric mean of a kernel's ratios, and of its times on each GPU; ``series``: of the first of them on the
    second GPU."""

    kernel: str
    ratio: float
    first_us: float
    second_us: float
    count: int
    series: int


def gpu_pairs(state: PlanState, first: str, second: str) -> list[GpuPair]:
    """The launches that both GPUs have run, from where the second gains most."""
    on_first = {_name(each): each for each in state.newest if each.key.gpu == first and each.time_us}
    found = []
    for each in state.newest:
        other = on_first.get(_name(each))
        if each.key.gpu == second and other is not None and each.time_us and other.time_us:
            found.append(GpuPair(other, each, other.time_us, each.time_us))
    return sorted(found, key=lambda pair: pair.ratio)


def mean_ratios(state: PlanState) -> dict[tuple[str, str], tuple[float, int]]:
    """(first, second) GPU -> the geometric mean of their launches' ratios, and how many launches both have run."""
    times: dict[tuple, dict[str, float]] = {}
    for each in state.newest:
        time_us = each.time_us
        if time_us:
            times.setdefault(_name(each), {})[each.key.gpu] = math.log(time_us)
    sums: dict[tuple[str, str], tuple[float, int]] = {}
    for own in times.values():
        for first, second in permutations(own, 2):
            total, count = sums.get((first, second), (0.0, 0))
            sums[first, second] = (total + own[second] - own[first], count + 1)
    return {pair: (math.exp(total / count), count) for pair, (total, count) in sums.items()}


def kernel_ratios(pairs: Iterable[GpuPair]) -> list[KernelRatio]:
    """One row a kernel, from where the second GPU gains most."""
    groups: dict[str, list[GpuPair]] = {}
    for pair in pairs:
        groups.setdefault(pair.first.key.kernel, []).append(pair)
    rows = [
        KernelRatio(kernel, geometric_mean([p.ratio for p in own]), geometric_mean([p.first_us for p in own]),
                    geometric_mean([p.second_us for p in own]), len(own), own[0].second.key.id)
        for kernel, own in groups.items()
    ]  # fmt: skip
    return sorted(rows, key=lambda row: row.ratio)


def geometric_mean(values: Sequence[float]) -> float:
    """Of positive values; NaN of none."""
    return math.exp(math.fsum(map(math.log, values)) / len(values)) if values else math.nan


def _name(each: Newest) -> tuple:
    key = each.key
    return key.kernel, key.shape, key.launch, key.toolchain, key.mode
