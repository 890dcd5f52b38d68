"""Blocks of a launch in clusters: the order in which they run, which of them are resident together, and their barrier.

Mental model: a cluster's blocks begin together, each in a slot of its own that knows where the others' shared memory
lies. Blocks of a cluster are no neighbours in the grid's numbering unless it is one block high: a *band* is a stretch
of the numbering that holds whole clusters only, and the trace is cut between bands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpusim.emulator.tensor_memory import tell_rank
from gpusim.emulator.work_taking import CLUSTERS, STARTED, TAKEN, TOTAL, WAVE
from gpusim.isa import warp as at
from gpusim.isa.architectures import nearest
from gpusim.launch.kernel_launch import KernelLaunch

Shape = tuple[int, int, int]
#: Registers are given to a warp in units of so many.
_REGISTER_UNIT = 256


def work_of(launch: KernelLaunch) -> np.ndarray:
    """``work`` of a launch whose clusters take over others (:mod:`gpusim.emulator.work_taking`), none of which has."""
    blocks = launch.grid[0] * launch.grid[1] * launch.grid[2]
    work = np.zeros(CLUSTERS + blocks // launch.cluster_blocks, np.int64)
    work[TOTAL], work[WAVE] = len(work) - CLUSTERS, _first_wave(launch)
    return work


def _first_wave(launch: KernelLaunch) -> int:
    """Clusters that the GPU holds at once, one at least."""
    row, image = nearest(launch.binary.capability), launch.image
    warps = -(-launch.block[0] * launch.block[1] * launch.block[2] // at.LANES)
    registers = -(-max(1, image.registers_per_thread) * at.LANES // _REGISTER_UNIT) * _REGISTER_UNIT
    shared = image.shared_bytes + launch.dynamic_shared_bytes + row.reserved_shared_bytes
    an_sm = min(row.sm_blocks, row.sm_warps // warps, launch.target.registers // (registers * warps))
    an_sm = min(an_sm, row.sm_shared_bytes // shared) if shared else an_sm
    return max(1, launch.target.sm_count * an_sm // launch.cluster_blocks)


class ClusterOrder:
    """The blocks of a ``grid`` in the order in which they run: cluster by cluster (x fastest), by rank in each.
    ``work``: as :func:`work_of` makes it, None where no cluster takes over others."""

    def __init__(self, grid: Shape, cluster: Shape, work: np.ndarray | None = None) -> None:
        self._grid, self._cluster, self._work = grid, cluster, work
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

    def past_taken(self, place: int, end: int) -> int:
        """The first place from ``place`` on, ``end`` at most, whose cluster has not been taken over."""
        while self._work is not None and place < end and self._work[CLUSTERS + place // self.size] == TAKEN:
            place += self.size
        return place

    def start(self, place: int) -> None:
        """The cluster of the block at ``place`` starts: it cannot be taken over any more."""
        if self._work is not None and self._work[CLUSTERS + place // self.size] == 0:
            if place // self.size >= self._work[WAVE]:
                self._work[CLUSTERS + place // self.size] = STARTED

    def open_blocks(self, pending: int, resident: Sequence[int]) -> tuple[int, int]:
        """(the first block behind the bands that have begun, the blocks before it from the first band on that has not
        ended), while those before place ``pending`` have begun and the blocks ``resident`` go on."""
        end = -(-pending // self.band) * self.band
        unfinished = [self.place(block) for block in resident] + ([pending] if pending < end else [])
        return end, end - min(unfinished) // self.band * self.band if unfinished else 0


@dataclass(eq=False)
class ResidentCluster:
    """The blocks of one cluster that have not ended: the state of each (STATE record) by rank, None for one that
    has."""

    states: list[np.record | None]

    @staticmethod
    def together(states: Sequence[np.record], blocks: Sequence[int]) -> ResidentCluster:
        """Put ``blocks`` (numbers in the grid, by rank) into the slots with ``states``: each learns where the others
        are."""
        for state in states:
            for rank, (peer, block) in enumerate(zip(states, blocks, strict=True)):
                state.peer_shared[rank], state.peer_block[rank] = peer.shared_host, block
                state.peer_tensor[rank] = peer.tensor_host
        for rank, state in enumerate(states):
            if state.tensor_host:
                tell_rank(state, rank)
        return ResidentCluster(list(states))

    def leave(self, rank: int) -> None:
        """The block of rank ``rank`` has ended: its shared memory is gone, and nobody waits for it."""
        self.states[rank] = None
        for other in self.states:
            if other is not None:
                other.peer_shared[rank] = other.peer_tensor[rank] = 0

    def release(self) -> bool:
        """Let all go who wait at the cluster's barrier if every thread that has not ended has arrived there; False if
        one has not."""
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
