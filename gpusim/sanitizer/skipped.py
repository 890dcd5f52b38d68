"""Which threads of a block leave out a barrier that others of it wait at, read off the trace.

Mental model: a thread has *gone past* a barrier once it executes an instruction that lies behind it, one that can be
reached from the barrier and from which the barrier cannot be reached any more. Of the threads of a block that have gone
past a barrier of the whole block, each must have waited there equally often. A thread that returns early executes
nothing behind the barrier and is counted as exited, as the hardware counts it.

A ``__syncwarp`` of all lanes is such a barrier too, among the lanes of one warp.

Where code jumps to addresses in registers (a return, a table of branches), an instruction counts as behind a barrier
only if it is so whatever these jumps do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpusim.isa import system_ops as ops
from gpusim.isa import warp as at
from gpusim.trace.record import Chunk

LANES = at.LANES
_EVERYWHERE = (ops.BRANCH_INDEXED, ops.EXTERNAL)


class Skipped(NamedTuple):
    """In block number ``block``, ``waited`` bool[threads] have waited at instruction ``barrier`` as often as any, and
    ``left_out`` bool[threads] less often, the first of which then came to instruction ``behind``; ``of_warp``: the
    barrier is a warp's."""

    block: int
    barrier: int
    waited: np.ndarray
    left_out: np.ndarray
    behind: int
    of_warp: bool


class SkippedBarriers:
    """Looks for barriers that are left out in the blocks of one kernel, whose code ``matrix`` has (CODE_TABLE);
    ``of_warps``: instructions at which all lanes of a warp wait for each other; ``numbers``: of each instruction the
    barrier that it names; ``aligned``: which are known to ask for the same instruction of all threads. Threads may come
    to a barrier other than 0 elsewhere, and to barrier 0 where it is not known to be aligned."""

    def __init__(self, matrix: np.ndarray, of_warps: Sequence[int], numbers: np.ndarray, aligned: np.ndarray):
        waits = (
            (matrix[:, at.OP] == ops.BARRIER_WAIT) & (matrix[:, at.F0] == 0) & (numbers == 0)
        )  # of all threads of the block
        self._of_warps = frozenset(of_warps)
        self._anywhere = waits & ~aligned
        waits[list(of_warps)] = True
        self._behind: dict[int, np.ndarray] = {}
        if not waits.any():
            return
        surely, perhaps = _edges(matrix)
        into = [[] for _ in perhaps]
        for index, targets in enumerate(perhaps):
            for target in targets:
                into[target].append(index)
        leaves = matrix[:, at.OP] == ops.EXIT
        for barrier in np.flatnonzero(waits).tolist():
            behind = _reached(surely, barrier) & ~_reached(into, barrier) & ~leaves
            if behind.any():
                self._behind[barrier] = behind

    def __bool__(self) -> bool:
        return bool(self._behind)

    def of(self, chunk: Chunk, threads: int) -> list[Skipped]:
        """Barriers left out in the blocks of ``chunk``, all of them whole, of ``threads`` threads each; those of blocks
        first."""
        first, count = chunk.runs["first"].astype(np.int64), chunk.runs["count"].astype(np.int64)
        mask = chunk.runs["mask"].astype(np.int64)
        path = np.repeat(np.arange(len(chunk.path_start) - 1), np.diff(chunk.path_start))
        paths = chunk.warps["path"].astype(np.int64)
        found = []
        for barrier in sorted(self._behind, key=lambda index: (index in self._of_warps, index)):
            behind = self._behind[barrier]
            before = np.concatenate(([0], np.cumsum(behind)))
            past = np.zeros((len(chunk.path_start) - 1, LANES), np.int64)
            gone = before[first + count] > before[first]
            np.add.at(past, path[gone], _bits(mask[gone]))
            times = np.zeros_like(past)
            # A block's barrier ends the run of a warp that waits at it; a warp that is whole runs on through its own.
            here = (first <= barrier) & (barrier < first + count)
            if barrier not in self._of_warps:
                here = first + count - 1 == barrier
                if self._anywhere[barrier]:
                    here = (self._anywhere & ~behind)[first + count - 1]
            np.add.at(times, path[here], _bits(mask[here]))
            counted = times[past > 0]
            if not len(counted) or counted.min() == counted.max():
                continue  # whatever paths the warps of a block have
            past_of = past[paths].reshape(chunk.blocks, -1, LANES) > 0
            times_of = times[paths].reshape(chunk.blocks, -1, LANES)
            together = (2,) if barrier in self._of_warps else (1, 2)
            most = np.where(past_of, times_of, 0).max(axis=together, keepdims=True)
            left_out = past_of & (times_of < most)
            waited = (times_of >= most) & left_out.any(axis=together, keepdims=True)
            left_out, waited = (part.reshape(chunk.blocks, -1)[:, :threads] for part in (left_out, waited))
            for block in np.flatnonzero(left_out.any(axis=1)).tolist():
                thread = int(np.argmax(left_out[block]))
                warp = block * (len(paths) // chunk.blocks) + thread // LANES
                at_run = np.flatnonzero((path == paths[warp]) & gone & (mask >> thread % LANES & 1 != 0))[0]
                inside = behind[first[at_run] : first[at_run] + count[at_run]]
                found.append(
                    Skipped(
                        chunk.first_block + block,
                        barrier,
                        waited[block],
                        left_out[block],
                        int(first[at_run] + inside.argmax()),
                        barrier in self._of_warps,
                    )
                )
        return found


def _bits(mask: np.ndarray) -> np.ndarray:
    """Lane masks int64[n] as 0 and 1, int64[n, 32]."""
    return mask[:, None] >> np.arange(LANES) & 1


def _edges(matrix: np.ndarray) -> tuple[list[list[int]], list[list[int]]]:
    """Where each instruction may go next: what is sure to be possible, and what may be."""
    op, size = matrix[:, at.OP], len(matrix)
    true = (at.TRUE_PREDICATE, at.TRUE_UNIFORM_PREDICATE)
    always = (matrix[:, at.GUARD_FLIP] == 0) & np.isin(matrix[:, at.GUARD], true)
    always &= (matrix[:, at.P0_FLIP] == 0) & np.isin(matrix[:, at.P0], true)
    anywhere = list(range(size))
    surely, perhaps = [], []
    for index in range(size):
        on = [index + 1] if index + 1 < size else []
        if op[index] == ops.EXIT:
            on = [] if always[index] else on
        elif op[index] in (ops.BRANCH, ops.BRANCH_DIVERGENT):
            on = [] if always[index] and op[index] == ops.BRANCH else on
            on = [*on, int(matrix[index, at.TARGET])] if matrix[index, at.TARGET] >= 0 else on
        elif op[index] in _EVERYWHERE:
            surely.append([])
            perhaps.append(anywhere)
            continue
        surely.append(on)
        perhaps.append(on)
    return surely, perhaps


def _reached(edges: list[list[int]], start: int) -> np.ndarray:
    """Instructions to which ``edges`` lead from ``start``, which is one of them only if they lead back to it."""
    reached = np.zeros(len(edges), bool)
    left = list(edges[start])
    while left:
        index = left.pop()
        if not reached[index]:
            reached[index] = True
            left.extend(edges[index])
    return reached
