"""Numbers of blocks in the order in which they are dispatched: cluster after cluster.

Mental model: as :class:`gpusim.emulator.clusters.ClusterOrder`, for compiled code.
"""

from __future__ import annotations

from gpusim.model.compiled import compiled


@compiled
def block_at(cluster, shape, grid, place):
    """Number in the grid of the block at ``place`` in the order of dispatch. ``cluster``: blocks of one; ``shape`` its
    sides, ``grid`` those of the grid, in x, y, z."""
    if cluster == 1:
        return place
    number, rank = place // cluster, place % cluster
    block, scale = 0, 1
    for axis in range(3):
        clusters = grid[axis] // shape[axis]
        block += scale * (number % clusters * shape[axis] + rank % shape[axis])
        number, rank, scale = number // clusters, rank // shape[axis], scale * grid[axis]
    return block
