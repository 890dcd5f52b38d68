"""The crossbar: how long a message travels, and which half of the L2 an SM is wired to.

Mental model: two bundles of pipelined wires, SM to L2 and back, each with a fixed latency; their widths
are those of the ports at their ends (the SM's fill and store ports, the slices' ports). SMs stand in groups (GPCs), of
which neighbouring TPCs, two SMs each, belong to different ones. Each group is wired to the slices of one partition;
what the other half owns arrives over the link between the halves, which the L2 models.

Source of the numbering: clusters on an RTX 5090 (lookup1980/microbench-blackwell): SMs 2i and 2i + 1 are a TPC, TPC i
is in group i % 11.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec
from gpusim.model.compiled import compiled
from gpusim.model.messages import TICKS_PER_CYCLE
from gpusim.model.whole_division import remainder


def ticks(spec: GpuSpec, time_ns: float) -> int:
    """``time_ns`` in whole ticks of this GPU's SM clock (to the nearest)."""
    return round(spec.cycles(time_ns) * TICKS_PER_CYCLE)


def request_latency_ticks(spec: GpuSpec) -> int:
    """SM output to L2 slice input, one way, in ticks."""
    return ticks(spec, spec.crossbar.request_latency_ns)


def response_latency_ticks(spec: GpuSpec) -> int:
    """L2 slice output to SM input port, one way, in ticks."""
    return ticks(spec, spec.crossbar.response_latency_ns)


#: Levels of distance, and steps that have no factor in common with them: neighbours differ. Which SM or slice is how
#: far is made up.
_SM_LEVELS, _SM_STEP, _SLICE_LEVELS, _SLICE_STEP = 9, 5, 17, 7


def sm_ways(spec: GpuSpec) -> np.ndarray:
    """Ticks by which an SM's round trip to L2 takes longer than the nearest one's, int64[SMs + 1]: both SMs of a TPC
    alike, SM 0 at the mean, and so is what comes from other devices, behind the SMs."""
    levels = ((np.arange(spec.sm_count) >> 1) * _SM_STEP + _SM_LEVELS // 2) % _SM_LEVELS
    levels = np.append(levels, _SM_LEVELS // 2)
    return np.rint(levels * ticks(spec, spec.crossbar.sm_spread_ns) / (_SM_LEVELS - 1)).astype(np.int64)


def slice_ways(spec: GpuSpec) -> np.ndarray:
    """Ticks by which the round trip to an L2 slice takes longer than that to the nearest, int64[slices]."""
    levels = np.arange(spec.l2.slices) * _SLICE_STEP % _SLICE_LEVELS
    return np.rint(levels * ticks(spec, spec.crossbar.slice_spread_ns) / (_SLICE_LEVELS - 1)).astype(np.int64)


def nearest_hit_ticks(spec: GpuSpec) -> int:
    """Ticks of a hit in the nearest slice from the nearest SM: ``l2.hit_latency_ns`` is the mean. Raises SpecError
    where no time is left."""
    spread_ns = spec.crossbar.sm_spread_ns + spec.crossbar.slice_spread_ns
    found = ticks(spec, spec.l2.hit_latency_ns) - ticks(spec, spread_ns / 2)
    if found < 0:
        raise SpecError(
            f"{spec.name}: crossbar.sm_spread_ns and slice_spread_ns, {spread_ns:g} in all, are more than twice l2.hit_latency_ns"
        )
    return found


def gpc_count(spec: GpuSpec) -> int:
    """How many groups the SMs stand in; 0: none."""
    return -(-spec.sm_count // spec.crossbar.sms_per_gpc) if spec.crossbar.sms_per_gpc else 0


@compiled
def gpc_of_sm(sm: int, gpcs: int) -> int:
    """The group of an SM."""
    return remainder(sm >> 1, gpcs)


@compiled
def partition_of_sm(sm: int, partitions: int, gpcs: int) -> int:
    """The L2 partition that an SM is wired to: the first half of the groups to one, the others to the other; neighbours
    alternate where there are no groups (``gpcs`` = 0). Blocks that follow one another start in groups that do, so small
    grids use both, and most neighbours lie in one half: inferred from products on an H100 whose neighbouring blocks
    read the same rows (autotuned_h100, learning half: with groups that alternate 16 to 42 % too slow, with halves 4 to
    21)."""
    return gpc_of_sm(sm, gpcs) * partitions // gpcs if gpcs else remainder(sm, partitions)


def service_order(spec: GpuSpec, cluster_blocks: int) -> np.ndarray:
    """SMs in the order in which they get their first blocks, int64[SMs]: from group to group, a cluster at a time. A
    group's SMs that are too few for one more cluster are not among them."""
    return np.array(_service_order(spec.sm_count, gpc_count(spec), cluster_blocks), np.int64)


@cache
def _service_order(sm_count: int, gpcs: int, cluster_blocks: int) -> tuple[int, ...]:
    """Kept, since each launch asks for it several times."""
    if gpcs == 0:
        return tuple(range(sm_count))
    groups: list[list[int]] = [[] for _ in range(gpcs)]
    for sm in range(sm_count):
        groups[gpc_of_sm(sm, gpcs)].append(sm)
    turns = range(max(map(len, groups)) // cluster_blocks)
    parts = [group[turn * cluster_blocks : (turn + 1) * cluster_blocks] for turn in turns for group in groups]
    return tuple(sm for part in parts if len(part) == cluster_blocks for sm in part)
