"""Do the ladders that were profiled on a laptop leave what NumPy makes of the same numbers?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gpusim
from workloads.external import laptop_families as families
from workloads.external.launches import CudaKernel

pytestmark = pytest.mark.usefixtures("without_source_lines")

_SUMS = [f"sum_{i}" for i in range(1, 9)]
_PRODUCTS = [f"product_{i}" for i in range(10)]


def of(kernel: str) -> Any:
    return families.laptop_ladders({"kernel": kernel})


def run(timed: Any, grid: tuple[int, ...], args: tuple) -> None:
    gpusim.capture(timed.kernel, grid, timed.block, args, gpu="rtx3070")


@pytest.mark.parametrize("kernel", _SUMS)
def test_each_block_leaves_the_sum_of_its_elements(kernel: str) -> None:
    size, each = 2000, 2 if kernel in ("sum_5", "sum_6", "sum_7", "sum_8") else 1
    a_block = 256 * each
    blocks = 2 if kernel == "sum_8" else -(-size // a_block)
    values = np.random.default_rng(7).integers(0, 100, size, dtype=np.int32)
    wanted = np.zeros(blocks, np.int32)
    for i in range(-(-size // a_block)):
        wanted[i % blocks] += values[i * a_block : (i + 1) * a_block].sum()
    sums = np.zeros(blocks, np.int32)
    run(of(kernel), (blocks,), (values.copy(), sums, size))
    np.testing.assert_array_equal(sums, wanted)


@pytest.mark.parametrize("kernel", ["copy", "turned_1", "turned_2", "turned_3"])
def test_a_matrix_is_copied_or_turned(kernel: str) -> None:
    rows, columns = 64, 96
    matrix = np.random.default_rng(8).integers(0, 1000, (rows, columns), dtype=np.int32)
    moved = np.zeros(matrix.shape if kernel == "copy" else matrix.T.shape, np.int32)
    run(of(kernel), (columns // 32, rows // 32), (matrix, moved, rows, columns))
    np.testing.assert_array_equal(moved, matrix if kernel == "copy" else matrix.T)


@pytest.mark.parametrize("kernel", ["filter_1", "filter_2", "filter_3"])
def test_a_filter_adds_what_it_weighs(kernel: str) -> None:
    random = np.random.default_rng(9)
    image, weights = (random.integers(0, 5, shape).astype(np.float32) for shape in ((512, 512), (7, 7)))
    result = np.full((512, 512), 3, np.float32)
    wanted, bordered = result.copy(), np.pad(image, 3)
    if kernel != "filter_3":  # whose weights are in constant memory, where nobody puts them
        for r in range(7):
            for c in range(7):
                wanted[:32, :32] += weights[r, c] * bordered[r : r + 32, c : c + 32]
    timed = of(kernel)
    run(timed, (2, 2), (image, result) if kernel == "filter_3" else (image, weights, result))
    np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("kernel", _PRODUCTS)
def test_a_product_of_smaller_matrices_and_of_a_part_of_their_depth(kernel: str) -> None:
    side, depth = 128, 64
    timed = of(kernel)
    made = CudaKernel(timed.kernel.source, timed.kernel.entry.replace("4096", str(side)))
    grid = tuple(size * side // 4096 for size in timed.grid)
    random = np.random.default_rng(10)
    a, b = (random.integers(0, 4, (side, side)).astype(np.float32) for _ in range(2))
    c = np.zeros((side, side), np.float32)
    run(replace(timed, kernel=made), grid, (a, b, c, depth))
    np.testing.assert_array_equal(c, a[:, :depth] @ b[:depth])
