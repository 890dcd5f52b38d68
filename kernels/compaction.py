"""Stream compaction: the elements above a threshold, packed, in no particular order.

The warp-aggregated filter: a ballot tells every lane its place among the chosen of its warp, and one atomic
a warp reserves room for all of them.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, int32

from .block_scan import FULL_WARP
from .case import Case, Kernel, Launch, blocks_for, require_block, require_positive


@cuda.jit
def compaction(values, threshold, chosen, positions, count):
    i = cuda.grid(1)
    keep = False
    value = values.dtype.type(0)
    if i < values.size:
        value = values[i]
        keep = value > threshold
    votes = cuda.ballot_sync(FULL_WARP, keep)
    if votes != 0:
        lane = cuda.laneid
        first = int32(0)
        if lane == 0:
            first = cuda.atomic.add(count, 0, cuda.popc(votes))
        first = cuda.shfl_sync(FULL_WARP, first, 0)
        if keep:
            place = first + cuda.popc(votes & ((1 << lane) - 1))
            chosen[place] = value
            positions[place] = i


def make(*, n: int, selectivity: float, block_threads: int, seed: int = 0) -> Case:
    """``selectivity`` in [0, 1]: the expected share of elements that pass."""
    require_positive(n=n)
    require_block(block_threads, multiple=32)
    if not 0 <= selectivity <= 1:
        raise ValueError(f"selectivity must lie in [0, 1], not {selectivity!r}")
    values = np.random.default_rng(seed).random(n, np.float32)
    threshold = np.float32(1 - selectivity)
    chosen, positions = np.zeros(n, np.float32), np.full(n, -1, np.int32)
    count = np.full(1, 0, np.int32)
    expected = np.flatnonzero(values > threshold)

    def check() -> None:
        assert count[0] == expected.size, f"{count[0]} elements chosen, not {expected.size}"
        order = np.argsort(positions[: expected.size])
        np.testing.assert_array_equal(positions[: expected.size][order], expected)
        np.testing.assert_array_equal(chosen[: expected.size][order], values[expected])
        assert (positions[expected.size :] == -1).all()

    return Case(
        launches=(
            Launch(
                compaction,
                (blocks_for(n, block_threads),),
                (block_threads,),
                (values, threshold, chosen, positions, count),
            ),
        ),
        check=check,
        work={"bytes_read": 4.0 * n, "bytes_written": 8.0 * expected.size, "elements": float(n)},
    )


KERNELS = {
    "compaction": Kernel(
        name="compaction",
        purpose="a filter with ballots: one atomic a warp on one address, stores of varying width",
        axes={
            "n": (10_000, 2**20, 2**22),
            "selectivity": (0.01, 0.1, 0.5, 0.9, 1.0),
            "block_threads": (64, 128, 256, 512, 1024),
        },
        default={"n": 2**20, "selectivity": 0.5, "block_threads": 256},
        small={"n": 2003, "selectivity": 0.3, "block_threads": 96},
        make=make,
    )
}
