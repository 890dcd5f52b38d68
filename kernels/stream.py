"""Bandwidth against occupancy: one double a thread, streamed once.

The four patterns of the published stream curves (RRZE-HPC/gpu-benches, gpu-stream): the grid has
``n // block_threads + 1`` blocks, and dynamic shared memory that nobody uses is padded so that
exactly ``blocks_per_sm`` blocks fit on an SM. Elements are indexed unsigned, as the published CUDA
code's cost demands: for a signed index Numba adds the handling of negative ones to every access.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import cuda

from .case import Case, Kernel, Launch, require_block, require_positive, shared_padding_bytes

SCALAR = 1.25
NEVER = -1.0e300  # a value that no input holds


@cuda.jit
def init(a, scalar):
    thread = cuda.grid(1)
    if thread < a.size:
        i = np.uint64(thread)
        a[i] = scalar


@cuda.jit
def read(a, b, never):
    thread = cuda.grid(1)
    if thread < a.size:
        i = np.uint64(thread)
        value = b[i]
        if value == never:
            a[i] = value


@cuda.jit
def scale(a, b, scalar):
    thread = cuda.grid(1)
    if thread < a.size:
        i = np.uint64(thread)
        a[i] = b[i] * scalar


@cuda.jit
def triad(a, b, c, d):
    thread = cuda.grid(1)
    if thread < a.size:
        i = np.uint64(thread)
        a[i] = b[i] * d[i] + c[i]


@cuda.jit
def scaled_sum(a, b, c, scalar):
    thread = cuda.grid(1)
    if thread < a.size:
        i = np.uint64(thread)
        a[i] = b[i] * scalar + c[i]


AXES = {
    "n": (2**20 + 2, 2**22 + 2, 2**24 + 2, 2**28 + 2),
    "block_threads": (16, 32, 64, 128, 256, 512, 1024),
    "blocks_per_sm": (0, 1, 2, 4),
    "shared_bytes_per_sm": (64 * 1024, 164 * 1024, 228 * 1024),
}
DEFAULT = {"n": 2**22 + 2, "block_threads": 1024, "blocks_per_sm": 0, "shared_bytes_per_sm": 228 * 1024}
# 64 KiB: so small a padding fits an SM of every generation.
SMALL = {"n": 2050, "block_threads": 128, "blocks_per_sm": 2, "shared_bytes_per_sm": 64 * 1024}


def padded_launch(
    kernel, args: tuple, n: int, block_threads: int, blocks_per_sm: int, shared_bytes_per_sm: int
) -> Launch:
    """A launch of one thread an element with ``blocks_per_sm`` blocks an SM (0: as many as fit)."""
    require_positive(n=n)
    require_block(block_threads)
    padding = shared_padding_bytes(blocks_per_sm, shared_bytes_per_sm) if blocks_per_sm else 0
    return Launch(kernel, (n // block_threads + 1,), (block_threads,), args, shared_bytes=padding)


def _maker(build: Callable) -> Callable[..., Case]:
    """``build(n, rng, **more axes) -> kernel, args, output, expected, work, probes`` with its launch and check."""

    def make(
        *, n: int, block_threads: int, blocks_per_sm: int, shared_bytes_per_sm: int, seed: int = 0, **more: int
    ) -> Case:
        require_positive(n=n)
        kernel, args, output, expected, work, probes = build(n, np.random.default_rng(seed), **more)
        return Case(
            launches=(
                *probes,
                padded_launch(kernel, args, n, block_threads, blocks_per_sm, shared_bytes_per_sm),
            ),
            check=lambda: np.testing.assert_allclose(output, expected(), rtol=1e-15),
            work=work,
        )

    return make


def _init(n, rng):
    a = np.zeros(n)
    work = {"bytes_read": 0.0, "bytes_written": 8.0 * n}
    return init, (a, SCALAR), a, lambda: np.full(n, SCALAR), work, ()


def _read(n, rng):
    # The timed launch stores nothing, so a probe of one block shows that the comparison works: it
    # looks for a value that does occur, in a stretch of ``a`` of its own.
    a, b = rng.random(n), rng.random(n)
    untouched, probed = a.copy(), np.zeros(min(n, 64))
    wanted = b[probed.size // 2]
    probe = Launch(read, (1,), (64,), (probed, b, wanted), timed=False)

    def expected():
        found = b[: probed.size]
        np.testing.assert_array_equal(probed, np.where(found == wanted, found, 0))
        return untouched

    work = {"bytes_read": 8.0 * n, "bytes_written": 0.0}
    return read, (a, b, NEVER), a, expected, work, (probe,)


def _scale(n, rng):
    a, b = np.zeros(n), rng.random(n)
    work = {"bytes_read": 8.0 * n, "bytes_written": 8.0 * n, "flops": 1.0 * n}
    return scale, (a, b, SCALAR), a, lambda: b * SCALAR, work, ()


def _triad(n, rng, loads=3):
    if loads not in (2, 3):
        raise ValueError(f"loads must be 2 or 3, not {loads}")
    a, b, c = np.zeros(n), rng.random(n), rng.random(n)
    work = {"bytes_read": 8.0 * loads * n, "bytes_written": 8.0 * n, "flops": 2.0 * n}
    if loads == 2:
        return scaled_sum, (a, b, c, SCALAR), a, lambda: b * SCALAR + c, work, ()
    d = rng.random(n)
    return triad, (a, b, c, d), a, lambda: b * d + c, work, ()


KERNELS = {
    "stream_init": Kernel(
        name="stream_init",
        purpose="pure store bandwidth against occupancy: A[i] = c",
        axes=AXES,
        default=DEFAULT,
        small=SMALL,
        make=_maker(_init),
    ),
    "stream_read": Kernel(
        name="stream_read",
        purpose="pure load bandwidth against occupancy: B[i] read, compared, dropped",
        axes=AXES,
        default=DEFAULT,
        small=SMALL,
        make=_maker(_read),
    ),
    "stream_scale": Kernel(
        name="stream_scale",
        purpose="one load, one store: A[i] = B[i] * c",
        axes=AXES,
        default=DEFAULT,
        small=SMALL,
        make=_maker(_scale),
    ),
    "stream_triad": Kernel(
        name="stream_triad",
        purpose="three loads, one store: A[i] = B[i] * D[i] + C[i]; with two loads STREAM's: A[i] = B[i] * c + C[i]",
        axes=AXES | {"loads": (2, 3)},
        default=DEFAULT | {"loads": 3},
        small=SMALL | {"loads": 3},
        make=_maker(_triad),
    ),
}
