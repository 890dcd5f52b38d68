"""Copies, transposes and products of a study of one GPU, as launches.

Mental model: a row names a kernel and its step: loads that a thread has under way, elements of one, or how much of the
common dimension a block takes at a time. Copies of few threads go on until the arrays end, so that the launch for fewer
elements is the same grid. Nothing depends on data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernels.cuda_cpp.tensor_map import TensorMap

from .launches import HERE, CudaKernel, Row, Timed, floats

#: Bytes that are copied, and those of the copy that L2 holds; side of the matrix that is turned, and of its tiles.
_BYTES, _BYTES_IN_L2, _TURNED, _TILE = 256 << 20, 16 << 20, 32768, 32
#: Least threads of a copy of which L2's state is a matter: fewer do not reach what DRAM gives.
_STREAM_THREADS = 2048
#: Element -> its type here, and its bytes.
_ELEMENTS = {"float": (np.float32, 4), "float4": (np.float32, 16)}
#: Rows, common dimension and columns of the products; side of a tile, bytes of a row of a slab of a warp group, columns
#: of tiles that go together, stages of the rungs by bulk copies; what pads a row.
_M, _K, _N, _SIDE, _ROW_BYTES, _TOGETHER, _STAGES, _PAD = 4096, 16384, 8192, 128, 128, 4, 3, 4
#: Transpose -> its entry and block.
_TRANSPOSES = {
    "transpose": ("turned", (32, 8)),
    "transpose_by_fours": ("turned_by_fours", (8, 32)),
    "transpose_padded": ("turned_as_dealt<1, 1>", (32, 8)),
    "transpose_padded_fours": ("turned_as_dealt<4, 4>", (32, 8)),
}
#: Rung of the products in single precision -> its entry, block, and rows and columns of a block.
_PLAIN = {
    "naive": ("naive", (16, 16), 16),
    "tiles": ("tiles<32>", (32, 32), 32),
    "registers": ("registers", (256,), _SIDE),
    "vectors": ("vectors", (256,), _SIDE),
    "two_buffers": ("two_buffers", (256,), _SIDE),
}


@dataclass(frozen=True)
class ForTensorCores:
    """A kernel that the installed compiler builds, though the set names its own: warp groups only ``sm_90a`` has, where
    the bench builds for ``sm_90``, and the fragments of a slab fit in registers as in the source's profile."""

    source: Path
    entry: str

    @property
    def __name__(self) -> str:
        return self.entry

    def __cuda_cpp__(self) -> dict[str, Any]:
        return CudaKernel(self.source, self.entry).__cuda_cpp__()


def study(row: Row, checkout: Path | None = None) -> Timed:
    """A copy, a transpose or a product."""
    kernel = str(row["kernel"])
    if kernel.startswith("copy"):
        return _copy(kernel, str(row["element"]), int(row["step"]), int(row["blocks"]), int(row["threads"]))
    if kernel.startswith("transpose"):
        return transposed(kernel, _TURNED)
    return product(kernel, int(row["step"]), _M, _K, _N)


def _copy(kernel: str, element: str, step: int, blocks: int, threads: int) -> Timed:
    kind, size = _ELEMENTS[element]
    held = _BYTES_IN_L2 if kernel == "copy_in_l2" else _BYTES
    past_l1 = str(kernel != "copy").lower()
    made = CudaKernel(HERE / "study_copies.cu", f"copied<{element}, {step}, {past_l1}>")
    count = held // size
    return Timed(
        made, (blocks,), (threads,),
        lambda depth: (np.zeros(held // 4, kind), np.zeros(held // 4, kind), np.uint64(depth or count)), (made.source,),
        depth=count, depth_step=blocks * threads * step, depends_on_data=True,
        streams=held == _BYTES and blocks * threads >= _STREAM_THREADS,
    )  # fmt: skip


def transposed(kernel: str, side: int) -> Timed:
    """A square matrix of floats of ``side``, turned by tiles."""
    entry, block = _TRANSPOSES[kernel]
    made = CudaKernel(HERE / "study_copies.cu", entry)
    tiles = side // _TILE
    return Timed(
        made, (tiles, tiles), block, lambda _: (floats(side, side), floats(side, side), np.uint64(side), np.uint64(side)),
        (made.source,), cut_axis=1, streams=True,
    )  # fmt: skip


def product(kernel: str, step: int, m: int, k: int, n: int) -> Timed:
    """A rung: m x k times k x n; of warp groups the second factor lies transposed."""
    if kernel in _PLAIN:
        entry, block, side = _PLAIN[kernel]
        made = CudaKernel(HERE / "study_products.cu", entry)
        return _product(made, (n // side, m // side), block, step, (m, k, n))
    source = HERE / "study_tensor.cu"
    tiles = m // _SIDE, n // _SIDE
    slab = 2 * _SIDE * _ROW_BYTES
    if kernel == "fragments":
        return _product(ForTensorCores(source, "fragments"), tiles, (128,), step, (m, k, n))
    if kernel == "staged":
        shared = 4 * (_SIDE * (step + _PAD) - _PAD + step * (_SIDE + _PAD) - _PAD)
        return _product(ForTensorCores(source, f"staged<{step}>"), tiles, (128,), step, (m, k, n), shared)
    if kernel.startswith("warp_groups"):
        twice, together = str(kernel != "warp_groups").lower(), _TOGETHER if kernel == "warp_groups_in_order" else 0
        made = ForTensorCores(source, f"warp_groups<{twice}, {together}>")
        grid = (tiles[0] * tiles[1], 1) if together else tiles
        shared = slab * (1 if kernel == "warp_groups" else 2)
        return _product(made, grid, (256,), step, (m, k, n), shared, turned=True)
    across = {"bulk_128": 1, "bulk_256": 2}[kernel]
    a, b = floats(m, k), floats(n, k)
    maps = TensorMap(a, (_SIDE, step)), TensorMap(b, (across * _SIDE, step))
    return Timed(
        ForTensorCores(source, f"bulk<{across}>"), (tiles[0], tiles[1] // across), (256 * across,),
        lambda depth: (*maps, floats(m, n), *map(np.int32, (m, k, n, depth or k))), (source,), depth=k,
        depth_step=step, product=True, shared_bytes=_STAGES * (1 + across) * _SIDE * _ROW_BYTES,
    )  # fmt: skip


def _product(
    made: CudaKernel | ForTensorCores, grid: tuple[int, ...], block: tuple[int, ...], step: int, sizes: tuple[int, int, int],
    shared_bytes: int = 0, turned: bool = False,
) -> Timed:  # fmt: skip
    m, k, n = sizes

    def arguments(depth: int | None) -> tuple:
        b = floats(n, k) if turned else floats(k, n)
        return floats(m, k), b, floats(m, n), *map(np.int32, (m, k, n, depth or k))

    return Timed(
        made, grid, block, arguments, (made.source,), depth=k, depth_step=step, product=True,
        shared_bytes=shared_bytes,
    )  # fmt: skip


STUDY_FAMILIES: Mapping[str, Callable[[Row, Path | None], Timed]] = {"study": study}
