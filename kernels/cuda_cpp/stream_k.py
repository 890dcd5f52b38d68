"""A product of matrices on Hopper whose steps along k are dealt out evenly over the blocks, whatever the number of
tiles (stream_k.cu)."""

from __future__ import annotations

import numpy as np

from ..case import Case, Kernel, Launch, require_choice, require_multiples, require_positive
from .source import CudaSource
from .tensor_map import TensorMap

#: Rows of a tile, of a warp group; depth of a step along k, bytes of a row of it.
_ROWS, _GROUP_ROWS, _DEPTH, _ROW_BYTES = 128, 64, 64, 128
_THREADS = 384
#: Most dynamic shared memory of a block on sm_90 (CUDA programming guide, compute capabilities), less what the kernel
#: has itself.
_MOST_SHARED = 232448 - 1024


def make_stream_k(*, m: int, n: int, k: int, columns: int, stages: int, blocks: int, seed: int = 0) -> Case:
    require_choice("columns", columns, (64, 128, 192, 256))
    require_positive(blocks=blocks, stages=stages)
    require_multiples(m=(m, _ROWS), n=(n, columns), k=(k, _DEPTH))
    shared_bytes = stages * (_ROWS + columns) * _ROW_BYTES + _ROWS * columns * 2
    if stages > 8 or shared_bytes > _MOST_SHARED:
        raise ValueError(f"stages must be from 1 to 8 and fit in {_MOST_SHARED} bytes of shared memory, not {stages}")
    rng = np.random.default_rng(seed)
    a, b = ((rng.random(shape, np.float32) - 0.5).astype(np.float16) for shape in ((m, k), (n, k)))
    c = np.full((m, n), np.nan, np.float16)
    grid = min(blocks, m // _ROWS * (n // columns) * (k // _DEPTH))
    parts, flags = np.zeros((grid, _ROWS, columns), np.float32), np.zeros((grid, 2), np.int32)
    maps = (TensorMap(a, (_ROWS, _DEPTH)), TensorMap(b, (columns, _DEPTH)), TensorMap(c, (_GROUP_ROWS, _DEPTH)))
    kernel = CudaSource("stream_k.cu", f"stream_k_gemm<{columns}, {stages}>")

    def check() -> None:
        right = a.astype(np.float32) @ b.astype(np.float32).T
        np.testing.assert_allclose(c, right, rtol=2e-3, atol=2e-3 * k**0.5)
        assert not flags.any(), "a part that nobody has taken"

    args = (*maps, parts, flags, *map(np.int32, (m, n, k)))
    return Case(
        launches=(Launch(kernel, (grid,), (_THREADS,), args, shared_bytes),),
        check=check,
        work={"bytes_read": float(a.nbytes + b.nbytes), "bytes_written": float(c.nbytes), "flops": 2.0 * m * n * k},
    )


KERNELS = {
    "cpp_stream_k_gemm": Kernel(
        name="cpp_stream_k_gemm",
        purpose="a product on Hopper that deals out steps along k, not tiles: TMA, wgmma, sums of a tile from several blocks",
        axes={
            "m": (128, 1024, 8192),
            "n": (256, 1536, 8192),
            "k": (512, 4096, 16384),
            "columns": (64, 128, 256),
            "stages": (3, 4),
            "blocks": (132,),
        },
        default={"m": 1024, "n": 1152, "k": 1024, "columns": 128, "stages": 4, "blocks": 132},
        small={"m": 128, "n": 192, "k": 256, "columns": 64, "stages": 2, "blocks": 5},
        make=make_stream_k,
    ),
}
