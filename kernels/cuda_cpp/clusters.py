"""Reductions over the shared memory of all blocks of a thread-block cluster (cluster.cu)."""

from __future__ import annotations

import numpy as np

from ..case import Case, Kernel, Launch, require_choice, require_multiples, require_positive
from .source import CudaSource

#: How the blocks of a cluster bring their sums together.
MEETINGS = ("pull", "push")
#: Blocks of a cluster that every GPU with clusters runs (CUDA programming guide, thread block clusters).
_CLUSTERS = (1, 2, 4, 8)
_THREADS = (64, 128, 256, 512, 1024)
#: Most dynamic shared memory of a block on compute capabilities 9.0, 10.0 and 10.3 (CUDA programming guide).
_MOST_SHARED = 232448


def make_reduce(*, rows: int, columns: int, how: str, cluster: int, block_threads: int, seed: int = 0) -> Case:
    require_choice("how", how, MEETINGS)
    require_choice("cluster", cluster, _CLUSTERS)
    require_choice("block_threads", block_threads, _THREADS)
    require_positive(rows=rows, columns=columns)
    x = np.random.default_rng(seed).random((rows, columns), np.float32)
    sums = np.full(rows, np.nan, np.float32)
    kernel = CudaSource("cluster.cu", f"cluster_reduce<{MEETINGS.index(how)}, {cluster}, {block_threads}>")

    def check() -> None:
        np.testing.assert_allclose(sums, x.sum(axis=1, dtype=np.float64), rtol=1e-5)

    return Case(
        launches=(Launch(kernel, (rows * cluster,), (block_threads,), (sums, x, np.int32(columns))),),
        check=check,
        work={"bytes_read": float(x.nbytes), "bytes_written": float(sums.nbytes), "flops": float(x.size)},
    )


def make_histogram(*, n: int, bins: int, cluster: int, blocks: int, block_threads: int, seed: int = 0) -> Case:
    require_choice("cluster", cluster, _CLUSTERS)
    require_choice("block_threads", block_threads, _THREADS)
    require_positive(n=n)
    require_multiples(bins=(bins, cluster), blocks=(blocks, cluster))
    shared_bytes = bins // cluster * 4
    if shared_bytes > _MOST_SHARED:
        raise ValueError(f"bins must fit in {_MOST_SHARED} bytes of shared memory of each block, not {bins}")
    keys = np.random.default_rng(seed).integers(0, bins, n, np.uint32)
    counts = np.zeros(bins, np.uint32)
    kernel = CudaSource("cluster.cu", f"cluster_histogram<{cluster}, {block_threads}>")

    def check() -> None:
        np.testing.assert_array_equal(counts, np.bincount(keys, minlength=bins))

    args = (counts, keys, np.int32(n), np.int32(bins))
    return Case(
        launches=(Launch(kernel, (blocks,), (block_threads,), args, shared_bytes),),
        check=check,
        work={"bytes_read": float(keys.nbytes), "bytes_written": float(counts.nbytes), "atomics": float(n)},
    )


KERNELS = {
    "cpp_cluster_reduce": Kernel(
        name="cpp_cluster_reduce",
        purpose="sums of rows by clusters of blocks: read from the others' shared memory, or stored there (st.async)",
        axes={
            "rows": (16, 132, 1024),
            "columns": (1000, 16384, 131072),
            "how": MEETINGS,
            "cluster": _CLUSTERS,
            "block_threads": (128, 256, 1024),
        },
        default={"rows": 132, "columns": 65536, "how": "pull", "cluster": 4, "block_threads": 256},
        small={"rows": 3, "columns": 1000, "how": "push", "cluster": 4, "block_threads": 64},
        make=make_reduce,
    ),
    "cpp_cluster_histogram": Kernel(
        name="cpp_cluster_histogram",
        purpose="a histogram whose bins lie in the shared memory of all blocks of a cluster: remote atomics",
        axes={
            "n": (1 << 16, 1 << 20, 1 << 24),
            "bins": (256, 16384, 131072),
            "cluster": _CLUSTERS,
            "blocks": (8, 128, 256),
            "block_threads": (256, 1024),
        },
        default={"n": 1 << 20, "bins": 65536, "cluster": 4, "blocks": 128, "block_threads": 256},
        small={"n": 3000, "bins": 512, "cluster": 4, "blocks": 8, "block_threads": 64},
        make=make_histogram,
    ),
}
