"""What a round of a kernel takes, and what a row of a table is.

Mental model: launches of two numbers of rounds; what the longer one takes more, over its further rounds, is a round without its start and end.
"""

from __future__ import annotations

import gpusim

#: What is compared, measured and simulated: cycles, or what the table says.
Row = tuple[str, float, float]


def cycles_a_round(kernel, grid: int, block: int, rounds: tuple[int, int], spec, args, **options) -> float:
    """Cycles a round: of launches of two numbers of ``rounds``, for each of which ``args`` gives the arguments."""
    cycles = [gpusim.simulate(gpusim.capture(kernel, grid, block, args(n), **options), spec).cycles for n in rounds]
    return (cycles[1] - cycles[0]) / (rounds[1] - rounds[0])
