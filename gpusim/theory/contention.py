"""How often atomics meet on one word: work that no width of the machine can spread.

Mental model: all operations on a word are done at the one L2 slice that holds it, one after another, whichever warps,
lanes and SMs they come from. The word that most operations of a launch go to bounds its time from below.
"""

from __future__ import annotations

import numpy as np

from gpusim.theory.footprint import global_range
from gpusim.trace.compiled import reading
from gpusim.trace.lanes import lane_address
from gpusim.trace.record import WARP_LANES, MemoryKind, Space, Trace

WORD_SHIFT = 2  # 4-byte words


def most_operations_on_a_word(trace: Trace) -> int:
    """Atomic operations of lanes on the global word that has most of them; 0 without atomics. An atomic of 8 bytes
    counts at its first word."""
    table = trace.program.instructions
    kinds = np.isin(table["memory_kind"], (MemoryKind.ATOMIC, MemoryKind.REDUCTION))
    chosen = kinds & np.isin(table["space"], (Space.GLOBAL, Space.GENERIC))
    if not chosen.any():
        return 0
    records = table["records"].astype(np.int64)
    low, high = global_range(trace.launch)
    words, operations = np.empty(0, np.int64), np.empty(0, np.int64)
    for chunk in trace.chunk_list:
        room = WARP_LANES * _count(chunk.warps, chunk.runs, chunk.path_start, records, chosen)
        found = np.empty(room, np.int64)
        used = _words(
            chunk.warps,
            chunk.runs,
            chunk.path_start,
            chunk.accesses,
            chunk.scattered,
            records,
            chosen,
            low,
            high,
            found,
        )
        fresh, counts = np.unique(found[:used], return_counts=True)
        words, place = np.unique(np.concatenate((words, fresh)), return_inverse=True)
        operations = np.bincount(place, np.concatenate((operations, counts)), words.size).astype(np.int64)
    return int(operations.max(initial=0))


@reading
def _count(warps, runs, path_start, records, chosen):  # pragma: no cover - jitted
    """How many access records of chosen instructions there are."""
    n = 0
    for w in range(warps.shape[0]):
        path = np.int64(warps[w]["path"])
        for r in range(path_start[path], path_start[path + 1]):
            first = np.int64(runs[r]["first"])
            for i in range(first, first + np.int64(runs[r]["count"])):
                if chosen[i]:
                    n += records[i]
    return n


@reading
def _words(
    warps, runs, path_start, accesses, scattered, records, chosen, low, high, found
):  # pragma: no cover - jitted
    """The word of each lane of each chosen record within [low, high), into ``found``; returns how many."""
    n = 0
    for w in range(warps.shape[0]):
        at = np.int64(warps[w]["access_start"])
        path = np.int64(warps[w]["path"])
        for r in range(path_start[path], path_start[path + 1]):
            first = np.int64(runs[r]["first"])
            on = np.int64(runs[r]["mask"])
            for i in range(first, first + np.int64(runs[r]["count"])):
                if chosen[i]:
                    access = accesses[at]
                    for lane in range(WARP_LANES):
                        if (np.int64(access["mask"]) & on) >> lane & 1:
                            address = lane_address(access, scattered, lane)
                            if low <= address < high:
                                found[n] = address >> WORD_SHIFT
                                n += 1
                at += records[i]
    return n


__all__ = ["most_operations_on_a_word"]
