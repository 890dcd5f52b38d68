"""2-D pooling in NCHW, one output a thread: the maximum with its place (as training needs), and the mean."""

from __future__ import annotations

import functools

import numpy as np
from numba import cuda, float32, int32

from .case import Case, Kernel, Launch, blocks_for, require_block, require_positive
from .division import divide


@functools.cache
def _maximum(window: int, stride: int):
    @cuda.jit
    def maxpool2d(image, padding, out, places):
        """``image`` [plane, y, x]; ``places`` the winner's y x width + x, the first of equals."""
        y, x = divide(cuda.grid(1), out.shape[2])
        plane = cuda.blockIdx.y
        if y >= out.shape[1]:
            return
        height, width = image.shape[1], image.shape[2]
        best = float32(-np.inf)
        place = int32(-1)
        for dy in range(window):
            for dx in range(window):
                row, column = y * stride - padding + dy, x * stride - padding + dx
                if row >= 0 and row < height and column >= 0 and column < width:
                    value = image[plane, row, column]
                    if value > best or place < 0:
                        best, place = value, int32(row * width + column)
        out[plane, y, x] = best
        places[plane, y, x] = place

    return maxpool2d


@functools.cache
def _mean(window: int, stride: int):
    @cuda.jit
    def avgpool2d(image, padding, out):
        """The mean over the part of the window inside the image."""
        y, x = divide(cuda.grid(1), out.shape[2])
        plane = cuda.blockIdx.y
        if y >= out.shape[1]:
            return
        height, width = image.shape[1], image.shape[2]
        total = float32(0)
        for dy in range(window):
            for dx in range(window):
                row, column = y * stride - padding + dy, x * stride - padding + dx
                if row >= 0 and row < height and column >= 0 and column < width:
                    total += image[plane, row, column]
        top, left = y * stride - padding, x * stride - padding
        rows = min(top + window, height) - max(top, 0)
        columns = min(left + window, width) - max(left, 0)
        out[plane, y, x] = total / float32(rows * columns)

    return avgpool2d


def _windows(image: np.ndarray, window: int, stride: int, padding: int, filler: float) -> np.ndarray:
    """[plane, y, x, window, window], the padding filled with ``filler``."""
    around = ((0, 0), (padding, padding), (padding, padding))
    padded = np.pad(image, around, constant_values=filler)
    return np.lib.stride_tricks.sliding_window_view(padded, (window, window), axis=(1, 2))[:, ::stride, ::stride]


def _make(
    largest: bool,
    *,
    planes: int,
    height: int,
    width: int,
    window: int,
    stride: int,
    padding: int,
    block_threads: int,
    seed: int = 0,
) -> Case:
    require_positive(planes=planes, height=height, width=width, window=window, stride=stride)
    require_block(block_threads)
    if not 0 <= 2 * padding <= window or min(height, width) + 2 * padding < window:
        raise ValueError(f"a window of {window} does not fit {height} x {width} padded by {padding}")
    if planes > 65_535:
        raise ValueError(f"planes must be at most 65535, not {planes}")
    image = np.random.default_rng(seed).standard_normal((planes, height, width), np.float32)
    out_height = (height + 2 * padding - window) // stride + 1
    out_width = (width + 2 * padding - window) // stride + 1
    out = np.zeros((planes, out_height, out_width), np.float32)
    places = np.full(out.shape, -1, np.int32)

    def check() -> None:
        if not largest:
            seen = _windows(image.astype(np.float64), window, stride, padding, np.nan)
            np.testing.assert_allclose(out, np.nanmean(seen, axis=(3, 4)), rtol=1e-5, atol=1e-6)
            return
        seen = _windows(image, window, stride, padding, -np.inf)
        np.testing.assert_array_equal(out, seen.max(axis=(3, 4)))
        numbers = np.arange(height * width).reshape(1, height, width)
        where = _windows(numbers, window, stride, padding, -1)
        where = np.broadcast_to(where, seen.shape).reshape(*out.shape, -1)
        winner = seen.reshape(*out.shape, -1).argmax(axis=-1)
        np.testing.assert_array_equal(places, np.take_along_axis(where, winner[..., None], -1)[..., 0])

    grid = (blocks_for(out_height * out_width, block_threads), planes)
    kernel = (_maximum if largest else _mean)(window, stride)
    arguments = (image, padding, out, places) if largest else (image, padding, out)
    return Case(
        launches=(Launch(kernel, grid, (block_threads,), arguments),),
        check=check,
        work={
            "bytes_read": 4.0 * image.size,
            "bytes_written": (8.0 if largest else 4.0) * out.size,
            "flops": float(out.size * window**2),
        },
    )


_AXES = {
    "planes": (1, 64, 512),
    "height": (7, 28, 56, 112),
    "width": (7, 28, 56, 112),
    "window": (2, 3, 7),
    "stride": (1, 2, 3),
    "padding": (0, 1),
    "block_threads": (64, 128, 256),
}
_DEFAULT = {
    "planes": 128,
    "height": 56,
    "width": 56,
    "window": 3,
    "stride": 2,
    "padding": 1,
    "block_threads": 128,
}
_SMALL = {
    "planes": 2,
    "height": 11,
    "width": 14,
    "window": 3,
    "stride": 2,
    "padding": 1,
    "block_threads": 64,
}

KERNELS = {
    "maxpool2d": Kernel(
        name="maxpool2d",
        purpose="overlapping windows from L1, compares and selects, predicated borders, two outputs",
        axes=_AXES,
        default=_DEFAULT,
        small=_SMALL,
        make=functools.partial(_make, True),
    ),
    "avgpool2d": Kernel(
        name="avgpool2d",
        purpose="overlapping strided windows from L1, a sum and one division an output",
        axes=_AXES,
        default=_DEFAULT,
        small=_SMALL,
        make=functools.partial(_make, False),
    ),
}
