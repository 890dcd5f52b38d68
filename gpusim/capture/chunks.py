"""From the log of a chunk to a :class:`~gpusim.trace.record.Chunk`: sort by warp, store equal paths once.

Mental model: the interpreter appends runs and accesses as they happen, warps interleaved. Here a counting
sort brings each warp's records together in order, and warps whose runs are equal come to share one path.
"""

from __future__ import annotations

import numpy as np

from gpusim.capture import layout as at
from gpusim.capture.jit import allocating
from gpusim.trace.record import ACCESS, RUN, SCATTERED, WARP, Chunk

_SCATTERED = int(SCATTERED)


@allocating
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


@allocating
def intern_paths(runs, start):
    """Give equal run sequences (rows of ``runs`` sorted by warp) one number.

    Returns (path of each warp uint32[w], the warp that first showed each path int64[p]).
    """
    warps = start.shape[0] - 1
    slots = 64
    while slots < 2 * warps:
        slots *= 2
    table = np.full(slots, -1, np.int64)
    hashes = np.empty(warps, np.int64)
    path = np.empty(warps, np.uint32)
    leaders = np.empty(warps, np.int64)
    found = 0
    for warp in range(warps):
        value = 0
        for i in range(start[warp], start[warp + 1]):
            for column in range(at.RUN_FIRST, at.RUN_MASK + 1):
                # 31 bits times 31 bits: no overflow, so that interpreted runs need no wrap-around
                value = ((value ^ int(runs[i, column])) & 0x7FFFFFFF) * 0x5BD1E995
                value ^= value >> 29
        slot = value & (slots - 1)
        while table[slot] >= 0:
            known = table[slot]
            leader = leaders[known]
            if hashes[known] == value and _same(runs, start, leader, warp):
                break
            slot = (slot + 1) & (slots - 1)
        if table[slot] < 0:
            table[slot] = found
            hashes[found] = value
            leaders[found] = warp
            found += 1
        path[warp] = table[slot]
    return path, leaders[:found].copy()


@allocating
def _same(runs, start, one, other):
    n = start[one + 1] - start[one]
    if start[other + 1] - start[other] != n:
        return False
    for i in range(n):
        a, b = start[one] + i, start[other] + i
        for column in range(at.RUN_FIRST, at.RUN_MASK + 1):
            if runs[a, column] != runs[b, column]:
                return False
    return True


def close_chunk(
    used: tuple[int, int, int],
    machine: at.Machine,
    first_block: int,
    blocks: int,
    warps_per_block: int,
    open_blocks: int = 0,
) -> Chunk:
    """Make the Chunk of ``blocks`` blocks, of which the last ``open_blocks`` go on, from the log (``used``
    entries of runs, accesses, scattered); the log can be emptied afterwards."""
    warps = blocks * warps_per_block
    runs, accesses = machine.runs[: used[at.RUNS]], machine.accesses[: used[at.ACCESSES]]
    keys = runs[:, at.RUN_WARP].astype(np.int64)
    order, run_start = sort_by_warp(keys, len(runs), warps)
    ordered = runs if (keys[1:] >= keys[:-1]).all() else runs[order]
    first, count, mask = ordered[:, at.RUN_FIRST], ordered[:, at.RUN_COUNT], ordered[:, at.RUN_MASK]
    path, leaders = intern_paths(ordered, run_start)
    lengths = run_start[leaders + 1] - run_start[leaders]
    path_start = np.zeros(len(leaders) + 1, np.int64)
    np.cumsum(lengths, out=path_start[1:])
    kept = np.repeat(run_start[leaders] - path_start[:-1], lengths) + np.arange(path_start[-1])
    interned = np.empty(len(kept), RUN)
    interned["first"], interned["count"], interned["mask"] = first[kept], count[kept], mask[kept]
    order, access_start = sort_by_warp(accesses[:, at.ACCESS_WARP], len(accesses), warps)
    sorted_accesses = np.empty(len(accesses), ACCESS)
    rows = machine.scattered[: used[at.SCATTERED_ROWS]]
    scattered = np.empty_like(rows)
    scattered = scattered[: pack_accesses(accesses, order, sorted_accesses, rows, scattered)]
    table = np.empty(warps, WARP)
    table["path"] = path
    table["access_start"] = access_start[:-1]
    table["access_count"] = np.diff(access_start)
    return Chunk(first_block, blocks, table, interned, path_start, sorted_accesses, scattered, open_blocks)


@allocating
def pack_accesses(accesses, order, out, rows, sorted_rows):
    """Write log rows in ``order`` as ACCESS records, and the scattered ``rows`` in the order of their use;
    returns how many those are. The interpreter gives each scattered access a row of its own."""
    used = 0
    for i in range(order.shape[0]):
        row = order[i]
        pattern = accesses[row, at.ACCESS_PATTERN]
        stride = pattern >> 32
        place = accesses[row, at.ACCESS_ADDRESS]
        if stride == _SCATTERED:
            for lane in range(at.LANES):
                sorted_rows[used, lane] = rows[place, lane]
            place = used
            used += 1
        out[i]["address"] = place
        out[i]["stride"] = stride
        out[i]["mask"] = pattern & 0xFFFFFFFF
    return used


def new_log(runs: int, accesses: int, scattered: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """An empty log with room for so many records: runs uint32[r, 4], accesses int64[a, 3], scattered
    uint64[s, 32]."""
    return (
        np.empty((runs, 4), np.uint32),
        np.empty((accesses, 3), np.int64),
        np.empty((scattered, at.LANES), np.uint64),
    )


def grown(machine: at.Machine, used: tuple[int, int, int], limits: tuple[int, int, int]) -> at.Machine:
    """The same machine with twice the log in whichever part is more than half full; itself when each such
    part has reached its limit."""
    parts = {}
    for name, filled, limit in zip(("runs", "accesses", "scattered"), used, limits, strict=True):
        old = getattr(machine, name)
        if filled * 2 > len(old) and len(old) < limit:
            new = np.empty((min(2 * len(old), limit), *old.shape[1:]), old.dtype)
            new[:filled] = old[:filled]
            parts[name] = new
    return machine._replace(**parts) if parts else machine


def lanes_of(machine: at.Machine, row: np.ndarray) -> tuple[np.ndarray, int]:
    """(addresses int64[32], lane mask) of one access of the log."""
    pattern, place = int(row[at.ACCESS_PATTERN]), int(row[at.ACCESS_ADDRESS])
    stride, mask = pattern >> 32, pattern & at.FULL
    if stride == SCATTERED:
        return machine.scattered[place].astype(np.int64), mask
    return place + stride * np.arange(at.LANES), mask
