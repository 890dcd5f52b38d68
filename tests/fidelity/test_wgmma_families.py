"""Do the rungs of products on Hopper's asynchronous units that are predicted for validation leave NumPy's result?"""

from __future__ import annotations

from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest
from validation.predict import _by_rounds, _Runner

import gpusim
from gpusim.gpus.load import load_gpu
from workloads.external.wgmma_families import RUNGS, curve_table, launch_of

pytestmark = pytest.mark.usefixtures("without_source_lines")


@pytest.mark.nightly
@pytest.mark.parametrize("rung", RUNGS)
def test_tiles_of_a_rung(rung: str) -> None:
    """Eight tiles along n, the width of an area; blocks that stay take two each, and the tiles in flight go round."""
    made = RUNGS[rung]
    m, n, k = made.rows * made.cluster, made.columns * 8, 64 * (made.slots + 2)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((count, k)).astype(ml_dtypes.bfloat16) for count in (m, n))
    c = np.full((n, m), np.nan, ml_dtypes.bfloat16)
    timed = launch_of(made, a, b, c, blocks=4 * made.cluster)
    gpusim.capture(
        timed.kernel, timed.grid, timed.block, timed.arguments(None), gpu="h100", shared_bytes=timed.shared_bytes
    )
    right = b.astype(np.float32) @ a.astype(np.float32).T
    np.testing.assert_allclose(c.astype(np.float32), right, rtol=0.01, atol=0.01 * k**0.5)


def test_a_curve_deals_each_tile_once() -> None:
    table = curve_table(6, 10, 4)
    tiles = table[table >= 0]
    assert sorted(tiles) == [row << 16 | column for row in range(6) for column in range(10)]
    first = [(tile >> 16, tile & 65535) for tile in table[:, :3].T.ravel().tolist()]
    assert all(abs(x - u) + abs(y - v) == 1 for (x, y), (u, v) in pairwise(first))


@pytest.mark.nightly
def test_two_numbers_of_tiles_stand_for_all_that_a_block_takes() -> None:
    """A line through them, where each of two blocks takes four tiles."""
    a, b, c = (np.zeros(shape, np.uint16) for shape in ((128, 512), (2048, 512), (2048, 128)))
    timed = launch_of(RUNGS["7"], a, b, c, blocks=2)
    runner = _Runner(timed, load_gpu("h100"))
    made = _by_rounds(runner, "cold")
    assert made.scaled == "1 and 2 of 4 tiles a block"
    assert made.time_us == pytest.approx(runner.run(timed.grid).time_us, rel=0.05)
    assert made.instructions == len(runner.first.program.instructions)
