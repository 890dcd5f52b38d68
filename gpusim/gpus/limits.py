"""How small and how large each value of a GPU file may be.

Mental model: the engine sizes its arrays by these values and steps through time by them, so a value that no machine
could have is refused here, by name, before it costs memory or hours. The upper limits are some ten to a thousand times
what the largest GPU of the field has (Blackwell and its datasheets, 2025), and never more than the arrays behind them
hold. What must hold *between* values is :mod:`gpusim.gpus.consistency`'s business.
"""

from __future__ import annotations

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
    "constant_cache.bytes": 1 << 20,
    "l1.total_bytes": 4 << 20,
    "l1.bank_count": 256,  # a request's scratch rows: gpusim.model.timing.LINES_MAX
    "l1.tag_banks": 8,
    "l1.ways": 256,
    "l1.queue_entries": 1 << 10,
    "l2.slices": 1024,
    "l2.total_bytes": 8 << 30,
    "l2.ways": 256,
    "dram.total_bytes": 1 << 44,
    "dram.channels": 1024,
    "dram.banks_per_channel": 256,
    "dram.efficiency": 1.0,
    "launch.start_cycles": 1 << 20,
    "launch.end_cycles": 1 << 20,
    "launch.block_turnaround_cycles": 1 << 20,
    "tlb.page_bytes": 1 << 34,
}
_LEAST: dict[str, float] = {"clock_hz": 1e6}
#: Where nothing else is said.
_MOST = 1 << 16


def limits_of(key: str) -> Limits:
    """The limits of the dotted ``key`` of a GPU file. Latencies and what is set aside may be nothing; sizes, counts,
    rates and intervals may not."""
    most = _BY_KEY.get(key)
    if most is None:
        most = next((limit for end, limit in _BY_UNIT if key.endswith(end)), _MOST)
    return Limits(_LEAST.get(key, 0), most, not _may_be_zero(key))


def _may_be_zero(key: str) -> bool:
    if key.endswith("reserved_bytes"):
        return True
    return key.endswith(("_cycles", "_ns")) and "interval" not in key and "per_ns" not in key
