"""Global atomics on few addresses: additions of whole and floating numbers, and a compare-and-swap loop."""

from __future__ import annotations

import numpy as np
from numba import cuda

from .case import Case, Kernel, Launch, require_block, require_positive

CEILING = 1 << 30
#: Threads step through the addresses by this stride from update to update; prime, so that all are met.
STRIDE = 7919


@cuda.jit
def add(cells, updates):
    i = cuda.grid(1)
    for u in range(updates):
        cuda.atomic.add(cells, (i + u * STRIDE) % cells.size, cells.dtype.type(1 + (i & 3)))


@cuda.jit
def add_saturating(cells, updates):
    """There is no such atomic: read, compute, and swap if nobody came between."""
    i = cuda.grid(1)
    for u in range(updates):
        cell = (i + u * STRIDE) % cells.size
        seen = cells[cell]
        while True:
            wanted = min(seen + 1 + (i & 3), CEILING)
            found = cuda.atomic.cas(cells, cell, seen, wanted)
            if found == seen:
                break
            seen = found


_FORMS = {
    "int32_add": (add, np.int32),
    "float32_add": (add, np.float32),
    "float64_add": (add, np.float64),
    "int32_cas": (add_saturating, np.int32),
}


def make(*, form: str, addresses: int, updates: int, block_threads: int, blocks: int, seed: int = 0) -> Case:
    """``addresses``: neighbouring words that all threads share; ``updates``: atomics a thread."""
    require_positive(addresses=addresses, updates=updates, blocks=blocks)
    require_block(block_threads)
    if form not in _FORMS:
        raise ValueError(f"form must be one of {', '.join(_FORMS)}, not {form!r}")
    kernel, dtype = _FORMS[form]
    before = np.random.default_rng(seed).integers(0, 100, addresses)
    cells = before.astype(dtype)
    threads = np.arange(blocks * block_threads)

    def check() -> None:
        expected = before.astype(np.int64)
        for u in range(updates):
            expected += np.bincount((threads + u * STRIDE) % addresses, 1 + (threads & 3), addresses).astype(np.int64)
        # Whole numbers below 2**24: floating sums are exact in any order.
        np.testing.assert_array_equal(cells, np.minimum(expected, CEILING))

    return Case(
        launches=(Launch(kernel, (blocks,), (block_threads,), (cells, updates)),),
        check=check,
        work={"atomics": float(threads.size * updates)},
    )


KERNELS = {
    "atomic_contention": Kernel(
        name="atomic_contention",
        purpose="global atomics that collide: rate against the number of addresses, and retries of a CAS loop",
        axes={
            "form": tuple(_FORMS),
            "addresses": (1, 2, 8, 32, 256, 4096, 2**16),
            "updates": (1, 4, 16),
            "block_threads": (32, 128, 256),
            "blocks": (1, 16, 132),
        },
        default={"form": "int32_add", "addresses": 32, "updates": 4, "block_threads": 256, "blocks": 132},
        small={"form": "int32_cas", "addresses": 5, "updates": 2, "block_threads": 48, "blocks": 2},
        make=make,
    )
}
