"""Joins the parts of blocks that were too long for one chunk.

Mental model: ``open_blocks`` says how many blocks at a chunk's end go on in the next. Parts of such blocks are kept
until their last one has come and are then laid end to end, warp by warp: runs behind runs, accesses behind
accesses. Chunks of whole blocks pass as they are. What is held at a time is the parts of the open blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from gpusim.trace.layout import POLL, SCATTERED, WARP, Chunk


class WholeBlocks:
    """Takes chunks one by one and gives those that are whole: every block is in exactly one, none is open."""

    def __init__(self) -> None:
        self._carried: list[Chunk] = []

    def add(self, chunk: Chunk) -> tuple[Chunk, ...]:
        """The chunk of the blocks that end with ``chunk``, if any do."""
        if not self._carried and not chunk.open_blocks:
            return (chunk,)
        self._carried.append(chunk)
        done = chunk.blocks - chunk.open_blocks
        if not done:
            return ()
        whole = _merged(self._carried, done)
        self._carried = [_without_first(part, done) for part in self._carried if part.blocks > done]
        return (whole,)


def whole_blocks(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """The chunks with all parts joined: every block is in exactly one, none is open."""
    joined = WholeBlocks()
    for chunk in chunks:
        yield from joined.add(chunk)


def _warps_per_block(chunk: Chunk) -> int:
    return len(chunk.warps) // chunk.blocks


def _without_first(chunk: Chunk, blocks: int) -> Chunk:
    """The chunk without its first ``blocks`` blocks, in arrays of its own."""
    warps_before = chunk.warps[blocks * _warps_per_block(chunk) :]
    warps = warps_before.copy()
    used, warps["path"] = np.unique(warps["path"], return_inverse=True)
    lengths = np.diff(chunk.path_start)[used]
    taken_runs = _ranges(chunk.path_start[used], lengths)
    runs = chunk.runs[taken_runs]
    count = warps["access_count"].astype(np.int64)
    accesses = chunk.accesses[_ranges(warps["access_start"].astype(np.int64), count)]
    warps["access_start"] = np.cumsum(count) - count
    taken = _ranges(warps_before["access_start"].astype(np.int64), count)
    place = np.full(len(chunk.accesses), -1, np.int64)
    place[taken] = np.arange(len(taken))
    named = accesses["stride"] == SCATTERED
    rows, accesses["address"][named] = np.unique(accesses["address"][named], return_inverse=True)
    return Chunk(
        chunk.first_block + blocks,
        chunk.blocks - blocks,
        warps,
        runs,
        np.concatenate(([0], np.cumsum(lengths))),
        accesses,
        chunk.scattered[rows.astype(np.int64)],
        chunk.open_blocks,
        _polls_of(_poll_lengths(chunk)[taken_runs]),
        _moved(chunk.signals, place),
        _moved(chunk.bulks, place),
    )


def _poll_lengths(chunk: Chunk) -> np.ndarray:
    """Runs of the round of polling that begins with each run, 0 for none: int64[runs]."""
    lengths = np.zeros(len(chunk.runs), np.int64)
    lengths[chunk.polls["run"]] = chunk.polls["runs"]
    return lengths


def _polls_of(lengths: np.ndarray) -> np.ndarray:
    """POLL records from what :func:`_poll_lengths` gives."""
    first = np.flatnonzero(lengths)
    polls = np.empty(len(first), POLL)
    polls["run"], polls["runs"] = first, lengths[first]
    return polls


def _moved(records: np.ndarray, place: np.ndarray) -> np.ndarray:
    """The signals or bulk copies of accesses that are kept, with their new places (``place`` int64[accesses], -1: not
    kept)."""
    access = place[records["access"]]
    kept = records[access >= 0].copy()
    kept["access"] = access[access >= 0]
    return kept[np.argsort(kept["access"], kind="stable")]


def _merged(parts: list[Chunk], blocks: int) -> Chunk:
    """The first ``blocks`` blocks of ``parts``, which all begin with the same block, part behind part."""
    n_warps = blocks * _warps_per_block(parts[0])
    shape = (n_warps, len(parts))
    path, run_start, run_count = (np.zeros(shape, np.int64) for _ in range(3))
    access_start, access_count = (np.zeros(shape, np.int64) for _ in range(2))
    accesses, paths_before, runs_before, accesses_before, rows_before = [], 1, 0, 0, 0
    for i, part in enumerate(parts):
        warps = part.warps[:n_warps]
        mine = warps["path"].astype(np.int64)
        # Number 0 stands for a part that has nothing of a warp.
        path[: len(warps), i] = np.where(np.diff(part.path_start)[mine] > 0, mine + paths_before, 0)
        run_start[: len(warps), i] = runs_before + part.path_start[mine]
        run_count[: len(warps), i] = np.diff(part.path_start)[mine]
        access_start[: len(warps), i] = accesses_before + warps["access_start"].astype(np.int64)
        access_count[: len(warps), i] = warps["access_count"]
        moved = part.accesses.copy()
        moved["address"][moved["stride"] == SCATTERED] += np.uint64(rows_before)
        accesses.append(moved)
        paths_before += len(part.path_start)
        runs_before += len(part.runs)
        accesses_before += len(part.accesses)
        rows_before += len(part.scattered)
    order = _ranges(access_start.ravel(), access_count.ravel())
    place = np.full(accesses_before, -1, np.int64)
    place[order] = np.arange(len(order))
    signals, bulks, before = [], [], 0
    for part in parts:
        mine = place[before : before + len(part.accesses)]
        signals.append(_moved(part.signals, mine))
        bulks.append(_moved(part.bulks, mine))
        before += len(part.accesses)
    _, leaders, numbers = np.unique(path, axis=0, return_index=True, return_inverse=True)
    lengths = run_count[leaders]
    table = np.empty(n_warps, WARP)
    table["path"] = numbers.reshape(-1)
    total = access_count.sum(axis=1)
    table["access_count"] = total
    table["access_start"] = np.cumsum(total) - total
    taken_runs = _ranges(run_start[leaders].ravel(), lengths.ravel())
    return Chunk(
        parts[0].first_block,
        blocks,
        table,
        np.concatenate([part.runs for part in parts])[taken_runs],
        np.concatenate(([0], np.cumsum(lengths.sum(axis=1)))),
        np.concatenate(accesses)[order],
        np.concatenate([part.scattered for part in parts]),
        polls=_polls_of(np.concatenate([_poll_lengths(part) for part in parts])[taken_runs]),
        signals=_by_access(signals),
        bulks=_by_access(bulks),
    )


def _by_access(parts: list[np.ndarray]) -> np.ndarray:
    """Signals or bulk copies of all ``parts`` in the order of their accesses."""
    together = np.concatenate(parts)
    return together[np.argsort(together["access"], kind="stable")]


def _ranges(start: np.ndarray, length: np.ndarray) -> np.ndarray:
    """The indices ``start[i] .. start[i] + length[i] - 1`` of all i, one after another."""
    before = np.cumsum(length) - length
    return np.repeat(start - before, length) + np.arange(int(length.sum()))
