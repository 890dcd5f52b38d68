"""Which lines of global memory a few blocks touch, and how many an iteration of a loop asks for."""

from __future__ import annotations

import math

import numpy as np

from gpusim.trace.patterns import OFF
from gpusim.trace.record import SCATTERED, WARP_LANES, Trace
from gpusim.trace.regular import RegularBlocks
from gpusim.trace.template import BlockTemplate

#: Bytes of a line of L2, on all GPUs so far; only shares of it are asked for.
_LINE_SHIFT = 7
_LINE = 1 << _LINE_SHIFT


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
    """After how many iterations all accesses to global memory stand at the same byte of a line again: a loop may take a new line
    only once in so many iterations."""
    block = _block_of_most(regular)
    steps = np.unique(block.step[_in_memory(block, allocations)])
    return max((_LINE // math.gcd(int(step), _LINE) for step in steps), default=1)


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


def lines_of(trace: Trace) -> np.ndarray:
    """Numbers of the lines in the launch's allocations in which an access of ``trace`` begins, int64[n], ascending."""
    bounds = np.array(trace.launch.allocations, np.int64).reshape(-1, 2)
    bounds = bounds[np.argsort(bounds[:, 0])]
    if not len(bounds):
        return np.zeros(0, np.int64)
    found = []
    lanes = np.arange(WARP_LANES)
    for chunk in trace.chunks():
        on = (chunk.accesses["mask"][:, None] >> lanes & 1).astype(bool)
        scattered = chunk.accesses["stride"] == SCATTERED
        place = chunk.accesses["address"].astype(np.int64)
        stride = np.where(scattered, 0, chunk.accesses["stride"]).astype(np.int64)
        address = place[:, None] + lanes * stride[:, None]
        address[scattered] = chunk.scattered.view(np.int64)[place[scattered]]
        address = address[on]
        which = np.searchsorted(bounds[:, 0], address, side="right") - 1
        inside = (which >= 0) & (address < bounds[which, 0] + bounds[which, 1])
        found.append(np.unique(address[inside] >> _LINE_SHIFT))
    return np.unique(np.concatenate(found))
