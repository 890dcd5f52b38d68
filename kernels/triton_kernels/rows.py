"""A program a row: softmax, layer norm forward and backward, RMS norm, cross entropy, argmax."""

from __future__ import annotations

from functools import partial

import numpy as np
import triton
import triton.language as tl

from ..case import Case, Kernel, Launch, require_positive

EPSILON = 1e-5
_WARPS = (1, 2, 4, 8)


@triton.jit
def softmax(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    place = tl.arange(0, BLOCK)
    inside = place < columns
    x = tl.load(x_ptr + row * columns + place, mask=inside, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * columns + place, e / tl.sum(e, axis=0), mask=inside)


@triton.jit
def layernorm(x_ptr, weight_ptr, bias_ptr, out_ptr, mean_ptr, rstd_ptr, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    place = tl.arange(0, BLOCK)
    inside = place < columns
    x = tl.load(x_ptr + row * columns + place, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / columns
    centred = tl.where(inside, x - mean, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + eps)
    weight = tl.load(weight_ptr + place, mask=inside)
    bias = tl.load(bias_ptr + place, mask=inside)
    tl.store(out_ptr + row * columns + place, centred * rstd * weight + bias, mask=inside)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)


@triton.jit
def layernorm_dx(
    x_ptr, weight_ptr, dout_ptr, mean_ptr, rstd_ptr, dx_ptr, dweight_ptr, dbias_ptr, rows, columns, BLOCK: tl.constexpr
):
    """dx of every row that is this program's, and its share of the sums over rows."""
    program, programs = tl.program_id(0), tl.num_programs(0)
    place = tl.arange(0, BLOCK)
    inside = place < columns
    weight = tl.load(weight_ptr + place, mask=inside, other=0.0)
    dweight = tl.zeros((BLOCK,), tl.float32)
    dbias = tl.zeros((BLOCK,), tl.float32)
    for row in range(program, rows, programs):
        x = tl.load(x_ptr + row * columns + place, mask=inside, other=0.0)
        dout = tl.load(dout_ptr + row * columns + place, mask=inside, other=0.0)
        rstd = tl.load(rstd_ptr + row)
        normal = tl.where(inside, (x - tl.load(mean_ptr + row)) * rstd, 0.0)
        scaled = weight * dout
        first = tl.sum(normal * scaled, axis=0) / columns
        second = tl.sum(scaled, axis=0) / columns
        tl.store(dx_ptr + row * columns + place, (scaled - (normal * first + second)) * rstd, mask=inside)
        dweight += dout * normal
        dbias += dout
    tl.store(dweight_ptr + program * columns + place, dweight, mask=inside)
    tl.store(dbias_ptr + program * columns + place, dbias, mask=inside)


@triton.jit
def column_sums(parts_ptr, sums_ptr, rows, columns, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """sums[columns] of parts[rows, columns]."""
    column = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    total = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    for first in range(0, rows, BLOCK_R):
        row = first + tl.arange(0, BLOCK_R)
        inside = (row[:, None] < rows) & (column[None, :] < columns)
        total += tl.load(parts_ptr + row[:, None] * columns + column[None, :], mask=inside, other=0.0)
    tl.store(sums_ptr + column, tl.sum(total, axis=0), mask=column < columns)


@triton.jit
def rmsnorm(x_ptr, weight_ptr, out_ptr, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    place = tl.arange(0, BLOCK)
    inside = place < columns
    x = tl.load(x_ptr + row * columns + place, mask=inside, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + place, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, axis=0) / columns + eps)
    tl.store(out_ptr + row * columns + place, (x * scale * weight).to(tl.float16), mask=inside)


@triton.jit
def cross_entropy(logits_ptr, labels_ptr, losses_ptr, vocabulary, BLOCK: tl.constexpr):
    """The loss of a row in one pass over it: maximum and sum are corrected as larger logits are met."""
    row = tl.program_id(0)
    place = tl.arange(0, BLOCK)
    largest = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, vocabulary, BLOCK):
        x = tl.load(logits_ptr + row * vocabulary + first + place, mask=first + place < vocabulary, other=-1e30)
        above = tl.maximum(largest, x)
        total = total * tl.exp(largest - above) + tl.exp(x - above)
        largest = above
    most = tl.max(largest, axis=0)
    log_sum = most + tl.log(tl.sum(total * tl.exp(largest - most), axis=0))
    label = tl.load(labels_ptr + row)
    tl.store(losses_ptr + row, log_sum - tl.load(logits_ptr + row * vocabulary + label))


@triton.jit
def argmax(x_ptr, place_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    place = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + place, mask=place < columns, other=-float("inf"))
    tl.store(place_ptr + row, tl.argmax(x, axis=0))


def make_softmax(*, rows: int, columns: int, warps: int, seed: int = 0) -> Case:
    require_positive(rows=rows, columns=columns)
    x = (8 * np.random.default_rng(seed).standard_normal((rows, columns))).astype(np.float32)
    out = np.zeros_like(x)

    def check() -> None:
        e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
        np.testing.assert_allclose(out, e / e.sum(axis=1, keepdims=True), rtol=1e-4, atol=1e-7)

    args = (x, out, columns, triton.next_power_of_2(columns))
    return _case(
        Launch(partial(softmax, num_warps=warps), (rows,), None, args), check, 4.0 * x.size, 4.0 * x.size, 5.0 * x.size
    )


def make_layernorm(*, rows: int, columns: int, warps: int, seed: int = 0) -> Case:
    require_positive(rows=rows, columns=columns)
    random = np.random.default_rng(seed)
    x, weight, bias = (random.standard_normal(s).astype(np.float32) for s in ((rows, columns), columns, columns))
    out, mean, rstd = np.zeros_like(x), np.zeros(rows, np.float32), np.zeros(rows, np.float32)

    def check() -> None:
        mean_, rstd_ = _statistics(x)
        np.testing.assert_allclose(out, (x - mean_) * rstd_ * weight + bias, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(rstd, rstd_[:, 0], rtol=1e-4)

    args = (x, weight, bias, out, mean, rstd, columns, EPSILON, triton.next_power_of_2(columns))
    return _case(
        Launch(partial(layernorm, num_warps=warps), (rows,), None, args),
        check,
        4.0 * x.size,
        4.0 * x.size,
        8.0 * x.size,
    )


def make_layernorm_backward(*, rows: int, columns: int, programs: int, warps: int, seed: int = 0) -> Case:
    require_positive(rows=rows, columns=columns, programs=programs)
    random = np.random.default_rng(seed)
    x, dout = (random.standard_normal((rows, columns)).astype(np.float32) for _ in range(2))
    weight = random.standard_normal(columns).astype(np.float32)
    mean, rstd = (np.ascontiguousarray(each[:, 0], np.float32) for each in _statistics(x))
    dx, parts = np.zeros_like(x), [np.zeros((programs, columns), np.float32) for _ in range(2)]
    sums = [np.zeros(columns, np.float32) for _ in range(2)]

    def check() -> None:
        mean_, rstd_ = _statistics(x)
        normal, scaled = (x - mean_) * rstd_, dout * weight.astype(np.float64)
        wanted = scaled - normal * (normal * scaled).mean(axis=1, keepdims=True) - scaled.mean(axis=1, keepdims=True)
        np.testing.assert_allclose(dx, wanted * rstd_, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(sums[0], (dout * normal).sum(axis=0), rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(sums[1], dout.astype(np.float64).sum(axis=0), rtol=1e-3, atol=1e-3)

    block = triton.next_power_of_2(columns)
    first = (x, weight, dout, mean, rstd, dx, *parts, rows, columns, block)
    launches = [Launch(partial(layernorm_dx, num_warps=warps), (programs,), None, first)]
    for part, total in zip(parts, sums):
        launches.append(
            Launch(column_sums, (triton.cdiv(columns, 64),), None, (part, total, programs, columns, 16, 64))
        )
    return Case(
        tuple(launches), check, {"bytes_read": 8.0 * x.size, "bytes_written": 4.0 * x.size, "flops": 12.0 * x.size}
    )


def make_rmsnorm(*, rows: int, columns: int, warps: int, seed: int = 0) -> Case:
    require_positive(rows=rows, columns=columns)
    random = np.random.default_rng(seed)
    x, weight = (random.standard_normal(s).astype(np.float16) for s in ((rows, columns), columns))
    out = np.zeros_like(x)

    def check() -> None:
        wide = x.astype(np.float64)
        wanted = wide / np.sqrt((wide**2).mean(axis=1, keepdims=True) + EPSILON) * weight
        np.testing.assert_allclose(out, wanted, rtol=2e-3, atol=2e-3)

    args = (x, weight, out, columns, EPSILON, triton.next_power_of_2(columns))
    return _case(
        Launch(partial(rmsnorm, num_warps=warps), (rows,), None, args), check, 2.0 * x.size, 2.0 * x.size, 4.0 * x.size
    )


def make_cross_entropy(*, rows: int, vocabulary: int, block: int, seed: int = 0) -> Case:
    require_positive(rows=rows, vocabulary=vocabulary, block=block)
    random = np.random.default_rng(seed)
    logits = (4 * random.standard_normal((rows, vocabulary))).astype(np.float32)
    labels = random.integers(0, vocabulary, rows, dtype=np.int32)
    losses = np.zeros(rows, np.float32)

    def check() -> None:
        wide = logits.astype(np.float64)
        wanted = np.log(np.exp(wide).sum(axis=1)) - wide[np.arange(rows), labels]
        np.testing.assert_allclose(losses, wanted, rtol=1e-4, atol=1e-4)

    args = (logits, labels, losses, vocabulary, block)
    return _case(Launch(cross_entropy, (rows,), None, args), check, 4.0 * logits.size, 4.0 * rows, 4.0 * logits.size)


def make_argmax(*, rows: int, columns: int, warps: int, seed: int = 0) -> Case:
    require_positive(rows=rows, columns=columns)
    x = np.random.default_rng(seed).integers(0, 50, (rows, columns)).astype(np.float32)
    places = np.full(rows, -1, np.int32)

    def check() -> None:
        np.testing.assert_array_equal(places, x.argmax(axis=1))

    args = (x, places, columns, triton.next_power_of_2(columns))
    return _case(
        Launch(partial(argmax, num_warps=warps), (rows,), None, args), check, 4.0 * x.size, 4.0 * rows, 1.0 * x.size
    )


def _statistics(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    wide = x.astype(np.float64)
    return wide.mean(axis=1, keepdims=True), 1 / np.sqrt(wide.var(axis=1, keepdims=True) + EPSILON)


def _case(launch: Launch, check, read: float, written: float, flops: float) -> Case:
    return Case((launch,), check, {"bytes_read": read, "bytes_written": written, "flops": flops})


_AXES = {"rows": (16, 256, 1024, 4096), "columns": (64, 500, 1024, 4096), "warps": _WARPS}
_DEFAULT = {"rows": 512, "columns": 1024, "warps": 4}
_SMALL = {"rows": 3, "columns": 150, "warps": 2}

KERNELS = {
    each.name: each
    for each in (
        Kernel(
            "triton_softmax",
            "a row in registers: two reductions over a block's warps, exponentials",
            _AXES,
            _DEFAULT,
            _SMALL,
            make_softmax,
        ),
        Kernel(
            "triton_layernorm",
            "mean and variance of a row held in registers, written beside the result",
            _AXES,
            _DEFAULT,
            _SMALL,
            make_layernorm,
        ),
        Kernel(
            "triton_layernorm_backward",
            "rows shared out over programs, whose partial sums a second kernel adds up",
            {"rows": (16, 256, 1024), "columns": (64, 500, 1024), "programs": (8, 64, 256), "warps": _WARPS},
            {"rows": 512, "columns": 1024, "programs": 64, "warps": 4},
            {"rows": 5, "columns": 70, "programs": 3, "warps": 2},
            make_layernorm_backward,
        ),
        Kernel(
            "triton_rmsnorm",
            "half-precision rows, accumulated in single precision, by one reciprocal root",
            _AXES,
            _DEFAULT,
            _SMALL,
            make_rmsnorm,
        ),
        Kernel(
            "triton_cross_entropy",
            "a long row in steps, maximum and sum corrected on the way, and one gathered logit",
            {"rows": (16, 128, 512), "vocabulary": (1000, 32000, 50257), "block": (256, 1024, 4096)},
            {"rows": 64, "vocabulary": 32000, "block": 1024},
            {"rows": 3, "vocabulary": 300, "block": 128},
            make_cross_entropy,
        ),
        Kernel(
            "triton_argmax",
            "a reduction over pairs of value and place, the first of equal ones",
            _AXES,
            _DEFAULT,
            _SMALL,
            make_argmax,
        ),
    )
}
