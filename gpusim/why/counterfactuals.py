"""Counterfactuals, machines with one cost removed, which confirm or refute a suspected limiter.

Mental model: take a GPU (and, where the compiler is the suspect, the program) and remove one cost, leaving all
else as it is: no bandwidth limit at DRAM, no conflicts between banks, twice the warps. What the launch
then saves is what that cost is worth, given everything else; savings of two counterfactuals do not add up.
Latencies become as short as the engine allows, :data:`SHORTEST_CYCLES` between its parts, not zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from gpusim.gpus.spec import GpuSpec
from gpusim.model.occupancy import occupancy
from gpusim.trace.record import Chunk, Flag, Launch, MemoryKind, PipeClass, Program, Space, Trace
from gpusim.why.first_blocks import FirstBlocks
from gpusim.why.retrace import ChangedChunks, side_by_side

#: Parts of the engine must be at least 4 cycles apart (gpusim.gpus.consistency); twice that keeps windows long
#: enough to be quick.
SHORTEST_CYCLES = 8
#: "Infinite" rates: this many times the described one.
_UNLIMITED = 1000


@dataclass(frozen=True)
class Counterfactual:
    """``unit`` made free in the words of ``how``; ``gpu`` changes the machine, ``program`` the program,
    ``launch`` what a block takes of an SM, ``trace`` the grid; ``cycles`` makes of the cycles that a changed launch
    took those that count. ``applies`` says whether the launches use the unit at all."""

    unit: str
    how: str
    applies: Callable[[dict[str, float], Sequence[Trace]], bool]
    gpu: Callable[[GpuSpec, Sequence[Trace]], GpuSpec] = lambda spec, _traces: spec
    program: Callable[[Program], Program] = lambda program: program
    launch: Callable[[Launch], Launch] = lambda launch: launch
    trace: Callable[[Trace, GpuSpec], Trace] = lambda trace, _spec: trace
    cycles: Callable[[int, Trace, Trace, GpuSpec], int] = lambda cycles, _old, _new, _spec: cycles

    def traces(self, traces: Sequence[Trace], spec: GpuSpec) -> list[Trace]:
        """The launches with the changed program, weight and grid."""
        changed = (replace(t, program=self.program(t.program), launch=self.launch(t.launch)) for t in traces)
        return [self.trace(trace, spec) for trace in changed]


def _counts(*names: str) -> Callable[[dict[str, float], Sequence[Trace]], bool]:
    return lambda counters, _traces: any(counters.get(name, 0) for name in names)


def _uses(*pipes: PipeClass) -> Callable[[dict[str, float], Sequence[Trace]], bool]:
    return lambda _counters, traces: any(np.isin(t.program.instructions["pipe"], pipes).any() for t in traces)


def _always(_counters: dict[str, float], _traces: Sequence[Trace]) -> bool:
    return True


def _dram_bandwidth(gpu: GpuSpec, _traces: Sequence[Trace]) -> GpuSpec:
    free = {"read_write_turnaround_ns": 0.0, "row_cycle_ns": 0.0, "write_queue_entries": 65536}
    return replace(gpu, dram=replace(gpu.dram, peak_bytes_per_ns=gpu.dram.peak_bytes_per_ns * _UNLIMITED, **free))


def _dram_latency(gpu: GpuSpec, _traces: Sequence[Trace]) -> GpuSpec:
    # The way there and the answer are each a third or so of the latency (engine.latencies).
    latency_ns = min(gpu.dram.miss_latency_ns, gpu.ns(4 * SHORTEST_CYCLES))
    return replace(gpu, dram=replace(gpu.dram, miss_latency_ns=latency_ns, row_miss_extra_ns=0.0))


def _l2_latency(gpu: GpuSpec, _traces: Sequence[Trace]) -> GpuSpec:
    way_ns = gpu.ns(SHORTEST_CYCLES)
    crossbar = replace(
        gpu.crossbar,
        request_latency_ns=min(gpu.crossbar.request_latency_ns, way_ns),
        response_latency_ns=min(gpu.crossbar.response_latency_ns, way_ns),
    )
    l2 = replace(gpu.l2, hit_latency_ns=0.0, far_hit_extra_ns=0.0, far_miss_extra_ns=0.0)
    return replace(gpu, crossbar=crossbar, tlb=replace(gpu.tlb, miss_ns=0.0), l2=l2)


def _l2_bandwidth(gpu: GpuSpec, _traces: Sequence[Trace]) -> GpuSpec:
    rates = ("slice_bytes_per_ns", "slice_write_bytes_per_ns", "partition_link_bytes_per_ns")
    faster = {name: getattr(gpu.l2, name) * _UNLIMITED for name in rates}
    return replace(gpu, l2=replace(gpu.l2, tag_interval_ns=0.0, **faster))


def _atomics(gpu: GpuSpec, _traces: Sequence[Trace]) -> GpuSpec:
    return replace(gpu, l2=replace(gpu.l2, atomic_interval_ns=0.0, atomic_sector_ns=0.0, atomic_float_cycles=0.0))


def _crossbar_ports(gpu: GpuSpec, _traces: Sequence[Trace]) -> GpuSpec:
    l1 = replace(
        gpu.l1,
        fill_bytes_per_cycle=gpu.l1.fill_bytes_per_cycle * _UNLIMITED,
        store_bytes_per_cycle=gpu.l1.store_bytes_per_cycle * _UNLIMITED,
    )
    return replace(gpu, l1=l1)


def _l1_latency(gpu: GpuSpec, _traces: Sequence[Trace]) -> GpuSpec:
    names = ("hit", "shared", "shuffle", "constant")
    return replace(gpu, l1=replace(gpu.l1, **{f"{name}_latency_cycles": 2 for name in names}))


def _bank_conflicts(gpu: GpuSpec, _traces: Sequence[Trace]) -> GpuSpec:
    return replace(gpu, l1=replace(gpu.l1, bank_conflicts=False))


def _tag_stage(gpu: GpuSpec, _traces: Sequence[Trace]) -> GpuSpec:
    return replace(gpu, l1=replace(gpu.l1, tag_conflicts=False))


def _miss_entries(gpu: GpuSpec, _traces: Sequence[Trace]) -> GpuSpec:
    l1 = gpu.l1
    return replace(gpu, l1=replace(l1, miss_entries=16 * l1.miss_entries, store_entries=16 * l1.store_entries))


def _memory_queue(gpu: GpuSpec, _traces: Sequence[Trace]) -> GpuSpec:
    entries = 16 * gpu.l1.queue_entries
    l1 = replace(gpu.l1, queue_entries=entries, address_interval_cycles=1, operand_interval_cycles=0)
    return replace(gpu, l1=l1)


def _tma(gpu: GpuSpec, _traces: Sequence[Trace]) -> GpuSpec:
    free = {"setup_cycles": 0, "map_cycles": 0, "request_interval_cycles": 1, "completion_cycles": 0}
    entries = {"queue_entries": 16 * gpu.tma.queue_entries, "request_entries": 16 * gpu.tma.request_entries}
    return replace(gpu, tma=replace(gpu.tma, **free, **entries))


def _instruction_caches(gpu: GpuSpec, _traces: Sequence[Trace]) -> GpuSpec:
    free = {"l0_miss_cycles": 0, "l15_hit_cycles": 0, "l1_miss_cycles": 0, "l1_interval_cycles": 0}
    return replace(gpu, instruction_cache=replace(gpu.instruction_cache, **free))


def _constant_caches(gpu: GpuSpec, _traces: Sequence[Trace]) -> GpuSpec:
    return replace(gpu, constant_cache=replace(gpu.constant_cache, miss_cycles=0))


def _register_banks(gpu: GpuSpec, _traces: Sequence[Trace]) -> GpuSpec:
    return replace(gpu, register_file=replace(gpu.register_file, bank_conflicts=False))


def _reads_constants(_counters: dict[str, float], traces: Sequence[Trace]) -> bool:
    return any(
        (t.program.instructions["constant_bytes"] > 0).any() or _uses(PipeClass.CONSTANT)({}, [t]) for t in traces
    )


def _pipes(gpu: GpuSpec, traces: Sequence[Trace]) -> GpuSpec:
    free = {
        name: replace(pipe, interval_cycles=1, shared_by_sm=False, entrance_cycles=0, fewer_registers_cycles=0)
        for name, pipe in gpu.pipes.items()
    }
    return replace(_tensor_cores(gpu, traces), pipes=free)


def _tensor_cores(gpu: GpuSpec, _traces: Sequence[Trace]) -> GpuSpec:
    rates = {item.name: getattr(gpu.tensor, item.name) for item in fields(gpu.tensor)}
    faster = {name: rate * _UNLIMITED for name, rate in rates.items() if name.endswith("_macs_per_cycle")}
    return replace(gpu, tensor=replace(gpu.tensor, **faster, warpgroup_latency_cycles=0))


def _issue(gpu: GpuSpec, _traces: Sequence[Trace]) -> GpuSpec:
    more = 2 * gpu.sm.sub_cores
    if gpu.sm.max_warps % more or more > 16:
        return gpu
    return replace(gpu, sm=replace(gpu.sm, sub_cores=more))


def _residency(gpu: GpuSpec, traces: Sequence[Trace]) -> GpuSpec:
    """Blocks of :func:`_without_resources` launches fill the SM's warps; the L1 stays as large as it was."""
    carveout_kib = max(occupancy(trace.launch, gpu).carveout_bytes for trace in traces) // 1024
    sm = replace(gpu.sm, max_blocks=gpu.sm.max_warps, shared_reserved_bytes=0, shared_carveouts_kib=(carveout_kib,))
    return replace(gpu, sm=sm)


def _without_resources(launch: Launch) -> Launch:
    """A launch whose blocks take warps and nothing else."""
    return replace(launch, registers_per_thread=1, shared_bytes=0)


def _whole_waves(trace: Trace, gpu: GpuSpec) -> Trace:
    """The launch without the blocks of its last, partial wave; as it is if it has none, or nothing else."""
    launch = trace.launch
    if launch.cooperative:
        return trace
    wave = occupancy(launch, gpu).blocks_per_sm * gpu.sm_count
    whole = launch.blocks // wave * wave
    if whole in (0, launch.blocks):
        return trace
    return Trace(trace.program, replace(launch, grid=(whole, 1, 1)), FirstBlocks(trace, whole))


def _spread_tail(cycles: int, old: Trace, new: Trace, gpu: GpuSpec) -> int:
    """What all blocks would take at the whole waves' pace."""
    if old.launch.blocks == new.launch.blocks:
        return cycles
    overhead = min(cycles, gpu.launch.start_cycles + gpu.launch.end_cycles)
    return overhead + round((cycles - overhead) * old.launch.blocks / new.launch.blocks)


def _launch(gpu: GpuSpec, _traces: Sequence[Trace]) -> GpuSpec:
    return replace(gpu, launch=replace(gpu.launch, start_cycles=0, end_cycles=0))


def _no_stall_counts(program: Program) -> Program:
    """Every instruction may follow at once, and fixed latencies are over by then."""
    code = program.instructions.copy()
    code["stall_cycles"] = 1
    return replace(program, instructions=code)


def _no_barriers(program: Program) -> Program:
    code = program.instructions.copy()
    code["flags"] &= ~np.uint32(Flag.BARRIER_WAIT)
    return replace(program, instructions=code)


def _no_fences(program: Program) -> Program:
    code = program.instructions.copy()
    code["flags"] &= ~np.uint32(Flag.FENCE | Flag.DEVICE_FENCE)
    return replace(program, instructions=code)


def _seen_at_once(trace: Trace, _gpu: GpuSpec) -> Trace:
    """The launch with whatever warps poll for there when they first look."""
    return Trace(trace.program, trace.launch, ChangedChunks(trace.chunk_list, lambda: _without_signals))


def _without_signals(chunk: Chunk) -> Chunk:
    return replace(chunk, signals=chunk.signals[:0])


def _polls(counters: dict[str, float], _traces: Sequence[Trace]) -> bool:
    return bool(counters.get("sm__warp_cycles_polling.sum"))


_L1_SPACES = ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum")
_SHARED = ("smsp__inst_executed_op_shared_ld.sum", "smsp__inst_executed_op_shared_st.sum")
_GLOBAL_LINES = (*_L1_SPACES, "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum")
_DRAM = ("dram__bytes_read.sum", "dram__bytes_write.sum")


def _has_barriers(_counters: dict[str, float], traces: Sequence[Trace]) -> bool:
    return any((t.program.instructions["flags"] & Flag.BARRIER_WAIT).any() for t in traces)


def _has_fences(_counters: dict[str, float], traces: Sequence[Trace]) -> bool:
    return any((t.program.instructions["flags"] & (Flag.FENCE | Flag.DEVICE_FENCE)).any() for t in traces)


def _has_atomics(_counters: dict[str, float], traces: Sequence[Trace]) -> bool:
    kinds = (MemoryKind.ATOMIC, MemoryKind.REDUCTION)
    return any(np.isin(t.program.instructions["memory_kind"], kinds).any() for t in traces)


def _lanes_meet(table: np.ndarray) -> np.ndarray:
    """Instructions whose lanes take turns at a word of shared memory: atomics, and arrivals at an mbarrier."""
    return (table["space"] == Space.SHARED) & np.isin(table["memory_kind"], (MemoryKind.ATOMIC, MemoryKind.REDUCTION))


def _has_lanes_that_meet(_counters: dict[str, float], traces: Sequence[Trace]) -> bool:
    return any(_lanes_meet(t.program.instructions).any() for t in traces)


def _no_turns(trace: Trace, _gpu: GpuSpec) -> Trace:
    return side_by_side(trace, _lanes_meet(trace.program.instructions))


def _limited_by_resources(counters: dict[str, float], _traces: Sequence[Trace]) -> bool:
    """Whether something else than the SM's warps limits how many blocks it holds."""
    limits = {name: value for name, value in counters.items() if name.startswith("launch__occupancy_limit_")}
    return min(limits.values()) < limits["launch__occupancy_limit_warps"]


#: In the order of the machine, from the far end inwards.
COUNTERFACTUALS = (
    Counterfactual("DRAM bandwidth", "infinite, and no turnaround", _counts(*_DRAM), _dram_bandwidth),
    Counterfactual("DRAM latency", f"{4 * SHORTEST_CYCLES} cycles in all", _counts(_DRAM[0]), _dram_latency),
    Counterfactual("L2 bandwidth", "infinite, partition link too", _counts("lts__t_requests.sum"), _l2_bandwidth),
    Counterfactual(
        "L2 latency",
        f"{2 * SHORTEST_CYCLES} cycles, crossbar and TLB included",
        _counts("lts__t_requests.sum"),
        _l2_latency,
    ),
    Counterfactual("L2 atomics", "no time an operation", _has_atomics, _atomics),
    Counterfactual("crossbar ports", "infinite width at the SM", _counts("lts__t_requests.sum"), _crossbar_ports),
    Counterfactual("L1 miss entries", "16 times as many", _counts("lts__t_requests.sum"), _miss_entries),
    Counterfactual("L1 and shared latency", "2 cycles", _counts(*_L1_SPACES, *_SHARED), _l1_latency),
    Counterfactual("bank conflicts", "none, in shared memory and L1", _counts(*_L1_SPACES, *_SHARED), _bank_conflicts),
    Counterfactual(
        "shared atomics",
        "a warp's lanes take no turns at a word, a bank or an mbarrier",
        _has_lanes_that_meet,
        trace=_no_turns,
    ),
    Counterfactual("L1 tag stage", "one lookup an instruction", _counts(*_GLOBAL_LINES), _tag_stage),
    Counterfactual("TMA", "no set-up, a request a cycle, 16 times as many", _uses(PipeClass.TMA), _tma),
    Counterfactual(
        "memory queue", "16 times as long, addresses at once", _uses(PipeClass.LSU, PipeClass.SHUFFLE), _memory_queue
    ),
    Counterfactual("constant caches", "nothing missing", _reads_constants, _constant_caches),
    Counterfactual("instruction caches", "nothing missing", _always, _instruction_caches),
    Counterfactual("register-file ports", "no operand waits", _always, _register_banks),
    Counterfactual("tensor cores", "no time a multiply-add", _uses(PipeClass.TENSOR), _tensor_cores),
    Counterfactual("execution pipes", "one warp instruction a cycle each", _always, _pipes),
    Counterfactual("issue slots", "twice as many sub-cores", _always, _issue),
    Counterfactual("fixed latencies", "no stall counts", _always, program=_no_stall_counts),
    Counterfactual("barriers", "nobody waits", _has_barriers, program=_no_barriers),
    Counterfactual("fences", "no wait for the warp's own stores", _has_fences, program=_no_fences),
    Counterfactual("waiting by polling", "no waiting on other warps", _polls, trace=_seen_at_once),
    Counterfactual(
        "occupancy",
        "no limit by registers, shared memory or blocks",
        _limited_by_resources,
        _residency,
        launch=_without_resources,
    ),
    Counterfactual(
        "tail wave", "the last wave's blocks spread over all", _always, trace=_whole_waves, cycles=_spread_tail
    ),
    Counterfactual("launch overhead", "no time to start and to end", _always, _launch),
)
