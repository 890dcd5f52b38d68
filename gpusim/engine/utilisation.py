"""How busy each unit was: its busy time over the time that it had, by Nsight Compute's names.

Mental model: a unit is a server. What it was asked for, times what one request keeps it busy, over what it
could have served between the launch's start and its end, all copies together. Issue slots and pipes follow
from how often each instruction issued; the memory path from its counters; L2 and DRAM count their own
busy time. Writes that leave the L2 after a launch's end count as its traffic, so a very short launch can
show more DRAM time than it lasted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gpusim.gpus.spec import GpuSpec
from gpusim.model import program as op
from gpusim.model import timing as at
from gpusim.model.messages import TICKS_PER_CYCLE
from gpusim.model.send import HEADER_SHARE
from gpusim.model.stall_reasons import SELECTED
from gpusim.trace.record import Launch, PipeClass, Program

_ELAPSED = ".avg.pct_of_peak_sustained_elapsed"
#: Port of a sub-core -> (unit, Nsight's metric; its own name with the same pattern where Nsight has none).
_PIPES = {
    PipeClass.ALU: ("ALU pipe", "sm__inst_executed_pipe_alu"),
    PipeClass.FMA: ("FMA pipe", "sm__pipe_fma_cycles_active"),
    op.HEAVY_PORT: ("FMA heavy pipe", "sm__inst_executed_pipe_fmaheavy"),  # what has no other place than this half
    PipeClass.ALU_LITE: ("ALU lite pipe", "sm__inst_executed_pipe_fmaheavy_subpipe_alulite"),
    PipeClass.HALF: ("FP16 pipe", "sm__inst_executed_pipe_fp16"),
    PipeClass.FP64: ("FP64 pipe", "sm__pipe_fp64_cycles_active"),
    PipeClass.MUFU: ("XU pipe", "sm__inst_executed_pipe_xu"),
    PipeClass.UNIFORM: ("uniform pipe", "sm__inst_executed_pipe_uniform"),
    PipeClass.BRANCH: ("branch unit", "sm__inst_executed_pipe_cbu"),
    PipeClass.TENSOR: ("tensor pipe", "sm__pipe_tensor_cycles_active"),
    op.QUEUE_PORT: ("LSU pipe", "sm__inst_executed_pipe_lsu"),
}


class Ran(Protocol):
    """What is asked of a launch that has run; :class:`gpusim.engine.result.LaunchResult` says what each is."""

    @property
    def cycles(self) -> int: ...
    @property
    def counters(self) -> dict[str, float]: ...
    @property
    def stalls(self) -> dict[str, int]: ...
    @property
    def stalls_by_instruction(self) -> np.ndarray: ...
    @property
    def program(self) -> Program: ...
    @property
    def launch(self) -> Launch: ...
    @property
    def blocks_per_sm(self) -> int: ...
    @property
    def occupancy_limiter(self) -> str: ...


@dataclass(frozen=True)
class Unit:
    """``busy`` of ``available`` (in whatever time unit, all copies of the unit together)."""

    name: str
    metric: str
    busy: float
    available: float

    @property
    def percent(self) -> float:
        return 100.0 * self.busy / self.available if self.available else 0.0


def utilisation(launches: Iterable[Ran], spec: GpuSpec) -> list[Unit]:
    """Every unit of ``spec`` that the launches could use, summed over them, in the order of the machine."""
    sums: dict[tuple[str, str], tuple[float, float]] = {}
    for launch in launches:
        for unit in _of_launch(launch, spec):
            busy, available = sums.get((unit.name, unit.metric), (0.0, 0.0))
            sums[unit.name, unit.metric] = (busy + unit.busy, available + unit.available)
    return [Unit(name, metric, busy, available) for (name, metric), (busy, available) in sums.items()]


def _of_launch(launch: Ran, spec: GpuSpec) -> list[Unit]:
    cycles, counted = launch.cycles, launch.counters
    sm_cycles = cycles * spec.sm_count
    slots = sm_cycles * spec.sm.sub_cores
    units = [Unit("issue slots", "smsp__issue_active", counted["smsp__inst_executed.sum"], slots)]
    units += _pipes(launch, spec, sm_cycles)
    fills = counted["l1tex__data_fill_wavefronts.sum"]
    units += [
        Unit(name, metric, counted[metric + ".sum"] + beside, sm_cycles)
        for name, metric, beside in (
            ("L1 tag stage", "l1tex__t_output_wavefronts_pipe_lsu", 0.0),
            ("L1 data stage", "l1tex__data_pipe_lsu_wavefronts", fills),
            ("of it, shared memory", "l1tex__data_pipe_lsu_wavefronts_mem_shared", 0.0),
        )
    ]
    timing = at.sm_timing(spec)
    by_tma = counted["tma__l2_requests.sum"] > 0  # whose data may come faster
    fill, store = (
        int(timing[at.TMA_FILL_TICKS if by_tma else at.FILL_TICKS_PER_SECTOR]),
        int(timing[at.STORE_TICKS_PER_SECTOR]),
    )
    incoming = counted["l1tex__m_xbar2l1tex_read_sectors.sum"] * fill
    sent = counted["l1tex__m_l1tex2xbar_write_sectors.sum"] + counted["l1tex__m_l1tex2xbar_write_padding.sum"]
    outgoing = sent * store
    outgoing += counted["lts__t_requests.sum"] * max(1, store // HEADER_SHARE)
    ticks = cycles * TICKS_PER_CYCLE
    units += [
        Unit("crossbar to SMs", "l1tex__m_xbar2l1tex_read_sectors", incoming, ticks * spec.sm_count),
        Unit("crossbar to L2", "l1tex__m_l1tex2xbar_write_sectors", outgoing, ticks * spec.sm_count),
        Unit("L2 slices", "lts__t_sectors", counted["l2__slice_busy_ticks.sum"], ticks * spec.l2.slices),
    ]
    if counted["tma__l2_requests.sum"]:
        busy = counted["tma__l2_requests.sum"] * int(timing[at.TMA_INTERVAL])
        units.append(Unit("TMA", "tma__l2_requests", busy, sm_cycles))
    time_ns = spec.ns(cycles)
    if spec.l2.partitions > 1:
        crossing = counted["l2__partition_link_sectors.sum"] * spec.l2.sector_bytes
        both_ways = spec.l2.partition_link_bytes_per_ns * spec.l2.partitions
        units.append(Unit("L2 partition link", "l2__partition_link_sectors", crossing, both_ways * time_ns))
    moved = counted["dram__bytes_read.sum"] + counted["dram__bytes_write.sum"]
    busy = counted["dram__busy_ticks.sum"]
    return [
        *(Unit(unit.name, unit.metric + _ELAPSED, unit.busy, unit.available) for unit in units),
        Unit("DRAM bus", "dram__cycles_active" + _ELAPSED, busy, ticks * spec.dram.channels),
        Unit("DRAM bytes", "dram__throughput" + _ELAPSED, moved, spec.dram.peak_bytes_per_ns * time_ns),
    ]


def _pipes(launch: Ran, spec: GpuSpec, sm_cycles: int) -> list[Unit]:
    """Units for the ports that the program uses."""
    issues = launch.stalls_by_instruction[:, SELECTED]
    table = _table_of(launch.program, spec)
    units = []
    for port in sorted(set(table[:, op.PORT].tolist())):
        if port == PipeClass.NONE:
            continue
        own = table[:, op.PORT] == port
        if port == op.QUEUE_PORT:
            busy = int(issues[own].sum()) * spec.l1.accept_interval_cycles
            copies = 1
        else:
            ticks = np.where(table[own, op.TICKS], table[own, op.TICKS], table[own, op.INTERVAL] * TICKS_PER_CYCLE)
            busy = int((issues[own] * ticks).sum()) // TICKS_PER_CYCLE
            if port == PipeClass.FMA:
                takes = table[:, op.TAKES] % op.ENTRANCE
                for kind, share in ((op.HEAVY_HALF, 2), (op.BOTH_HALVES, 1)):
                    busy += int((issues * table[:, op.INTERVAL])[takes == kind].sum()) // share
            copies = 1 if table[own, op.SHARED_BY_SM].any() else spec.sm.sub_cores
        name = PipeClass(port).name.lower() if port != op.QUEUE_PORT else ""
        label, metric = _PIPES.get(port, (f"{name} pipe", f"sm__inst_executed_pipe_{name}"))
        units.append(Unit(label, metric, busy, sm_cycles * copies))
    return units


#: The tables made last, newest first: a program's launches follow each other, and a table takes Python once an
#: instruction.
_TABLES: list[tuple[Program, GpuSpec, np.ndarray]] = []
_MOST_TABLES = 16


def _table_of(program: Program, spec: GpuSpec) -> np.ndarray:
    """The program's table, made once for its launches."""
    for known, machine, table in _TABLES:
        if known is program and machine is spec:
            return table
    table = op.program_table(program, spec)
    _TABLES.insert(0, (program, spec, table))
    del _TABLES[_MOST_TABLES:]
    return table


def traffic(launches: Iterable[Ran]) -> dict[str, float]:
    """Bytes moved at each level and hit rates, summed over the launches, by Nsight's names.

    A level's rate is missing where nothing was looked up.
    """
    total: dict[str, float] = {}
    for launch in launches:
        for name, value in launch.counters.items():
            total[name] = total.get(name, 0) + value
    load = "l1tex__t_sectors_pipe_lsu_mem_{}_op_{}.sum".format
    looked_up = total[load("global", "ld")] + total[load("local", "ld")]
    hit = "l1tex__t_sectors_pipe_lsu_mem_{}_op_ld_lookup_hit.sum".format
    hits = total[hit("global")] + total[hit("local")]
    sectors = looked_up + sum(total[load(*key)] for key in (("global", "st"), ("global", "atom"), ("local", "st")))
    lts = sum(total[f"lts__t_sectors_op_{kind}.sum"] for kind in ("read", "write", "atom", "red"))
    found = {
        "l1tex__t_bytes.sum": 32 * sectors,
        "lts__t_bytes.sum": 32 * lts,
        "dram__bytes.sum": total["dram__bytes_read.sum"] + total["dram__bytes_write.sum"],
    }
    if looked_up:
        found["l1tex__t_sector_hit_rate.pct"] = 100.0 * hits / looked_up
    in_l2 = total["lts__t_sectors_lookup_hit.sum"] + total["lts__t_sectors_lookup_miss.sum"]
    if in_l2:
        found["lts__t_sector_hit_rate.pct"] = 100.0 * total["lts__t_sectors_lookup_hit.sum"] / in_l2
    return found


def occupancy(launch: Ran, spec: GpuSpec) -> dict[str, float | str]:
    """Warps an SM holds of those that it could: as launched, as achieved, and what limits the former."""
    warps = launch.blocks_per_sm * launch.launch.warps_per_block
    return {
        "sm__maximum_warps_per_active_cycle_pct": 100.0 * warps / spec.sm.max_warps,
        "sm__warps_active.avg.pct_of_peak_sustained_active": launch.counters[
            "sm__warps_active.avg.pct_of_peak_sustained_active"
        ],
        "blocks_per_sm": launch.blocks_per_sm,
        "limiter": launch.occupancy_limiter,
    }
