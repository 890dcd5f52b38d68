"""Rungs of a ladder of products on Hopper's asynchronous units, as launches.

Mental model: as :mod:`workloads.external.families`; a rung is a kernel template's parameters. A persistent rung
launches 128 blocks, an SM each of 132; where tiles go by a curve, a table says which tiles each cluster of blocks
takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kernels.cuda_cpp.tensor_map import TensorMap

from .launches import HERE, CudaKernel, Row, Timed

_CPP = HERE.parents[1] / "kernels" / "cuda_cpp"
_SOURCES = (HERE / "wgmma_ladder.cu", _CPP / "wgmma.cuh", _CPP / "hopper.cuh", Path(__file__))
#: Depth of a step along k, bytes of a row of it, threads of a warp group, blocks of a persistent rung, tiles that a
#: cluster's table holds, more of them than there are.
_DEPTH, _ROW_BYTES, _GROUP, _BLOCKS, _TABLE, _ALL = 64, 128, 128, 128, 16, 1 << 30
PLAIN, THROUGH, ASYNCHRONOUS = "PLAIN", "THROUGH", "ASYNCHRONOUS"


@dataclass(frozen=True)
class Rung:
    """Rows and columns of a block's tile, tiles in flight, consuming warp groups (0: the one warp group loads too);
    whether barriers are the library's, whether blocks stay; blocks of a cluster; whether tiles follow a curve; how
    results are stored."""

    rows: int
    columns: int
    slots: int = 1
    groups: int = 0
    library: bool = False
    stays: bool = False
    cluster: int = 1
    curve: bool = False
    store: str = PLAIN

    @property
    def threads(self) -> int:
        """Of a block."""
        return (self.groups + 1) * _GROUP

    @property
    def shared_bytes(self) -> int:
        """Of dynamic shared memory."""
        of_c = self.rows * self.columns * 2 if self.store == ASYNCHRONOUS else 0
        return self.slots * (self.rows + self.columns) * _ROW_BYTES + of_c

    @property
    def entry(self) -> str:
        """The kernel, as a name expression."""
        if not self.groups:
            return f"alone<{self.rows}, {self.columns}>"
        library, stays, curve = (str(flag).lower() for flag in (self.library, self.stays, self.curve))
        sizes = f"{self.rows}, {self.columns}, {self.slots}, {self.groups}"
        return f"queued<{sizes}, {library}, {stays}, {self.cluster}, {curve}, {self.store}>"


#: By the source's number; two of an older state of it have names.
RUNGS: Mapping[str, Rung] = {
    "2": Rung(64, 64),
    "3": Rung(128, 128),
    "4": Rung(128, 128, 5, 1, library=True),
    "5": Rung(128, 256, 3, 2, library=True),
    "6": Rung(128, 256, 3, 2, library=True, stays=True),
    "7": Rung(128, 256, 3, 2, stays=True),
    "8": Rung(128, 256, 3, 2, stays=True, cluster=2),
    "9": Rung(128, 256, 3, 2, stays=True, cluster=2, store=THROUGH),
    "10": Rung(128, 256, 3, 2, stays=True, cluster=2, store=ASYNCHRONOUS),
    "11": Rung(128, 256, 3, 2, stays=True, cluster=2, curve=True, store=ASYNCHRONOUS),
    "three groups": Rung(192, 192, 3, 3, stays=True, store=THROUGH),
    "early curve": Rung(128, 256, 3, 2, stays=True, cluster=2, curve=True, store=THROUGH),
}


def hilbert(side: int) -> Iterator[tuple[int, int]]:
    """Places of a square of ``side`` (a power of two) along a Hilbert curve."""
    for distance in range(side * side):
        x, y, left, size = 0, 0, distance, 1
        while size < side:
            right = left // 2 & 1
            up = (left ^ right) & 1
            if not up:
                if right:
                    x, y = size - 1 - x, size - 1 - y
                x, y = y, x
            x, y, left, size = x + size * right, y + size * up, left // 4, size * 2
        yield x, y


def curve_table(rows: int, columns: int, clusters: int) -> np.ndarray:
    """Tiles of each cluster, ``row << 16 | column`` (int32, clusters x 16; -1 ends them): those that the curve meets
    inside of ``rows`` x ``columns`` are dealt out in turn."""
    side = 1 << (max(rows, columns) - 1).bit_length()
    tiles = [x << 16 | y for x, y in hilbert(side) if x < rows and y < columns]
    table = np.full((clusters, _TABLE), -1, np.int32)
    for first in range(clusters):
        mine = tiles[first::clusters]
        table[first, : len(mine)] = mine
    return table


def launch_of(rung: Rung, a: np.ndarray, b: np.ndarray, c: np.ndarray, blocks: int = _BLOCKS) -> Timed:
    """``c`` (n x m) = ``b`` (n x k) times the transpose of ``a`` (m x k), elements of two bytes; ``blocks`` of a rung
    whose blocks stay."""
    (m, k), n = a.shape, len(b)
    tiles = m // rung.rows * (n // rung.columns)
    grid = blocks if rung.stays else tiles
    clusters = grid // rung.cluster
    rows = m // (rung.rows * rung.cluster)
    table = curve_table(rows, n // rung.columns, clusters) if rung.curve else np.zeros((1, _TABLE), np.int32)
    maps = TensorMap(a, (rung.rows, _DEPTH)), TensorMap(b, (rung.columns, _DEPTH))
    sizes = tuple(map(np.int32, (m, n, k)))

    def arguments(depth: int | None) -> tuple:
        if not rung.groups:
            return *maps, c, *sizes
        of_c = TensorMap(c, (rung.columns, rung.rows // rung.groups), "none")
        rounds = np.int32(_ALL if depth is None else depth)
        return *maps, of_c, None if rung.store == ASYNCHRONOUS else c, table, *sizes, rounds

    return Timed(
        CudaKernel(_SOURCES[0], rung.entry), (grid,), (rung.threads,), arguments, _SOURCES, shared_bytes=rung.shared_bytes,
        cluster=rung.cluster, rounds=-(-tiles // grid) if rung.stays else None,
    )  # fmt: skip


def wgmma_ladder(row: Row, checkout: Path | None = None) -> Timed:
    """A rung of the ladder of square products of bfloat16, whose bits the arrays hold."""
    size = int(row["size"])
    a, b, c = (np.zeros((size, size), np.uint16) for _ in range(3))
    return launch_of(RUNGS[str(row["rung"])], a, b, c)


WGMMA_FAMILIES: Mapping[str, Callable[[Row, Path | None], Timed]] = {"wgmma_ladder": wgmma_ladder}
