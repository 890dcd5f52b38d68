"""Products of groups of rows with a matrix each, on Hopper (grouped_gemm.cu): tensor maps are pointed at groups as
blocks come to them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ..case import Case, Kernel, Launch, require_choice, require_multiples, require_positive
from .source import CudaSource
from .tensor_map import TensorMap

#: Rows of a tile, of a warp group; depth of a step along k, bytes of a row of it; bytes of a tensor map.
_ROWS, _GROUP_ROWS, _DEPTH, _ROW_BYTES, _MAP_BYTES = 128, 64, 64, 128, 128
_THREADS = 384
#: Most dynamic shared memory of a block on sm_90 (CUDA programming guide, compute capabilities), less what the kernel
#: has itself.
_MOST_SHARED = 232448 - 1024


def make_grouped(
    *, groups: int, rows: int, n: int, k: int, columns: int, stages: int, blocks: int, seed: int = 0
) -> Case:
    require_choice("columns", columns, (64, 128, 192, 256))
    require_positive(groups=groups, rows=rows, blocks=blocks, stages=stages)
    require_multiples(n=(n, columns), k=(k, _DEPTH))
    shared_bytes = stages * (_ROWS + columns) * _ROW_BYTES + _ROWS * columns * 2
    if stages > 8 or shared_bytes > _MOST_SHARED:
        raise ValueError(f"stages must be from 1 to 8 and fit in {_MOST_SHARED} bytes of shared memory, not {stages}")
    rng = np.random.default_rng(seed)
    # Each row goes to a group as tokens go to experts; some groups may have none.
    first = np.concatenate([[0], np.cumsum(np.bincount(rng.integers(0, groups, rows), minlength=groups))])
    first = first.astype(np.int32)
    a, b = ((rng.random(shape, np.float32) - 0.5).astype(np.float16) for shape in ((rows, k), (groups * n, k)))
    c = np.full((rows, n), np.nan, np.float16)
    maps = (TensorMap(a, (_ROWS, _DEPTH)), TensorMap(b, (columns, _DEPTH)), TensorMap(c, (_GROUP_ROWS, _DEPTH)))
    tiles = int((-(-np.diff(first) // _ROWS)).sum()) * (n // columns)
    grid = min(blocks, tiles)
    pointed = np.zeros((grid, 3, _MAP_BYTES), np.uint8)
    kernel = CudaSource("grouped_gemm.cu", f"grouped_gemm<{columns}, {stages}>")

    def check() -> None:
        for group, (begin, end) in enumerate(pairwise(first)):
            right = a[begin:end].astype(np.float32) @ b[group * n : (group + 1) * n].astype(np.float32).T
            np.testing.assert_allclose(c[begin:end], right, rtol=2e-3, atol=2e-3 * k**0.5)

    args = (*maps, pointed, a, c, first, *map(np.int32, (groups, n, k)))
    return Case(
        launches=(Launch(kernel, (grid,), (_THREADS,), args, shared_bytes),),
        check=check,
        work={"bytes_read": float(a.nbytes + b.nbytes), "bytes_written": float(c.nbytes), "flops": 2.0 * rows * n * k},
    )


KERNELS = {
    "cpp_grouped_gemm": Kernel(
        name="cpp_grouped_gemm",
        purpose="products of groups of rows on Hopper, as experts of a layer: tensor maps changed by the kernel, TMA, wgmma",
        axes={
            "groups": (1, 8, 64),
            "rows": (256, 2048, 16384),
            "n": (256, 2048, 7168),
            "k": (256, 2048, 7168),
            "columns": (64, 128, 256),
            "stages": (3, 4),
            "blocks": (132,),
        },
        default={"groups": 8, "rows": 2048, "n": 1024, "k": 512, "columns": 128, "stages": 4, "blocks": 132},
        small={"groups": 3, "rows": 150, "n": 128, "k": 128, "columns": 64, "stages": 2, "blocks": 2},
        make=make_grouped,
    ),
}
