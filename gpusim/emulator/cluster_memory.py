"""Shared memory of the other blocks of a cluster (distributed shared memory): which bytes an address names.

Mental model: the blocks of a cluster are resident together, each with shared memory of its own, and have ranks. A
shared::cluster address is a byte offset with the rank of the block above it (``mapa`` puts it there), 32 bits in all; a
generic address has the same 32 bits below the window of shared memory. An address of the block's own shared memory is
formed with the block's own rank, and instructions that reach no further (LDS and its kin) look at the offset alone.
"""

from __future__ import annotations

import numpy as np

from gpusim.isa import warp as at
from gpusim.isa.jit import inlined, inner
from gpusim.trace.layout import RANK_SHIFT

_OFFSET = (1 << RANK_SHIFT) - 1
_RANK = 0xFF
#: No host address: what the address names is not there.
NO_PEER = 0


@inlined
def rank_of(address):
    """Rank of the block that a shared::cluster address, or a generic one of shared memory, names."""
    return (address >> RANK_SHIFT) & _RANK


@inlined
def offset_of(address):
    """Shared address within that block, counted as ``state.shared_base`` is."""
    return address & _OFFSET


@inner
def peer_shared(state, rank, offset, size):
    """Host address of ``size`` bytes from shared address ``offset`` (counted as ``state.shared_base`` is) of the block
    with rank ``rank`` of the running block's cluster; NO_PEER if they are not all there: the cluster has no such block,
    it has ended, or the bytes are beyond its shared memory."""
    if rank < 0 or rank >= state.cluster_size:
        return np.int64(NO_PEER)
    start = offset - state.shared_base
    if state.peer_shared[rank] == 0 or offset < state.shared_low or start + size > state.shared_bytes:
        return np.int64(NO_PEER)
    return state.peer_shared[rank] + start


@inner
def cluster_host(state, address, size):
    """:func:`peer_shared` of the ``size`` bytes at a shared::cluster address, or at a generic one in the window of
    shared memory."""
    return peer_shared(state, rank_of(address), offset_of(address), size)


@inlined
def own_shared(state, address):
    """The address as one of the block's own shared memory: the block's own rank is taken out of it."""
    if state.cluster_rank and rank_of(address) == state.cluster_rank and address >> 32 == 0:
        return address & _OFFSET
    return address


@inlined
def is_own(state, address):
    """Whether a generic address in the window of shared memory is one of the block's own."""
    return rank_of(address) == state.cluster_rank


@inner
def peer_rank(state, block):
    """Rank in the running block's cluster of the block number ``block``; -1: it is of no such rank."""
    for rank in range(min(state.cluster_size, np.int64(at.MAX_CLUSTER))):
        if state.peer_block[rank] == block:
            return np.int64(rank)
    return np.int64(-1)
