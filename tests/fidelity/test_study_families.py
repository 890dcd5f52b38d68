"""Do the copies, transposes and products of a study of an H100 leave what NumPy makes of the same numbers?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from validation.own_compiler import by_own_compiler

import gpusim
from gpusim.gpus.load import load_gpu
from workloads.external import study_families as families

pytestmark = pytest.mark.usefixtures("without_source_lines")

_RANDOM = np.random.default_rng(5)
#: A rung and its step; what TF32 keeps of a product, rounded and cut off.
_SINGLE = [("naive", 1), ("tiles", 32), ("registers", 8), ("vectors", 8), ("two_buffers", 8)]
_ROUNDED, _CUT = 1e-3, 3e-3


def run(timed: Any, args: tuple) -> None:
    gpusim.capture(timed.kernel, timed.grid, timed.block, args, gpu="h100", shared_bytes=timed.shared_bytes)


def worst(timed: Any, args: tuple, of: np.ndarray, wanted: np.ndarray) -> float:
    run(timed, args)
    return float(np.abs(of / wanted - 1).max())


@pytest.mark.parametrize(
    ("kernel", "element", "step"),
    [("copy", "float", 1), ("copy", "float4", 32), ("copy_in_l2", "float", 8), ("copy_past_l1", "float", 8)],
)
def test_a_copy_ends_where_the_array_does(kernel: str, element: str, step: int) -> None:
    """Beyond whole turns of all threads too."""
    row = {"kernel": kernel, "element": element, "step": step, "blocks": 3, "threads": 64}
    lanes = 4 if element == "float4" else 1
    count = 2 * 3 * 64 * step + 5
    values = _RANDOM.random(count * lanes, np.float32)
    copied = np.zeros(values.size + lanes, np.float32)
    run(families.study(row), (values, copied, np.uint64(count)))
    np.testing.assert_array_equal(copied, np.append(values, np.zeros(lanes, np.float32)))


@pytest.mark.parametrize("kernel", families._TRANSPOSES)
def test_a_matrix_is_turned(kernel: str) -> None:
    matrix = _RANDOM.random((64, 64), np.float32)
    turned = np.zeros_like(matrix)
    timed = families.transposed(kernel, 64)
    run(timed, (turned, matrix, np.uint64(64), np.uint64(64)))
    np.testing.assert_array_equal(turned, matrix.T)


@pytest.mark.parametrize(("kernel", "step"), _SINGLE)
def test_a_rung_multiplies(kernel: str, step: int) -> None:
    m, k, n = 128, 96, 256
    a, b, c = _RANDOM.random((m, k), np.float32), _RANDOM.random((k, n), np.float32), np.zeros((m, n), np.float32)
    sizes = map(np.int32, (m, k, n, k))
    assert worst(families.product(kernel, step, m, k, n), (a, b, c, *sizes), c, a @ b) < 1e-5


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("kernel", "step"),
    [
        ("fragments", 8), ("staged", 8), ("staged", 32), ("warp_groups", 32), ("warp_groups_ahead", 32),
        ("warp_groups_in_order", 32), ("bulk_128", 32), ("bulk_256", 32),
    ],
)  # fmt: skip
def test_a_rung_multiplies_on_tensor_cores(kernel: str, step: int) -> None:
    """Four slabs; tiles in order need an area of four columns of them."""
    m, k, n = (256, 128, 1024) if kernel == "warp_groups_in_order" else (128, 128, 256)
    a, b, c = _RANDOM.random((m, k), np.float32), _RANDOM.random((k, n), np.float32), np.zeros((m, n), np.float32)
    timed = families.product(kernel, step, m, k, n)
    sizes = tuple(map(np.int32, (m, k, n, k)))
    if kernel.startswith("bulk"):
        of_a, of_b, *_ = args = timed.arguments(None)
        of_a.data[...], of_b.data[...], c = a, b.T, args[2]
        assert worst(timed, args, c, a @ b) < _CUT
    elif kernel.startswith("warp_groups"):
        assert worst(timed, (a, np.ascontiguousarray(b.T), c, *sizes), c, a @ b) < _CUT
    else:
        assert worst(timed, (a, b, c, *sizes), c, a @ b) < _ROUNDED


def test_rungs_for_warp_groups_are_not_built_for_sm_90() -> None:
    """By the bench's own compiler, which would not know their instructions."""
    timed = families.product("warp_groups", 32, 128, 32, 128)
    assert by_own_compiler(timed, "nvidia-cuda-nvrtc-cu12==0.0", load_gpu("h100")) is timed
