"""Which lines of global memory a few blocks touch, and how many an iteration of a loop asks for."""

from __future__ import annotations

import numpy as np

from gpusim.trace.patterns import OFF
from gpusim.trace.record import SCATTERED, WARP_LANES
from gpusim.trace.regular import RegularBlocks, coordinates
from gpusim.trace.template import BlockTemplate, unfolded

#: Bytes of a line of L2, on all GPUs so far; only shares of it are asked for.
_LINE_SHIFT = 7
_LINE = 1 << _LINE_SHIFT
#: Bytes of a sector: addresses that share one count once.
_SECTOR_SHIFT = 5


def _block_of_most(regular: RegularBlocks) -> BlockTemplate:
    """The block that most blocks are like, folded."""
    return regular.classes[regular.class_of(np.array([middle_block(regular)]))[0]].template


def _in_memory(block: BlockTemplate, allocations: tuple[tuple[int, int], ...]) -> np.ndarray:
    """Which accesses of a block are to global memory, bool[accesses]."""
    inside = np.zeros(len(block.place), bool)
    for base, size in allocations:
        inside |= (block.place >= base) & (block.place < base + size)
    return inside


def iterations_to_a_line(regular: RegularBlocks, allocations: tuple[tuple[int, int], ...]) -> int:
    """Iterations in which each access to global memory that moves comes to another line: one that moves by a few bytes
    takes a new line only once in so many iterations, and is cheap between."""
    block = _block_of_most(regular)
    steps = np.unique(np.abs(block.step[_in_memory(block, allocations)]))
    return max((-(-_LINE // int(step)) for step in steps[steps > 0]), default=1)


def lines_of_an_iteration(regular: RegularBlocks, allocations: tuple[tuple[int, int], ...]) -> int:
    """Lines of global memory that the accesses of an iteration of a block ask for, each counted once an access."""
    block = _block_of_most(regular)
    inside = _in_memory(block, allocations)
    offset = np.arange(WARP_LANES) * np.where(block.stride == SCATTERED, 0, block.stride).astype(np.int64)[:, None]
    patterned = block.pattern >= 0
    rows = regular.patterns[block.pattern[patterned]]
    offset[patterned] = np.where(rows == OFF, 0, rows)
    number = np.sort(block.place[:, None] + offset >> _LINE_SHIFT, axis=1)
    lines = 1 + (np.diff(number, axis=1) != 0).sum(axis=1)
    return sum(int(lines[begin:end][inside[begin:end]].sum()) for begin, end in block.body)


def middle_block(regular: RegularBlocks) -> int:
    """The number of a block in the middle of the grid."""
    x, y, z = regular.grid
    return x // 2 + x * (y // 2 + y * (z // 2))


def lines_in_steps(
    regular: RegularBlocks, blocks: np.ndarray, iterations: int, allocations: tuple[tuple[int, int], ...]
) -> np.ndarray:
    """Numbers of the lines in ``allocations`` that accesses of ``blocks`` touch in their first iterations, int64[n],
    ascending. Accesses that move alike from block to block are moved together, and blocks by which they move alike
    count once."""
    bounds = np.array(allocations, np.int64).reshape(-1, 2)
    bounds = bounds[np.argsort(bounds[:, 0])]
    if not len(bounds):
        return np.zeros(0, np.int64)
    found, number = [np.zeros(0, np.int64)], regular.class_of(blocks)
    for c in np.unique(number).tolist():
        each = regular.classes[c]
        block = each.template
        at = unfolded(block, 0, min(iterations, block.iterations))
        mine = np.stack(coordinates(blocks[number == c], regular.grid), axis=1) - np.array(each.origin, np.int64)
        slopes, kind = np.unique(each.slope[at.source], axis=0, return_inverse=True)
        kind = kind.reshape(-1)
        for k, slope in enumerate(slopes):
            address = _lane_addresses(block, regular.patterns, at.source[kind == k], at.place[kind == k])
            which = np.searchsorted(bounds[:, 0], address, side="right") - 1
            address = address[(which >= 0) & (address < bounds[which, 0] + bounds[which, 1])]
            address = np.unique(address >> _SECTOR_SHIFT << _SECTOR_SHIFT)
            moved = address[:, None] + np.unique(mine @ slope)
            found.append(np.unique(moved >> _LINE_SHIFT))
    return np.unique(np.concatenate(found))


def _lane_addresses(block: BlockTemplate, patterns: np.ndarray, source: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Addresses of the lanes that are on, int64[n], of accesses ``source`` of a block that lie at ``place``."""
    lanes = np.arange(WARP_LANES)
    on = (block.mask[source][:, None] >> lanes & 1).astype(bool)
    stride = np.where(block.stride[source] == SCATTERED, 0, block.stride[source]).astype(np.int64)
    offset = lanes * stride[:, None]
    patterned = block.pattern[source] >= 0
    offset[patterned] = patterns[block.pattern[source][patterned]]
    on[patterned] &= offset[patterned] != OFF
    return (place[:, None] + offset)[on]
