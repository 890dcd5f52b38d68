"""Do additions that meet in L2 go as fast as others measured, on one word, on one line, and on lines that share atomic
units?"""

from __future__ import annotations

import pytest

from tools.atomic_units import MEASURED, simulated_gops

pytestmark = pytest.mark.usefixtures("without_source_lines")

#: The units' rates are set from these figures by one number for a lane and one for a sector, so that no single one is
#: met.
NEAR = 0.22


@pytest.mark.parametrize(
    ("gpu", "words", "apart_bytes"),
    [("h100", 1, 4), ("h100", 4, 128), ("h100", 32, 4), ("h100", 32, 128), ("h100", 256, 4), ("rtx5090", 256, 4)],
)
def test_additions_that_meet_go_as_fast_as_was_measured(gpu: str, words: int, apart_bytes: int) -> None:
    blocks, rates = MEASURED[gpu]
    assert simulated_gops(gpu, blocks, words, apart_bytes) == pytest.approx(rates[words, apart_bytes], rel=NEAR)


def test_eight_lines_have_two_units() -> None:
    """And not one or eight: what one line reaches, twice."""
    one, eight = (simulated_gops("h100", 16, words, 4) for words in (32, 256))
    assert eight / one == pytest.approx(2, rel=0.15)
