"""What must hold between the figures of a GPU: caches that divide evenly, counts that fit.

Mental model: the loader checks each value alone (:mod:`gpusim.gpus.limits`); here the values are checked against each
other, because the engine sizes its arrays by them and indexes with their quotients. Everything raises
:class:`SpecError` naming file and key.
"""

from __future__ import annotations

from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec, value_of

#: A line's sectors are named in 8 bits.
_MAX_SECTORS = 8
_MAX_CACHE_LINES = 1 << 26


def check_consistency(spec: GpuSpec, where: str) -> None:
    """Raise :class:`SpecError` at the first figure of ``spec`` that contradicts another."""

    def require(holds: bool, key: str, reason: str) -> None:
        if not holds:
            raise SpecError(f"{where}: {key} {reason} (it is {value_of(spec, key)})")

    sm, l1, l2, dram = spec.sm, spec.l1, spec.l2, spec.dram
    require(sm.max_warps % sm.sub_cores == 0, "sm.max_warps", "does not divide over sm.sub_cores")
    carveouts = sm.shared_carveouts_kib
    require(
        list(carveouts) == sorted(set(carveouts)),
        "sm.shared_carveouts_kib",
        "must be in ascending order",
    )
    require(
        carveouts[-1] * 1024 <= sm.shared_max_bytes,
        "sm.shared_carveouts_kib",
        "exceed sm.shared_max_bytes",
    )
    require(
        sm.shared_max_bytes < l1.total_bytes,
        "sm.shared_max_bytes",
        "leaves nothing of l1.total_bytes for the cache",
    )
    require(
        sm.shared_per_block_max_bytes <= sm.shared_max_bytes,
        "sm.shared_per_block_max_bytes",
        "exceeds sm.shared_max_bytes",
    )
    for key, cache in (("l1", l1), ("l2", l2)):
        require(
            cache.line_bytes & (cache.line_bytes - 1) == 0 and cache.line_bytes <= 1024,
            f"{key}.line_bytes",
            "must be a power of two up to 1024",
        )
        require(
            cache.line_bytes % cache.sector_bytes == 0 and cache.line_bytes // cache.sector_bytes <= _MAX_SECTORS,
            f"{key}.sector_bytes",
            f"must divide the line into at most {_MAX_SECTORS} sectors",
        )
        require(
            cache.total_bytes // cache.line_bytes <= _MAX_CACHE_LINES,
            f"{key}.total_bytes",
            f"exceeds {_MAX_CACHE_LINES} lines",
        )
    code, constant = spec.instruction_cache, spec.constant_cache
    require(code.line_bytes in (64, 128, 256), "instruction_cache.line_bytes", "must be 64, 128 or 256")
    require(constant.line_bytes == 64, "constant_cache.line_bytes", "must be 64")
    for key, ways in (
        ("instruction_cache.l0_ways", code.l0_ways),
        ("instruction_cache.l1_ways", code.l1_ways),
        ("instruction_cache.l15_ways", code.l15_ways),
        ("instruction_cache.streams", code.streams),
        ("instruction_cache.l1_fetch_lines", code.l1_fetch_lines),
        ("instruction_cache.l15_fetch_lines", code.l15_fetch_lines),
        ("constant_cache.ways", constant.ways),
        ("register_file.reads_per_bank", spec.register_file.reads_per_bank),
        ("instruction_cache.buffer_entries", code.buffer_entries),
    ):
        require(1 <= ways <= 64, key, "must lie from 1 to 64")
    require(code.stream_entries <= 64, "instruction_cache.stream_entries", "is above 64")
    require(l1.line_bytes == l2.line_bytes, "l2.line_bytes", "differs from l1.line_bytes")
    require(l1.sector_bytes == l2.sector_bytes, "l2.sector_bytes", "differs from l1.sector_bytes")
    tlb = spec.tlb
    require(tlb.entries % tlb.ways == 0, "tlb.ways", "do not divide tlb.entries")
    require(
        tlb.page_bytes & (tlb.page_bytes - 1) == 0 and tlb.page_bytes >= 4096,
        "tlb.page_bytes",
        "must be a power of two from 4096 on",
    )
    require(l2.partitions in (1, 2), "l2.partitions", "must be 1 or 2")
    piece = l2.partition_piece_bytes
    require(
        piece & (piece - 1) == 0 and 256 <= piece <= 1 << 21,
        "l2.partition_piece_bytes",
        "must be a power of two from 256 to 2097152",
    )
    require(l2.dirty_share * l2.ways >= 1, "l2.dirty_share", f"must be one of {l2.ways} ways at least")
    require(l2.slices % l2.partitions == 0, "l2.slices", "do not divide over l2.partitions")
    require(
        l2.total_bytes % (l2.slices * l2.ways * l2.line_bytes) == 0,
        "l2.total_bytes",
        f"is not a whole number of sets of {l2.ways} lines in {l2.slices} slices",
    )
    require(
        l2.fetch_bytes % l2.sector_bytes == 0 and l2.line_bytes % l2.fetch_bytes == 0,
        "l2.fetch_bytes",
        "must be whole sectors and divide the line",
    )
    require(
        dram.channels % l2.slices == 0 or l2.slices % dram.channels == 0,
        "dram.channels",
        "must be a multiple of l2.slices or divide them",
    )
    require(dram.row_bytes % l2.line_bytes == 0, "dram.row_bytes", "is not a whole number of lines")
    rows = dram.scattered_rows
    require(
        rows & (rows - 1) == 0 and 1 <= rows <= 1 << 15,
        "dram.scattered_rows",
        "must be a power of two from 1 to 32768",
    )
    require(
        dram.refresh_ns < dram.refresh_interval_ns,
        "dram.refresh_ns",
        "must be below dram.refresh_interval_ns: a bank would never be free",
    )
    require(
        dram.row_miss_extra_ns < dram.miss_latency_ns,
        "dram.row_miss_extra_ns",
        "is part of dram.miss_latency_ns and must be below it",
    )
    require(
        dram.write_low_entries < dram.write_high_entries <= 4096,
        "dram.write_high_entries",
        "must exceed dram.write_low_entries and be at most 4096",
    )
    require(
        dram.write_high_entries <= dram.write_queue_entries <= 65536,
        "dram.write_queue_entries",
        "must be at least dram.write_high_entries, and at most 65536",
    )
    for key, latency_ns in (
        ("crossbar.request_latency_ns", spec.crossbar.request_latency_ns),
        ("crossbar.response_latency_ns", spec.crossbar.response_latency_ns),
        ("dram.miss_latency_ns", dram.miss_latency_ns / 4),
    ):
        require(spec.cycles(latency_ns) >= 4, key, "is too short: parts must be at least 4 cycles apart")
