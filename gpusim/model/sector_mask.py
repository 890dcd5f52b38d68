"""Sector masks: bit i of a small integer stands for sector i of a line."""

from __future__ import annotations

from gpusim.model.bit_sets import population
from gpusim.model.compiled import compiled


@compiled
def popcount(mask: int) -> int:
    """How many sectors the mask names."""
    return population(mask)


@compiled
def whole_groups(mask: int, group_sectors: int, line_sectors: int) -> int:
    """The mask grown to aligned groups of ``group_sectors`` sectors."""
    group = (1 << group_sectors) - 1
    grown = 0
    while group < (1 << line_sectors):
        if mask & group:
            grown |= group
        group <<= group_sectors
    return grown
