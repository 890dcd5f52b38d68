"""From the log of a chunk to a :class:`~gpusim.trace.record.Chunk`: sort by warp, store equal paths once.

Mental model: the interpreter appends runs and accesses as they happen, warps interleaved. Here a counting
sort brings each warp's records together in order, and warps whose runs are equal come to share one path.
"""

from __future__ import annotations

import numpy as np

from gpusim.emulator.poll_words import rehash
from gpusim.emulator.tensor_boxes import (
    LOG_ACCESS,
    LOG_ADDRESS,
    LOG_BYTES,
    LOG_COUNT,
    LOG_DESCRIPTOR,
    LOG_KIND,
    LOG_ROW_BYTES,
    LOG_SHARED,
    LOG_STRIDE,
)
from gpusim.isa import warp as at
from gpusim.isa.jit import allocating
from gpusim.trace.record import ACCESS, BULK, POLL, RUN, SCATTERED, SIGNAL, WARP, Chunk

_SCATTERED = int(SCATTERED)
#: Rows of the hash of words, and signals of the log, beyond which they do not grow: 96 and 14 MiB.
MOST_WORDS, MOST_SIGNALS = 1 << 21, 1 << 18


@allocating
def starts(keys, warps):
    """Where each warp's records begin once those of lower warps stand before them, int64[warps + 1]; ``keys``: the
    warp of each."""
    start = np.zeros(warps + 1, np.int64)
    for i in range(len(keys)):
        start[keys[i] + 1] += 1
    for warp in range(warps):
        start[warp + 1] += start[warp]
    return start


@allocating
def intern_paths(runs, start):
    """Give equal run sequences (``runs`` uint32[r, 3]: first, count, mask, sorted by warp) one number.

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
            for column in range(3):
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
        for column in range(3):
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
    signals: int = 0,
    bulks: np.ndarray | None = None,
) -> Chunk:
    """Make the Chunk of ``blocks`` blocks, of which the last ``open_blocks`` go on, from the log (``used``
    entries of runs, accesses, scattered; so many ``signals``; ``bulks`` as :mod:`gpusim.emulator.tensor_boxes` logs
    them); the log can be emptied afterwards."""
    runs, accesses = machine.runs[: used[at.RUNS]], machine.accesses[: used[at.ACCESSES]]
    rows = machine.scattered[: used[at.SCATTERED_ROWS]]
    table, out, scattered = (
        np.empty(blocks * warps_per_block, WARP),
        np.empty(len(accesses), ACCESS),
        np.empty_like(rows),
    )
    interned, path_start, scattered_rows = fold_log(runs, accesses, rows, table, out, scattered)
    noted, moved = np.zeros(0, SIGNAL), np.zeros(0, BULK)
    if bulks is not None and len(bulks):
        moved = _bulks(bulks, accesses[:, at.ACCESS_WARP])
    if signals:
        noted = _signals(machine.signals[:signals], accesses[:, at.ACCESS_WARP], table["access_start"])
    runs = interned.view(RUN)[:, 0]
    rounds = runs["count"] >> at.RUN_POLL_SHIFT
    marked = np.flatnonzero(rounds)
    runs["count"][marked] &= at.RUN_LENGTH
    polls = np.empty(len(marked), POLL)
    polls["run"], polls["runs"] = marked, rounds[marked]
    return Chunk(
        first_block, blocks, table, runs, path_start, out, scattered[:scattered_rows], open_blocks, polls, noted, moved
    )


def _signals(logged: np.ndarray, warp_of: np.ndarray, access_start: np.ndarray) -> np.ndarray:
    """SIGNAL records, in the order of their accesses, from the log's; ``warp_of`` the warp of each access of the
    log."""
    logged = logged[logged[:, at.SIGNAL_POLLS] < 2]  # nobody waited there
    place = _places(warp_of)
    noted = np.empty(len(logged), SIGNAL)
    noted["access"] = place[logged[:, at.SIGNAL_ACCESS]]
    for column, name in (
        (at.SIGNAL_WORD, "word"), (at.SIGNAL_POLLS, "polls"), (at.SIGNAL_COUNT, "count"), (at.SIGNAL_BLOCK, "block"),
        (at.SIGNAL_WARP, "warp"), (at.SIGNAL_ADDRESS, "address"),
    ):  # fmt: skip
        noted[name] = logged[:, column]
    return noted[np.argsort(noted["access"], kind="stable")]


def _places(warp_of: np.ndarray) -> np.ndarray:
    """Where each access of the log goes once those of lower warps stand before it, int64[accesses]."""
    order = np.argsort(warp_of, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return place


def _bulks(logged: np.ndarray, warp_of: np.ndarray) -> np.ndarray:
    """BULK records, in the order of their accesses, from the log's."""
    noted = np.empty(len(logged), BULK)
    noted["access"] = _places(warp_of)[logged[:, LOG_ACCESS]]
    how = logged[:, LOG_KIND]
    noted["kind"], noted["swizzle"], noted["blocks"] = how & 0xFF, how >> 8 & 0xFF, how >> 16
    noted["stride"], noted["count"] = logged[:, LOG_STRIDE : LOG_STRIDE + 4], logged[:, LOG_COUNT : LOG_COUNT + 4]
    for column, name in (
        (LOG_ADDRESS, "address"), (LOG_DESCRIPTOR, "descriptor"), (LOG_ROW_BYTES, "row_bytes"), (LOG_BYTES, "bytes"),
        (LOG_SHARED, "shared"),
    ):  # fmt: skip
        noted[name] = logged[:, column]
    return noted[np.argsort(noted["access"], kind="stable")]


@allocating
def fold_log(runs, accesses, rows, table, out, scattered):
    """Fill the WARP ``table``, the ACCESS records ``out`` and the ``scattered`` rows from the log.

    Returns (the runs of each different path uint32[r, 3], where each path begins int64[p + 1], scattered rows).
    """
    warps = len(table)
    run_start = starts(runs[:, at.RUN_WARP], warps)
    ordered, place = np.empty((len(runs), 3), np.uint32), run_start[:-1].copy()
    for i in range(len(runs)):
        warp = runs[i, at.RUN_WARP]
        for column in range(3):
            ordered[place[warp], column] = runs[i, at.RUN_FIRST + column]
        place[warp] += 1
    path, leaders = intern_paths(ordered, run_start)
    path_start = np.zeros(len(leaders) + 1, np.int64)
    for p in range(len(leaders)):
        path_start[p + 1] = path_start[p] + run_start[leaders[p] + 1] - run_start[leaders[p]]
    interned = np.empty((path_start[-1], 3), np.uint32)
    for p in range(len(leaders)):
        for i in range(path_start[p + 1] - path_start[p]):
            for column in range(3):
                interned[path_start[p] + i, column] = ordered[run_start[leaders[p]] + i, column]
    access_start = starts(accesses[:, at.ACCESS_WARP], warps)
    for warp in range(warps):
        table[warp]["path"] = path[warp]
        table[warp]["access_start"] = access_start[warp]
        table[warp]["access_count"] = access_start[warp + 1] - access_start[warp]
    return interned, path_start, place_accesses(accesses, access_start[:-1].copy(), out, rows, scattered)


@allocating
def place_accesses(accesses, place, out, rows, sorted_rows):
    """Write log rows as ACCESS records, each warp's in their order from ``place[warp]`` on, and the scattered ``rows``
    in the order of their use; returns how many those are. The interpreter gives each scattered access a row of its
    own."""
    used = len(rows)
    for i in range(len(accesses)):
        record = out[place[accesses[i, at.ACCESS_WARP]]]
        place[accesses[i, at.ACCESS_WARP]] += 1
        pattern = accesses[i, at.ACCESS_PATTERN]
        record["address"] = accesses[i, at.ACCESS_ADDRESS]
        record["stride"] = pattern >> 32
        record["mask"] = pattern & at.FULL
    if used:
        used = 0
        for i in range(len(out)):
            record = out[i]
            if record["stride"] == _SCATTERED:
                for lane in range(at.LANES):
                    sorted_rows[used, lane] = rows[record["address"], lane]
                record["address"] = used
                used += 1
    return used


def new_log(runs: int, accesses: int, scattered: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """An empty log with room for so many records: runs uint32[r, 4], accesses int64[a, 3], scattered
    uint64[s, 32]."""
    return (
        np.empty((runs, at.RUN_TABLE.width), np.uint32),
        np.empty((accesses, at.ACCESS_TABLE.width), np.int64),
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


def roomier(machine: at.Machine, words_used: int, signals_used: int) -> at.Machine:
    """The same machine with room for more words that are polled or may be, and more signals, if it runs short of
    either. A kernel with more than :data:`MOST_WORDS` is not looked at any more: its warps then wait for nothing."""
    words, signals = machine.words, machine.signals
    if 4 * words_used > len(words):
        more = 2 * len(words) if 2 * len(words) <= MOST_WORDS else 0
        words = np.zeros((more, words.shape[1]), np.int64)
        if more:
            rehash(machine.words, words)
    if 4 * signals_used > len(signals) and len(signals) < MOST_SIGNALS:
        signals = np.empty((2 * len(signals), signals.shape[1]), np.int64)
        signals[:signals_used] = machine.signals[:signals_used]
    if words is machine.words and signals is machine.signals:
        return machine
    return machine._replace(words=words, signals=signals)


def lanes_of(machine: at.Machine, row: np.ndarray) -> tuple[np.ndarray, int]:
    """(addresses int64[32], lane mask) of one access of the log."""
    pattern, place = int(row[at.ACCESS_PATTERN]), int(row[at.ACCESS_ADDRESS])
    stride, mask = pattern >> 32, pattern & at.FULL
    if stride == SCATTERED:
        return machine.scattered[place].astype(np.int64), mask
    return place + stride * np.arange(at.LANES), mask
