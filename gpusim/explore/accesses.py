"""What a trace's lane addresses say before any model: alignment, lanes that meet, lines used again.

Mental model: one pass over the access records of a launch, with each record's instruction beside it; affine records
are looked at in whole arrays, only atomics and the sample for reuse lane by lane. Nothing here depends on a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gpusim.trace.compiled import reading
from gpusim.trace.lanes import lane_address
from gpusim.trace.owners import access_owners
from gpusim.trace.record import SCATTERED, WARP_LANES, Chunk, MemoryKind, Space, Trace

LINE_BYTES, SECTOR_BYTES = 128, 32
ALL_LANES = 0xFFFFFFFF
#: Line accesses of a launch that the distances between uses are taken from: its first ones.
REUSE_SAMPLE = 65_536
#: Atomic records of a launch that are looked at lane by lane: its first ones.
ATOMIC_SAMPLE = 16_384


@dataclass
class AccessFacts:
    """``alignments``: of contiguous global accesses, of "line", "sector", "within a sector"; ``atomic_lanes``: numbers
    of lanes that met on one address, the most of each record; ``operations_per_address`` of atomics on global
    memory; ``reuse_distances``: line accesses between two of one line."""

    alignments: set[str] = field(default_factory=set)
    atomic_lanes: set[int] = field(default_factory=set)
    operations_per_address: set[int] = field(default_factory=set)
    reuse_distances: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))


def access_facts(trace: Trace) -> AccessFacts:
    """Read all chunks of ``trace`` once."""
    table = trace.program.instructions
    facts = AccessFacts()
    atomics: list[np.ndarray] = []
    lines: list[np.ndarray] = []
    room_atomics, room_lines = ATOMIC_SAMPLE, REUSE_SAMPLE
    on_global = np.isin(table["space"], (Space.GLOBAL, Space.GENERIC))
    is_atomic = np.isin(table["memory_kind"], (MemoryKind.ATOMIC, MemoryKind.REDUCTION))
    for chunk in trace.chunks():
        if not chunk.accesses.size:
            continue
        owner = access_owners(chunk, trace.program)
        live = chunk.accesses["mask"] != 0
        facts.alignments |= _alignments(chunk, owner, live & on_global[owner], table)
        chosen = np.flatnonzero(live & is_atomic[owner])[:room_atomics]
        room_atomics -= chosen.size
        addresses = np.zeros((chosen.size, WARP_LANES), np.int64)
        meeting = np.zeros(chosen.size, np.int64)
        _meet(chunk.accesses, chunk.scattered, chosen, addresses, meeting)
        facts.atomic_lanes |= set(np.unique(meeting).tolist())
        active = (chunk.accesses["mask"][chosen, None] >> np.arange(WARP_LANES)) & 1 == 1
        atomics.append(addresses[active & on_global[owner[chosen], None]])
        chosen = np.flatnonzero(live & on_global[owner])[:room_lines]
        room_lines -= chosen.size
        lines.append(_first_lines(chunk, chosen))
    if any(each.size for each in atomics):
        counts = np.unique(np.concatenate(atomics), return_counts=True)[1]
        facts.operations_per_address = {int(counts.min()), int(counts.max())}
    facts.reuse_distances = _distances(np.concatenate(lines) if lines else np.empty(0, np.int64))
    return facts


@reading
def _meet(accesses, scattered, chosen, addresses, meeting):  # pragma: no cover - jitted
    """Addresses of the active lanes of each chosen access, and the most lanes that share one."""
    for k in range(chosen.shape[0]):
        access = accesses[chosen[k]]
        for lane in range(WARP_LANES):
            if not (np.int64(access["mask"]) >> lane) & 1:
                continue
            address = lane_address(access, scattered, lane)
            addresses[k, lane] = address
            alike = 1
            for other in range(lane):
                if (np.int64(access["mask"]) >> other) & 1 and addresses[k, other] == address:
                    alike += 1
            meeting[k] = max(meeting[k], alike)


def _alignments(chunk: Chunk, owner: np.ndarray, chosen: np.ndarray, table: np.ndarray) -> set[str]:
    """Where the contiguous accesses among ``chosen`` begin."""
    accesses = chunk.accesses
    contiguous = chosen & (accesses["stride"] == table["access_bytes"][owner]) & (accesses["mask"] == ALL_LANES)
    begins = accesses["address"][contiguous]
    found = set()
    if (begins % LINE_BYTES == 0).any():
        found.add("line")
    if ((begins % LINE_BYTES != 0) & (begins % SECTOR_BYTES == 0)).any():
        found.add("sector")
    if (begins % SECTOR_BYTES != 0).any():
        found.add("within a sector")
    return found


def _first_lines(chunk: Chunk, chosen: np.ndarray) -> np.ndarray:
    """The line of the first active lane of each chosen access."""
    if not chosen.size:
        return np.empty(0, np.int64)
    accesses = chunk.accesses[chosen]
    mask = accesses["mask"].astype(np.int64)
    first = np.log2(mask & -mask).astype(np.int64)
    affine = accesses["stride"] != SCATTERED
    addresses = accesses["address"].astype(np.int64) + first * accesses["stride"].astype(np.int64)
    scattered = np.flatnonzero(~affine)
    if scattered.size:
        rows = accesses["address"][scattered].astype(np.int64)
        addresses[scattered] = chunk.scattered[rows, first[scattered]].astype(np.int64)
    return addresses // LINE_BYTES


def _distances(lines: np.ndarray) -> np.ndarray:
    """Accesses from each use of a line to its next one."""
    order = np.argsort(lines, kind="stable")
    same = lines[order][1:] == lines[order][:-1]
    return np.diff(order)[same]
