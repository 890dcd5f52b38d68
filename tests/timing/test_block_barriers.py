"""Does a block's barrier take what others measured, and as many cycles more for each warp?"""

from __future__ import annotations

import pytest

from tools.block_barriers import MEASURED, simulated_cycles

pytestmark = pytest.mark.usefixtures("without_source_lines")


@pytest.mark.parametrize(("gpu", "warps"), [("v100", 8), ("v100", 32), ("h100", 8), ("h100", 32)])
def test_a_barrier_takes_what_was_measured(gpu: str, warps: int) -> None:
    kernel, cycles = MEASURED[gpu]
    assert simulated_cycles(gpu, kernel, warps) == pytest.approx(cycles[warps], rel=0.02)


def test_each_warp_of_the_block_takes_two_cycles_of_the_sm() -> None:
    kernel, cycles = MEASURED["b300"]
    few, many = (simulated_cycles("b300", kernel, warps) for warps in (4, 32))
    assert many - few == pytest.approx(cycles[32] - cycles[4], rel=0.03)
