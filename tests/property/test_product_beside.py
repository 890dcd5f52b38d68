"""A product and a collective at once: neither gains, what is bound by SMs loses SMs, what is bound by DRAM loses
bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim.errors import SpecError
from gpusim.gpus.load import load_gpu
from gpusim.tile.beside import shares_beside
from gpusim.tile.operators import GemmOp

H100 = load_gpu("h100")
SMALL, LARGE = GemmOp(32, 8192, 8192), GemmOp(8192, 8192, 4096)


@given(
    op=st.sampled_from([SMALL, LARGE, GemmOp(300, 4096, 1000), GemmOp(64, 512, 128, batch=16)]),
    channels=st.sampled_from([1, 8, 24, 100]),
    rate=st.sampled_from([0.0, 1e11, 1e12, 3e12]),
)
def test_neither_gains(op: GemmOp, channels: int, rate: float) -> None:
    found = shares_beside(H100, op, channels, rate)
    assert 0.0 < found.product <= 1.0 and 0.0 < found.collective <= 1.0
    more = shares_beside(H100, op, min(channels + 20, 131), rate)
    # Waves come out a little better or worse by who meets whom.
    assert more.product <= found.product * 1.05


def test_a_large_product_loses_sms_and_a_small_one_bytes() -> None:
    assert shares_beside(H100, LARGE, 24, 0.0).product == pytest.approx(1 - 24 / 132, abs=0.06)
    few, many = shares_beside(H100, SMALL, 24, 1e11), shares_beside(H100, SMALL, 24, 2e12)
    assert many.product < 0.9 < 0.95 < few.product
    # DRAM is shared by who asks: 24 of 132 SMs.
    assert few.collective == pytest.approx(1.0)
    assert 2e12 * many.collective == pytest.approx(24 / 132 * 3.0e12, rel=0.1)
    assert shares_beside(H100, LARGE, 1, 2e11).product > 0.9


def test_a_collective_that_leaves_no_sm_is_refused() -> None:
    with pytest.raises(SpecError, match="leaves the product none"):
        shares_beside(H100, SMALL, 132, 0.0)
