"""Mandelbrot set: each thread iterates its point until it escapes, so lanes of a warp part ways."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32

from .case import Case, Kernel, Launch, blocks_for, require_block, require_positive

LEFT, TOP, WIDTH, HEIGHT = -2.0, -1.25, 2.5, 2.5


@cuda.jit
def mandelbrot(counts, left, top, step_x, step_y, limit):
    column, row = cuda.grid(2)
    if row < counts.shape[0] and column < counts.shape[1]:
        real = left + float32(column) * step_x
        imaginary = top + float32(row) * step_y
        x = y = float32(0)
        count = 0
        while count < limit and x * x + y * y <= float32(4):
            x, y = x * x - y * y + real, float32(2) * x * y + imaginary
            count += 1
        counts[row, column] = count


def _escape_counts(real: np.ndarray, imaginary: np.ndarray, limit: int) -> np.ndarray:
    c = real[None, :] + 1j * imaginary[:, None]
    z, counts = np.zeros_like(c), np.zeros(c.shape, np.int32)
    for _ in range(limit):
        inside = z.real**2 + z.imag**2 <= 4
        counts += inside
        z = np.where(inside, z * z + c, z)
    return counts


def make(*, rows: int, columns: int, limit: int, block_x: int, block_y: int, seed: int = 0) -> Case:
    """``limit``: iterations after which a point counts as inside. ``seed`` moves the picture a little."""
    require_positive(rows=rows, columns=columns, limit=limit, block_x=block_x, block_y=block_y)
    require_block(block_x * block_y)
    shift = np.random.default_rng(seed).random(2) * 1e-3
    left, top = np.float32(LEFT + shift[0]), np.float32(TOP + shift[1])
    step_x, step_y = np.float32(WIDTH / columns), np.float32(HEIGHT / rows)
    counts = np.full((rows, columns), -1, np.int32)

    def check() -> None:
        # Single precision and double part near the set's edge. Points whose count does not
        # change when the picture moves by a few roundings must agree exactly.
        real = left + step_x * np.arange(columns, dtype=np.float64)
        imaginary = top + step_y * np.arange(rows, dtype=np.float64)
        expected, stable = _escape_counts(real, imaginary, limit), np.ones(counts.shape, bool)
        for dx, dy in ((2e-6, 0), (-2e-6, 0), (0, 2e-6), (0, -2e-6)):
            stable &= _escape_counts(real + dx, imaginary + dy, limit) == expected
        assert stable.mean() > 0.8
        np.testing.assert_array_equal(counts[stable], expected[stable])

    args = (counts, left, top, step_x, step_y, limit)
    grid = (blocks_for(columns, block_x), blocks_for(rows, block_y))
    return Case(
        launches=(Launch(mandelbrot, grid, (block_x, block_y), args),),
        check=check,
        work={"points": float(rows * columns), "bytes_read": 0.0, "bytes_written": 4.0 * rows * columns},
    )


KERNELS = {
    "mandelbrot": Kernel(
        name="mandelbrot",
        purpose="loops of unequal length: lanes and blocks that end at very different times, FMAs alone",
        axes={
            "rows": (64, 512, 1024),
            "columns": (64, 512, 1024),
            "limit": (32, 128, 256, 1024),
            "block_x": (8, 16, 32),
            "block_y": (4, 8, 16),
        },
        default={"rows": 512, "columns": 512, "limit": 128, "block_x": 16, "block_y": 8},
        small={"rows": 21, "columns": 37, "limit": 24, "block_x": 8, "block_y": 4},
        make=make,
    )
}
