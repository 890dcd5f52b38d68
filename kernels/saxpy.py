"""The first kernel everybody writes: y = a * x + y in single precision, one element a thread."""

from __future__ import annotations

import numpy as np
from numba import cuda

from .case import Case, Kernel, Launch, blocks_for, require_block, require_positive

#: Half a unit in the last place of single precision, and a little for the double precision that it is held against.
ROUNDING = 2.0**-24 * (1.0 + 1e-6)


@cuda.jit
def saxpy(a, x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


def make(*, n: int, block_threads: int, seed: int = 0) -> Case:
    require_positive(n=n)
    require_block(block_threads)
    rng = np.random.default_rng(seed)
    a = np.float32(2.5)
    x, y = rng.standard_normal(n, np.float32), rng.standard_normal(n, np.float32)
    out = np.zeros(n, np.float32)
    return Case(
        launches=(Launch(saxpy, (blocks_for(n, block_threads),), (block_threads,), (a, x, y, out)),),
        # The GPU fuses multiply and add: one rounding, so that nothing is further off than half a unit in the last
        # place, however much of the product the sum takes away. In double precision the product is exact.
        check=lambda: np.testing.assert_allclose(out, float(a) * x.astype(np.float64) + y, rtol=ROUNDING, atol=0.0),
        work={"bytes_read": 8.0 * n, "bytes_written": 4.0 * n, "flops": 2.0 * n},
    )


KERNELS = {
    "saxpy": Kernel(
        name="saxpy",
        purpose="the newcomer's first kernel: two loads, one FMA, one store",
        axes={"n": (1000, 65_536, 2**20, 2**24), "block_threads": (32, 64, 128, 256, 512, 1024)},
        default={"n": 2**20, "block_threads": 256},
        small={"n": 1000, "block_threads": 128},
        make=make,
    )
}
