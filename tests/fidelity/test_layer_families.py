"""Do the norms, gates, residuals and sums of columns that others timed compute what NumPy says?"""

from __future__ import annotations

import numpy as np
import pytest

import gpusim
from workloads.external import layer_families as families

WIDE, ROWS = families._COLUMNS, 64


def of_bf16(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def to_bf16(values: np.ndarray) -> np.ndarray:
    return (np.asarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "_ROWS", ROWS)
    monkeypatch.setattr(families, "_WIDE", 128)


def run(timed, args: tuple) -> None:
    gpusim.capture(timed.kernel, timed.grid, timed.block, args, gpu="a40", shared_bytes=timed.shared_bytes)


def steps(kernel: str, threads: int = 64) -> tuple:
    timed = families.layer_steps({"kernel": kernel, "threads": threads})
    args = timed.arguments(None)
    random = np.random.default_rng(0)
    for array in args:
        if isinstance(array, np.ndarray):
            values = random.uniform(-1, 1, array.shape).astype(np.float32)
            array[...] = to_bf16(values) if array.dtype == np.uint16 else values
    given = [array.copy() for array in args if isinstance(array, np.ndarray)]
    run(timed, args)
    return args, given


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kernel", ["rms_norm_a_thread", "rms_norm_a_warp"])
def test_norms_of_rows(kernel: str) -> None:
    args, (_, x, weight, bias) = steps(kernel)
    x = x.reshape(ROWS, WIDE)
    expected = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-5) * weight + bias
    np.testing.assert_allclose(args[0].reshape(ROWS, WIDE), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kernel", ["gate", "gate_by_eights"])
def test_gates(kernel: str) -> None:
    args, given = steps(kernel)
    x, gate = (of_bf16(bits) for bits in given[1:])
    np.testing.assert_allclose(of_bf16(args[0]), x / (1 + np.exp(-x)) * gate, rtol=2**-8)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kernel", ["gate_back", "gate_back_by_eights"])
def test_gradients_of_gates(kernel: str) -> None:
    args, given = steps(kernel)
    out, x, gate = (of_bf16(bits) for bits in given[2:])
    share = 1 / (1 + np.exp(-x))
    np.testing.assert_allclose(of_bf16(args[0]), out * (share + x * share * (1 - share)) * gate, rtol=2**-7, atol=1e-6)
    np.testing.assert_allclose(of_bf16(args[1]), out * x * share, rtol=2**-7, atol=1e-6)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kernel", ["residual", "residual_by_strides"])
def test_residuals(kernel: str) -> None:
    args, (_, a, b) = steps(kernel)
    np.testing.assert_array_equal(args[0], a + b)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kernel", ["columns_a_warp", "columns_a_block"])
def test_sums_of_columns(kernel: str) -> None:
    args, (matrix, sums) = steps(kernel)
    np.testing.assert_allclose(args[1], sums + matrix.sum(axis=0), rtol=1e-4, atol=1e-5)


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    "kernel, width",
    [("by_warp_of_4", 128), ("by_warp_of_16", 256), ("by_block_of_512", 2048), ("by_block_of_256", 2048)],
)
def test_norms_of_few_rows(kernel: str, width: int) -> None:
    rows = 5
    timed = families.row_norms({"kernel": kernel, "width": width, "rows": rows})
    args = timed.arguments(None)
    random = np.random.default_rng(0)
    for array in args[:2]:
        array[...] = to_bf16(random.uniform(-1, 1, array.shape))
    run(timed, args)
    x, weight = of_bf16(args[0]).reshape(rows, width), of_bf16(args[1])
    scale = weight if kernel in ("by_warp_of_4", "by_block_of_512") else 1 + weight
    expected = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-6) * scale
    np.testing.assert_allclose(of_bf16(args[2]).reshape(rows, width), expected, rtol=2**-7, atol=1e-6)
