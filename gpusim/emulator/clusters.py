"""Blocks of a launch in clusters: the order in which they run, which of them are resident together, and their barrier.

Mental model: a cluster's blocks take their places together, each in a slot of its own that knows where the others' shared memory
lies. Blocks of a cluster are no neighbours in the grid's numbering unless it is one block high: a *band* is a stretch of
the numbering that holds whole clusters only, and the trace is cut between bands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpusim.isa import warp as at

Shape = tuple[int, int, int]


class ClusterOrder:
    """The blocks of a ``grid`` in the order in which they run: cluster by cluster (x fastest), by rank in each."""

    def __init__(self, grid: Shape, cluster: Shape) -> None:
        self._grid, self._cluster = grid, cluster
        self._clusters = tuple(whole // part for whole, part in zip(grid, cluster, strict=True))
        #: blocks of a cluster
        self.size = cluster[0] * cluster[1] * cluster[2]
        #: blocks of a band
        self.band = self.size
        if cluster[2] > 1:
            self.band = grid[0] * grid[1] * cluster[2]
        elif cluster[1] > 1:
            self.band = grid[0] * cluster[1]

    def block(self, place: int) -> int:
        """Number in the grid of the block that has place ``place`` in this order."""
        if self.size == 1:
            return place
        number, rank = divmod(place, self.size)
        linear, scale = 0, 1
        for whole, part, clusters in zip(self._grid, self._cluster, self._clusters, strict=True):
            linear += scale * (number % clusters * part + rank % part)
            number, rank, scale = number // clusters, rank // part, scale * whole
        return linear

    def place(self, block: int) -> int:
        """The place in this order of the block with number ``block``."""
        if self.size == 1:
            return block
        number, rank, clusters_before, before = 0, 0, 1, 1
        for whole, part, clusters in zip(self._grid, self._cluster, self._clusters, strict=True):
            block, index = divmod(block, whole)
            number += clusters_before * (index // part)
            rank += before * (index % part)
            clusters_before, before = clusters_before * clusters, before * part
        return number * self.size + rank

    def band_end(self, place: int) -> int:
        """The first block behind the band of those before ``place``: all before it have a place in whole bands."""
        return -(-place // self.band) * self.band

    def band_start(self, place: int) -> int:
        """The first block of the band that ``place`` lies in."""
        return place // self.band * self.band


@dataclass(eq=False)
class ResidentCluster:
    """The blocks of one cluster that have not ended: the state of each (STATE record) by rank, None for one that has."""

    states: list[np.record | None]

    @staticmethod
    def seat(states: Sequence[np.record], blocks: Sequence[int]) -> ResidentCluster:
        """Put ``blocks`` (numbers in the grid, by rank) into the slots with ``states``: each learns where the others are."""
        for state in states:
            for rank, (peer, block) in enumerate(zip(states, blocks, strict=True)):
                state.peer_shared[rank], state.peer_block[rank] = peer.shared_host, block
        return ResidentCluster(list(states))

    def leave(self, rank: int) -> None:
        """The block of rank ``rank`` has ended: its shared memory is gone, and nobody waits for it."""
        self.states[rank] = None
        for other in self.states:
            if other is not None:
                other.peer_shared[rank] = 0

    def release(self) -> bool:
        """Let all go who wait at the cluster's barrier if every thread that has not ended has arrived there; False if one has not."""
        present = [state for state in self.states if state is not None]
        if not present or not all(state.started and _has_arrived(state) for state in present):
            return False
        for state in present:
            waiting = state.fragment == at.AT_CLUSTER
            state.fragment[waiting] = at.READY
            state.pc[waiting] += 1
            state.ready[:] += waiting.sum(axis=1)
            state.cluster_arrived[:] = 0
        return True


def _has_arrived(state: np.record) -> bool:
    warps = int(state.warps)
    return not (state.live[:warps] & ~state.cluster_arrived[:warps]).any()
