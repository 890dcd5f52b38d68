"""Do the small kernels of one access pattern, that are predicted for validation, leave NumPy's result?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from validation.predict import _by_depth, _Runner
from validation.sets import load_sets

import gpusim
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu
from workloads.external import pattern_families as families

pytestmark = pytest.mark.usefixtures("without_source_lines")

_SIZE = 1024


def run(kernel: str, size: int, turns: str = "", **values: np.ndarray) -> list[Any]:
    """Runs the whole launch with the arrays at the places that ``values`` name (``at_0``), drawn at random where it has
    floats and none is given; its arguments."""
    timed = families.patterns({"kernel": kernel, "size": str(size), "turns": turns}, None)
    args = timed.arguments(None)
    for place, array in enumerate(args):
        if f"at_{place}" in values:
            array[...] = values[f"at_{place}"]
        elif isinstance(array, np.ndarray) and array.dtype == np.float32:
            array[...] = np.random.default_rng(place).random(array.shape, np.float32)
    gpusim.capture(timed.kernel, timed.grid, timed.block, args, gpu="a100_80gb", shared_bytes=timed.shared_bytes)
    return list(args)


def test_over_arrays() -> None:
    a, b, c, _ = run("vector_add", _SIZE)
    np.testing.assert_array_equal(c, a + b)
    _, a, b, c, _ = run("saxpy", _SIZE)
    np.testing.assert_allclose(c, 2 * a + b, rtol=1e-6)
    a, b, c, _ = run("vector_add_divergent", _SIZE)
    more = np.where(np.arange(_SIZE) % 2, 0, 1e-4 * np.arange(128).sum())
    np.testing.assert_allclose(c, a + b + more, rtol=1e-5)
    before = np.zeros(_SIZE, np.float32)
    a, c, _ = run("strided_copy_8", _SIZE, at_1=before)
    np.testing.assert_array_equal(c, np.where(np.arange(_SIZE) % 8, 0, a))


def test_a_gather() -> None:
    timed = families.patterns({"kernel": "random_access", "size": str(_SIZE)}, None)
    values, out = np.random.default_rng(0).random(_SIZE, np.float32), np.zeros(_SIZE, np.float32)
    places = np.random.default_rng(1).permutation(_SIZE).astype(np.int32)
    gpusim.capture(timed.kernel, timed.grid, timed.block, (values, places, out, _SIZE), gpu="a100_80gb")
    np.testing.assert_array_equal(out, values[places])


def test_sums_counts_and_one_word() -> None:
    a, sums, _ = run("reduce_sum", _SIZE)
    np.testing.assert_allclose(sums, a.reshape(2, -1).sum(axis=1), rtol=1e-5)
    a, b, sums, _ = run("dot_product", _SIZE)
    np.testing.assert_allclose(sums, (a * b).reshape(2, -1).sum(axis=1), rtol=1e-5)
    values = np.random.default_rng(0).integers(0, 1 << 20, _SIZE, dtype=np.uint32)
    *_, bins = run("histogram", _SIZE, at_0=values)
    np.testing.assert_array_equal(bins[:256], np.bincount(values % 256, minlength=256))
    word, _ = run("atomic_hotspot", _SIZE, "3")
    assert word[0] == 3 * _SIZE


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kernel", ["naive_transpose", "shared_transpose"])
def test_a_matrix_turned(kernel: str) -> None:
    a, turned, *_ = run(kernel, 64)
    np.testing.assert_array_equal(turned, a.T)


@pytest.mark.by_day(1)
@pytest.mark.parametrize(("kernel", "wide"), [("conv2d_3x3", 3), ("conv2d_7x7", 7)])
def test_a_filter(kernel: str, wide: int) -> None:
    image, weights, out, *_ = run(kernel, 32, at_2=np.zeros((32, 32), np.float32))
    windows = np.lib.stride_tricks.sliding_window_view(image.astype(np.float64), (wide, wide))
    wanted = np.zeros_like(out)
    wanted[: 33 - wide, : 33 - wide] = (windows * weights.reshape(wide, wide)).sum(axis=(2, 3))
    np.testing.assert_allclose(out, wanted, rtol=1e-5)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kernel", families._PRODUCTS)
def test_a_product(kernel: str) -> None:
    a, b, c, *_ = run(kernel, 64)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=1e-5)


def test_each_row_that_counts_has_a_launch_and_like_kernels_are_in_one_half() -> None:
    for one in load_sets(["patterns_rtx2080ti", "patterns_titan_v", "patterns_rtx4070"]):
        half_of: dict[tuple[str, str], str] = {}
        for row in one.rows:
            assert families.patterns(row.values, None).product == row.values["kernel"].startswith("matmul")
            assert half_of.setdefault((row.values["pattern"], row.values["size"]), row.half) == row.half


def test_blocks_of_less_than_two_waves_all_run() -> None:
    """Six blocks on four SMs that hold one each: the second round is part of what runs, not counted on top."""
    spec = override_gpu(load_gpu("t4"), ["sm_count=4"])
    made = families.patterns({"kernel": "matmul_naive", "size": "256", "turns": ""}, None)
    timed = replace(made, grid=(3, 2), shared_bytes=40000)
    runner = _Runner(timed, spec)
    assert runner.occupancy().blocks_per_sm == 1
    found = _by_depth(runner, 1e6)
    assert found.scaled == "all blocks, depths 128 and 256 of 256"
    assert found.time_us == pytest.approx(runner.run(timed.grid).time_us)
    of_a_wave = _by_depth(
        _Runner(replace(made, grid=(8, 4), shared_bytes=40000), override_gpu(spec, ["sm_count=20"])), 1e-3
    )
    assert of_a_wave.scaled == "1 wave on 8 of 20 SMs, depths 128 and 256 of 256"
