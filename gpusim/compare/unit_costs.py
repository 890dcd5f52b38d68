"""The costs of each unit of the machine, times a factor.

Mental model: a GPU description lists costs (latencies, intervals, rates); one entry here is the group of those that
belong to one unit, and :func:`with_costs` is the machine on which some of them are ``factor`` times as high (a latency
longer, a bandwidth lower). All else stays. :mod:`gpusim.compare.gap` scales them to see which of them explain a
measured gap. Unlike :mod:`gpusim.why.counterfactuals`, which makes a unit free, a factor changes a cost a little, up or
down. Costs that are whole cycles are rounded and stay at least 1, so they change in steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpusim.gpus.spec import GpuSpec
from gpusim.trace.record import Flag, PipeClass, Program, Trace

#: Parts of the engine must stay 4 cycles apart (gpusim.gpus.consistency): 5 leaves room for rounding.
_SHORTEST_CYCLES = 5
_MOST_STALL_CYCLES = 15  # the control field has four bits


@dataclass(frozen=True)
class UnitCost:
    """The costs of one unit. ``step``: by how much more to probe them (0.25: a quarter more). ``traffic``: counters of
    the work that costs; ``gpu`` and ``program`` apply a factor; ``applies``: whether a launch uses the unit at all."""

    unit: str
    step: float
    applies: Callable[[Mapping[str, float], Trace], bool]
    gpu: Callable[[GpuSpec, float], GpuSpec] = lambda spec, _factor: spec
    program: Callable[[Program, float], Program] = lambda program, _factor: program
    traffic: tuple[str, ...] = ()


def with_costs(spec: GpuSpec, costs: Iterable[tuple[str, float]]) -> GpuSpec:
    """The machine on which the named units cost so many times as much."""
    for unit, factor in costs:
        spec = BY_NAME[unit].gpu(spec, factor)
    return spec


def program_with_costs(program: Program, costs: Iterable[tuple[str, float]]) -> Program:
    """The program on that machine: its stall counts are part of what issuing costs."""
    for unit, factor in costs:
        program = BY_NAME[unit].program(program, factor)
    return program


def _times(part: Any, factor: float, *names: str) -> Any:
    """``part`` with the named figures multiplied; whole numbers stay whole and at least 1 if they were."""
    changed = {}
    for name in names:
        value = getattr(part, name)
        scaled = value * factor
        changed[name] = max(min(value, 1), round(scaled)) if isinstance(value, int) else scaled
    return replace(part, **changed)


def _launch(gpu: GpuSpec, factor: float) -> GpuSpec:
    return replace(gpu, launch=_times(gpu.launch, factor, "start_cycles", "end_cycles"))


def _blocks(gpu: GpuSpec, factor: float) -> GpuSpec:
    return replace(gpu, launch=_times(gpu.launch, factor, "dispatch_interval_cycles", "block_turnaround_cycles"))


def _stalls(program: Program, factor: float) -> Program:
    code = program.instructions.copy()
    longer = np.floor(code["stall_cycles"] * factor + 0.5)
    code["stall_cycles"] = np.clip(longer, np.minimum(code["stall_cycles"], 1), _MOST_STALL_CYCLES)
    return replace(program, instructions=code)


def _instruction_caches(gpu: GpuSpec, factor: float) -> GpuSpec:
    names = ("l0_miss_cycles", "l15_hit_cycles", "l1_miss_cycles", "l1_interval_cycles")
    return replace(gpu, instruction_cache=_times(gpu.instruction_cache, factor, *names))


def _constant_caches(gpu: GpuSpec, factor: float) -> GpuSpec:
    return replace(gpu, constant_cache=_times(gpu.constant_cache, factor, "miss_cycles"))


def _pipes(gpu: GpuSpec, factor: float) -> GpuSpec:
    pipes = {name: _times(pipe, factor, "interval_cycles", "latency_cycles") for name, pipe in gpu.pipes.items()}
    rates = [name for name in vars(gpu.tensor) if name.endswith("_macs_per_cycle")]
    tensor = _times(gpu.tensor, 1 / factor, *rates)
    return replace(gpu, pipes=pipes, tensor=_times(tensor, factor, "latency_cycles", "f64_latency_cycles"))


def _barriers(gpu: GpuSpec, factor: float) -> GpuSpec:
    return replace(gpu, l1=_times(gpu.l1, factor, "barrier_latency_cycles"))


def _l1_latency(gpu: GpuSpec, factor: float) -> GpuSpec:
    names = ("hit", "shared", "constant", "shuffle")
    return replace(gpu, l1=_times(gpu.l1, factor, *(f"{name}_latency_cycles" for name in names)))


def _l1_throughput(gpu: GpuSpec, factor: float) -> GpuSpec:
    l1 = _times(gpu.l1, factor, "accept_interval_cycles", "address_interval_cycles", "operand_interval_cycles")
    return replace(gpu, l1=_times(l1, 1 / factor, "write_back_bytes_per_cycle"))


def _ports(gpu: GpuSpec, factor: float) -> GpuSpec:
    return replace(gpu, l1=_times(gpu.l1, 1 / factor, "fill_bytes_per_cycle", "store_bytes_per_cycle"))


def _entries(gpu: GpuSpec, factor: float) -> GpuSpec:
    return replace(gpu, l1=_times(gpu.l1, 1 / factor, "miss_entries", "store_entries"))


def _l2_latency(gpu: GpuSpec, factor: float) -> GpuSpec:
    crossbar = _times(gpu.crossbar, factor, "request_latency_ns", "response_latency_ns")
    shortest_ns = gpu.ns(_SHORTEST_CYCLES)
    crossbar = replace(
        crossbar,
        request_latency_ns=max(shortest_ns, crossbar.request_latency_ns),
        response_latency_ns=max(shortest_ns, crossbar.response_latency_ns),
    )
    l2 = _times(gpu.l2, factor, "hit_latency_ns", "far_hit_extra_ns", "far_miss_extra_ns")
    return replace(gpu, crossbar=crossbar, l2=l2)


def _l2_bandwidth(gpu: GpuSpec, factor: float) -> GpuSpec:
    rates = ("slice_bytes_per_ns", "slice_write_bytes_per_ns", "partition_link_bytes_per_ns")
    return replace(gpu, l2=_times(_times(gpu.l2, 1 / factor, *rates), factor, "tag_interval_ns"))


def _l2_atomics(gpu: GpuSpec, factor: float) -> GpuSpec:
    return replace(gpu, l2=_times(gpu.l2, factor, "atomic_interval_ns", "atomic_sector_ns", "atomic_float_cycles"))


def _translation(gpu: GpuSpec, factor: float) -> GpuSpec:
    return replace(gpu, tlb=_times(gpu.tlb, factor, "miss_ns"))


def _dram_latency(gpu: GpuSpec, factor: float) -> GpuSpec:
    shortest_ns = 4 * gpu.ns(_SHORTEST_CYCLES)
    longer = max(shortest_ns, gpu.dram.miss_latency_ns * factor)
    return replace(gpu, dram=replace(_times(gpu.dram, factor, "row_miss_extra_ns"), miss_latency_ns=longer))


def _dram_bandwidth(gpu: GpuSpec, factor: float) -> GpuSpec:
    return replace(gpu, dram=_times(gpu.dram, 1 / factor, "peak_bytes_per_ns"))


def _always(_counters: Mapping[str, float], _trace: Trace) -> bool:
    return True


def _counts(*names: str) -> Callable[[Mapping[str, float], Trace], bool]:
    return lambda counters, _trace: any(counters.get(name, 0) for name in names)


def _has(*pipes: PipeClass) -> Callable[[Mapping[str, float], Trace], bool]:
    return lambda _counters, trace: bool(np.isin(trace.program.instructions["pipe"], pipes).any())


def _waits_at_barriers(_counters: Mapping[str, float], trace: Trace) -> bool:
    return bool((trace.program.instructions["flags"] & Flag.BARRIER_WAIT).any())


_MEMORY_PIPES = (PipeClass.LSU, PipeClass.SHUFFLE, PipeClass.CONSTANT)
_L2_READS, _L2_WRITES = "lts__t_sectors_op_read.sum", "lts__t_sectors_op_write.sum"
_L2_ATOMICS = ("lts__t_sectors_op_atom.sum", "lts__t_sectors_op_red.sum")
_DRAM = ("dram__bytes_read.sum", "dram__bytes_write.sum")

#: From the launch outwards to the far end of memory.
UNIT_COSTS = (
    UnitCost("launch overhead", 1.0, _always, gpu=_launch),
    UnitCost("block start", 1.0, _counts("sm__ctas_launched.sum"), gpu=_blocks),
    UnitCost("issue", 1.0, _always, program=_stalls),
    UnitCost("instruction caches", 0.5, _always, gpu=_instruction_caches),
    UnitCost("constant caches", 0.5, _always, gpu=_constant_caches),
    UnitCost("execution pipes", 1.0, _always, gpu=_pipes),
    UnitCost("barriers", 1.0, _waits_at_barriers, gpu=_barriers),
    UnitCost("L1 and shared latency", 0.25, _has(*_MEMORY_PIPES), gpu=_l1_latency),
    UnitCost(
        "L1 and shared throughput",
        1.0,
        _has(*_MEMORY_PIPES),
        gpu=_l1_throughput,
        traffic=("l1tex__data_pipe_lsu_wavefronts.sum",),
    ),
    UnitCost("L1 miss entries", 0.25, _counts("lts__t_requests.sum"), gpu=_entries),
    UnitCost("crossbar ports", 0.25, _counts("lts__t_requests.sum"), gpu=_ports),
    UnitCost("L2 latency", 0.25, _counts("lts__t_requests.sum"), gpu=_l2_latency),
    UnitCost(
        "L2 bandwidth",
        0.25,
        _counts("lts__t_requests.sum"),
        gpu=_l2_bandwidth,
        traffic=(_L2_READS, _L2_WRITES),
    ),
    UnitCost("L2 atomics", 0.25, _counts(*_L2_ATOMICS), gpu=_l2_atomics, traffic=_L2_ATOMICS),
    UnitCost("address translation", 0.5, _counts("lts__t_requests.sum"), gpu=_translation),
    UnitCost("DRAM latency", 0.25, _counts(_DRAM[0]), gpu=_dram_latency),
    UnitCost("DRAM bandwidth", 0.25, _counts(*_DRAM), gpu=_dram_bandwidth, traffic=_DRAM),
)
BY_NAME = {cost.unit: cost for cost in UNIT_COSTS}
