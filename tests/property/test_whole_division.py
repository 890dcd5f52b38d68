"""Are quotients by way of doubles those of whole numbers, right up to where they are said to be?"""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from gpusim.model.compiled import compiled
from gpusim.model.whole_division import quotient, remainder

_LIMIT = 1 << 52


@compiled
def both(number: int, divisor: int) -> tuple[int, int]:
    return quotient(number, divisor), remainder(number, divisor)


@given(st.integers(0, _LIMIT - 1), st.integers(1, 1 << 20) | st.integers(1, _LIMIT - 1))
@example(_LIMIT - 1, 1)
@example(_LIMIT - 1, 3)
@example(_LIMIT - 1, _LIMIT - 1)
@example(_LIMIT - 2, _LIMIT - 1)
@example(0, 1)
def test_a_quotient_is_exact(number, divisor):
    assert both(number, divisor) == divmod(number, divisor)


@given(st.integers(1, 1 << 26), st.integers(1, (1 << 26) - 1))
@example(49, 1)
def test_multiples_and_their_neighbours_are_told_apart(divisor, times):
    for number in (divisor * times - 1, divisor * times, divisor * times + 1):
        assert both(number, divisor) == divmod(number, divisor)
