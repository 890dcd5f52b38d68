"""From the log of a chunk to a :class:`~gpusim.trace.record.Chunk`: sort by warp, store equal paths once.

Mental model: the interpreter appends runs and accesses as they happen, warps interleaved. Here a counting
sort brings each warp's records together in order, and warps whose runs are equal come to share one path.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from gpusim.capture import layout as at
from gpusim.trace.record import ACCESS, RUN, WARP, Chunk


@njit(cache=True)
def sort_by_warp(keys, count, warps):
    """Stable order of ``keys[:count]`` by value: (order int64[count], start int64[warps + 1])."""
    start = np.zeros(warps + 1, np.int64)
    for i in range(count):
        start[keys[i] + 1] += 1
    for warp in range(warps):
        start[warp + 1] += start[warp]
    place = start[:-1].copy()
    order = np.empty(count, np.int64)
    for i in range(count):
        key = keys[i]
        order[place[key]] = i
        place[key] += 1
    return order, start


@njit(cache=True)
def intern_paths(first, count, mask, start):
    """Give equal run sequences one number.

    Returns (path of each warp uint32[w], the warp that first showed each path int64[p]).
    """
    warps = start.shape[0] - 1
    slots = 64
    while slots < 2 * warps:
        slots *= 2
    table = np.full(slots, -1, np.int64)
    hashes = np.empty(warps, np.uint64)
    path = np.empty(warps, np.uint32)
    leaders = np.empty(warps, np.int64)
    found = 0
    for warp in range(warps):
        value = np.uint64(14695981039346656037)
        for i in range(start[warp], start[warp + 1]):
            mixed = np.uint64(first[i]) ^ (np.uint64(count[i]) << np.uint64(20)) ^ (np.uint64(mask[i]) << np.uint64(32))
            value = (value ^ mixed) * np.uint64(1099511628211)
            value ^= value >> np.uint64(29)
        slot = np.int64(value & np.uint64(slots - 1))
        while table[slot] >= 0:
            known = table[slot]
            leader = leaders[known]
            if hashes[known] == value and _same(first, count, mask, start, leader, warp):
                break
            slot = (slot + 1) & (slots - 1)
        if table[slot] < 0:
            table[slot] = found
            hashes[found] = value
            leaders[found] = warp
            found += 1
        path[warp] = table[slot]
    return path, leaders[:found].copy()


@njit(cache=True)
def _same(first, count, mask, start, one, other):
    n = start[one + 1] - start[one]
    if start[other + 1] - start[other] != n:
        return False
    for i in range(n):
        a, b = start[one] + i, start[other] + i
        if first[a] != first[b] or count[a] != count[b] or mask[a] != mask[b]:
            return False
    return True


def close_chunk(log: at.Log, first_block: int, blocks: int, warps_per_block: int) -> Chunk:
    """Make the Chunk of ``blocks`` blocks from what the log holds; the log can be emptied afterwards."""
    warps = blocks * warps_per_block
    run_count, access_count = int(log.used[at.USED_RUNS]), int(log.used[at.USED_ACCESSES])
    order, run_start = sort_by_warp(log.run_warp, run_count, warps)
    first, count, mask = log.run_first[order], log.run_count[order], log.run_mask[order]
    path, leaders = intern_paths(first, count, mask, run_start)
    lengths = run_start[leaders + 1] - run_start[leaders]
    path_start = np.zeros(len(leaders) + 1, np.int64)
    np.cumsum(lengths, out=path_start[1:])
    kept = np.repeat(run_start[leaders] - path_start[:-1], lengths) + np.arange(path_start[-1])
    runs = np.empty(len(kept), RUN)
    runs["first"], runs["count"], runs["mask"] = first[kept], count[kept], mask[kept]
    order, access_start = sort_by_warp(log.access_warp, access_count, warps)
    accesses = np.empty(access_count, ACCESS)
    accesses["address"] = log.access_address[order]
    accesses["stride"] = log.access_stride[order]
    accesses["mask"] = log.access_mask[order]
    table = np.empty(warps, WARP)
    table["path"] = path
    table["access_start"] = access_start[:-1]
    table["access_count"] = np.diff(access_start)
    scattered = log.scattered[: int(log.used[at.USED_SCATTERED])].copy()
    return Chunk(first_block, blocks, table, runs, path_start, accesses, scattered)


def new_log(runs: int, accesses: int, scattered: int) -> at.Log:
    """An empty log with room for so many records."""
    return at.Log(
        used=np.zeros(4, np.int64),
        run_warp=np.empty(runs, np.int32),
        run_first=np.empty(runs, np.uint32),
        run_count=np.empty(runs, np.uint32),
        run_mask=np.empty(runs, np.uint32),
        access_warp=np.empty(accesses, np.int32),
        access_address=np.empty(accesses, np.uint64),
        access_stride=np.empty(accesses, np.int32),
        access_mask=np.empty(accesses, np.uint32),
        scattered=np.empty((scattered, at.LANES), np.uint64),
    )


def grown(log: at.Log) -> at.Log:
    """The same log with twice the room in whichever part is short of it."""
    used = log.used
    runs = len(log.run_warp) * (2 if used[at.USED_RUNS] * 2 > len(log.run_warp) else 1)
    accesses = len(log.access_warp) * (2 if used[at.USED_ACCESSES] * 2 > len(log.access_warp) else 1)
    scattered = len(log.scattered) * (2 if used[at.USED_SCATTERED] * 2 > len(log.scattered) else 1)
    larger = new_log(runs, accesses, scattered)
    larger.used[:] = used
    for old, new in zip(log[1:], larger[1:], strict=True):
        new[: len(old)] = old
    return larger
