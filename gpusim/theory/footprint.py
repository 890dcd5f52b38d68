"""Which sectors a trace touches: the compulsory traffic that no cache can save.

Mental model: lay all lane addresses of a launch on the sector grid and keep each sector once, with
whether it was read and whether it was written. What is read and never written must come from DRAM
when the caches start cold; every sector touched must cross the L2 at least once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpusim.trace.boxes import LINE_BYTES, box_lines, reads, writes
from gpusim.trace.compiled import reading
from gpusim.trace.lanes import lane_address
from gpusim.trace.record import Chunk, Launch, MemoryKind, Program, Space, Trace

READ_BIT, WRITE_BIT = 1, 2


@dataclass(frozen=True)
class Footprint:
    """Distinct global-memory sectors of a launch, and lines looked up in L1 by its instructions.

    ``sectors_read_only`` were read and never written; ``line_lookups`` counts (instruction, line)
    pairs: what the L1 tag stage has to look up at the least.
    """

    sectors: int
    sectors_read_only: int
    line_lookups: int
    sector_bytes: int


@reading
def _warp_access_instructions(warp, runs, path_start, records, out):  # pragma: no cover - jitted
    """Instruction index of each ACCESS record of one warp, in order; returns how many."""
    n = 0
    for r in range(path_start[warp["path"]], path_start[warp["path"] + 1]):
        first = np.int64(runs[r]["first"])
        for i in range(first, first + np.int64(runs[r]["count"])):
            for _ in range(records[i]):
                out[n] = i
                n += 1
    return n


@reading
def _collect(
    warps,
    runs,
    path_start,
    accesses,
    scattered,
    records,
    use,
    width,
    sector_bytes,
    line_bytes,
    lo,
    hi,
    sectors,
    bits,
):  # pragma: no cover - jitted
    """Append (sector, READ/WRITE bit) of every access whose instruction has ``use`` != 0.

    Consecutive duplicates within one access are dropped; the caller makes the rest distinct.
    Returns (entries written, line lookups).
    """
    n = 0
    lookups = 0
    scratch = np.empty(accesses.shape[0] + 1, np.int64)
    lines = np.empty(64, np.int64)
    for w in range(warps.shape[0]):
        warp = warps[w]
        count = _warp_access_instructions(warp, runs, path_start, records, scratch)
        for k in range(count):
            i = scratch[k]
            if use[i] == 0:
                continue
            access = accesses[np.int64(warp["access_start"]) + k]
            found = 0
            last = np.int64(-1)
            for lane in range(32):
                if not (np.int64(access["mask"]) >> lane) & 1:
                    continue
                address = lane_address(access, scattered, lane)
                if address < lo or address >= hi:
                    continue
                for sector in range(address // sector_bytes, (address + width[i] - 1) // sector_bytes + 1):
                    if sector != last:
                        sectors[n] = sector
                        bits[n] = use[i]
                        n += 1
                        last = sector
                line = address // line_bytes
                seen = False
                for j in range(found):
                    if lines[j] == line:
                        seen = True
                        break
                if not seen:
                    lines[found] = line
                    found += 1
            lookups += found
    return n, lookups


def _use_bits(program: Program) -> np.ndarray:
    """Per instruction: READ_BIT / WRITE_BIT if it touches global memory, else 0."""
    table = program.instructions
    on_global = np.isin(table["space"], (Space.GLOBAL, Space.GENERIC))
    kind = table["memory_kind"]
    reads = np.isin(kind, (MemoryKind.LOAD, MemoryKind.ATOMIC, MemoryKind.ASYNC_COPY))
    writes = np.isin(kind, (MemoryKind.STORE, MemoryKind.ATOMIC, MemoryKind.REDUCTION))
    return (on_global * (reads * READ_BIT + writes * WRITE_BIT)).astype(np.int64)


def global_range(launch: Launch) -> tuple[int, int]:
    """Byte range that the launch's global allocations span; everything where none is recorded."""
    if not launch.allocations:
        return 0, 2**62
    return (
        min(base for base, _ in launch.allocations),
        max(base + size for base, size in launch.allocations),
    )


def footprint(trace: Trace, *, sector_bytes: int = 32, line_bytes: int = 128) -> Footprint:
    """Distinct sectors that ``trace`` touches in global memory."""
    table = trace.program.instructions
    use = _use_bits(trace.program)
    records = table["records"].astype(np.int64)
    width = np.maximum(table["access_bytes"].astype(np.int64), 1)
    lo, hi = global_range(trace.launch)
    known = np.empty(0, np.int64)
    known_bits = np.empty(0, np.int64)
    lookups = 0
    for chunk in trace.chunk_list:
        sectors, bits, found = _chunk_sectors(chunk, records, use, width, sector_bytes, line_bytes, lo, hi)
        lookups += found
        known, inverse = np.unique(np.concatenate((known, sectors)), return_inverse=True)
        merged = np.zeros(known.size, np.int64)
        np.bitwise_or.at(merged, inverse, np.concatenate((known_bits, bits)))
        known_bits = merged
    return Footprint(known.size, int((known_bits == READ_BIT).sum()), lookups, sector_bytes)


def _chunk_sectors(chunk: Chunk, records, use, width, sector_bytes, line_bytes, lo, hi):
    """Sectors of one chunk, distinct, with their READ/WRITE bits, and its line lookups."""
    # An access of 32 lanes touches at most 33 sectors a word width; 16-byte lanes stay within one
    # sector each when aligned, and misaligned ones are refused by capture.
    room = chunk.accesses.shape[0] * 33 + 1
    sectors = np.empty(room, np.int64)
    bits = np.empty(room, np.int64)
    n, lookups = _collect(
        chunk.warps,
        chunk.runs,
        chunk.path_start,
        chunk.accesses,
        chunk.scattered,
        records,
        use,
        width,
        sector_bytes,
        line_bytes,
        lo,
        hi,
        sectors,
        bits,
    )
    found, uses = sectors[:n], bits[:n]
    if len(chunk.bulks):
        boxes, box_uses = _box_sectors(chunk.bulks, sector_bytes, lo, hi)
        found, uses = np.concatenate((found, boxes)), np.concatenate((uses, box_uses))
    distinct, inverse = np.unique(found, return_inverse=True)
    merged = np.zeros(distinct.size, np.int64)
    np.bitwise_or.at(merged, inverse, uses)
    return distinct, merged, lookups


def _box_sectors(bulks: np.ndarray, sector_bytes: int, lo: int, hi: int) -> tuple[np.ndarray, np.ndarray]:
    """(sector, READ/WRITE bits) of what bulk copies touch."""
    lines, masks, record = box_lines(bulks)
    sector = lines[:, None] // sector_bytes + np.arange(LINE_BYTES // sector_bytes)
    touched = (masks[:, None] >> np.arange(LINE_BYTES // sector_bytes) & 1).astype(bool)
    touched &= (lines[:, None] >= lo - LINE_BYTES) & (lines[:, None] < hi)
    use = (reads(bulks) * READ_BIT | writes(bulks) * WRITE_BIT)[record]
    return sector[touched], np.broadcast_to(use[:, None], touched.shape)[touched].astype(np.int64)
