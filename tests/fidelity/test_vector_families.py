"""Do the products of a matrix and a vector, the forces between particles and a course's exercises compute what NumPy
says?"""

from __future__ import annotations

import numpy as np
import pytest

import gpusim
from workloads.external import vector_families as families


def run(timed) -> tuple:
    """The arguments of a launch over small whole numbers, behind it."""
    args = timed.arguments(None)
    random = np.random.default_rng(0)
    for array in args:
        if isinstance(array, np.ndarray):
            array[...] = random.integers(0, 4, array.shape)
    gpusim.capture(timed.kernel, timed.grid, timed.block, args, gpu="a40", shared_bytes=timed.shared_bytes)
    return args


@pytest.mark.by_day(2)
@pytest.mark.parametrize("bits", [16, 8, 4])
@pytest.mark.parametrize("wide, high", [(8, 4), (64, 2)])
def test_products_of_a_matrix_and_a_vector(bits: int, wide: int, high: int) -> None:
    n = 1024 if bits == 4 else 512
    timed = families.vector_products({"bits": bits, "size": n, "wide": wide, "high": high})
    matrix, vector, result = (array.astype(np.float32) for array in run(timed)[:3])
    if bits == 4:
        pairs = matrix.astype(np.uint8)
        matrix = np.stack([pairs & 15, pairs >> 4], axis=-1).reshape(n, n).astype(np.float32)
    scaled = matrix if bits == 16 else 0.5 * (matrix - 3)
    np.testing.assert_allclose(result, (scaled @ vector).astype(np.float16), rtol=1e-3)


def forces(x: np.ndarray, v: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The force on each particle (axis 0) by each other one."""
    r = x[:, None] - x[None]
    share = q[:, None] * q[None] / (np.sum(r * r, axis=-1) + 1e-12) ** 1.5
    np.fill_diagonal(share, 0)
    moving = np.sum(v[:, None] * r, axis=-1)[..., None] * v[None] - np.sum(v[:, None] * v[None], axis=-1)[..., None] * r
    return share[..., None] * (8.9875518e9 * r + 1e-7 * moving)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kernel", ["forces", "forces_by_tiles"])
def test_forces_between_particles(kernel: str) -> None:
    count = 32
    timed = families.particles({"kernel": kernel, "count": count, "fast": "no"})
    args = timed.arguments(None)
    random = np.random.default_rng(1)
    for array in args[:7]:
        array[...] = random.uniform(-1, 1, count)
    x, v = (np.stack(args[i : i + 3], axis=-1).astype(float) for i in (0, 3))
    expected = forces(x, v, args[6].astype(float))
    gpusim.capture(timed.kernel, timed.grid, timed.block, args, gpu="a40")
    of_all = expected.sum(axis=1)
    found = args[7][..., :3]
    np.testing.assert_allclose(
        found, expected if kernel == "forces" else of_all, rtol=2e-3, atol=1e-4 * np.abs(of_all).max()
    )


def test_sums_of_rows_of_forces_and_a_step() -> None:
    matrix, net = run(families.particles({"kernel": "sums_of_rows", "count": 300, "fast": "no"}))[:2]
    np.testing.assert_allclose(net[:, :3], matrix[..., :3].sum(axis=1))
    timed = families.particles({"kernel": "step", "count": 300, "fast": "yes"})
    args = timed.arguments(None)
    for i, array in enumerate(args[:8]):
        array[...] = i + 1
    gpusim.capture(timed.kernel, timed.grid, timed.block, args, gpu="a40")
    np.testing.assert_allclose(args[3], 4 + 8 / 7 * 0.1, rtol=1e-5)
    np.testing.assert_allclose(args[2], 3 + (6 + 8 / 7 * 0.1) * 0.1, rtol=1e-5)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kernel, axis", [("of_rows", 1), ("of_columns", 0)])
def test_sums_of_a_matrix(kernel: str, axis: int) -> None:
    matrix, sums = run(families.exercises({"kernel": kernel, "size": 100, "blocks": 1, "threads": 256}))[:2]
    np.testing.assert_array_equal(sums, matrix.sum(axis=axis))


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kernel", ["by_atomics", "by_tree", "by_shuffles"])
def test_sums_of_an_array(kernel: str) -> None:
    timed = families.exercises({"kernel": kernel, "size": 1000, "blocks": 4, "threads": 256})
    args = timed.arguments(None)
    args[0][...] = np.arange(1000) % 7
    gpusim.capture(timed.kernel, timed.grid, timed.block, args, gpu="a40")
    assert args[1][0] == args[0].sum()


def test_a_sum_of_two_arrays_by_few_threads() -> None:
    a, b, c = run(families.exercises({"kernel": "added", "size": 1000, "blocks": 2, "threads": 64}))[:3]
    np.testing.assert_array_equal(c, a + b)
