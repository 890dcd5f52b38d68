"""Small launches of the Triton kernels of `tools/triton_kinds.py`, each with what it has to leave in its arrays.

Mental model: a case is a function that makes the launch of a kind anew, with the kind's own constants and options, and
a check against NumPy. Operands of products are whole numbers, whose sums are exact in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from gluon_cases import whole
from triton_kinds import KINDS

import gpusim
from gpusim.launch.memory import DeviceMemory

_FLOATS = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}


class Launch(NamedTuple):
    """What ``gpusim.capture`` takes, and ``check``, which raises AssertionError."""

    kernel: Any
    grid: tuple[int, ...]
    args: tuple
    check: Callable[[], None]
    memory: DeviceMemory | None


def _launch(
    kind: str, grid: tuple[int, ...], args: tuple, check: Callable[[], None], memory: DeviceMemory | None = None
) -> Launch:
    kernel = KINDS[kind]
    return Launch(gpusim.triton(kernel.kernel, **kernel.constants, **kernel.options), grid, args, check, memory)


def near(got: np.ndarray, wanted: np.ndarray, share: float, least: float = 0.0) -> None:
    """AssertionError, unless all are within a share of what is wanted, or ``least`` of it."""
    np.testing.assert_allclose(got.astype(np.float32), wanted.astype(np.float32), rtol=share, atol=least)


def _normal(*shape: int, kind: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(kind)


def softmax() -> Launch:
    x = _normal(3, 1000)
    out = np.zeros_like(x)
    raised = np.exp(x - x.max(1, keepdims=True))
    wanted = raised / raised.sum(1, keepdims=True)
    return _launch("softmax", (2,), (out, x, 3, 1000, 1000), lambda: near(out, wanted, 1e-5))


def dropout() -> Launch:
    x, out = _normal(1500), np.full(1500, 9, np.float32)

    def check() -> None:
        kept = out != 0
        near(out[kept], x[kept] / np.float32(0.25), 1e-6)
        assert 0.2 < kept.mean() < 0.3

    return _launch("dropout", (2,), (out, x, 1500, 0.25, 7), check)


def arcsine() -> Launch:
    x, out = np.linspace(-1, 1, 1500, dtype=np.float32), np.full(1500, 9, np.float32)
    return _launch("libdevice", (2,), (out, x, 1500), lambda: near(out, np.arcsin(x), 1e-6, 1e-7))


def norm() -> Launch:
    x, weight, bias = _normal(2, 1500, kind=np.float16), _normal(1500), _normal(1501)[:1500].copy()
    out, mean, scale = np.zeros_like(x), np.zeros(2, np.float32), np.zeros(2, np.float32)
    wide = x.astype(np.float32)
    middle, factor = wide.mean(1), 1 / np.sqrt(wide.var(1) + 1e-5)

    def check() -> None:
        near(mean, middle, 1e-5, 1e-6)
        near(scale, factor, 1e-5)
        near(out, (wide - middle[:, None]) * factor[:, None] * weight + bias, 2e-3, 2e-3)

    return _launch("norm", (2,), (out, x, weight, bias, mean, scale, 1500), check)


def norm_backward() -> Launch:
    """Rows 0 and 64 add to one partial sum, behind its lock."""
    rows, columns, groups = 65, 200, KINDS["norm_backward"].constants["GROUPS"]
    x, dy, weight = _normal(rows, columns), _normal(columns, rows).T.copy(), _normal(columns)
    mean, scale = x.mean(1), (1 / np.sqrt(x.var(1) + 1e-5)).astype(np.float32)
    dx, partial_sums, locks = np.zeros_like(x), np.zeros((groups, columns), np.float32), np.zeros(2 * groups, np.int32)
    centred = (x - mean[:, None]) * scale[:, None]
    weighted = weight * dy
    both = (centred * weighted).mean(1, keepdims=True)
    wanted = (weighted - (centred * both + weighted.mean(1, keepdims=True))) * scale[:, None]
    sums = dy * centred
    sums[0] += sums[64]

    def check() -> None:
        near(dx, wanted, 1e-4, 1e-5)
        near(partial_sums, sums[:64], 1e-5, 1e-6)
        assert not locks[:groups].any()

    return _launch("norm_backward", (rows,), (dx, dy, partial_sums, x, weight, mean, scale, locks, columns), check)


def product(kind: str, element: Any) -> Launch:
    m, n, k = 256, 128, 80
    a, b, c = whole(m, k, dtype=element), whole(k, n, dtype=element), np.zeros((m, n), np.float16)
    sums = a.astype(np.float32) @ b.astype(np.float32)
    wanted = np.where(sums >= 0, sums, np.float32(0.01) * sums).astype(np.float16)
    return _launch(kind, (2, 1), (c, a, b, m, n, k), lambda: np.testing.assert_array_equal(c, wanted))


def persistent(kind: str, element: Any) -> Launch:
    m, n, k = 300, 272, 144
    a, b = (whole(rows, k, dtype=element, low=-1, high=2) for rows in (m, n))
    c = np.zeros((m, n), element)
    wanted = (a.astype(np.float32) @ b.astype(np.float32).T).astype(element)
    check = lambda: near(c, wanted, 0)  # noqa: E731
    return _launch(kind, (2,), (c, a, b, m, n, k), check)


def grouped() -> Launch:
    """Two products, whose arrays the kernel finds by their addresses."""
    memory = DeviceMemory()
    sizes = np.array([(200, 136, 80), (64, 128, 144)], np.int32)
    arrays = [
        (whole(m, k, low=-1, high=2), whole(n, k, low=-1, high=2), np.zeros((m, n), np.float16)) for m, n, k in sizes
    ]
    places = [[memory.address_of(each) for each in one] for one in arrays]
    pointers = np.array(places, np.int64)

    def check() -> None:
        for a, b, c in arrays:
            np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)

    return _launch("grouped", (3,), (pointers, sizes, 2), check, memory)


def attention(kind: str, element: Any = np.float16) -> Launch:
    """Two heads. In eight bits, the exponentials are rounded before they are multiplied, relative to the greatest so
    far."""
    heads, length, depth = 2, 256, KINDS[kind].constants["D"]
    q, k, v = (_normal(heads * length, depth + i, kind=element)[:, :depth].copy() for i in range(3))
    out, lse = np.zeros_like(q), np.zeros(heads * length, np.float32)
    factor = float(np.float32(1.44269504 / np.sqrt(depth)))
    of_q, of_k, of_v = (each.astype(np.float32).reshape(heads, length, depth) for each in (q, k, v))
    score = of_q @ of_k.transpose(0, 2, 1) * factor
    if KINDS[kind].constants["CAUSAL"]:
        score = np.where(np.tri(length, dtype=bool), score, -np.inf)
    most = score.max(2, keepdims=True)
    p = np.exp2(score - most)
    weight = p.sum(2, keepdims=True)
    rounding = 0.25 if element is not np.float16 else 4e-3

    def check() -> None:
        # The sum that the kernel keeps begins at one, times what the first tile of keys makes of it: nothing, behind no
        # greatest.
        near(lse, (most + np.log2(weight)).reshape(-1), 1e-2 if element is not np.float16 else 1e-4, 1e-3)
        near(out, (p @ of_v / weight).reshape(out.shape), rounding, rounding / 4)

    return _launch(kind, (length // 128, heads), (out, lse, q, k, v, factor, length), check)


def attention_backward() -> Launch:
    length, depth = 256, 64
    q, k, v, do = (_normal(length, depth + i, kind=np.float16)[:, :depth].copy() for i in range(4))
    factor = float(np.float32(1.44269504 / np.sqrt(depth)))
    wide = [each.astype(np.float32) for each in (q, k, v, do)]
    score = np.where(np.tri(length, dtype=bool), wide[0] @ wide[1].T * factor, -np.inf)
    lse = (np.log2(np.exp2(score).sum(1))).astype(np.float32)
    p = np.exp2(score - lse[:, None])
    delta = (wide[3] * (p @ wide[2])).sum(1).astype(np.float32)
    ds = p * (wide[3] @ wide[2].T - delta[:, None])
    dk, dv = np.zeros_like(k), np.zeros_like(v)

    def check() -> None:
        near(dv, p.T @ wide[3], 5e-3, 5e-3)
        near(dk, ds.T @ wide[0] * factor, 5e-3, 5e-3)

    return _launch("attention_backward", (2,), (dk, dv, q, k, v, do, lse, delta, factor, length), check)


def _operand(kind: str, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """128 rows of k: their values, and as they lie in memory."""
    random = np.random.default_rng(seed)
    values = random.choice([-4, -2, -1, -0.5, 0, 0.5, 1, 2, 3, 4], (128, k)).astype(np.float32)
    if kind == "e2m1":
        codes = values.astype(ml_dtypes.float4_e2m1fn).view(np.uint8) & 15
        return values, (codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8)
    return values, values.astype(_FLOATS[kind])


def _scales(k: int, group: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Of 128 rows, one a group: their values, and as they lie in memory, in pieces of 512: 32 rows, four times 32 rows,
    four groups."""
    values = 2.0 ** np.random.default_rng(seed).integers(-2, 3, (128, k // group))
    held = values.astype(ml_dtypes.float8_e4m3fn) if group == 16 else (np.log2(values) + 127).astype(np.uint8)
    return values, held.reshape(4, 32, k // group // 4, 4).transpose(2, 1, 0, 3).copy().reshape(-1)


def scaled(kind: str) -> Launch:
    constants = KINDS[kind].constants
    k, group = 2 * constants["K"], constants["GROUP"]
    (a, held_a), (b, held_b) = _operand(constants["A"], k, 1), _operand(constants["B"], k, 2)
    (of_a, scales_a), (of_b, scales_b) = _scales(k, group, 3), _scales(k, group, 4)
    c = np.zeros((128, 128), np.float16)
    wanted = ((a * np.repeat(of_a, group, 1)) @ (b * np.repeat(of_b, group, 1)).T).astype(np.float16)
    check = lambda: np.testing.assert_array_equal(c, wanted)  # noqa: E731
    return _launch(kind, (1, 1), (c, held_a, held_b, scales_a, scales_b, 128, 128, k), check)


CASES: dict[str, Callable[[], Launch]] = {
    "softmax": softmax,
    "dropout": dropout,
    "libdevice": arcsine,
    "norm": norm,
    "norm_backward": norm_backward,
    "product_fp16": partial(product, "product_fp16", np.float16),
    "product_fp8": partial(product, "product_fp8", _FLOATS["e5m2"]),
    "product_fp32": partial(product, "product_fp32", np.float32),
    "product_cluster": partial(product, "product_cluster", np.float16),
    "persistent_fp16": partial(persistent, "persistent_fp16", np.float16),
    "persistent_fp8": partial(persistent, "persistent_fp8", _FLOATS["e4m3"]),
    "persistent_special": partial(persistent, "persistent_special", np.float16),
    "persistent_special_wide": partial(persistent, "persistent_special_wide", np.float16),
    "grouped": grouped,
    "attention_fp16": partial(attention, "attention_fp16"),
    "attention_causal": partial(attention, "attention_causal"),
    "attention_fp8": partial(attention, "attention_fp8", _FLOATS["e5m2"]),
    "attention_special": partial(attention, "attention_special"),
    "attention_special_causal": partial(attention, "attention_special_causal"),
    "attention_backward": attention_backward,
    **{name: partial(scaled, name) for name in ("scaled_mxfp8", "scaled_mxfp4", "scaled_nvfp4", "scaled_mixed")},
}
