"""What a trace alone says the machine must count: instructions, lanes, sectors, bank conflicts, with NumPy.

Mental model: how many sectors a load touches, and how many passes over the banks it needs, follows from its lane
addresses and not from time. Here they are counted a second time, in whole arrays and by sorting, as far from how the
model does it lane by lane as can be. Counted are plain loads, stores and atomics of global and shared memory; generic
addresses, local memory, matrix loads and asynchronous copies are left to the model.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpusim.model import counters as count
from gpusim.trace.compiled import reading
from gpusim.trace.record import SCATTERED, WARP_LANES, Chunk, Flag, MemoryKind, Space, Trace

#: Access records that are looked at together: 32 addresses of 8 bytes each.
RECORDS_AT_ONCE = 16_384
SECTOR_BYTES, WORD_BYTES = 32, 4
#: Columns of the counts beside those of the model's ``work``: how often an instruction issued.
ISSUES = -1
_ATOMICS = (MemoryKind.ATOMIC, MemoryKind.REDUCTION)
#: (requests, sectors) of plain accesses to global memory.
_GLOBAL = {
    MemoryKind.LOAD: (count.LOAD_REQUESTS, count.LOAD_SECTORS),
    MemoryKind.STORE: (count.STORE_REQUESTS, count.STORE_SECTORS),
    **{kind: (count.ATOMIC_REQUESTS, count.ATOMIC_SECTORS) for kind in _ATOMICS},
}
#: The instructions on shared memory; an atomic reads before it writes.
_SHARED = {
    MemoryKind.LOAD: count.SHARED_LOADS,
    MemoryKind.STORE: count.SHARED_STORES,
    **{kind: count.SHARED_LOADS for kind in _ATOMICS},
}


def count_trace(trace: Trace, bank_count: int) -> dict[int, np.ndarray]:
    """For each counter (a column of :mod:`gpusim.model.counters`, or ISSUES) int64[instructions]: what each
    instruction must count; -1 where this module does not say. ``bank_count``: banks of the data array, one word
    each."""
    table = trace.program.instructions
    executed = np.zeros((2, table.size), np.int64)
    totals = {ISSUES: executed[0], count.THREAD_INSTRUCTIONS: executed[1]}
    kinds = {}
    for kind, space, columns in (
        *((kind, Space.GLOBAL, columns) for kind, columns in _GLOBAL.items()),
        *((kind, Space.SHARED, (column, count.SHARED_WAVEFRONTS)) for kind, column in _SHARED.items()),
    ):
        chosen = (table["memory_kind"] == kind) & (table["space"] == space) & (table["records"] == 1)
        kinds[space, kind] = chosen
        for column in columns:
            totals.setdefault(column, np.full(table.size, -1, np.int64))[chosen] = 0
    records = table["records"].astype(np.int64)
    for chunk in trace.chunks():
        owner = np.empty(chunk.accesses.size, np.int64)
        active = np.empty(chunk.accesses.size, np.int64)
        _walk(chunk.warps, chunk.runs, chunk.path_start, records, owner, active, executed)
        for (space, kind), chosen in kinds.items():
            mine = np.flatnonzero(chosen[owner] & (active & chunk.accesses["mask"].astype(np.int64) != 0))
            for part in _parts(mine):
                lanes = _lanes(active[part] & chunk.accesses["mask"][part].astype(np.int64))
                addresses = _addresses(chunk, part)
                if space == Space.SHARED:
                    widths = table["access_bytes"][owner[part]]
                    passes = _wavefronts(addresses, lanes, widths, bank_count, kind == MemoryKind.LOAD)
                    if kind in _ATOMICS:  # but for what counts the lanes of a word
                        apart = table["flags"][owner[part]] & int(Flag.COUNTS_LANES) == 0
                        passes = np.where(apart, _atomic_wavefronts(addresses, lanes, widths, bank_count), passes)
                    np.add.at(totals[count.SHARED_WAVEFRONTS], owner[part], passes)
                    continue
                requests, sectors = _GLOBAL[kind]
                np.add.at(totals[requests], owner[part], 1)
                np.add.at(totals[sectors], owner[part], _sectors(addresses, lanes))
    # An instruction on shared memory counts whether or not any lane is on.
    for kind, column in _SHARED.items():
        chosen = kinds[Space.SHARED, kind]
        totals[column][chosen] = executed[0][chosen]
    return totals


def _parts(indices: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, indices.size, RECORDS_AT_ONCE):
        yield indices[start : start + RECORDS_AT_ONCE]


def _lanes(mask: np.ndarray) -> np.ndarray:
    """bool[records, 32] of lane masks."""
    return (mask[:, None] >> np.arange(WARP_LANES)) & 1 != 0


def _addresses(chunk: Chunk, part: np.ndarray) -> np.ndarray:
    """Lane addresses int64[records, 32]."""
    accesses = chunk.accesses[part]
    first, stride = accesses["address"].astype(np.int64), accesses["stride"].astype(np.int64)
    scattered = stride == SCATTERED
    found = first[:, None] + np.where(scattered, 0, stride)[:, None] * np.arange(WARP_LANES)
    if scattered.any():
        found[scattered] = chunk.scattered[first[scattered]].astype(np.int64)
    return found


def _distinct(values: np.ndarray, on: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where a row of ``values``, sorted, has a value of its own, bool like ``values``; and the sorted values."""
    ordered = np.sort(np.where(on, values, -1), axis=1)
    fresh = ordered >= 0
    fresh[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    return fresh, ordered


def _sectors(addresses: np.ndarray, lanes: np.ndarray) -> np.ndarray:
    """Different sectors that each record's lanes touch, int64[records]; accesses are aligned to their width."""
    return _distinct(addresses // SECTOR_BYTES, lanes)[0].sum(axis=1)


def _wavefronts(addresses: np.ndarray, lanes: np.ndarray, widths: np.ndarray, banks: int, merges: bool) -> np.ndarray:
    """Passes over the banks that each record needs, int64[records]: 128 bytes of lanes go together, and a bank gives
    one word a pass. ``merges``: twice as many lanes go together where all agree with their neighbour, or all with the
    one beyond it."""
    passes = np.zeros(len(addresses), np.int64)
    paired = _paired(addresses, lanes) if merges else np.zeros(len(addresses), bool)
    for width in np.unique(widths).tolist():
        words = max(1, width // WORD_BYTES)
        for alike in (False, True) if words > 1 else (False,):
            rows = np.flatnonzero((widths == width) & ((paired == alike) | (words == 1)))
            parts = words // 2 if alike else words
            together = WARP_LANES // parts
            base = addresses[rows].reshape(-1, together, 1) // WORD_BYTES + np.arange(words)
            on = np.broadcast_to(lanes[rows].reshape(-1, together, 1), base.shape)
            flat = (len(rows) * parts, together * words)
            fresh, ordered = _distinct(base.reshape(flat), on.reshape(flat))
            load = np.zeros((flat[0], banks), np.int64)
            np.add.at(load, (np.nonzero(fresh)[0], ordered[fresh] % banks), 1)
            passes[rows] = load.max(axis=1).reshape(len(rows), parts).sum(axis=1)
    return passes


def _paired(addresses: np.ndarray, lanes: np.ndarray) -> np.ndarray:
    """Whether all lanes of a record that are on have the address of the one 1 further, or all that of the one 2
    further, bool[records]."""
    found = np.zeros(len(addresses), bool)
    for distance in (1, 2):
        other = np.arange(WARP_LANES) ^ distance
        both = lanes & lanes[:, other]
        found |= ~(both & (addresses != addresses[:, other])).any(axis=1)
    return found


def _atomic_wavefronts(addresses: np.ndarray, lanes: np.ndarray, widths: np.ndarray, banks: int) -> np.ndarray:
    """Passes that each record's atomics need, int64[records]: the lanes of a bank one after the other, those on one
    word too, and each word of a lane by itself."""
    row, lane = np.nonzero(lanes)
    load = np.zeros((len(addresses), banks), np.int64)
    np.add.at(load, (row, addresses[row, lane] // WORD_BYTES % banks), 1)
    return load.max(axis=1) * np.maximum(1, widths // WORD_BYTES)


@reading
def _walk(warps, runs, path_start, records, owner, active, executed):  # pragma: no cover - jitted
    """Instruction and lanes of each access record into ``owner`` and ``active``; issues and lanes of each instruction
    into ``executed``."""
    for w in range(warps.shape[0]):
        at = np.int64(warps[w]["access_start"])
        path = np.int64(warps[w]["path"])
        for r in range(path_start[path], path_start[path + 1]):
            first = np.int64(runs[r]["first"])
            mask = np.int64(runs[r]["mask"])
            lanes = np.int64(0)
            for lane in range(32):
                lanes += (mask >> lane) & 1
            for i in range(first, first + np.int64(runs[r]["count"])):
                executed[0, i] += 1
                executed[1, i] += lanes
                for _ in range(records[i]):
                    owner[at] = i
                    active[at] = mask
                    at += 1
