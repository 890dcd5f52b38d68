"""A stencil whose tiles the tensor memory accelerator brings with their halo (tma_stencil.cu)."""

from __future__ import annotations

import numpy as np

from ..case import Case, Kernel, Launch, require_choice, require_multiples, require_positive
from .source import CudaSource
from .tensor_map import TensorMap

_THREADS = 256
#: Elements that a box of the grid is wider and higher than its tile.
_WIDER, _HIGHER = 4, 2
#: Most dynamic shared memory of a block on compute capabilities 9.0, 10.0 and 10.3 (CUDA programming guide), less what
#: the kernel has itself.
_MOST_SHARED = 232448 - 1024


def make_tma_stencil(
    *, rows: int, columns: int, tile_x: int, tile_y: int, stages: int, blocks: int, seed: int = 0
) -> Case:
    require_choice("tile_x", tile_x, (32, 64, 128))
    require_choice("tile_y", tile_y, (8, 16, 32, 64))
    require_positive(rows=rows, stages=stages, blocks=blocks)
    require_multiples(columns=(columns, 4))
    box_bytes = (tile_x + _WIDER) * (tile_y + _HIGHER) * 4
    shared_bytes = stages * -(-box_bytes // 128) * 128 + 2 * tile_x * tile_y * 4
    if stages > 8 or shared_bytes > _MOST_SHARED:
        raise ValueError(f"stages must be from 1 to 8 and fit in {_MOST_SHARED} bytes of shared memory, not {stages}")
    # Small whole numbers and powers of two: every sum is exact, whatever its order.
    grid = np.random.default_rng(seed).integers(-512, 513, (rows, columns)).astype(np.float32)
    out = np.full((rows, columns), np.nan, np.float32)
    middle, beside = np.float32(0.5), np.float32(0.125)
    maps = (
        TensorMap(grid, (tile_y + _HIGHER, tile_x + _WIDER), "none"),
        TensorMap(out, (tile_y, tile_x), "none"),
    )
    kernel = CudaSource("tma_stencil.cu", f"tma_stencil<{tile_x}, {tile_y}, {stages}>")
    tiles = -(-rows // tile_y) * -(-columns // tile_x)

    def check() -> None:
        padded = np.pad(grid, 1)
        around = padded[1:-1, :-2] + padded[1:-1, 2:] + padded[:-2, 1:-1] + padded[2:, 1:-1]
        np.testing.assert_array_equal(out, middle * grid + beside * around)

    args = (*maps, np.int32(rows), np.int32(columns), middle, beside)
    return Case(
        launches=(Launch(kernel, (min(blocks, tiles),), (_THREADS,), args, shared_bytes),),
        check=check,
        work={"bytes_read": float(grid.nbytes), "bytes_written": float(out.nbytes), "flops": 6.0 * grid.size},
    )


KERNELS = {
    "cpp_tma_stencil": Kernel(
        name="cpp_tma_stencil",
        purpose="a five-point stencil whose tiles TMA brings with their halo, zeros outside of the grid, several under way",
        axes={
            "rows": (1024, 4096, 16384),
            "columns": (1024, 4096, 16384),
            "tile_x": (32, 64, 128),
            "tile_y": (8, 16, 32, 64),
            "stages": (1, 2, 4),
            "blocks": (132, 264, 528),
        },
        default={"rows": 2048, "columns": 2048, "tile_x": 64, "tile_y": 32, "stages": 2, "blocks": 264},
        small={"rows": 21, "columns": 76, "tile_x": 32, "tile_y": 8, "stages": 2, "blocks": 2},
        make=make_tma_stencil,
    ),
}
