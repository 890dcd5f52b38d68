"""A 2-D convolution as a matrix product whose left operand is never built (implicit GEMM), in NHWC.

Row of the product: one output pixel. Column: one output channel. k: one weight of the filter, channels
fastest. The fetch turns (row, k) into a pixel of the input, or into zero where the filter overhangs.
"""

from __future__ import annotations

import functools

import numpy as np
from numba import cuda, float32

from .case import Case, Kernel, Launch, blocks_for, require_choice, require_positive
from .division import divide
from .gemm_operand import fetch_across, write_tile
from .gemm_tile import TILES, accumulator
from .vector import load_vector, vector_width


@functools.cache
def _fetch_pixels(filter_size: int, stride: int, padding: int, width: int):
    """Fetch ``width`` neighbouring channels of the input pixel that (output pixel, filter weight) meets."""

    @cuda.jit(device=True)
    def fetch(source, row, k, k_end, values):
        image, out_height, out_width = source
        _, height, columns, channels = image.shape
        tap, channel = divide(k, channels)
        tap_y, tap_x = divide(tap, filter_size)
        rest, out_x = divide(row, out_width)
        batch, out_y = divide(rest, out_height)
        y = out_y * stride - padding + tap_y
        x = out_x * stride - padding + tap_x
        inside = batch < image.shape[0] and k < k_end
        if inside and y >= 0 and y < height and x >= 0 and x < columns:
            start = ((batch * height + y) * columns + x) * channels + channel
            load_vector(values, 0, image, start, width)
        else:
            for i in range(width):
                values[i] = float32(0)

    return fetch


@functools.cache
def _kernel(width_of_tile: int, filter_size: int, stride: int, padding: int, c_width: int, n_width: int):
    tile = TILES[width_of_tile]
    pixels = _fetch_pixels(filter_size, stride, padding, c_width)
    accumulate = accumulator(tile, pixels, True, c_width, fetch_across(c_width), True, c_width)
    write = write_tile(tile, n_width)
    tile_m, tile_n, own = tile.m, tile.n, tile.thread_m * tile.thread_n

    @cuda.jit
    def conv2d_implicit_gemm(image, weights, out_height, out_width, out):
        """``image`` [batch, y, x, channel], ``weights`` [filter, y x channel], ``out`` [pixel, filter]."""
        sums = cuda.local.array(own, float32)
        for i in range(own):
            sums[i] = float32(0)
        first_row, first_column = cuda.blockIdx.x * tile_m, cuda.blockIdx.y * tile_n
        source = (image, out_height, out_width)
        accumulate(source, weights, first_row, first_column, 0, weights.shape[1], sums)
        write(out, first_row, first_column, sums)

    return conv2d_implicit_gemm


def make(
    *,
    batch: int,
    channels: int,
    size: int,
    filters: int,
    filter_size: int,
    stride: int,
    padding: int,
    tile: int,
    seed: int = 0,
) -> Case:
    require_positive(batch=batch, channels=channels, size=size, filters=filters, filter_size=filter_size, stride=stride)
    require_choice("tile", tile, TILES)
    if not 0 <= padding < filter_size or size + 2 * padding < filter_size:
        raise ValueError(f"a filter of {filter_size} does not fit {size} pixels padded by {padding}")
    rng = np.random.default_rng(seed)
    image = rng.standard_normal((batch, size, size, channels), np.float32)
    weights = rng.standard_normal((filters, filter_size, filter_size, channels), np.float32)
    flat = weights.reshape(filters, -1)
    out_size = (size + 2 * padding - filter_size) // stride + 1
    pixels, k = batch * out_size**2, flat.shape[1]
    out = np.zeros((pixels, filters), np.float32)

    def check() -> None:
        around = ((0, 0), (padding, padding), (padding, padding), (0, 0))
        padded = np.pad(image.astype(np.float64), around)
        windows = np.lib.stride_tricks.sliding_window_view(padded, (filter_size, filter_size), axis=(1, 2))
        expected = np.einsum("nyxcij,kijc->nyxk", windows[:, ::stride, ::stride], weights, optimize=True)
        np.testing.assert_allclose(out.reshape(expected.shape), expected, rtol=1e-4, atol=3e-6 * k**0.5)

    kernel = _kernel(
        tile,
        filter_size,
        stride,
        padding,
        vector_width(np.float32, channels),
        vector_width(np.float32, filters),
    )
    grid = (blocks_for(pixels, tile), blocks_for(filters, tile))
    arguments = (image, flat, out_size, out_size, out)
    return Case(
        launches=(Launch(kernel, grid, (TILES[tile].threads,), arguments),),
        check=check,
        work={
            "flops": 2.0 * pixels * filters * k,
            "bytes_read": 4.0 * (image.size + weights.size),
            "bytes_written": 4.0 * out.size,
        },
    )


KERNELS = {
    "conv2d_implicit_gemm": Kernel(
        name="conv2d_implicit_gemm",
        purpose="a matrix product whose operand is addressed by integer division and cached in L1 and L2",
        axes={
            "batch": (1, 8, 32),
            "channels": (3, 32, 64, 128),
            "size": (7, 14, 28, 56),
            "filters": (16, 64, 128),
            "filter_size": (1, 3, 5),
            "stride": (1, 2),
            "padding": (0, 1, 2),
            "tile": tuple(TILES),
        },
        default={
            "batch": 4,
            "channels": 64,
            "size": 28,
            "filters": 64,
            "filter_size": 3,
            "stride": 1,
            "padding": 1,
            "tile": 64,
        },
        small={
            "batch": 1,
            "channels": 4,
            "size": 7,
            "filters": 12,
            "filter_size": 3,
            "stride": 1,
            "padding": 1,
            "tile": 32,
        },
        make=make,
    )
}
