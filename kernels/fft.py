"""Batched complex Fourier transforms in shared memory: Stockham's algorithm, radix 4, one block a transform.

The indexing follows Govindaraju et al. ("High performance discrete Fourier transforms on graphics processors",
SC 2008): after a pass, pieces of ``span`` elements are transformed, and no bit reversal is needed.
"""

from __future__ import annotations

import numpy as np
from numba import complex64, cuda

from .case import Case, Kernel, Launch, require_positive


@cuda.jit(device=True)
def _times_minus_i(z):
    return complex64(complex(z.imag, -z.real))


@cuda.jit
def fft(source, target, twiddles):
    """A quarter of a transform's length in threads; ``twiddles[k]`` is exp(-2 pi i k / n)."""
    line = cuda.shared.array(0, complex64)
    j, quarter, n = cuda.threadIdx.x, cuda.blockDim.x, twiddles.size
    batch = cuda.blockIdx.x
    z0, z1 = source[batch, j], source[batch, j + quarter]
    z2, z3 = source[batch, j + 2 * quarter], source[batch, j + 3 * quarter]
    span, passes = 1, n
    while passes % 4 == 0:
        passes //= 4
    if passes == 2:
        # An odd power of two: one pass of radix 2 first, two butterflies a thread.
        line[2 * j], line[2 * j + 1] = z0 + z2, z0 - z2
        line[2 * (j + quarter)], line[2 * (j + quarter) + 1] = z1 + z3, z1 - z3
        span = 2
        cuda.syncthreads()
    while span < n:
        within = j % span
        if span > 1:
            step = within * (quarter // span)
            z0 = line[j]
            z1 = line[j + quarter] * twiddles[step]
            z2 = line[j + 2 * quarter] * twiddles[2 * step]
            z3 = line[j + 3 * quarter] * twiddles[3 * step]
            cuda.syncthreads()
        even, odd = z0 + z2, z1 + z3
        even_difference, odd_difference = z0 - z2, _times_minus_i(z1 - z3)
        place = (j - within) * 4 + within
        line[place] = even + odd
        line[place + span] = even_difference + odd_difference
        line[place + 2 * span] = even - odd
        line[place + 3 * span] = even_difference - odd_difference
        cuda.syncthreads()
        span *= 4
    for k in range(j, n, quarter):
        target[batch, k] = line[k]


def make(*, n: int, batches: int, seed: int = 0) -> Case:
    """``n``: length of a transform, a power of two from 4 to 4096."""
    require_positive(n=n, batches=batches)
    if n & (n - 1) or not 4 <= n <= 4096:
        raise ValueError(f"n must be a power of two from 4 to 4096, not {n}")
    rng = np.random.default_rng(seed)
    source = (rng.standard_normal((batches, n)) + 1j * rng.standard_normal((batches, n))).astype(np.complex64)
    target = np.zeros_like(source)
    twiddles = np.exp(-2j * np.pi * np.arange(n) / n).astype(np.complex64)

    def check() -> None:
        expected = np.fft.fft(source.astype(np.complex128))
        # Errors are relative to a transform's norm: log2(n) roundings, not to its smallest element.
        np.testing.assert_allclose(target, expected, atol=2e-6 * np.sqrt(n) * np.log2(n))

    elements = float(batches * n)
    return Case(
        launches=(Launch(fft, (batches,), (n // 4,), (source, target, twiddles), shared_bytes=8 * n),),
        check=check,
        work={"bytes_read": 8 * elements, "bytes_written": 8 * elements, "flops": 5 * elements * float(np.log2(n))},
    )


KERNELS = {
    "fft": Kernel(
        name="fft",
        purpose="Stockham transform in shared memory: power-of-four strides (bank conflicts), barriers, complex FMAs",
        axes={"n": (64, 256, 512, 1024, 2048, 4096), "batches": (1, 132, 1056)},
        default={"n": 1024, "batches": 264},
        small={"n": 128, "batches": 3},
        make=make,
    )
}
