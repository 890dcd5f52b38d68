"""Factors within which the level's share of the next network's shapes lie, from the errors of measured ones.

Mental model: who projects an operator asks of a network whose shapes nobody measured, and shapes of one network (the
same weights or heads, other tokens) err alike. So what counts as one, and what is exchangeable with the next, is the
*network*: its shapes have the weight of one together, and the next network stands beside them with an error that is not
known, which raises the quantile (conformal prediction for hierarchical data; Lee, Barber and Willett 2023, HCP). Of few
networks that is their worst shape, so a region leans on the same GPU's other regions with the weight of
LEANING_NETWORKS more.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from gpusim.tile.bands import LEVEL_PERCENT

#: Weight, in networks, of what all regions say of one, no more than those have: as validation's POOL_SETS, with which a
#: network that is left out lies within at 75 to 92 % (``tools/tile_operators.py KIND ROWS --bands``).
LEANING_NETWORKS = 4.0
Regions = Iterable[tuple[str, np.ndarray]]


def networks_of(shapes: pd.DataFrame, columns: Iterable[str]) -> np.ndarray:
    """A number a shape, the same for shapes of the same weights or heads: of the same values in those of ``columns``
    that there are."""
    return shapes.groupby([name for name in columns if name in shapes], sort=False).ngroup().to_numpy()


def _weights(networks: np.ndarray) -> tuple[int, np.ndarray]:
    """Networks, and a weight a shape, one for each network together."""
    _, place, counts = np.unique(networks, return_inverse=True, return_counts=True)
    return len(counts), 1.0 / counts[place]


def factor_of(inside: np.ndarray, off: np.ndarray, networks: np.ndarray) -> float:
    """The factor of the shapes that are ``inside`` a region, bool[shapes], of all shapes' relative errors ``off`` and
    their ``networks``."""
    sizes = np.abs(np.log1p(off))
    own, weights = _weights(networks[inside])
    every, every_weights = _weights(networks)
    leaning = min(LEANING_NETWORKS, every)
    values = np.concatenate([sizes[inside], sizes])
    reached = np.concatenate([weights, every_weights * leaning / every])
    order = np.argsort(values, kind="stable")
    cumulated = np.cumsum(reached[order])
    # The next network is one more, above all that are known.
    target = LEVEL_PERCENT / 100 * (own + leaning + 1)
    return float(np.exp(values[order][min(np.searchsorted(cumulated, target - 1e-9), len(values) - 1)]))


def band_rows(regions: Regions, off: np.ndarray, networks: np.ndarray, least: int = 1) -> dict[str, dict[str, float]]:
    """Region -> its factor, and of how many shapes and networks; of regions with ``least`` shapes or more. ``regions``:
    name, bool[shapes]."""
    return {
        name: {"factor": round(factor_of(inside, off, networks), 3), "shapes": int(inside.sum()), "networks": len(np.unique(networks[inside]))}
        for name, inside in regions
        if inside.sum() >= least
    }  # fmt: skip


def held_without(inside: np.ndarray, off: np.ndarray, networks: np.ndarray) -> np.ndarray:
    """Whether each shape inside the region lies within the factor that all networks but its own make, bool[shapes
    inside]."""
    held = np.zeros(len(off), bool)
    for network in np.unique(networks[inside]):
        own = networks == network
        if (inside & ~own).any():
            factor = factor_of((inside & ~own)[~own], off[~own], networks[~own])
            held |= own & (np.abs(np.log1p(off)) <= np.log(factor))
    return held[inside]
