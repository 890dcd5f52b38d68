"""A direct 2-D convolution in NCHW: an input patch in shared memory, several output channels a thread."""

from __future__ import annotations

import functools

import numpy as np
from numba import cuda, float32

from .case import Case, Kernel, Launch, blocks_for, require_choice, require_positive

PATCH = 16  # output pixels of a block along each direction; a thread each
FILTERS = 8  # output channels of a block; each thread keeps one sum for each


@functools.cache
def _kernel(filter_size: int, stride: int):
    reach = (PATCH - 1) * stride + filter_size
    taps = filter_size * filter_size
    pixels, weights_at_once = reach * reach, FILTERS * taps
    threads = PATCH * PATCH

    @cuda.jit
    def conv2d_direct(image, weights, padding, out):
        """``image`` [batch, channel, y, x], ``weights`` [filter, channel, y x], ``out`` [batch, filter, y, x]."""
        patch = cuda.shared.array(pixels, float32)
        taken = cuda.shared.array((FILTERS, taps), float32)
        sums = cuda.local.array(FILTERS, float32)
        filters, channels = weights.shape[0], weights.shape[1]
        height, width = image.shape[2], image.shape[3]
        groups = (filters + FILTERS - 1) // FILTERS
        batch = cuda.blockIdx.z // groups
        first_filter = cuda.blockIdx.z % groups * FILTERS
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        thread = ty * PATCH + tx
        left = cuda.blockIdx.x * PATCH * stride - padding
        top = cuda.blockIdx.y * PATCH * stride - padding
        for f in range(FILTERS):
            sums[f] = float32(0)
        for channel in range(channels):
            for i in range(thread, pixels, threads):
                y, x = top + i // reach, left + i % reach
                inside = y >= 0 and y < height and x >= 0 and x < width
                patch[i] = image[batch, channel, y, x] if inside else float32(0)
            for i in range(thread, weights_at_once, threads):
                f = i // taps
                known = first_filter + f < filters
                taken[f, i % taps] = weights[first_filter + f, channel, i % taps] if known else float32(0)
            cuda.syncthreads()
            for dy in range(filter_size):
                for dx in range(filter_size):
                    value = patch[(ty * stride + dy) * reach + tx * stride + dx]
                    for f in range(FILTERS):
                        sums[f] += value * taken[f, dy * filter_size + dx]
            cuda.syncthreads()
        y, x = cuda.blockIdx.y * PATCH + ty, cuda.blockIdx.x * PATCH + tx
        if y < out.shape[2] and x < out.shape[3]:
            for f in range(FILTERS):
                if first_filter + f < filters:
                    out[batch, first_filter + f, y, x] = sums[f]

    return conv2d_direct


def make(
    *,
    batch: int,
    channels: int,
    height: int,
    width: int,
    filters: int,
    filter_size: int,
    stride: int,
    padding: int,
    seed: int = 0,
) -> Case:
    require_positive(batch=batch, channels=channels, height=height, width=width, filters=filters)
    require_choice("filter_size", filter_size, (1, 3, 5, 7))
    require_choice("stride", stride, (1, 2))
    if not 0 <= padding < filter_size or min(height, width) + 2 * padding < filter_size:
        raise ValueError(f"a filter of {filter_size} does not fit {height} x {width} padded by {padding}")
    groups = blocks_for(filters, FILTERS)
    if batch * groups > 65_535:
        raise ValueError(f"batch x filters / {FILTERS} must be at most 65535, not {batch * groups}")
    rng = np.random.default_rng(seed)
    image = rng.standard_normal((batch, channels, height, width), np.float32)
    weights = rng.standard_normal((filters, channels, filter_size**2), np.float32)
    out_height = (height + 2 * padding - filter_size) // stride + 1
    out_width = (width + 2 * padding - filter_size) // stride + 1
    out = np.zeros((batch, filters, out_height, out_width), np.float32)
    k = channels * filter_size**2

    def check() -> None:
        around = ((0, 0), (0, 0), (padding, padding), (padding, padding))
        padded = np.pad(image.astype(np.float64), around)
        windows = np.lib.stride_tricks.sliding_window_view(padded, (filter_size, filter_size), axis=(2, 3))
        square = weights.reshape(filters, channels, filter_size, filter_size)
        expected = np.einsum("ncyxij,kcij->nkyx", windows[:, :, ::stride, ::stride], square, optimize=True)
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=3e-6 * k**0.5)

    grid = (blocks_for(out_width, PATCH), blocks_for(out_height, PATCH), batch * groups)
    kernel = _kernel(filter_size, stride)
    return Case(
        launches=(Launch(kernel, grid, (PATCH, PATCH), (image, weights, padding, out)),),
        check=check,
        work={
            "flops": 2.0 * out.size * k,
            "bytes_read": 4.0 * (image.size + weights.size),
            "bytes_written": 4.0 * out.size,
        },
    )


KERNELS = {
    "conv2d_direct": Kernel(
        name="conv2d_direct",
        purpose="a halo in shared memory, weights read as broadcast, a barrier a channel, FMA from registers",
        axes={
            "batch": (1, 8),
            "channels": (1, 3, 32, 64),
            "height": (14, 56, 224),
            "width": (14, 56, 224),
            "filters": (8, 32, 64),
            "filter_size": (1, 3, 5, 7),
            "stride": (1, 2),
            "padding": (0, 1, 2, 3),
        },
        default={
            "batch": 4,
            "channels": 32,
            "height": 56,
            "width": 56,
            "filters": 32,
            "filter_size": 3,
            "stride": 1,
            "padding": 1,
        },
        small={
            "batch": 1,
            "channels": 2,
            "height": 9,
            "width": 14,
            "filters": 9,
            "filter_size": 3,
            "stride": 1,
            "padding": 1,
        },
        make=make,
    )
}
