"""Do the operators that were timed on a laptop leave what NumPy makes of the same numbers?"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gpusim
from workloads.external import operator_families as families

pytestmark = pytest.mark.usefixtures("without_source_lines")

_RANDOM = np.random.default_rng(6)
_LEAST = 1e-6


def normal(*shape: int) -> np.ndarray:
    return _RANDOM.standard_normal(shape, dtype=np.float32)


def run(timed: Any, args: tuple, grid: tuple[int, ...] = ()) -> None:
    gpusim.capture(timed.kernel, grid or timed.grid, timed.block, args, gpu="rtx5080", shared_bytes=timed.shared_bytes)


def close(made: np.ndarray, wanted: np.ndarray, share: float = 2e-6) -> None:
    """As far apart as so much of the largest."""
    np.testing.assert_allclose(made.astype(np.float64), wanted, rtol=0, atol=share * float(np.abs(wanted).max()))


def test_rows_are_added_and_summed() -> None:
    a, b = normal(8, 2048), normal(8, 2048)
    added, sums = np.zeros_like(a), np.zeros(8, np.float32)
    run(families.of_rows("add", 8, 2048), (a, b, added, np.int32(2048)))
    np.testing.assert_array_equal(added, a + b)
    run(families.of_rows("row_sums", 8, 2048), (a, sums))
    close(sums, a.sum(1, dtype=np.float64))


@pytest.mark.parametrize("kernel", ["layer_norm", "rms_norm"])
def test_a_norm_whose_last_turn_is_not_full(kernel: str) -> None:
    width = 1024 * 2 + 512
    x, weight = normal(3, width), normal(width)
    out = np.zeros_like(x)
    run(families.of_rows(kernel, 3, width), (x, weight, out))
    mean = x.mean(1, keepdims=True) if kernel == "layer_norm" else 0.0
    squares = (x.astype(np.float64) ** 2).mean(1, keepdims=True)
    close(out, (x - mean) / np.sqrt(squares - mean**2 + _LEAST) * weight)


@pytest.mark.parametrize("kernel", ["layer_norm_back", "rms_norm_back"])
def test_the_gradient_of_a_norm(kernel: str) -> None:
    rows, width = 3, 1024
    x, gradient, weight = normal(rows, width), normal(rows, width), normal(width)
    centred = kernel == "layer_norm_back"
    mean = x.mean(1) if centred else np.zeros(rows, np.float32)
    inverse = (1 / np.sqrt(((x - mean[:, None]) ** 2).mean(1) + _LEAST)).astype(np.float32)
    of_x, of_weight = np.zeros_like(x), np.zeros_like(x)
    sizes = np.int32(rows), np.int32(width)
    run(
        families.of_rows(kernel, rows, width),
        (of_x, of_weight, x, gradient, weight, inverse, *((mean,) if centred else ()), *sizes),
    )
    normed, scaled = (x - mean[:, None]) * inverse[:, None], gradient * weight
    along = normed * (scaled * normed).mean(1, keepdims=True)
    shift = scaled.mean(1, keepdims=True) if centred else 0.0
    close(of_x, (scaled - shift - along) * inverse[:, None])
    close(of_weight, gradient * normed)


def test_tokens_are_rotated() -> None:
    rows, width = 32, 128
    x = normal(rows, width).astype(ml_dtypes.bfloat16)
    out = np.zeros_like(x)
    run(families.of_rows("rotate", rows, width), (x, out, np.int32(width), np.int32(rows), np.float32(1e4)))
    angles = np.arange(rows)[:, None] * 1e4 ** (-2 * np.arange(width // 2) / width)
    pairs = x.astype(np.float64)
    turned = (pairs[:, ::2] + 1j * pairs[:, 1::2]) * np.exp(1j * angles)
    close(out[:, ::2], turned.real, 4e-3)
    close(out[:, 1::2], turned.imag, 4e-3)


def test_rows_and_columns_are_brought_to_one_and_back() -> None:
    count = 256
    matrices = np.exp(_RANDOM.uniform(-2, 2, (count, 4, 4))).astype(np.float32)
    gradient, made, back = normal(count, 4, 4), matrices.copy(), np.zeros_like(matrices)
    sizes = np.int32(count), np.int32(families._ROUNDS), np.float32(_LEAST)
    run(families.of_rows("sinkhorn", count, 16), (made, *sizes))
    run(families.of_rows("sinkhorn_back", count, 16), (matrices, gradient, back, sizes[0], sizes[2]))
    now, sums = matrices.astype(np.float64), []
    for axis in (2, 1) * families._ROUNDS:
        sums.append((axis, now.sum(axis, keepdims=True) + _LEAST))
        now = now / sums[-1][1]
    close(made, now)
    for axis, total in reversed(sums):
        gradient = (gradient - (gradient * now).sum(axis, keepdims=True)) / total
        now = now * total
    close(back, gradient)


def test_cross_entropy_of_rows() -> None:
    rows, width = 2, 8192
    logits, labels, loss = normal(rows, width), np.array([5, 77], np.int32), np.zeros(rows, np.float32)
    run(families.of_rows("cross_entropy", rows, width), (logits, labels, loss, np.int32(rows), np.int32(width)))
    close(loss, np.log(np.exp(logits.astype(np.float64)).sum(1)) - logits[np.arange(rows), labels])


def test_products_on_tensor_cores() -> None:
    a, b = (normal(256, 192).astype(np.float16) for _ in range(2))
    c = np.zeros((256, 256), np.float32)
    run(families.product("product", 256, 192), (a, b, c, *map(np.int32, (256, 256, 192, 192))))
    close(c, a.astype(np.float64) @ b.astype(np.float64).T)

    x, weight = normal(128, 256).astype(ml_dtypes.bfloat16), (normal(256, 256) / 16).astype(ml_dtypes.bfloat16)
    gated = np.zeros((128, 128), np.float32)
    sizes = map(np.int32, (256, 128, 256))
    run(families.gated_product("gated_product", 128, 256), (x, weight, gated, *sizes), (1, 2))
    both = x.astype(np.float64) @ weight.astype(np.float64).T
    close(gated, both[:, :128] / (1 + np.exp(-both[:, 128:])))


def test_attention_of_decoded_tokens() -> None:
    batch, length, heads, groups, width = 2, 256, 128, 8, 128
    q = normal(batch, heads, width).astype(ml_dtypes.bfloat16)
    keys, values = (normal(batch, length, groups, width).astype(ml_dtypes.bfloat16) for _ in range(2))
    out, partial = np.zeros_like(q), np.zeros((batch, heads, width), np.float32)
    sizes = map(np.int32, (batch, length, heads, groups, width, length))
    run(families.decode("decode", batch, length), (q, keys, values, np.float32(width**-0.5), out, partial, *sizes))
    queries, k, v = (each.astype(np.float64) for each in (q.reshape(batch, groups, -1, width), keys, values))
    scores = np.exp(np.einsum("bghd,blgd->bghl", queries, k) * width**-0.5)
    wanted = np.einsum("bghl,blgd->bghd", scores / scores.sum(-1, keepdims=True), v)
    close(out.reshape(wanted.shape), wanted, 4e-3)
