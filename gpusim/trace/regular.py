"""Blocks of a launch that are one block moved: all of them from a few.

Mental model: in most launches that are large, block (x, y, z) does what block (0, 0, 0) does, each access moved by
so many bytes for every step in x, y and z. Blocks at the grid's edges may be cut off; those first, last and between
along each dimension make a :class:`BlockClass` each, unless one class serves all. :func:`fit` reads the moves from a
few blocks and holds them against others that had no part in it: if a single access of these lies elsewhere, the launch
is not regular. What may vary beyond that (what a block reads from memory) must have been excluded before, see
:mod:`gpusim.emulator.oblivious`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from gpusim.trace.template import BlockTemplate

Place = tuple[int, int, int]
#: Blocks chosen at random that moves are held against, beside those at the edges.
RANDOM_CHECKS = 3
#: Where a block lies along a dimension: the first one, one between, the last one.
FIRST, BETWEEN, LAST = range(3)


class IrregularError(Exception):
    """Blocks of a launch do not follow from a few of them; the message says how. No user sees it: who fits takes it."""


@dataclass(frozen=True)
class BlockClass:
    """``template`` is the block at ``origin``; one step along x, y, z moves its accesses by ``slope`` int64[accesses,
    3]."""

    origin: Place
    template: BlockTemplate
    slope: np.ndarray


@dataclass(frozen=True)
class RegularBlocks:
    """All blocks of a grid: ``classes`` of them, with ``patterns`` int64[p, 32] of lanes; ``number`` int64[3, 3, 3]
    says which class a block first, between or last along x, y and z is of. ``held`` are the blocks that were run, in
    order."""

    grid: Place
    classes: tuple[BlockClass, ...]
    number: np.ndarray
    patterns: np.ndarray
    held: tuple[int, ...]

    @property
    def iterations(self) -> int:
        """Iterations of the loop that all blocks have in common; 1 where there is none."""
        return min(each.template.iterations for each in self.classes)

    @property
    def equally_iterated(self) -> bool:
        """Whether all classes make equally many iterations, so that iterations may be left out of all."""
        return len({each.template.iterations for each in self.classes}) == 1

    def class_of(self, blocks: np.ndarray) -> np.ndarray:
        """The class of each block number, int64[n]."""
        kinds = []
        for coordinate, size in zip(coordinates(blocks, self.grid), self.grid, strict=True):
            kind = np.where(coordinate == 0, FIRST, np.where(coordinate == size - 1, LAST, BETWEEN))
            kinds.append(kind)
        return self.number[tuple(kinds)]


def coordinates(blocks: np.ndarray, grid: Place) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """blockIdx x, y, z of block numbers."""
    return blocks % grid[0], blocks // grid[0] % grid[1], blocks // (grid[0] * grid[1])


def linear(place: Place, grid: Place) -> int:
    """The number of a block."""
    return place[0] + grid[0] * (place[1] + grid[1] * place[2])


#: Gives the folded block at a place; each is asked for once.
Run = Callable[[Place], BlockTemplate]


class _Held:
    """The blocks that have been run so far."""

    def __init__(self, grid: Place, run: Run, seed: int) -> None:
        self.grid, self._run = grid, run
        self.known: dict[Place, BlockTemplate] = {}
        self._random = np.random.default_rng(seed)

    def __getitem__(self, place: Place) -> BlockTemplate:
        if place not in self.known:
            self.known[place] = self._run(place)
        return self.known[place]

    def random(self, ranges: Sequence[tuple[int, int]]) -> Place:
        x, y, z = (int(self._random.integers(low, high)) for low, high in ranges)
        return x, y, z


def blocks_to_run(grid: Place, by_edge: bool) -> int:
    """About how many blocks :func:`fit` asks for: of one class for all blocks, or beyond that of one for each kind of
    edge."""
    kinds = (FIRST, BETWEEN, LAST) if by_edge else (BETWEEN,)
    blocks = 0
    for place in product(*(kinds if size > 2 else (BETWEEN,) for size in grid)):
        free = sum(kind == BETWEEN and size > 1 for kind, size in zip(place, grid, strict=True))
        blocks += 1 + 2 * free + (free > 1) + RANDOM_CHECKS * (free > 0)
    return blocks


def fit(grid: Place, run: Run, patterns: Callable[[], np.ndarray], seed: int) -> RegularBlocks:
    """All blocks of ``grid`` from a few, which ``run`` gives; ``patterns``: the lane patterns, once all have been run.
    ``seed`` draws the blocks that are looked at at random. Raises :class:`IrregularError`, and what ``run`` raises."""
    held = _Held(grid, run, seed)
    try:
        classes, number = (_class(held, [(0, size) for size in grid]),), np.zeros((3, 3, 3), np.int64)
    except IrregularError:
        classes, number = _classes_by_edge(held)
    blocks = tuple(sorted(linear(place, grid) for place in held.known))
    return RegularBlocks(grid, classes, number, patterns(), blocks)


def _classes_by_edge(held: _Held) -> tuple[tuple[BlockClass, ...], np.ndarray]:
    """A class for blocks first, between and last along each dimension."""
    number = np.zeros((3, 3, 3), np.int64)
    classes = []
    for kinds in product((FIRST, BETWEEN, LAST), repeat=3):
        ranges = [
            {FIRST: (0, 1), BETWEEN: (1, size - 1), LAST: (max(1, size - 1), size)}[kind]
            for kind, size in zip(kinds, held.grid, strict=True)
        ]
        if all(low < high for low, high in ranges):
            number[kinds] = len(classes)
            classes.append(_class(held, ranges))
    return tuple(classes), number


def _class(held: _Held, ranges: Sequence[tuple[int, int]]) -> BlockClass:
    """The blocks within ``ranges`` (first, end) along x, y, z as one class."""
    x, y, z = (low for low, _ in ranges)
    origin = (x, y, z)
    template = held[origin]
    shape = template.shape()
    slope = np.zeros((len(template.place), 3), np.int64)
    free = [d for d in range(3) if ranges[d][1] - ranges[d][0] > 1]
    for d in free:
        beside = held[_moved(origin, d, 1)]
        _same_shape(beside, shape, origin, _moved(origin, d, 1))
        slope[:, d] = beside.place - template.place
    found = BlockClass(origin, template, slope)
    for place in _checks(held, ranges, origin, free):
        if place in held.known and place == origin:
            continue
        _check(found, held[place], shape, place)
    return found


def _checks(held: _Held, ranges: Sequence[tuple[int, int]], origin: Place, free: list[int]) -> list[Place]:
    """Blocks that the moves are held against: at the far end along each dimension and along all, and a few at
    random."""
    if not free:
        return []
    ends = [_moved(origin, d, ranges[d][1] - 1 - ranges[d][0]) for d in free]
    x, y, z = (high - 1 for _, high in ranges)
    return list(dict.fromkeys([*ends, (x, y, z), *(held.random(ranges) for _ in range(RANDOM_CHECKS))]))


def _moved(place: Place, dimension: int, by: int) -> Place:
    x, y, z = (value + by * (d == dimension) for d, value in enumerate(place))
    return x, y, z


def _same_shape(block: BlockTemplate, shape: tuple, origin: Place, place: Place) -> None:
    if block.shape() != shape:
        raise IrregularError(f"block {place} does not run like block {origin}")


def _check(found: BlockClass, block: BlockTemplate, shape: tuple, place: Place) -> None:
    _same_shape(block, shape, found.origin, place)
    away = np.array(place, np.int64) - np.array(found.origin, np.int64)
    wrong = np.flatnonzero(found.template.place + found.slope @ away != block.place)
    if len(wrong):
        raise IrregularError(
            f"an access of block {place} is not that of block {found.origin} moved by as much for every block between"
        )
