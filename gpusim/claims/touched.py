"""Which bytes of which arrays a launch has read and written, from its own memory accesses.

Mental model: a launch's trace names the address of every lane of every access; laid on the allocations of the device
they say of each byte whether it was read and whether it was written, whatever value was there before. Bulk copies are
followed by sectors of 32 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gpusim.launch.memory import Allocation
from gpusim.trace.boxes import LINE_BYTES, SECTOR_SHIFT, box_lines, reads, writes
from gpusim.trace.compiled import reading
from gpusim.trace.lanes import lane_address
from gpusim.trace.record import MemoryKind, Program, Space, Trace

READ, WRITTEN = 1, 2


@dataclass(frozen=True)
class Touched:
    """``uses``: of each allocation, by its place among them, uint8[size] of READ and WRITTEN bits."""

    uses: tuple[np.ndarray, ...] = field(repr=False)

    def read(self, index: int) -> np.ndarray:
        """Whether each byte of an allocation was read, bool[size]."""
        return self.uses[index] & READ != 0

    def written(self, index: int) -> np.ndarray:
        """Whether each byte was written, bool[size]."""
        return self.uses[index] & WRITTEN != 0

    def joined(self, other: Touched) -> Touched:
        """What either has touched."""
        return Touched(tuple(a | b for a, b in zip(self.uses, other.uses, strict=True)))


def untouched(allocations: Sequence[Allocation]) -> Touched:
    """Nothing of ``allocations``."""
    return Touched(tuple(np.zeros(allocation.size, np.uint8) for allocation in allocations))


def touched_by(trace: Trace, allocations: Sequence[Allocation]) -> Touched:
    """What ``trace`` does to ``allocations``, which lie in the order of their addresses."""
    bases = np.array([allocation.base for allocation in allocations], np.int64)
    sizes = np.array([allocation.size for allocation in allocations], np.int64)
    starts = np.concatenate(([0], np.cumsum(sizes)))
    whole = np.zeros(int(starts[-1]), np.uint8)
    table = trace.program.instructions
    use, width = _uses(trace.program), np.maximum(table["access_bytes"].astype(np.int64), 1)
    records = table["records"].astype(np.int64)
    for chunk in trace.chunk_list:
        _mark(chunk.warps, chunk.runs, chunk.path_start, chunk.accesses, chunk.scattered, records, use, width, bases, sizes,
              starts, whole)  # fmt: skip
        if len(chunk.bulks):
            _mark_boxes(chunk.bulks, bases, sizes, starts, whole)
    return Touched(tuple(whole[starts[i] : starts[i + 1]] for i in range(len(allocations))))


def _uses(program: Program) -> np.ndarray:
    """READ and WRITTEN bits of each instruction that may touch global memory."""
    table = program.instructions
    kind = table["memory_kind"]
    there = np.isin(table["space"], (Space.GLOBAL, Space.GENERIC))
    read = np.isin(kind, (MemoryKind.LOAD, MemoryKind.ATOMIC, MemoryKind.REDUCTION, MemoryKind.ASYNC_COPY))
    written = np.isin(kind, (MemoryKind.STORE, MemoryKind.ATOMIC, MemoryKind.REDUCTION))
    return (there * (read * READ + written * WRITTEN)).astype(np.int64)


@reading
def _mark(
    warps, runs, path_start, accesses, scattered, records, use, width, bases, sizes, starts, whole
):  # pragma: no cover - jitted
    """Mark the bytes that the accesses of a chunk touch, in ``whole``, the allocations one behind another."""
    last = 0
    for w in range(warps.shape[0]):
        at = np.int64(warps[w]["access_start"])
        path = warps[w]["path"]
        for r in range(path_start[path], path_start[path + 1]):
            first = np.int64(runs[r]["first"])
            for i in range(first, first + np.int64(runs[r]["count"])):
                for _ in range(records[i]):
                    access = accesses[at]
                    at += 1
                    if use[i] == 0:
                        continue
                    for lane in range(32):
                        if not (np.int64(access["mask"]) >> lane) & 1:
                            continue
                        address = lane_address(access, scattered, lane)
                        if not bases[last] <= address < bases[last] + sizes[last]:
                            last = max(0, np.searchsorted(bases, address, side="right") - 1)
                        for byte in range(address - bases[last], address - bases[last] + width[i]):
                            if 0 <= byte < sizes[last]:
                                whole[starts[last] + byte] |= use[i]


def _mark_boxes(bulks: np.ndarray, bases: np.ndarray, sizes: np.ndarray, starts: np.ndarray, whole: np.ndarray) -> None:
    lines, masks, record = box_lines(bulks)
    bits = (reads(bulks) * READ | writes(bulks) * WRITTEN).astype(np.uint8)[record]
    sector = 1 << SECTOR_SHIFT
    for line, mask, use in zip(lines.tolist(), masks.tolist(), bits.tolist(), strict=True):
        index = max(0, int(np.searchsorted(bases, line + LINE_BYTES - 1, side="right")) - 1)
        for number in range(LINE_BYTES // sector):
            low = line + number * sector - int(bases[index])
            if mask >> number & 1 and low + sector > 0 and low < sizes[index]:
                place = int(starts[index])
                whole[place + max(0, low) : place + min(low + sector, int(sizes[index]))] |= use
