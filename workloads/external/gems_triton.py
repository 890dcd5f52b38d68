"""Kernels of a library of PyTorch's operators in Triton, and a tutorial's sum of vectors, after their descriptions.

Mental model: a program a row, which holds all of it in registers, or tiles of 512 elements: one a program, or as many
as a grid of 65,536 programs leaves.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def vector_add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < n
    x = tl.load(x_ptr + place, mask=inside)
    y = tl.load(y_ptr + place, mask=inside)
    tl.store(out_ptr + place, x + y, mask=inside)


@triton.jit
def logcumsumexp(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    """The logarithm of the running sum of a row's exponentials."""
    first = tl.program_id(0) * columns
    place = tl.arange(0, BLOCK)
    inside = place < columns
    x = tl.load(x_ptr + first + place, mask=inside, other=float("-inf")).to(tl.float32)
    most = tl.max(x)
    running = tl.cumsum(tl.exp(x - most), axis=0)
    tl.store(out_ptr + first + place, most + tl.log(running), mask=inside)


@triton.jit(do_not_specialize=["eps"])
def fused_rms_norm(out_ptr, inverse_ptr, x_ptr, weight_ptr, pitch, columns, eps, BLOCK: tl.constexpr):
    """A row over its root mean square, times weights; the reciprocal root is kept beside it."""
    row = tl.program_id(0)
    place = tl.arange(0, BLOCK)
    inside = place < columns
    x = tl.load(x_ptr + row * pitch + place, mask=inside, other=0.0).to(tl.float32)
    inverse = 1 / tl.sqrt(tl.sum(x * x, axis=0) / columns + eps)
    weight = tl.load(weight_ptr + place, mask=inside, other=0.0)
    tl.store(out_ptr + row * pitch + place, x * inverse * weight, mask=inside)
    tl.store(inverse_ptr + row, inverse)


@triton.jit
def _add_relu_tile(x_ptr, y_ptr, n, tile, TILE: tl.constexpr):
    place = tile * TILE + tl.arange(0, TILE)
    inside = place < n
    total = tl.load(x_ptr + place, mask=inside) + tl.load(y_ptr + place, mask=inside)
    tl.store(x_ptr + place, tl.where(total > 0, total, 0), mask=inside)


@triton.jit
def add_relu(x_ptr, y_ptr, n, tiles, TILE: tl.constexpr, ONE: tl.constexpr):
    """x + y in the place of x, zero where that is negative; ``tiles`` of each program, as far apart as there are
    programs."""
    program = tl.program_id(0)
    if ONE:
        _add_relu_tile(x_ptr, y_ptr, n, program, TILE)
    else:
        programs = tl.num_programs(0)
        for turn in range(0, tiles):
            _add_relu_tile(x_ptr, y_ptr, n, program + turn * programs, TILE)
