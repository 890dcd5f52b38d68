"""Breadth-first search, level by level: one launch a level, a queue of the vertices found in the level before."""

from __future__ import annotations

import numpy as np
from numba import cuda

from .case import Case, Kernel, Launch, blocks_for, require_block, require_positive
from .sparse import random_rows

UNSEEN = -1


@cuda.jit
def bfs_level(edge_start, edges, level, frontier, next_frontier, sizes, distance):
    """A thread a vertex of the frontier; whoever first reaches a neighbour puts it into the next one."""
    i = cuda.grid(1)
    if i < sizes[level]:
        vertex = frontier[i]
        for k in range(edge_start[vertex], edge_start[vertex + 1]):
            neighbour = edges[k]
            # The plain look spares the atomic for most vertices.
            if distance[neighbour] == UNSEEN:
                if cuda.atomic.cas(distance, neighbour, UNSEEN, level + 1) == UNSEEN:
                    next_frontier[cuda.atomic.add(sizes, level + 1, 1)] = neighbour


def _distances(edge_start: np.ndarray, edges: np.ndarray, source: int) -> np.ndarray:
    vertices = edge_start.size - 1
    distance = np.full(vertices, UNSEEN, np.int32)
    distance[source], level = 0, 0
    from_vertex = np.repeat(np.arange(vertices), np.diff(edge_start))
    while True:
        reached = edges[distance[from_vertex] == level]
        reached = reached[distance[reached] == UNSEEN]
        if not reached.size:
            return distance
        level += 1
        distance[reached] = level


def make(*, vertices: int, mean_degree: int, skew: float, block_threads: int, seed: int = 0) -> Case:
    """A directed random graph (see :func:`.sparse.random_rows`), searched from the vertex of most edges.

    A program asks after each level how many vertices were found; here the levels, and the grids that
    just cover them, are known beforehand.
    """
    require_positive(vertices=vertices, mean_degree=mean_degree)
    require_block(block_threads)
    edge_start, edges = random_rows(vertices, mean_degree, skew, np.random.default_rng(seed))
    source = int(np.argmax(np.diff(edge_start)))
    expected = _distances(edge_start, edges, source)
    levels = np.bincount(expected[expected != UNSEEN])
    distance = np.full(vertices, UNSEEN, np.int32)
    distance[source] = 0
    queues = np.zeros(vertices, np.int32), np.zeros(vertices, np.int32)
    queues[0][0] = source
    sizes = np.zeros(levels.size + 1, np.int32)
    sizes[0] = 1
    launches = tuple(
        Launch(
            bfs_level,
            (blocks_for(int(size), block_threads),),
            (block_threads,),
            (edge_start, edges, level, queues[level % 2], queues[(level + 1) % 2], sizes, distance),
        )
        for level, size in enumerate(levels)
    )

    def check() -> None:
        np.testing.assert_array_equal(distance, expected)
        np.testing.assert_array_equal(sizes[:-1], levels)
        assert sizes[-1] == 0

    traversed = float(np.diff(edge_start)[expected != UNSEEN].sum())
    return Case(launches, check, work={"edges": traversed, "bytes_read": 8.0 * traversed, "levels": float(levels.size)})


KERNELS = {
    "bfs": Kernel(
        name="bfs",
        purpose="graph search in compressed rows: launches of very different size, gathers, atomics on a queue",
        axes={
            "vertices": (1000, 16_384, 131_072, 2**20),
            "mean_degree": (2, 8, 16),
            "skew": (0.0, 0.5, 1.0),
            "block_threads": (64, 128, 256),
        },
        default={"vertices": 16_384, "mean_degree": 8, "skew": 1.0, "block_threads": 128},
        small={"vertices": 200, "mean_degree": 3, "skew": 1.0, "block_threads": 64},
        make=make,
    )
}
