"""Which bins a simulated launch falls into: the answers to the questions of the coverage model.

Mental model: a launch is looked at from three sides: what it is (shape, resources, instructions), what its trace
touches (:mod:`gpusim.explore.accesses`), and what the model says of it (counters, stall reasons, the lower bounds
that come near). Each becomes bins of :data:`gpusim.explore.points.POINTS`; crosses follow from them.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

import numpy as np

from gpusim.engine.result import LaunchResult
from gpusim.explore.accesses import access_facts
from gpusim.explore.launch_points import launch_answers, upto
from gpusim.explore.opcode_classes import opcode_class
from gpusim.explore.points import CROSS, CROSSES, NONE, POINTS, Bin, cross_name, impossible
from gpusim.gpus.spec import GpuSpec
from gpusim.model import counters as count
from gpusim.model.stall_reasons import SELECTED
from gpusim.theory.bounds import lower_bounds
from gpusim.theory.footprint import footprint
from gpusim.trace.record import MatrixType, MemoryKind, PipeClass, Space, Trace

#: A unit limits a launch whose cycles its lower bound comes so near to: the share of its peak above which Nsight
#: Compute's guided analysis calls a unit the bottleneck.
LIMITING_SHARE = 0.6
_SPACES = {Space.GLOBAL: "global", Space.GENERIC: "global", Space.SHARED: "shared", Space.LOCAL: "local"}
_KINDS = {
    MemoryKind.LOAD: "load",
    MemoryKind.STORE: "store",
    MemoryKind.ATOMIC: "atomic",
    MemoryKind.REDUCTION: "reduction",
    MemoryKind.MATRIX_LOAD: "matrix_load",
}
_FLOATS = {
    PipeClass.HALF: "float16", PipeClass.HALF_MMA: "float16", PipeClass.FMA: "float32", PipeClass.FMA_PAIRS: "float32",
    PipeClass.FP64: "float64",
}  # fmt: skip
_INTEGERS = (PipeClass.ALU, PipeClass.ALU_LITE, PipeClass.VIADD, PipeClass.IMAD, PipeClass.IMAD_WIDE)

Answers = dict[str, set[str]]


def observe(trace: Trace, launch: LaunchResult, gpu: GpuSpec) -> frozenset[Bin]:
    """The bins of points and crosses that ``launch``, the simulation of ``trace`` on ``gpu``, falls into."""
    answers: Answers = {}
    _shape(launch, gpu, answers)
    _instructions(launch, answers)
    _memory(trace, launch, gpu, answers)
    _accesses(trace, answers)
    _time(trace, launch, gpu, answers)
    return frozenset(_bins(answers))


def _bins(answers: Answers) -> Iterable[Bin]:
    for name, found in answers.items():
        point = POINTS[name]
        unknown = found - set(point.bins)
        assert not unknown, f"{name} has no bins {unknown}"
        yield from ((name, label) for label in found)
    for pair in CROSSES:
        for first, second in product(*(answers[name] for name in pair)):
            if not impossible((pair[0], first), (pair[1], second)):
                yield cross_name(pair), CROSS.join((first, second))


def _shape(launch: LaunchResult, gpu: GpuSpec, answers: Answers) -> None:
    facts = launch.launch
    answers |= launch_answers(
        facts.grid,
        facts.block,
        facts.registers_per_thread,
        facts.shared_bytes,
        launch.blocks_per_sm,
        launch.occupancy_limiter,
        gpu,
    )


def _instructions(launch: LaunchResult, answers: Answers) -> None:
    """Points about what was executed (not merely compiled)."""
    issues = launch.stalls_by_instruction[:, SELECTED]
    table = launch.program.instructions[issues > 0]
    pipes = {PipeClass(int(pipe)) for pipe in np.unique(table["pipe"])} - {PipeClass.NONE}
    answers["pipe"] = {pipe.name.lower() for pipe in pipes}
    answers["opcode"] = {opcode_class(launch.program.texts[place]) for place in np.flatnonzero(issues > 0).tolist()}
    types = {name for pipe, name in _FLOATS.items() if pipe in pipes}
    if pipes & set(_INTEGERS):
        types.add("integer")
    matrix = set(np.unique(table["matrix_type"]).tolist()) - {int(MatrixType.NONE)}
    answers["dtype"] = types | {f"tensor.{MatrixType(kind).name.lower()}" for kind in matrix}
    answers["access"] = set(_access_kinds(table))
    wide = np.isin(table["space"], list(_SPACES)) & (table["memory_kind"] != MemoryKind.NONE)
    widths = {str(width) for width in np.unique(table["access_bytes"][wide]).tolist()}
    answers["access_bytes"] = widths & set(POINTS["access_bytes"].bins)
    executed = int(issues.sum())
    lanes = launch.counters["smsp__thread_inst_executed.sum"] / max(1, executed)
    answers["divergence"] = {upto(lanes, (8, 16, 24, 31.999), POINTS["divergence"].bins)}
    barriers = int(issues[launch.program.instructions["pipe"] == PipeClass.BARRIER].sum())
    density = 1000 * barriers / max(1, executed)
    answers["barriers"] = {upto(density, (0, 0.999, 10, 50), POINTS["barriers"].bins)}


def _access_kinds(table: np.ndarray) -> Iterable[str]:
    if (table["memory_kind"] == MemoryKind.ASYNC_COPY).any():
        yield "async_copy"
    if (table["pipe"] == PipeClass.CONSTANT).any():
        yield "constant.load"
    for space, kind in np.unique(table[["space", "memory_kind"]]).tolist():
        name = f"{_SPACES.get(space)}.{_KINDS.get(kind)}"
        if name in POINTS["access"].bins:
            yield name


def _memory(trace: Trace, launch: LaunchResult, gpu: GpuSpec, answers: Answers) -> None:
    """Points from the counters of single instructions, and how much of the memory is touched."""
    work = launch.work_by_instruction
    for name, sectors, requests in (
        ("sectors_per_load", count.LOAD_SECTORS, count.LOAD_REQUESTS),
        ("sectors_per_store", count.STORE_SECTORS, count.STORE_REQUESTS),
    ):
        used = work[:, requests] > 0
        answers[name] = _degrees(work[used, sectors] / work[used, requests])
    used = (work[:, count.SHARED_WAVEFRONTS] > 0) & (work[:, count.SHARED_LOADS] + work[:, count.SHARED_STORES] > 0)
    wavefronts, conflicts = work[used, count.SHARED_WAVEFRONTS], work[used, count.SHARED_CONFLICTS]
    answers["bank_conflicts"] = _degrees(wavefronts / np.maximum(1, wavefronts - conflicts))
    loaded = int(work[:, (count.LOAD_SECTORS, count.LOCAL_LOAD_SECTORS)].sum())
    hits = int(work[:, (count.LOAD_SECTOR_HITS, count.LOCAL_LOAD_SECTOR_HITS)].sum())
    answers["l1_hits"] = {_share(hits, loaded)}
    counted = launch.counters
    found, missed = counted["lts__t_sectors_lookup_hit.sum"], counted["lts__t_sectors_lookup_miss.sum"]
    answers["l2_hits"] = {_share(int(found), int(found + missed))}
    touched = footprint(trace, sector_bytes=gpu.l1.sector_bytes, line_bytes=gpu.l1.line_bytes)
    size = touched.sectors * touched.sector_bytes
    limits = (0, gpu.l1.total_bytes, gpu.l2.total_bytes // 2, gpu.l2.total_bytes)
    answers["footprint"] = {upto(size, limits, POINTS["footprint"].bins)}


def _accesses(trace: Trace, answers: Answers) -> None:
    """Points from the lane addresses."""
    facts = access_facts(trace)
    answers["alignment"] = facts.alignments or {NONE}
    answers["atomic_lanes"] = _degrees(np.array(sorted(facts.atomic_lanes), float))
    bins = POINTS["atomic_addresses"].bins
    answers["atomic_addresses"] = {upto(n, (0, 1, 31, 1023), bins) for n in facts.operations_per_address} or {NONE}
    distances = facts.reuse_distances
    bins = POINTS["reuse"].bins
    edges = np.searchsorted((64, 1024, 16_384), np.unique(distances), side="right")
    answers["reuse"] = {bins[1 + edge] for edge in edges.tolist()} or {NONE}


def _time(trace: Trace, launch: LaunchResult, gpu: GpuSpec, answers: Answers) -> None:
    bounds = lower_bounds(trace, gpu)
    near = bounds.limiter if bounds.least_cycles >= LIMITING_SHARE * launch.cycles else "latency"
    answers["limiter"] = {"pipe" if near.startswith("pipe.") else near}
    waits = {name: cycles for name, cycles in launch.stalls.items() if name != "selected"}
    answers["stall"] = {max(waits, key=waits.__getitem__)}


def _degrees(ratios: np.ndarray) -> set[str]:
    """Bins of powers of two for each ratio of 1 and more; ``none`` where there is nothing."""
    bins = POINTS["bank_conflicts"].bins
    limits = (0, 1.499, 2.499, 4.499, 8.499, 16.499)
    return {upto(round(ratio, 3), limits, bins) for ratio in ratios.tolist()} or {NONE}


def _share(part: int, whole: int) -> str:
    if not whole:
        return NONE
    if part in (0, whole):
        return "0 %" if part == 0 else "100 %"
    return upto(100 * part / whole, (25, 50, 75), ("1-25 %", "26-50 %", "51-75 %", "76-99 %"))
