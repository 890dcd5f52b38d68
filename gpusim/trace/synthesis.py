"""The chunks of a regular launch, made when they are read.

Mental model: :class:`RegularChunks` looks like the list of chunks that a capture of the whole grid would have made, but
holds a few folded blocks (:class:`gpusim.trace.regular.RegularBlocks`) and moves them to where each block lies. It may
also give part of a launch: some of its blocks, renumbered from 0, and fewer iterations of their loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gpusim.trace.layout import ACCESS, RUN, SCATTERED, WARP, Chunk
from gpusim.trace.patterns import join_rows
from gpusim.trace.regular import BlockClass, RegularBlocks, coordinates
from gpusim.trace.template import Unfolded, path_runs, unfolded

#: A chunk has so many accesses, blocks and warps at most, but one block at least.
CHUNK_ACCESSES, CHUNK_WARPS = 1 << 18, 1 << 15


@dataclass(frozen=True)
class Part:
    """Blocks from ``first`` on, ``blocks`` of them, each with ``iterations`` iterations of its loop from iteration
    ``first_iteration`` on."""

    first: int
    blocks: int
    iterations: int
    first_iteration: int = 0


class _Moving:
    """A class with so many iterations, ready to be moved."""

    def __init__(self, of: BlockClass, patterns: np.ndarray, first_iteration: int, iterations: int) -> None:
        template = of.template
        self.origin, self.template = of.origin, template
        if template.iterations == 1:
            first_iteration, iterations = 0, 1
        self.iterations = iterations
        self.runs = [path_runs(path, iterations) for path in template.paths]
        self._accesses: Unfolded | None = None
        self._window, self._patterns, self._slope = (first_iteration, iterations), patterns, of.slope
        self.instructions, self.records = template.instructions(iterations), template.accesses(iterations)

    @property
    def accesses(self) -> Unfolded:
        """Where block ``origin`` accesses memory, and which of the template's accesses each is."""
        if self._accesses is None:
            self._accesses = unfolded(self.template, *self._window)
        return self._accesses

    def slope(self) -> np.ndarray:
        """int64[n, 3]: by how much each access moves."""
        return self._slope[self.accesses.source]

    def rows(self, place: np.ndarray, which: np.ndarray) -> np.ndarray:
        """Lane addresses uint64[n, 32] of accesses ``which`` (with a pattern) at ``place``."""
        pattern = self.template.pattern[self.accesses.source[which]].astype(np.int64)
        return join_rows(place, pattern, self._patterns)


class RegularChunks:
    """The chunks of ``parts`` of ``launch``, one behind the other; all of its blocks with all iterations by default."""

    def __init__(self, regular: RegularBlocks, warps_per_block: int, parts: Sequence[Part] = ()) -> None:
        x, y, z = regular.grid
        self.regular, self._per_block = regular, warps_per_block
        self.parts = tuple(parts) or (Part(0, x * y * z, regular.iterations),)
        whole = not parts
        self._classes = [
            [
                _Moving(
                    each, regular.patterns, part.first_iteration, each.template.iterations if whole else part.iterations
                )
                for each in regular.classes
            ]
            for part in self.parts
        ]

    @property
    def blocks(self) -> int:
        """How many there are."""
        return sum(part.blocks for part in self.parts)

    @property
    def warp_instructions(self) -> int:
        """Warp instructions of them all."""
        return int(self.block_work()[0].sum())

    def block_work(self) -> tuple[np.ndarray, np.ndarray]:
        """Warp instructions and access records of each block, int64[blocks] each."""
        work = []
        for part, classes in zip(self.parts, self._classes, strict=True):
            number = self.regular.class_of(np.arange(part.first, part.first + part.blocks))
            each = np.array([(moving.instructions, moving.records) for moving in classes], np.int64)
            work.append(each[number])
        both = np.concatenate(work)
        return both[:, 0], both[:, 1]

    def executions(self, instructions: int) -> np.ndarray:
        """How often each of so many instructions issues in all blocks, int64[instructions]."""
        total = np.zeros(instructions + 1, np.int64)
        for part, classes in zip(self.parts, self._classes, strict=True):
            number = self.regular.class_of(np.arange(part.first, part.first + part.blocks))
            for c, blocks in enumerate(np.bincount(number, minlength=len(classes)).tolist()):
                warps = np.bincount(classes[c].template.path, minlength=len(classes[c].runs))
                for runs, times in zip(classes[c].runs, (blocks * warps).tolist(), strict=True):
                    first = runs["first"].astype(np.int64)
                    np.add.at(total, first, times)
                    np.add.at(total, first + runs["count"], -times)
        return np.cumsum(total)[:-1]

    def __iter__(self) -> Iterator[Chunk]:
        for classes, blocks, first in self._cut():
            yield self._chunk(classes, blocks, first)

    def __len__(self) -> int:
        return sum(1 for _ in self._cut())

    def _cut(self) -> Iterator[tuple[list[_Moving], np.ndarray, int]]:
        """Classes and blocks of each chunk, and the number of its first block."""
        before = 0
        for part, classes in zip(self.parts, self._classes, strict=True):
            records = np.array([moving.records for moving in classes], np.int64)
            block, end = part.first, part.first + part.blocks
            most = max(1, CHUNK_WARPS // self._per_block)
            while block < end:
                ahead = np.arange(block, min(end, block + most))
                used = np.cumsum(records[self.regular.class_of(ahead)])
                count = max(1, int(np.searchsorted(used, CHUNK_ACCESSES, side="right")))
                yield classes, ahead[:count], before + block - part.first
                block += count
            before += part.blocks

    def _chunk(self, classes: list[_Moving], blocks: np.ndarray, first: int) -> Chunk:
        number = self.regular.class_of(blocks)
        used = np.unique(number)
        per_block = self._per_block
        records = np.array([moving.records for moving in classes], np.int64)[number]
        begin = np.concatenate(([0], np.cumsum(records)))
        accesses = np.empty(begin[-1], ACCESS)
        warps = np.empty((len(blocks), per_block), WARP)
        runs, lengths, rows, rows_before = [], [0], [], 0
        for c in used.tolist():
            moving, mine = classes[c], np.flatnonzero(number == c)
            template, at = moving.template, moving.accesses
            warps["path"][mine] = len(lengths) - 1 + template.path
            warps["access_count"][mine] = np.diff(at.start)
            warps["access_start"][mine] = begin[mine][:, None] + at.start[:-1]
            runs += moving.runs
            lengths += [len(each) for each in moving.runs]
            made, own_rows = self._moved(moving, blocks[mine], rows_before)
            rows.append(own_rows)
            rows_before += len(own_rows)
            # Neighbouring blocks of a class are written in one go.
            edges = np.flatnonzero(np.diff(mine) != 1) + 1
            for stretch in np.split(np.arange(len(mine)), edges):
                low, high = mine[stretch[0]], mine[stretch[-1]] + 1
                accesses[begin[low] : begin[high]] = made[stretch].reshape(-1)
        scattered = np.concatenate(rows) if rows else np.zeros((0, 32), np.uint64)
        return Chunk(
            first, len(blocks), warps.reshape(-1), np.concatenate(runs).astype(RUN), np.cumsum(lengths), accesses, scattered
        )  # fmt: skip

    def _moved(self, moving: _Moving, blocks: np.ndarray, rows_before: int) -> tuple[np.ndarray, np.ndarray]:
        """(ACCESS[blocks, accesses], scattered rows uint64[s, 32]) of ``blocks``, all of one class."""
        template, at = moving.template, moving.accesses
        away = np.stack(coordinates(blocks, self.regular.grid), axis=1) - np.array(moving.origin, np.int64)
        place = np.broadcast_to(at.place, (len(blocks), len(at.place))).copy()
        slope = moving.slope()
        moves = np.flatnonzero((slope != 0).any(axis=1))
        place[:, moves] += away @ slope[moves].T
        made = np.empty(place.shape, ACCESS)
        made["stride"], made["mask"] = template.stride[at.source], template.mask[at.source]
        patterned = np.flatnonzero(template.stride[at.source] == SCATTERED)
        if not len(patterned):
            made["address"] = place.view(np.uint64)
            return made, np.zeros((0, 32), np.uint64)
        still = (slope[patterned] == 0).all(axis=1)
        fixed, moved = patterned[still], patterned[~still]
        # What does not move is the same in all blocks, and mostly in all iterations.
        key = np.stack((place[0, fixed], template.pattern[at.source[fixed]].astype(np.int64)), axis=1)
        kept, same = np.unique(key, axis=0, return_inverse=True)
        rows = [join_rows(kept[:, 0].copy(), kept[:, 1].copy(), self.regular.patterns)]
        rows += [moving.rows(place[b, moved], moved) for b in range(len(blocks))]
        place[:, fixed] = rows_before + same.reshape(-1)
        own = rows_before + len(kept) + np.arange(len(blocks) * len(moved))
        place[:, moved] = own.reshape(len(blocks), len(moved))
        made["address"] = place.view(np.uint64)
        return made, np.concatenate(rows)
