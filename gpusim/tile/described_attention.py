"""Figures of attention kernels on a GPU of a generation that no table names: which kernels run is software, what they
take follows from the GPU's description.

Mental model: how keys are split, how many kernels are launched and whether heads are copied is a framework's choice,
and is taken to be that of the newest generation whose tensor cores are fed alike (its row of ``attention.toml``, and
whole numbers of ``described_attention.toml``). A launch and a block's start are times, which GPUs have alike; bytes
come at shares of described rates; a score takes as long as the description's exponentials do, and products as long as
shared memory's port feeds them. The constants are few, and all GPUs share them.
"""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path

from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec
from gpusim.tile.attention_figures import (
    EXPONENTIAL_CYCLES,
    FRAMEWORKS,
    AttentionLibrary,
    ContextLibrary,
    attention_library_of,
    context_library_of,
)
from gpusim.tile.library import is_known, multiplies_by_warps, newest_kernels
from gpusim.tile.machine import loaded_bytes_per_cycle, tile_machine

_FILE = Path(__file__).with_name("described_attention.toml")
#: Operands of attention that rows have been measured of on GPUs of several generations.
_DTYPES = ("bf16", "fp16")
_WARP_LANES = 32
#: What shared memory reads or writes a cycle; warps of a block of mma.sync, each with a part of the queries and all
#: keys; width of a head that a tile's share of the peak is worked out for.
_SHARED_BYTES_PER_CYCLE, _WARPS, _HEAD_DIM, _ELEMENT_BYTES = 128, 4, 128, 2
_MOST_RATE = 0.995


@dataclass(frozen=True)
class AttentionConstants:
    """Of ``described_attention.toml``; units in the names, shares are of 1. ``fill_share``: of the described rate at
    which an SM takes lines from L2; ``exponential_share``: of the time that a tile's exponentials take; ``warps_`` and
    ``groups_``: of kernels whose warps all load and multiply, and of those that have warps for loads alone."""

    node_ns: float
    warps_start_ns: float
    groups_start_ns: float
    join_ns: float
    part_ns: float
    fill_share: float
    head_cycles: float
    dram_share: float
    warps_l2_rate_share: float
    groups_l2_rate_share: float
    l2_share: float
    missed_ns: float
    overlap_power: float
    context_node_ns: float
    context_start_ns: float
    rate: float
    exponential_share: float
    tail: float
    kv_passes: float
    head_passes: float


@dataclass(frozen=True)
class AttentionSoftware:
    """What the first framework launches: ``nodes`` beside copies and a kernel that joins parts (``join_nodes``; 0: the
    last block does, or a kernel that starts before the first has ended);
    ``copy_nodes``: where heads share keys; ``context_nodes``; ``writes_cache``: 1 where the new keys' way into the
    cache is among them; ``later_start_share``: as in ``attention.toml``."""

    nodes: int
    copy_nodes: int
    join_nodes: int
    context_nodes: int
    writes_cache: int
    later_start_share: float


@functools.cache
def attention_constants_of(table: str = "all") -> AttentionConstants:
    """A table of the file: "all", or "without_hopper" and so on, which rows of that generation did not set. Raises
    SpecError for one that it has not."""
    row = _table(table)
    if set(row) != {each.name for each in fields(AttentionConstants)}:
        names = ", ".join(each.name for each in fields(AttentionConstants))
        raise SpecError(f"{_FILE.name}, {table}: its figures are not {names}")
    return AttentionConstants(**row)


def is_described(spec: GpuSpec, framework: str, *dtypes: str) -> bool:
    """Whether attention on ``spec`` takes described figures: of 16-bit operands, by the first framework's kernels, on a
    generation that no table names."""
    return framework == FRAMEWORKS[0] and all(each in _DTYPES for each in dtypes) and not is_known(spec.generation)


@functools.cache
def _tables() -> dict[str, dict[str, float]]:
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))


def _table(name: str) -> dict[str, float]:
    tables = _tables()
    if name not in tables:
        raise SpecError(f"{_FILE.name} has no table {name!r}: it has {', '.join(sorted(tables))}")
    return tables[name]


def _software(kernels: str) -> AttentionSoftware:
    row = _table(f"software_{kernels}")
    return AttentionSoftware(**row)  # pyright: ignore[reportArgumentType]


def described_attention(spec: GpuSpec, constants: AttentionConstants | None = None) -> AttentionLibrary:
    """The kernels for one query token a sequence on ``spec``, as its description and ``constants`` (those of all
    measured rows) have them."""
    used, kernels = constants or attention_constants_of(), newest_kernels(spec)
    software, ghz, of_warps = _software(kernels), spec.clock_hz / 1e9, multiplies_by_warps(spec)
    like = attention_library_of(kernels)
    # The last block of a head adds its parts up itself, which its figures have (combine_rows), or a kernel of its own
    # does.
    joins_apart = not like.combine_rows
    # What the measured GPU's rows alone say (its scheduler's times) is not taken over.
    return replace(
        like,
        launch_ns=software.nodes * used.node_ns,
        regroup_ns=software.copy_nodes * used.node_ns,
        regroup_head_cycles=used.head_cycles * (software.copy_nodes > 0),
        start_cycles=(used.warps_start_ns if of_warps else used.groups_start_ns) * ghz,
        later_start_share=software.later_start_share,
        clock_mhz=1e3 * ghz,
        combine_cycles=(software.join_nodes * used.node_ns + joins_apart * used.join_ns) * ghz,
        combine_part_cycles=joins_apart * used.part_ns * ghz,
        combine_rest_cycles=0.0,
        sequence_ns=0.0,
        given_sequence_ns=0.0,
        given_head_cycles=0.0,
        block_bytes_per_cycle=used.fill_share * loaded_bytes_per_cycle(spec),
        head_cycles=used.head_cycles,
        dram_share=used.dram_share,
        l2_rate_share=used.warps_l2_rate_share if of_warps else used.groups_l2_rate_share,
        l2_share=used.l2_share,
        missed_ns=used.missed_ns,
        overlap_power=used.overlap_power,
    )


def described_context(spec: GpuSpec, constants: AttentionConstants | None = None) -> ContextLibrary:
    """The same of many query tokens a sequence under a causal mask."""
    used, kernels = constants or attention_constants_of(), newest_kernels(spec)
    software, ghz = _software(kernels), spec.clock_hz / 1e9
    like = context_library_of(kernels)
    exponentials_per_cycle = (
        spec.sm.sub_cores * _WARP_LANES / EXPONENTIAL_CYCLES
    )  # a projection takes them by the GPU's
    return replace(
        like,
        launch_ns=software.context_nodes * used.context_node_ns,
        start_cycles=used.context_start_ns * ghz,
        clock_mhz=1e3 * ghz,
        rate=min(_MOST_RATE, used.rate * _fed_share(spec, like)),
        fed_flops_per_cycle=0.0,  # the description's own port has it
        score_cycles=used.exponential_share / exponentials_per_cycle,
        blocks_stay=0,
        tail=used.tail,
        head_block_start_share=1.0,
        head_block_step_share=1.0,
        cache_block_ns=0.0,  # the passes have it in them
        kv_passes=used.kv_passes * software.writes_cache,
        head_passes=used.head_passes,
    )


def _fed_share(spec: GpuSpec, tile: ContextLibrary) -> float:
    """Of the tensor cores' peak, what both products of a tile can reach: shared memory's port writes a tile's keys and
    values once, and reads them for each warp."""
    if not multiplies_by_warps(spec):
        return 1.0
    work_cycles = 4.0 * tile.query_rows * tile.kv_columns * _HEAD_DIM / tile_machine(spec, "fp16").flops_per_cycle
    moved_bytes = 2.0 * tile.kv_columns * _HEAD_DIM * _ELEMENT_BYTES * (_WARPS + 1)
    return min(1.0, work_cycles * _SHARED_BYTES_PER_CYCLE / moved_bytes)
