"""Do the kernels of ladders for teaching and of a training program, that are predicted for validation, leave NumPy's
result, and are they made smaller as they are meant to be?"""

from __future__ import annotations

import numpy as np
import pytest
from validation.predict import _part, _two_sizes, predict
from validation.sets import load_sets

import gpusim
from gpusim.gpus.load import load_gpu
from workloads.external import teaching_families as families
from workloads.external.launches import Timed

pytestmark = pytest.mark.usefixtures("without_source_lines")


def launch(timed: Timed, grid: tuple[int, ...], args: tuple, block: tuple[int, ...] | None = None) -> None:
    gpusim.capture(
        timed.kernel, grid, block or timed.block, args, gpu="a100_80gb", shared_bytes=timed.shared_bytes
    )  # fmt: skip


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).random(shape, np.float32)


def filled(timed: Timed, depth: int | None = None) -> tuple:
    """The arguments, its large arrays of floats filled at random."""
    args = timed.arguments(depth)
    for array in args:
        if isinstance(array, np.ndarray) and array.dtype == np.float32:
            array[...] = drawn(*array.shape)
    return args


@pytest.mark.by_day(2)
@pytest.mark.parametrize("rung", families._PRODUCTS)
def test_a_block_of_a_product(rung: str) -> None:
    timed = families.teaching({"kernel": rung, "size": "128"})
    args = filled(timed, 32)
    a, b, c = args[3], args[4], args[6]
    launch(timed, (1, 1), args)
    tile = families._PRODUCTS[rung][1]
    wanted = a[:, :32].astype(np.float64) @ b[:32]
    np.testing.assert_allclose(c[:tile, :tile], wanted[:tile, :tile], rtol=1e-5)


@pytest.mark.by_day(2)
@pytest.mark.parametrize("rung", families._WARP_PRODUCTS)
def test_a_block_of_a_product_by_warps(rung: str) -> None:
    timed = families.warp_ladder({"kernel": rung, "size": "128"})
    a, b, c, *_ = args = filled(timed, 64)
    launch(timed, (1, 1), args)
    high, wide = families._WARP_PRODUCTS[rung][1]
    wanted = a[:, :64].astype(np.float64) @ b[:64]
    np.testing.assert_allclose(c[:high, :wide], wanted[:high, :wide], rtol=1e-5)


@pytest.mark.by_day(2)
@pytest.mark.parametrize("kernel", families._TURNED)
def test_a_matrix_turned(kernel: str) -> None:
    threads = "32x8" if kernel.startswith("shared") else "16x16"
    row = {"kernel": kernel, "size": "64"} | ({} if kernel.startswith("transpose") else {"threads": threads})
    timed = families.teaching(row)
    matrix, turned, *_ = args = timed.arguments(None)
    matrix[...] = drawn(64, 64)
    launch(timed, timed.grid, args)
    np.testing.assert_array_equal(turned, matrix.T)


@pytest.mark.by_day(2)
@pytest.mark.parametrize("kernel", [*families._SUMS, *families._STRIDED])
def test_sums_of_an_array(kernel: str) -> None:
    timed = families.teaching({"kernel": kernel, "size": "2048"})
    args = timed.arguments(None)
    args[0][...] = drawn(2048)
    wanted = args[0].astype(np.float64).sum()
    launch(timed, timed.grid, args)
    if (
        kernel in families._STRIDED
    ):  # the blocks' sums lie at the array's beginning; the last four elements go by themselves
        np.testing.assert_allclose(args[0][:2].sum(), wanted, rtol=1e-5)
    else:
        np.testing.assert_allclose(args[1].sum(), wanted, rtol=1e-5)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kernel", families._ROW_SUMS)
def test_sums_of_rows(kernel: str) -> None:
    timed = families.warp_ladder({"kernel": kernel, "size": str(64 * 512)})
    values, sums, *_ = args = timed.arguments(None)
    values[...] = drawn(64, 512)
    launch(timed, timed.grid, args)
    np.testing.assert_allclose(sums, values.sum(axis=1), rtol=1e-5)


@pytest.mark.by_day(2)
@pytest.mark.parametrize(("kernel", "arrays"), [("add", 2), ("add_strided", 2), ("add_vector", 2), ("sigmoid_vector", 1), ("relu_vector", 1)])  # fmt: skip
def test_element_by_element(kernel: str, arrays: int) -> None:
    timed = families.teaching({"kernel": kernel, "size": "1024"})
    args = timed.arguments(None)
    for array in args[:arrays]:
        array.reshape(-1)[:] = drawn(1024) - 0.5
    x = args[0].copy()
    launch(timed, timed.grid, args)
    wanted = {"sigmoid_vector": 1 / (1 + np.exp(-x)), "relu_vector": np.maximum(x, 0)}.get(kernel, x + args[1])
    np.testing.assert_allclose(args[arrays], wanted, rtol=1e-5)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kernel", families._SOFTMAX)
def test_softmax(kernel: str) -> None:
    timed = families.teaching({"kernel": kernel, "size": "1"})
    values = drawn(3, 128) if "rows" in kernel else drawn(128, 3)
    out = np.zeros_like(values)
    launch(timed, (3,), (values, out, *values.shape), (64,))
    axis = 1 if "rows" in kernel else 0
    np.testing.assert_allclose(out, np.exp(values) / np.exp(values).sum(axis=axis, keepdims=True), rtol=1e-5)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kernel", ["layer_norm", "layer_norm_squares"])
def test_layer_norm(kernel: str) -> None:
    timed = families.training({"kernel": kernel, "threads": "64"})
    x, weight, bias = drawn(4, 256), drawn(256), drawn(1, 256)[0]
    out, mean, scale = np.zeros_like(x), np.zeros(4, np.float32), np.zeros(4, np.float32)
    launch(timed, (2,), (out, mean, scale, x, weight, bias, 4, 256))
    wanted = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5) * weight + bias
    np.testing.assert_allclose(out, wanted, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(mean, x.mean(axis=1), rtol=1e-5)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kernel", ["encode", "encode_vector"])
def test_encoder(kernel: str) -> None:
    timed = families.training({"kernel": kernel, "threads": "32"})
    tokens, table, places = np.array([3, 0, 1, 3], np.int32), drawn(5, 64), drawn(2, 64)
    out = np.zeros((4, 64), np.float32)
    launch(timed, (8,), (out, tokens, table, places, 2, 2, 64))
    np.testing.assert_array_equal(out, table[tokens] + places[[0, 1, 0, 1]])


def test_each_set_says_of_its_products_that_they_are_some() -> None:
    names = [name for name in (one.name for one in load_sets()) if name.startswith(("teaching", "warp_ladder"))]
    for one in load_sets(names):
        for row in one.rows:
            timed = families.TEACHING_FAMILIES[one.entry["family"]](row.values, None)
            assert timed.product == ("sgemm" in row.identity)
            assert not timed.product or timed.depth


def test_blocks_in_one_row_of_a_grid_are_all_of_a_part() -> None:
    assert _part((1024, 1), 16) == (16, 1)
    assert _part((8, 1), 16) == (8, 1)


def test_two_sizes_are_some_waves_at_least() -> None:
    timed = families.teaching({"kernel": "add", "size": str(1 << 20)})
    assert [size for size, *_ in _two_sizes(timed, 1e-3, 0.0, resident=100)[0]] == [300, 700]
    assert not _two_sizes(timed, 1e-3, 0.0, resident=1000)[0]


def test_a_launch_that_is_measured_warm_follows_itself() -> None:
    spec, row = load_gpu("t4"), {"kernel": "sum_v5", "size": str(1 << 18)}
    warm, cold = (predict("teaching", row, spec, "kind", 1e5, None, cache) for cache in ("warm", "cold"))
    assert warm.time_us < 0.8 * cold.time_us
