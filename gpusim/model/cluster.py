"""What the blocks of a cluster tell each other over the network between SMs: arrivals at their barrier, and writes that
warps wait for.

Mental model: a block whose live threads have all arrived tells every block of its cluster, itself included; the barrier
opens on each SM when the word of the last one has come, which is at the same time everywhere. A block that has ended
counts as arrived from then on. What a block writes into another one's shared memory is seen there when it has come.
"""

from __future__ import annotations

from gpusim.model.compiled import inner
from gpusim.model.messages import (
    MOST_PEERS,
    NEVER,
    PEER_ARRIVED,
    PEER_ENDED,
    PEER_WROTE,
    PLACE_SHIFT,
    TICKS_PER_CYCLE,
)
from gpusim.model.phase_waits import resume
from gpusim.model.residency import (
    AT_BARRIER,
    AT_CLUSTER,
    BARRIER_END,
    BARRIER_PC,
    BLOCK,
    BLOCK_WARPS,
    CLUSTER,
    CLUSTER_ARRIVED,
    CLUSTER_BLOCKS,
    CLUSTER_CAME,
    CLUSTER_ENDED,
    CLUSTER_OPENED,
    CLUSTER_PHASE,
    FIRST_WARP,
    LIVE,
    PEERS,
    RANK,
    wake,
    warp_index,
)
from gpusim.model.signals import count_one
from gpusim.model.sm_tables import (
    P_CLUSTER,
    P_CYCLE,
    P_KIND,
    P_SLOT,
    P_VALUE,
    PEER_NEXT,
    PEERS_OUT,
    R_PEERS,
    S_CLUSTER,
    S_CLUSTER_BLOCKS,
    S_PEERS,
    S_RANK,
    SUSPENDED_WARPS,
)
from gpusim.model.timing import CLUSTER_BARRIER_LATENCY, CLUSTER_LATENCY, CLUSTER_SPREAD, MAX_BLOCKS
from gpusim.model.trace_tables import G_ADDRESS, G_MORE, G_POLLS
from gpusim.trace.layout import RANK_SHIFT

_SLOTS = (1 << PLACE_SHIFT) - 1


#: Ways of different length of the TPCs, two SMs each, and a step that has no factor in common with them: neighbours
#: differ.
_WAYS, _STEP = 9, 5


@inner
def _way(timing, sm):
    """Cycles by which the way of an SM to the network's middle is longer than the mean. Which TPC is how far is a
    guess."""
    return ((sm >> 1) * _STEP % _WAYS * timing[CLUSTER_SPREAD]) // (_WAYS - 1) - timing[CLUSTER_SPREAD] // 2


@inner
def shared_latency(blocks, timing, block, rank):
    """Cycles from issue to data of the shared memory of the block with rank ``rank`` in the cluster of ``block``."""
    if rank >= blocks[block, CLUSTER_BLOCKS]:
        return timing[CLUSTER_LATENCY]
    own = blocks[block, PEERS + blocks[block, RANK]] >> PLACE_SHIFT
    return timing[CLUSTER_LATENCY] + _way(timing, own) + _way(timing, blocks[block, PEERS + rank] >> PLACE_SHIFT)


@inner
def join_cluster(starts, row, blocks):
    """The block that starts in slot ``row`` takes its place in its cluster."""
    blocks[row, CLUSTER] = starts[row, S_CLUSTER]
    blocks[row, CLUSTER_BLOCKS] = starts[row, S_CLUSTER_BLOCKS]
    blocks[row, RANK] = starts[row, S_RANK]
    for rank in range(MOST_PEERS):
        blocks[row, PEERS + rank] = starts[row, S_PEERS + rank]
    blocks[row, CLUSTER_ARRIVED] = blocks[row, CLUSTER_CAME] = blocks[row, CLUSTER_ENDED] = 0
    blocks[row, CLUSTER_OPENED] = 0


@inner
def tell(sent, report, blocks, block, rank, kind, value, cycle):
    """Send a message to the block with rank ``rank`` of the cluster, which comes there in cycle ``cycle``."""
    i = report[R_PEERS]
    report[R_PEERS] = i + 1
    place = blocks[block, PEERS + rank]
    sent[i]["time"] = cycle * TICKS_PER_CYCLE
    sent[i]["sm"], sent[i]["slot"] = place >> PLACE_SHIFT, place & _SLOTS
    sent[i]["cluster"], sent[i]["kind"], sent[i]["value"] = blocks[block, CLUSTER], kind, value


@inner
def _tell_all(sent, report, blocks, block, kind, cycle):
    for rank in range(blocks[block, CLUSTER_BLOCKS]):
        if kind != PEER_ENDED or rank != blocks[block, RANK]:
            tell(sent, report, blocks, block, rank, kind, blocks[block, RANK], cycle)


@inner
def arrive_at_cluster(sent, report, resident, timing, warp, now):
    """The warp arrives at the barrier of its cluster; lanes of it that come later add nothing."""
    warps, blocks = resident.warps, resident.blocks
    block = warps[warp, BLOCK]
    if warps[warp, CLUSTER_PHASE] or blocks[block, CLUSTER_BLOCKS] == 0:
        return
    warps[warp, CLUSTER_PHASE] = blocks[block, CLUSTER_OPENED] + 1
    blocks[block, CLUSTER_ARRIVED] += 1
    _tell_when_all_came(sent, report, blocks, timing, block, now)


@inner
def _tell_when_all_came(sent, report, blocks, timing, block, now):
    if blocks[block, CLUSTER_ARRIVED] and blocks[block, CLUSTER_ARRIVED] >= blocks[block, LIVE]:
        blocks[block, CLUSTER_ARRIVED] = 0
        _tell_all(sent, report, blocks, block, PEER_ARRIVED, now + timing[CLUSTER_BARRIER_LATENCY])


@inner
def await_cluster(resident, warp, pc):
    """The warp waits at the barrier of its cluster, unless that has opened since it arrived there."""
    warps, blocks = resident.warps, resident.blocks
    phase = warps[warp, CLUSTER_PHASE]
    warps[warp, CLUSTER_PHASE] = 0
    if phase > blocks[warps[warp, BLOCK], CLUSTER_OPENED]:
        warps[warp, AT_BARRIER] = AT_CLUSTER
        warps[warp, BARRIER_PC] = pc


@inner
def leave_cluster(sent, report, resident, timing, warp, block, now):
    """The warp has ended, LIVE counts it no more: nobody waits for it at the barrier of the cluster."""
    blocks = resident.blocks
    if blocks[block, CLUSTER_BLOCKS] == 0:
        return
    if resident.warps[warp, CLUSTER_PHASE] > blocks[block, CLUSTER_OPENED] and blocks[block, CLUSTER_ARRIVED]:
        blocks[block, CLUSTER_ARRIVED] -= 1
    if blocks[block, LIVE] == 0:
        _tell_all(sent, report, blocks, block, PEER_ENDED, now + timing[CLUSTER_BARRIER_LATENCY])
    else:
        _tell_when_all_came(sent, report, blocks, timing, block, now)


@inner
def write_to_peers(sent, report, blocks, signals, written, timing, block, first, now):
    """An access with signals from row ``first - 1`` on has written shared memory of blocks of the cluster in cycle
    ``now``: count what is the own block's, tell the others."""
    row = first - 1
    while True:
        if not signals[row, G_POLLS]:
            rank = signals[row, G_ADDRESS] >> RANK_SHIFT
            if rank == blocks[block, RANK]:
                count_one(signals, written, row)
            elif rank < blocks[block, CLUSTER_BLOCKS]:
                tell(sent, report, blocks, block, rank, PEER_WROTE, row, now + (timing[CLUSTER_LATENCY] + 1) // 2)
        if not signals[row, G_MORE]:
            return
        row += 1


@inner
def take_messages(peers, sms, resident, program, timing, signals, written, totals, sm, now):
    """What other blocks have told has come by cycle ``now``."""
    blocks = resident.blocks
    following, kept = NEVER, 0
    opened = 0
    for i in range(sms[sm, PEERS_OUT]):
        if peers[sm, i, P_CYCLE] > now:
            following = min(following, peers[sm, i, P_CYCLE])
            for column in range(peers.shape[2]):
                peers[sm, kept, column] = peers[sm, i, column]
            kept += 1
            continue
        kind, value, slot = peers[sm, i, P_KIND], peers[sm, i, P_VALUE], peers[sm, i, P_SLOT]
        block = sm * timing[MAX_BLOCKS] + slot
        if kind == PEER_WROTE:
            count_one(signals, written, value)
            if sms[sm, SUSPENDED_WARPS]:
                resume(resident, program, timing, sms, signals, written, totals, sm, block, now)
            continue
        if blocks[block, CLUSTER_BLOCKS] == 0 or blocks[block, CLUSTER] != peers[sm, i, P_CLUSTER]:
            continue
        blocks[block, CLUSTER_CAME if kind == PEER_ARRIVED else CLUSTER_ENDED] |= 1 << value
        opened |= 1 << slot
    sms[sm, PEERS_OUT], sms[sm, PEER_NEXT] = kept, following
    for slot in range(timing[MAX_BLOCKS]):
        if (opened >> slot) & 1:
            _open_barrier(resident, program, timing, sm, slot, now)


@inner
def _open_barrier(resident, program, timing, sm, slot, now):
    """Let the warps of a block go on that wait for its cluster, if all of that has arrived."""
    warps, blocks = resident.warps, resident.blocks
    block = sm * timing[MAX_BLOCKS] + slot
    came = blocks[block, CLUSTER_CAME]
    if came == 0 or (came | blocks[block, CLUSTER_ENDED]) != (1 << blocks[block, CLUSTER_BLOCKS]) - 1:
        return
    if not (came >> blocks[block, RANK]) & 1:
        return
    blocks[block, CLUSTER_CAME] = 0
    blocks[block, CLUSTER_OPENED] += 1
    for i in range(blocks[block, BLOCK_WARPS]):
        warp = warp_index(timing, sm, blocks[block, FIRST_WARP] + i)
        if warps[warp, AT_BARRIER] == AT_CLUSTER and warps[warp, BLOCK] == block:
            warps[warp, AT_BARRIER] = 0
            warps[warp, BARRIER_END] = now
            wake(resident, program, timing, warp, now)
