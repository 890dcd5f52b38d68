"""Matrix products on Hopper's asynchronous units: the tensor memory accelerator, mbarriers, clusters, warp groups'
products."""

from __future__ import annotations

import numpy as np

from ..case import Case, Kernel, Launch, require_choice, require_multiples, require_positive
from .source import CudaSource
from .tensor_map import TensorMap

#: Steps of the ladder in their order: each adds one thing to the one before.
GEMM_STEPS = ("loads", "tma", "pipelined", "multicast", "cooperative", "ping_pong")
#: Depth of a step along k, bytes of a row of it, rows of a warp group.
_DEPTH, _ROW_BYTES, _ROWS = 64, 128, 64
#: Most dynamic shared memory of a block on sm_90 (CUDA programming guide, compute capabilities), less what the kernel
#: has itself.
_MOST_SHARED = 232448 - 1024
_STAGES = {"loads": 1, "tma": 1}


def make_gemm(*, m: int, n: int, k: int, step: str, columns: int, stages: int, blocks: int, seed: int = 0) -> Case:
    require_choice("step", step, GEMM_STEPS)
    require_choice("columns", columns, (64, 128, 192, 256))
    require_positive(blocks=blocks)
    number = GEMM_STEPS.index(step)
    cluster = 2 if number >= GEMM_STEPS.index("multicast") else 1
    rows = _ROWS if step == "ping_pong" and columns > 128 else 2 * _ROWS
    require_multiples(m=(m, rows * cluster), n=(n, columns), k=(k, _DEPTH), blocks=(blocks, cluster))
    stages = _STAGES.get(step, stages)
    of_c = (2 if step == "ping_pong" else 1) * rows * columns * 2
    shared_bytes = stages * (rows + columns) * _ROW_BYTES + of_c
    if not 1 <= stages <= 8 or shared_bytes > _MOST_SHARED:
        raise ValueError(f"stages must be from 1 to 8 and fit in {_MOST_SHARED} bytes of shared memory, not {stages}")
    rng = np.random.default_rng(seed)
    a, b = ((rng.random(shape, np.float32) - 0.5).astype(np.float16) for shape in ((m, k), (n, k)))
    c = np.full((m, n), np.nan, np.float16)
    kernel = CudaSource("wgmma_gemm.cu", f"wgmma_gemm<{number}, {columns}, {stages}, {cluster}>")
    maps = (
        TensorMap(a, (rows, _DEPTH)),
        TensorMap(b, (columns // cluster, _DEPTH)),
        TensorMap(c, (_ROWS, _DEPTH)),
    )
    tiles = m // rows * (n // columns)
    grid = min(blocks, tiles) if number >= GEMM_STEPS.index("cooperative") else tiles
    args = (*maps, a, b, *map(np.int32, (m, n, k)))

    def check() -> None:
        right = a.astype(np.float32) @ b.astype(np.float32).T
        np.testing.assert_allclose(c, right, rtol=2e-3, atol=2e-3 * k**0.5)

    threads = 256 if number < GEMM_STEPS.index("pipelined") else 384
    return Case(
        launches=(Launch(kernel, (grid,), (threads,), args, shared_bytes),),
        check=check,
        work={"bytes_read": float(a.nbytes + b.nbytes), "bytes_written": float(c.nbytes), "flops": 2.0 * m * n * k},
    )


KERNELS = {
    "cpp_wgmma_gemm": Kernel(
        name="cpp_wgmma_gemm",
        purpose="Hopper's ladder of a product: plain copies, TMA, producer and consumers, multicast, persistent, ping-pong",
        axes={
            "m": (256, 2048, 8192),
            "n": (256, 2048, 8192),
            "k": (256, 2048, 8192),
            "step": GEMM_STEPS,
            "columns": (128, 256),
            "stages": (3, 4),
            "blocks": (132,),
        },
        default={"m": 1024, "n": 1024, "k": 512, "step": "cooperative", "columns": 128, "stages": 4, "blocks": 132},
        small={"m": 256, "n": 128, "k": 192, "step": "multicast", "columns": 64, "stages": 2, "blocks": 2},
        make=make_gemm,
    ),
}
