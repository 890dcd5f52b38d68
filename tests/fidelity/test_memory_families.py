"""Do the reductions, transposes, histograms and element-wise kernels that are predicted for validation leave NumPy's
result, and is a part of a launch scaled rightly?"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from validation.predict import _two_sizes

import gpusim
from workloads.external.launches import Timed
from workloads.external.memory_families import MEMORY_FAMILIES

pytestmark = pytest.mark.usefixtures("without_source_lines")


def launch(timed: Timed, grid: tuple[int, ...], args: tuple, gpu: str = "a100_80gb") -> None:
    gpusim.capture(timed.kernel, grid, timed.block, args, gpu=gpu)


def drawn(count: int, kind: type = np.float32) -> np.ndarray:
    return np.random.default_rng(count).random(count, np.float32).astype(kind)


@pytest.mark.by_day(2)
@pytest.mark.parametrize(("rung", "each"), [(0, 1), (1, 1), (2, 1), (3, 2), (4, 2), (5, 2), (6, 128), (7, 128), (8, 8)])
def test_a_rung_of_the_sums(rung: int, each: int) -> None:
    timed = MEMORY_FAMILIES["reductions"]({"kernel": f"reduce_{rung}", "dtype": "float32"}, None)
    values, sums = drawn(2 * 256 * each), np.zeros(2, np.float32)
    launch(timed, (2,), (values, sums, np.uint32(len(values)))[: 3 if rung >= 7 else 2])
    wanted = values.reshape(2, -1).sum(axis=1)
    if rung == 8:  # fours of both blocks in turn
        wanted = values.reshape(-1, 2, 1024).sum(axis=(0, 2))
    np.testing.assert_allclose(sums, wanted, rtol=1e-5)


@pytest.mark.by_day(1)
@pytest.mark.parametrize(("kernel", "dtype"), [("product", "float32"), ("packed_product", "float16")])
def test_products_of_arrays(kernel: str, dtype: str) -> None:
    timed = MEMORY_FAMILIES["reductions"]({"kernel": kernel, "dtype": dtype}, None)
    x, y, z = drawn(512, np.dtype(dtype).type), drawn(512, np.dtype(dtype).type)[::-1].copy(), np.zeros(512, dtype)
    args = (x, y, z) if kernel == "product" else (np.int64(512 * x.itemsize // 16), z, x, y)
    launch(timed, (2,), args)
    np.testing.assert_array_equal(z, x * y)


def test_an_inner_product_by_atomics() -> None:
    timed = MEMORY_FAMILIES["reductions"]({"kernel": "inner_product", "dtype": "float16"}, None)
    a, b, c = np.full(256, 0.5, np.float16), np.full(256, 0.25, np.float16), np.zeros(2, np.float16)
    launch(timed, (1,), (a, b, c, np.int32(256)))
    assert c.tolist() == [32.0, 32.0]


TRANSPOSES = [
    ("naive", 32, 32, 1),
    ("tiled", 32, 32, 1),
    ("padded", 32, 32, 1),
    ("coarse", 32, 8, 1),
    ("coarse", 64, 16, 4),
]


@pytest.mark.by_day(1)
@pytest.mark.parametrize(("kernel", "tile", "rows", "wide"), TRANSPOSES)
def test_transposes(kernel: str, tile: int, rows: int, wide: int) -> None:
    row = {"kernel": kernel, "size": "64", "tile": tile, "rows": rows, "wide": wide}
    timed = MEMORY_FAMILIES["memory_ladders"](row, None)
    matrix, turned, _ = args = timed.arguments(None)
    matrix[:] = drawn(64 * 64).reshape(64, 64)
    launch(timed, timed.grid, args)
    np.testing.assert_array_equal(turned, matrix.T)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kernel", ["histogram_global", "histogram_shared", "histogram_packed"])
def test_histograms_of_bytes(kernel: str) -> None:
    timed = MEMORY_FAMILIES["memory_ladders"]({"kernel": kernel, "size": 2051}, None)
    values, _, bins, _ = args = timed.arguments(None)
    launch(timed, (2,), args)
    np.testing.assert_array_equal(bins[:256], np.bincount(values, minlength=256))
    assert not bins[256:].any()


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kernel", ["histogram_global", "histogram_shared"])
def test_histograms_of_words(kernel: str) -> None:
    # One block: the published kernel's blocks clear the bins while others count already, which zeros do not show.
    row = {"kernel": kernel, "rows": 100, "columns": 1, "threads": 128}
    timed = MEMORY_FAMILIES["textbook"](row, None)
    values, _, bins, _ = args = timed.arguments(None)
    values[:] = np.random.default_rng(2).integers(0, 512, 100)
    launch(timed, timed.grid, args)
    np.testing.assert_array_equal(bins[:512], np.bincount(values, minlength=512))
    assert not bins[512:].any()


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kernel", ["sum_along", "sum_down", "matrix_vector"])
def test_matrices(kernel: str) -> None:
    timed = MEMORY_FAMILIES["textbook"]({"kernel": kernel, "rows": 20, "columns": 24, "threads": 32}, None)
    args = timed.arguments(None)
    if kernel == "matrix_vector":
        out, matrix, vector, *_ = args
        matrix[:], vector[:] = np.arange(480).reshape(20, 24), np.arange(24)
    else:
        matrix, vector, out, *_ = args
        matrix[:], vector[:] = drawn(480).reshape(20, 24), drawn(480).reshape(20, 24)
    launch(timed, timed.grid, args)
    np.testing.assert_array_equal(out, matrix @ vector if kernel == "matrix_vector" else matrix + vector)


def test_two_sizes_of_a_launch() -> None:
    timed = MEMORY_FAMILIES["memory_ladders"]({"kernel": "coarse", "size": 320, "tile": 32, "rows": 8, "wide": 1}, None)
    parts, of, what = _two_sizes(timed, 0.61)
    assert (parts, of, what) == ([(2, (10, 2), None), (6, (10, 6), None)], 10, "blocks along an axis")
    assert not _two_sizes(timed, 1.0)[0]
    assert [size for size, *_ in _two_sizes(timed, 0.1)[0]] == [1, 2]
    # A stream's parts are as large as L2, and nearly twice.
    assert [size for size, *_ in _two_sizes(timed, 0.1, 0.3)[0]] == [4, 6]
    zeros = MEMORY_FAMILIES["textbook"]({"kernel": "histogram_global", "rows": 6400, "columns": 1, "threads": 64}, None)
    assert _two_sizes(zeros, 0.31)[0] == [(640, (10,), 640), (1984, (31,), 1984)]
    assert not _two_sizes(dataclasses.replace(zeros, depends_on_data=False, cut_axis=None), 0.5)[0]
