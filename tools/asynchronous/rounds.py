"""What a round of a kernel takes, and what a row of a table is.

Mental model: launches of two numbers of rounds; what the longer one takes more, over its further rounds, is a round
without its start and end.
"""

from __future__ import annotations

from collections.abc import Callable

import gpusim

#: What is compared, measured and simulated: cycles, or what the table says.
Row = tuple[str, float, float]


def per_round(cycles: Callable[[int], float], rounds: tuple[int, int]) -> float:
    """Cycles a round, where a launch of so many rounds takes ``cycles``."""
    few, many = (cycles(number) for number in rounds)
    return (many - few) / (rounds[1] - rounds[0])


def cycles_a_round(kernel, grid: int, block: int, rounds: tuple[int, int], spec, args, **options) -> float:
    """Cycles a round of one kernel, for each of whose numbers of ``rounds`` ``args`` gives the arguments."""

    def cycles(number: int) -> int:
        return gpusim.simulate(gpusim.capture(kernel, grid, block, args(number), **options), spec).cycles

    return per_round(cycles, rounds)
