"""Products of matrices on Blackwell's tensor memory (tcgen05_gemm.cu)."""

from __future__ import annotations

import numpy as np

from ..case import Case, Kernel, Launch, require_choice, require_multiples, require_positive
from .source import CudaSource
from .tensor_map import TensorMap

#: Rows of a block's part of a tile, of a warp's; depth of a step along k, bytes of a row of it.
_ROWS, _WARP_ROWS, _DEPTH, _ROW_BYTES = 128, 32, 64, 128
_THREADS = 192
#: Bytes from which four warps store, two panels each.
_PANELS = 4 * 2 * _WARP_ROWS * _ROW_BYTES
#: Most dynamic shared memory of a block on sm_100 (CUDA programming guide, compute capabilities), less what the kernel
#: has itself.
_MOST_SHARED = 232448 - 1024


def make_gemm(*, m: int, n: int, k: int, pair: int, columns: int, stages: int, blocks: int, seed: int = 0) -> Case:
    require_choice("pair", pair, (0, 1))
    require_choice("columns", columns, (64, 128, 256))
    require_positive(stages=stages)
    together = 2 if pair else 1
    require_multiples(m=(m, _ROWS * together), n=(n, columns), k=(k, _DEPTH), blocks=(blocks, together))
    shared_bytes = stages * (_ROWS + columns // together) * _ROW_BYTES + _PANELS
    if stages > 8 or shared_bytes > _MOST_SHARED:
        raise ValueError(f"stages must be from 1 to 8 and fit in {_MOST_SHARED} bytes of shared memory, not {stages}")
    rng = np.random.default_rng(seed)
    a, b = ((rng.random(shape, np.float32) - 0.5).astype(np.float16) for shape in ((m, k), (n, k)))
    c = np.full((m, n), np.nan, np.float16)
    maps = (
        TensorMap(a, (_ROWS, _DEPTH)),
        TensorMap(b, (columns // together, _DEPTH)),
        TensorMap(c, (_WARP_ROWS, _DEPTH)),
    )
    kernel = CudaSource("tcgen05_gemm.cu", f"tcgen05_gemm<{'true' if pair else 'false'}, {columns}, {stages}>")
    tiles = m // (_ROWS * together) * (n // columns)

    def check() -> None:
        right = a.astype(np.float32) @ b.astype(np.float32).T
        np.testing.assert_allclose(c, right, rtol=2e-3, atol=2e-3 * k**0.5)

    args = (*maps, *map(np.int32, (m, n, k)))
    return Case(
        launches=(Launch(kernel, (min(blocks, tiles * together),), (_THREADS,), args, shared_bytes),),
        check=check,
        work={"bytes_read": float(a.nbytes + b.nbytes), "bytes_written": float(c.nbytes), "flops": 2.0 * m * n * k},
    )


KERNELS = {
    "cpp_tcgen05_gemm": Kernel(
        name="cpp_tcgen05_gemm",
        purpose="a product on Blackwell's tensor memory: TMA, pairs of blocks, one tile stored while the next is computed",
        axes={
            "m": (256, 2048, 8192),
            "n": (256, 2048, 8192),
            "k": (256, 2048, 8192),
            "pair": (0, 1),
            "columns": (128, 256),
            "stages": (3, 4, 6),
            "blocks": (148,),
        },
        default={"m": 2048, "n": 2048, "k": 512, "pair": 1, "columns": 256, "stages": 4, "blocks": 148},
        small={"m": 256, "n": 192, "k": 192, "pair": 1, "columns": 64, "stages": 2, "blocks": 2},
        make=make_gemm,
    ),
}
