"""A trace with its accesses, blocks or warps changed, chunk by chunk, for a counterfactual.

Mental model: what a better program would have recorded, made from what this one did: the same instructions, with the
addresses in order, or with the work cut into other blocks. Chunks are changed as they are read, so a trace of any size
needs no more memory than before; the original stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpusim.trace.owners import access_owners
from gpusim.trace.record import RUN, SCATTERED, WARP, WARP_LANES, Chunk, Flag, Trace

SECTOR_BYTES, LINE_BYTES, WORD_BYTES = 32, 128, 4

#: So many accesses say how a warp's lanes lie to each other; a long trace has millions that repeat them.
_ENOUGH_ACCESSES = 10_000

Change = Callable[[Chunk], Chunk]


@dataclass(frozen=True)
class ChangedChunks:
    """``chunks``, each passed through what ``begin()`` gives, anew each time that they are read."""

    chunks: Iterable[Chunk]
    begin: Callable[[], Change]

    def __iter__(self) -> Iterator[Chunk]:
        change = self.begin()
        for chunk in self.chunks:
            yield change(chunk)


def _with_accesses(trace: Trace, begin: Callable[[], Callable[[np.ndarray, np.ndarray], None]]) -> Trace:
    """``begin()`` gives a function that changes a chunk's accesses in place, given the instruction of each."""

    def start() -> Change:
        alter = begin()

        def change(chunk: Chunk) -> Chunk:
            accesses = chunk.accesses.copy()
            alter(accesses, access_owners(chunk, trace.program))
            return replace(chunk, accesses=accesses)

        return change

    return Trace(trace.program, trace.launch, ChangedChunks(trace.chunk_list, start))


def lanes_and_words(trace: Trace, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many lanes each of the first accesses of the ``chosen`` instructions has, and on how many different words."""
    lanes, words = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    own_place = -1 - np.arange(WARP_LANES)  # of a lane that takes no part: a word of its own
    for places, on in _first_words(trace, chosen):
        sorted_words = np.sort(np.where(on, places, own_place), axis=1)
        lanes.append(on.sum(axis=1))
        words.append(lanes[-1] - (np.diff(sorted_words, axis=1) == 0).sum(axis=1))
    return np.concatenate(lanes), np.concatenate(words)


def accesses_a_word(trace: Trace, chosen: np.ndarray) -> float:
    """How many of the first accesses of the ``chosen`` instructions go to one word, on average; 0 without any. Lanes of
    a warp that meet at a word are one access."""
    different = [np.empty(0, np.int64)]
    for places, on in _first_words(trace, chosen):
        rows = np.broadcast_to(np.arange(len(on))[:, None], on.shape)[on]
        different.append(np.unique(np.stack((rows, places[on])), axis=1)[1])
    words = np.concatenate(different)
    return len(words) / len(np.unique(words)) if len(words) else 0.0


def _first_words(trace: Trace, chosen: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Of the first accesses of the ``chosen`` instructions, by chunk: each lane's word, and whether it takes part."""
    left = _ENOUGH_ACCESSES
    for chunk in trace.chunk_list:
        owner = access_owners(chunk, trace.program)
        first = np.flatnonzero(chosen[owner] & (owner >= 0))[:left]
        addresses, on = _lanes_addresses(chunk, first)
        yield addresses // WORD_BYTES, on
        left -= len(first)
        if not left:
            return


def side_by_side(trace: Trace, chosen: np.ndarray) -> Trace:
    """The accesses of the ``chosen`` instructions (bool[instructions]) with each warp's lanes on neighbouring words of
    shared memory, or of wherever they point: no two on one bank."""
    width = trace.program.instructions["access_bytes"].astype(np.int32)

    def alter(accesses: np.ndarray, owner: np.ndarray) -> None:
        own = chosen[owner] & (owner >= 0)
        accesses["address"][own & (accesses["stride"] == SCATTERED)] = 0
        accesses["stride"][own] = width[owner[own]]

    return _with_accesses(trace, lambda: alter)


def on_one_word(trace: Trace, chosen: np.ndarray) -> Trace:
    """The accesses of the ``chosen`` instructions with all of a warp's lanes on one word."""

    def alter(accesses: np.ndarray, owner: np.ndarray) -> None:
        own = chosen[owner] & (owner >= 0)
        accesses["address"][own & (accesses["stride"] == SCATTERED)] = 0
        accesses["stride"][own] = 0

    return _with_accesses(trace, lambda: alter)


def in_order(trace: Trace, chosen: np.ndarray) -> Trace:
    """The accesses of the ``chosen`` instructions to global memory, coalesced: each of them walks, request by request,
    through as many bytes as its accesses touched before, from their lowest address on, over and over if it makes more
    requests than that."""
    table = trace.program.instructions
    touched = _touched(trace, np.flatnonzero(chosen).tolist())

    def begin() -> Callable[[np.ndarray, np.ndarray], None]:
        done = dict.fromkeys(touched, 0)

        def alter(accesses: np.ndarray, owner: np.ndarray) -> None:
            for index, (base, size) in touched.items():
                own = np.flatnonzero((owner == index) & (accesses["mask"] != 0))
                step = WARP_LANES * int(table["access_bytes"][index])
                at = (done[index] + np.arange(len(own), dtype=np.int64)) * step % max(step, size // step * step)
                done[index] += len(own)
                accesses["address"][own] = (base + at).astype(np.uint64)
                accesses["stride"][own] = int(table["access_bytes"][index])

        return alter

    return _with_accesses(trace, begin)


def one_lane(trace: Trace, chosen: np.ndarray) -> Trace:
    """The accesses of the ``chosen`` instructions made by each warp's first active lane alone."""

    def alter(accesses: np.ndarray, owner: np.ndarray) -> None:
        own = chosen[owner] & (owner >= 0)
        mask = accesses["mask"][own].astype(np.int64)
        accesses["mask"][own] = (mask & -mask).astype(np.uint32)

    return _with_accesses(trace, lambda: alter)


def without(trace: Trace, chosen: np.ndarray) -> Trace:
    """The ``chosen`` memory instructions as if a guard switched all their lanes off."""

    def alter(accesses: np.ndarray, owner: np.ndarray) -> None:
        accesses["mask"][chosen[owner] & (owner >= 0)] = 0

    return _with_accesses(trace, lambda: alter)


def smaller_blocks(trace: Trace, factor: int) -> Trace:
    """Each block cut into ``factor`` blocks of as many warps: for kernels whose warps know nothing of each other.
    ``factor`` divides the warps of a block."""
    launch = trace.launch
    threads = launch.warps_per_block // factor * WARP_LANES
    cut = replace(launch, grid=(launch.blocks * factor, 1, 1), block=(threads, 1, 1), cluster=(1, 1, 1))

    def change(chunk: Chunk) -> Chunk:
        return replace(
            chunk,
            first_block=chunk.first_block * factor,
            blocks=chunk.blocks * factor,
            open_blocks=chunk.open_blocks * factor,
        )

    return Trace(trace.program, cut, ChangedChunks(trace.chunk_list, lambda: change))


def joined_blocks(trace: Trace, times: int) -> Trace:
    """``times`` neighbouring blocks as one whose threads do their work one after another, with the loads of all in
    flight together: for kernels without barriers and shared memory."""
    program = trace.program
    size = len(program.instructions)
    code = program.instructions.copy()
    code["wait_mask"] = 0  # the last of them waits for all
    doubled = replace(program, instructions=np.concatenate((program.instructions, code)), texts=program.texts * 2)
    exits = program.instructions["flags"] & Flag.EXIT != 0
    per_block = trace.launch.warps_per_block
    blocks = sum(-(-chunk.blocks // times) for chunk in trace.chunks())

    def begin() -> Change:
        next_block = 0

        def change(chunk: Chunk) -> Chunk:
            nonlocal next_block
            groups = -(-chunk.blocks // times)
            blocks = np.arange(groups * times).reshape(groups, 1, times)
            # [joined warps, times]: rows of the chunk's warps; the last group may have fewer
            members = (blocks * per_block + np.arange(per_block)[:, None]).reshape(-1, times)
            there = members < len(chunk.warps)
            rows = chunk.warps[np.where(there, members, 0)]
            keys, first, which = np.unique(
                np.where(there, rows["path"].astype(np.int64), -1), axis=0, return_index=True, return_inverse=True
            )
            order = np.argsort(first)  # paths are numbered as warps come upon them
            runs = [_joined_runs(chunk, key[key >= 0].tolist(), exits, size) for key in keys[order]]
            counts = np.where(there, rows["access_count"].astype(np.int64), 0)
            warps = np.zeros(len(members), WARP)
            warps["path"] = np.argsort(order)[which.reshape(-1)]
            warps["access_count"] = counts.sum(axis=1)
            warps["access_start"] = np.cumsum(counts.sum(axis=1)) - counts.sum(axis=1)
            begins = rows["access_start"].astype(np.int64) - (np.cumsum(counts) - counts.ravel()).reshape(counts.shape)
            joined = Chunk(
                next_block,
                groups,
                warps,
                np.concatenate(runs),
                np.concatenate(([0], np.cumsum([len(each) for each in runs]))).astype(np.int64),
                chunk.accesses[np.repeat(begins.ravel(), counts.ravel()) + np.arange(counts.sum())],
                chunk.scattered,
            )
            next_block += groups
            return joined

        return change

    return Trace(
        doubled, replace(trace.launch, grid=(blocks, 1, 1), cluster=(1, 1, 1)), ChangedChunks(_Whole(trace), begin)
    )


@dataclass(frozen=True)
class _Whole:
    """The chunks of a trace, each of whole blocks."""

    trace: Trace

    def __iter__(self) -> Iterator[Chunk]:
        return self.trace.chunks()


def _joined_runs(chunk: Chunk, paths: list[int], exits: np.ndarray, size: int) -> np.ndarray:
    """The runs of ``paths`` one after another."""
    return np.concatenate([_part(chunk, path, exits, size, last=k == len(paths) - 1) for k, path in enumerate(paths)])


def _part(chunk: Chunk, path: int, exits: np.ndarray, size: int, last: bool) -> np.ndarray:
    """The runs of a path; unless it is the ``last`` one, without its end and in the copy that waits for nothing."""
    runs = chunk.runs[chunk.path_start[path] : chunk.path_start[path + 1]].copy()
    if last or not len(runs):
        return runs
    end = int(runs["first"][-1]) + int(runs["count"][-1]) - 1
    if exits[end]:
        runs["count"][-1] -= 1
    runs["first"] += size
    return runs[runs["count"] > 0].astype(RUN)


def _touched(trace: Trace, indices: Sequence[int]) -> dict[int, tuple[int, int]]:
    """The lowest line that each of these instructions touches, and the bytes of all its sectors."""
    known = {index: np.empty(0, np.int64) for index in indices}
    for chunk in trace.chunk_list:
        owner = access_owners(chunk, trace.program)
        for index in indices:
            addresses, on = _lanes_addresses(chunk, owner == index)
            known[index] = np.union1d(known[index], addresses[on] // SECTOR_BYTES)
    found = {}
    for index, sectors in known.items():
        base = int(sectors[0]) * SECTOR_BYTES // LINE_BYTES * LINE_BYTES if sectors.size else 0
        found[index] = base, max(1, sectors.size) * SECTOR_BYTES
    return found


def _lanes_addresses(chunk: Chunk, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Addresses of the lanes of the ``chosen`` accesses (a mask or places), and which lanes take part: int64 and
    bool[accesses, 32]."""
    lanes = np.arange(WARP_LANES)
    own = chunk.accesses[chosen]
    addresses = own["address"].astype(np.int64)[:, None] + lanes * own["stride"].astype(np.int64)[:, None]
    scattered = own["stride"] == SCATTERED
    addresses[scattered] = chunk.scattered[own["address"][scattered].astype(np.int64)].astype(np.int64)
    return addresses, own["mask"].astype(np.int64)[:, None] >> lanes & 1 == 1
