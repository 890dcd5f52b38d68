"""Sparse matrices and graphs: sparse times dense, breadth-first search, triangles, connected components."""

from __future__ import annotations

import numpy as np

from ..case import Case, Kernel, Launch, blocks_for, require_block, require_multiples, require_positive
from ..sparse import random_rows
from .source import CudaSource


def make_spmm(*, rows: int, mean_row_length: int, skew: float, width: int, block_threads: int, seed: int = 0) -> Case:
    """The axes of the matrix are explained at :func:`kernels.sparse.random_rows`."""
    require_block(block_threads, 32)
    require_multiples(width=(width, 4))
    rng = np.random.default_rng(seed)
    starts, columns = random_rows(rows, mean_row_length, skew, rng)
    starts, columns = starts.astype(np.int32), columns.astype(np.int32)
    values, dense = rng.random(columns.size, np.float32), rng.random((rows, width), np.float32)
    out = np.full_like(dense, np.nan)

    def check() -> None:
        right = np.zeros((rows, width))
        np.add.at(
            right, np.repeat(np.arange(rows), np.diff(starts)), values[:, None].astype(np.float64) * dense[columns]
        )
        np.testing.assert_allclose(out, right, rtol=1e-4)

    grid = (blocks_for(32 * rows, block_threads), blocks_for(width, 128))
    args = (starts, columns, values, dense, out, np.int32(rows), np.int32(width))
    return Case(
        launches=(Launch(CudaSource("spmm.cu", "spmm"), grid, (block_threads,), args),),
        check=check,
        work={
            "bytes_read": 8.0 * columns.size + 4.0 * columns.size * width,
            "bytes_written": float(out.nbytes),
            "flops": 2.0 * columns.size * width,
        },
    )


def _graph(vertices: int, mean_degree: int, skew: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Edges (u, v), u < v, each once and in order, as int32[count, 2], of a graph in which high degrees grow with
    ``skew``."""
    require_positive(vertices=vertices, mean_degree=mean_degree)
    if skew < 0:
        raise ValueError(f"skew must not be negative, not {skew}")
    rng = np.random.default_rng(seed)
    drawn = (rng.random((vertices * mean_degree // 2 + 1, 2)) ** (1 + skew) * vertices).astype(np.int64)
    drawn.sort(axis=1)
    edges = np.unique(drawn[drawn[:, 0] != drawn[:, 1]], axis=0)
    if not len(edges):
        edges = np.array([[0, vertices - 1]])
    return edges.astype(np.int32), rng.permutation(vertices).astype(np.int32)


def _rows(vertices: int, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compressed rows of directed edges that are in order: starts int32[vertices + 1], neighbours int32[edges]."""
    starts = np.concatenate([[0], np.cumsum(np.bincount(edges[:, 0], minlength=vertices))]).astype(np.int32)
    return starts, np.ascontiguousarray(edges[:, 1])


def make_bfs(*, vertices: int, mean_degree: int, skew: float, block_threads: int, blocks: int, seed: int = 0) -> Case:
    require_block(block_threads, 32)
    require_positive(blocks=blocks)
    edges, _ = _graph(vertices, mean_degree, skew, seed)
    both = np.concatenate([edges, edges[:, ::-1]])
    starts, neighbours = _rows(vertices, both[np.lexsort((both[:, 1], both[:, 0]))])
    source = int(np.argmax(np.diff(starts)))
    right = np.full(vertices, -1, np.int32)
    right[source] = 0
    frontier, levels = np.array([source]), 0
    while frontier.size:
        levels += 1
        others = np.unique(np.concatenate([neighbours[starts[v] : starts[v + 1]] for v in frontier]))
        frontier = others[right[others] < 0]
        right[frontier] = levels
    depth = np.full(vertices, -1, np.int32)
    depth[source] = 0
    queues, counts = np.full((levels + 1, vertices), -1, np.int32), np.zeros((levels + 1, 1), np.uint32)
    queues[0, 0], counts[0] = source, 1
    kernel = CudaSource("graph.cu", "bfs_level")
    launches = tuple(
        Launch(
            kernel, (blocks,), (block_threads,),
            (starts, neighbours, queues[i], counts[i], queues[i + 1], counts[i + 1], depth, np.int32(i + 1)),
        )
        for i in range(levels)
    )  # fmt: skip
    return Case(
        launches=launches,
        check=lambda: np.testing.assert_array_equal(depth, right),
        work={"bytes_read": float(neighbours.nbytes + starts.nbytes), "bytes_written": float(depth.nbytes)},
    )


def make_triangles(*, vertices: int, mean_degree: int, skew: float, block_threads: int, seed: int = 0) -> Case:
    require_block(block_threads, 32)
    edges, _ = _graph(vertices, mean_degree, skew, seed)
    starts, neighbours = _rows(vertices, edges)
    total = np.zeros(1, np.uint64)

    def count() -> int:
        after = [set(neighbours[starts[v] : starts[v + 1]].tolist()) for v in range(vertices)]
        return sum(len(after[u] & after[v]) for u, v in edges.tolist())

    args = (starts, neighbours, edges, np.int32(len(edges)), total)
    grid = (blocks_for(len(edges), block_threads),)
    return Case(
        launches=(Launch(CudaSource("graph.cu", "triangles"), grid, (block_threads,), args),),
        check=lambda: np.testing.assert_array_equal(total, count()),
        work={"bytes_read": float(edges.nbytes + neighbours.nbytes), "bytes_written": 8.0},
    )


def make_components(*, vertices: int, mean_degree: int, skew: float, block_threads: int, seed: int = 0) -> Case:
    require_block(block_threads, 32)
    edges, order = _graph(vertices, mean_degree, skew, seed)
    edges = np.random.default_rng(seed).permutation(order[edges])  # neither vertices nor edges in order
    parent = np.arange(vertices, dtype=np.int32)

    def check() -> None:
        right = np.arange(vertices)
        changed = True
        while changed:
            before = right.copy()
            np.minimum.at(right, edges[:, 0], before[edges[:, 1]])
            np.minimum.at(right, edges[:, 1], before[edges[:, 0]])
            right = right[right]
            changed = not np.array_equal(right, before)
        np.testing.assert_array_equal(parent, right)

    launches = (
        Launch(
            CudaSource("graph.cu", "unite"), (blocks_for(len(edges), block_threads),), (block_threads,),
            (parent, edges, np.int32(len(edges))),
        ),
        Launch(
            CudaSource("graph.cu", "flatten"), (blocks_for(vertices, block_threads),), (block_threads,),
            (parent, np.int32(vertices)),
        ),
    )  # fmt: skip
    return Case(
        launches=launches,
        check=check,
        work={"bytes_read": float(edges.nbytes), "bytes_written": float(parent.nbytes)},
    )


_GRAPH_AXES = {
    "vertices": (1000, 16_384, 131_072),
    "mean_degree": (2, 8, 32),
    "skew": (0.0, 1.0),
    "block_threads": (64, 128, 256),
}
KERNELS = {
    "cpp_spmm": Kernel(
        name="cpp_spmm",
        purpose="sparse times dense: rows of unequal length, gathers of whole rows, entries handed round by shuffles",
        axes={
            "rows": (1000, 16_384),
            "mean_row_length": (4, 16, 64),
            "skew": (0.0, 1.0),
            "width": (32, 128, 512),
            "block_threads": (64, 128, 256),
        },
        default={"rows": 4096, "mean_row_length": 16, "skew": 1.0, "width": 128, "block_threads": 128},
        small={"rows": 50, "mean_row_length": 7, "skew": 1.0, "width": 40, "block_threads": 64},
        make=make_spmm,
    ),
    "cpp_bfs": Kernel(
        name="cpp_bfs",
        purpose="a queue of vertices, a warp each; claims by compare-and-swap; one launch a level",
        axes=_GRAPH_AXES | {"blocks": (32, 132, 528)},
        default={"vertices": 16_384, "mean_degree": 8, "skew": 1.0, "block_threads": 128, "blocks": 132},
        small={"vertices": 150, "mean_degree": 4, "skew": 1.0, "block_threads": 64, "blocks": 2},
        make=make_bfs,
    ),
    "cpp_triangles": Kernel(
        name="cpp_triangles",
        purpose="sorted lists intersected by binary search: divergent dependent loads",
        axes=_GRAPH_AXES,
        default={"vertices": 4096, "mean_degree": 8, "skew": 1.0, "block_threads": 128},
        small={"vertices": 60, "mean_degree": 10, "skew": 1.0, "block_threads": 64},
        make=make_triangles,
    ),
    "cpp_components": Kernel(
        name="cpp_components",
        purpose="union-find: pointer chasing over volatile loads, compare-and-swap until it holds",
        axes=_GRAPH_AXES,
        default={"vertices": 16_384, "mean_degree": 4, "skew": 0.0, "block_threads": 128},
        small={"vertices": 150, "mean_degree": 3, "skew": 0.0, "block_threads": 64},
        make=make_components,
    ),
}
