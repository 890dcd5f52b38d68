"""How small and how large each value of a GPU file may be, and which way it is better.

Mental model: the engine sizes its arrays by these values and steps through time by them, so a value that no machine
could have is refused here, by name, before it costs memory or hours. The upper limits are some ten to a thousand times
what the largest GPU of the field has (Blackwell and its datasheets, 2025), and never more than the arrays behind them
hold. What must hold *between* values is :mod:`gpusim.gpus.consistency`'s business. A value that is a resource says
which way it is better, so that a search can ask whether a better machine is ever slower
(:mod:`gpusim.explore.resources`).
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Limits(NamedTuple):
    """A value may lie from ``least`` to ``most``; ``positive``: nor may it be zero."""

    least: float
    most: float
    positive: bool


#: End of a key -> most that a value of that unit may be; the first that fits counts.
_BY_UNIT: tuple[tuple[str, float], ...] = (
    ("reserved_bytes", 1 << 20),
    ("interval_cycles", 1 << 12),
    ("_cycles", 1 << 16),
    ("interval_ns", 1e4),
    ("bytes_per_ns", 1e6),  # a petabyte a second
    ("_ns", 1e5),
    ("macs_per_cycle", 1 << 20),
    ("_per_cycle", 1 << 16),
    ("_entries", 1 << 14),
    ("entries", 1 << 16),
    ("ways", 1 << 10),
    ("_hz", 1e11),
    ("_bytes", 1 << 24),
    ("bytes", 1 << 24),
)
#: Keys with limits of their own: what an array behind them holds, or what their unit's limit does not say.
_BY_KEY: dict[str, float] = {
    "sm_count": 4096,  # requests name their SM in 16 bits
    "capability": 255,
    "sm.sub_cores": 16,
    "sm.max_warps": 1024,
    "sm.max_blocks": 1024,
    "sm.max_threads_per_block": 1024,
    "sm.registers": 1 << 22,
    "sm.max_registers_per_thread": 256,
    "sm.register_allocation_unit": 1 << 16,
    "sm.shared_max_bytes": 4 << 20,
    "sm.shared_per_block_max_bytes": 4 << 20,
    "sm.shared_allocation_unit_bytes": 1 << 20,
    "sm.shared_carveouts_kib": 4 << 10,
    "instruction_cache.l0_bytes": 1 << 20,  # each sub-core has these
    "instruction_cache.l1_bytes": 4 << 20,  # and each SM these: 100 MB of the host's memory for a thousand SMs
    "instruction_cache.l15_bytes": 4 << 20,
    "constant_cache.bytes": 1 << 20,
    "l1.total_bytes": 4 << 20,
    "l1.bank_count": 256,  # a request's scratch rows: gpusim.model.timing.LINES_MAX
    "l1.tag_banks": 8,
    "l1.ways": 256,
    "l1.queue_entries": 1 << 10,
    "tma.queue_entries": 1 << 10,  # each SM has a row of numbers for each
    "l2.slices": 1024,
    "l2.total_bytes": 8 << 30,
    "l2.ways": 256,
    "dram.total_bytes": 1 << 44,
    "dram.channels": 1024,
    "dram.banks_per_channel": 256,
    "l2.dirty_share": 1.0,
    "dram.efficiency": 1.0,
    "dram.read_efficiency": 1.0,
    "dram.codes_share": 0.5,
    "launch.start_cycles": 1 << 20,
    "launch.end_cycles": 1 << 20,
    "launch.block_turnaround_cycles": 1 << 20,
    "tlb.page_bytes": 1 << 34,
    "node.gpus": 1 << 14,  # what a cluster may have: gpusim.collective.topology
    "node.channels": 1 << 10,
}
_LEAST: dict[str, float] = {"clock_hz": 1e6}
#: Where nothing else is said.
_MOST = 1 << 16


class Better(IntEnum):
    """Which way a value is better: ``NEITHER`` where it is a size of pieces, a choice, or no resource at all."""

    LESS = -1
    NEITHER = 0
    MORE = 1


#: End of a key -> which way it is better; the first that fits counts, after those of ``_BETTER_BY_KEY``.
_BETTER_BY_UNIT: tuple[tuple[str, Better], ...] = (
    ("line_bytes", Better.NEITHER),
    ("sector_bytes", Better.NEITHER),
    ("unit_bytes", Better.NEITHER),
    ("allocation_unit", Better.NEITHER),
    ("reserved_bytes", Better.LESS),
    ("ways", Better.NEITHER),  # the same bytes, cut otherwise
    ("bytes_per_ns", Better.MORE),
    ("_per_cycle", Better.MORE),
    ("_cycles", Better.LESS),
    ("_ns", Better.LESS),
    ("_entries", Better.MORE),
    ("entries", Better.MORE),
    ("total_bytes", Better.MORE),
    ("_bytes", Better.MORE),
    ("bytes", Better.MORE),
    ("_conflicts", Better.LESS),
    ("shared_by_sm", Better.LESS),
    ("own_unit", Better.MORE),
)
_BETTER_BY_KEY: dict[str, Better] = {
    "capability": Better.NEITHER,
    "clock_hz": Better.NEITHER,  # it is what a cycle is
    "generation": Better.NEITHER,
    "title": Better.NEITHER,
    "sm_count": Better.MORE,
    "sm.sub_cores": Better.NEITHER,  # other pipes, caches and queues come with each
    "sm.max_warps": Better.MORE,
    "sm.max_blocks": Better.MORE,
    "sm.registers": Better.MORE,
    # What a block may ask for, not what an SM has; and the carve-out takes from the L1.
    "sm.max_registers_per_thread": Better.NEITHER,
    "sm.max_threads_per_block": Better.NEITHER,
    "sm.shared_per_block_max_bytes": Better.NEITHER,
    "sm.shared_max_bytes": Better.NEITHER,
    "sm.shared_carveouts_kib": Better.NEITHER,
    "tensor.warpgroup_queue_entries": Better.NEITHER,  # which of two groups goes first is decided otherwise
    "register_file.reads_per_bank": Better.MORE,
    "l1.bank_count": Better.MORE,
    "l1.tag_banks": Better.MORE,
    "l1.store_slot_bytes": Better.LESS,  # of the port, whatever the store writes
    "l1.tag_lead_cycles": Better.MORE,  # how far data passes may fall behind
    "crossbar.sms_per_gpc": Better.NEITHER,  # which SMs share what, and where clusters lie
    "crossbar.merges_reads": Better.MORE,
    "crossbar.sm_spread_ns": Better.LESS,
    "crossbar.slice_spread_ns": Better.LESS,
    "l2.slices": Better.MORE,
    "l2.partitions": Better.NEITHER,
    "l2.partition_piece_bytes": Better.NEITHER,
    "l2.fetch_bytes": Better.NEITHER,
    "l2.memset_writes_through": Better.NEITHER,  # what a memset leaves costs the next launch, not the memset
    "l2.dirty_share": Better.NEITHER,  # more is written back later, and in the way of what is read
    "dram.channels": Better.NEITHER,  # the same bandwidth, cut otherwise
    "dram.banks_per_channel": Better.MORE,
    "dram.row_bytes": Better.NEITHER,
    "dram.efficiency": Better.MORE,
    "dram.read_efficiency": Better.MORE,
    "dram.codes_share": Better.LESS,
    "dram.streams_with_codes": Better.NEITHER,
    "dram.row_miss_extra_ns": Better.NEITHER,  # a part of the latency, which the first access to a row has
    "instruction_cache.streams": Better.MORE,
    "instruction_cache.l1_fetch_lines": Better.MORE,
    "instruction_cache.l15_fetch_lines": Better.MORE,
    "dram.write_high_entries": Better.NEITHER,  # when writes are drained, how far, and how long one may wait
    "dram.write_low_entries": Better.NEITHER,
    "dram.write_hold_ns": Better.NEITHER,
    "dram.turn_entries": Better.NEITHER,  # whose turn it is, and for how long
    "dram.scattered_rows": Better.NEITHER,
    "dram.refresh_interval_ns": Better.MORE,
    "dram.masked_writes": Better.MORE,
}


def limits_of(key: str) -> Limits:
    """The limits of the dotted ``key`` of a GPU file. Latencies and what is set aside may be nothing; sizes, counts,
    rates and intervals may not."""
    most = _BY_KEY.get(key)
    if most is None:
        most = next((limit for end, limit in _BY_UNIT if key.endswith(end)), _MOST)
    return Limits(_LEAST.get(key, 0), most, not _may_be_zero(key))


def better(key: str) -> Better:
    """Which way the dotted ``key`` of a GPU file is better. Raises KeyError for one of which nothing is said."""
    if key.startswith(("node.", "board.")):
        return Better.NEITHER  # no launch of one GPU at its described clock shows it
    found = _BETTER_BY_KEY.get(key)
    if found is None:
        found = next((which for end, which in _BETTER_BY_UNIT if key.endswith(end)), None)
    if found is None:
        raise KeyError(key)
    return found


def _may_be_zero(key: str) -> bool:
    if key.endswith(("reserved_bytes", "codes_share", "turn_entries")):
        return True
    return key.endswith(("_cycles", "_ns")) and "interval" not in key and "per_ns" not in key
