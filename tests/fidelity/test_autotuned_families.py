"""Is the Triton product of the validation bench right on NumPy's word, in whole groups of tiles and in a short one?"""

from __future__ import annotations

import numpy as np
import pytest

import gpusim
from workloads.external import autotuned_families as families

pytest.importorskip("triton")


@pytest.mark.parametrize(("rows", "block_m"), [(128, 64), (288, 32)], ids=["one group", "a whole group and a short one"])
def test_a_product_by_tiles(rows: int, block_m: int) -> None:
    row = {"rows": rows, "columns": 64, "depth": 96, "block_m": block_m, "block_n": 32, "block_k": 32, "stages": 3, "warps": 4}
    timed = families.autotuned_mm(row)
    args, random = timed.arguments(None), np.random.default_rng(3)
    for each in args[:2]:
        each[...] = random.integers(-3, 4, each.shape)
    gpusim.capture(timed.kernel, timed.grid, timed.block, args, gpu="a100_40gb")
    np.testing.assert_array_equal(args[2], args[0].astype(np.float32) @ args[1].astype(np.float32).T)
