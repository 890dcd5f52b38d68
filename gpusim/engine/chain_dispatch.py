"""Which block of a chain of grids goes to which SM, and when (programmatic dependent launch).

Mental model: the grids are dispatched one after another, each slot at the dispatcher's interval. The first grid's
blocks go where they would alone (:mod:`gpusim.engine.block_dispatcher`). Those of a dependent grid may go from when
each block of the grid before has issued ``griddepcontrol.launch_dependents`` or ended (PTX ISA, griddepcontrol), and
the front end has worked through the launch, which it begins when the last block of the grid before has been dispatched
and which takes ``launch.start_cycles``: a guess, as NVIDIA says nothing of it; so the launch is hidden by what the grid
before still does, and no further. Where no block has issued the instruction, the dependent grid is launched as without
the attribute, when the grid before has completed: with the attribute but no instruction, programs took as long as
without either on an RTX 5090 (github.com/kekzl/imp, pull request 1740). Blocks go to an SM with room for them beside
whatever is resident there: of those the one that holds the fewest blocks of the grid. A grid completes when all its
blocks have ended and the grids before it are complete, and all their writes have been acknowledged
(:mod:`gpusim.model.grid_writes`), at the SMs ``launch.end_cycles`` later; then ``griddepcontrol.wait`` of the next one
is over. The blocks of a cluster of a dependent grid go at once to the SMs of one GPC that all have room for one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpusim.engine.cluster_order import block_at
from gpusim.engine.latencies import turnaround_halves
from gpusim.gpus.spec import GpuSpec
from gpusim.io.jit_direct import direct
from gpusim.model.arrivals import pop, push
from gpusim.model.compiled import compiled
from gpusim.model.crossbar import service_order
from gpusim.model.messages import (
    ENDED_WRITING,
    FLUSHED,
    GOES_ON,
    MOST_PEERS,
    NEVER,
    PLACE_SHIFT,
    START,
    TICKS_PER_CYCLE,
)
from gpusim.state_tables import Table

_SLOT_BITS, _SM_BITS = 8, 12
_PLACE_BITS = _SLOT_BITS + _SM_BITS

GRID_TABLE = Table(__name__, "grids", "a grid of the chain", "What its blocks need, and how far they are.")
G_BLOCKS = GRID_TABLE.column("count", "its blocks")
G_FIRST = GRID_TABLE.column("index", "of its first block, behind those of the grids before")
G_WARPS = GRID_TABLE.column("count", "warps of a block")
G_REGISTERS = GRID_TABLE.column("count", "registers of a block")
G_SHARED = GRID_TABLE.column("bytes", "of shared memory of a block, the system's included")
G_MOST = GRID_TABLE.column("count", "blocks of it that an SM holds at most")
G_NEXT = GRID_TABLE.column("count", "blocks that have been dispatched")
G_LET_GO = GRID_TABLE.column("count", "blocks that have let the next grid begin, by the instruction or by their end")
G_LET_GO_CYCLE = GRID_TABLE.column("cycle", "at which the dispatcher heard of the last of them")
G_EXPLICIT = GRID_TABLE.column("count", "blocks that have done so by the instruction")
G_ENDED = GRID_TABLE.column("count", "blocks that have ended")
G_END_CYCLE = GRID_TABLE.column("cycle", "at which the dispatcher heard of the last of them")
G_WRITING = GRID_TABLE.column(
    "count", "SMs with ended blocks of it that will tell when its writes there have been acknowledged"
)
G_FLUSHED_CYCLE = GRID_TABLE.column("cycle", "of the end of the last of them and of its writes, at the SM")
G_DISPATCHED = GRID_TABLE.column("cycle", "of the last decision")
G_COMPLETE = GRID_TABLE.column("cycle", "from which the SMs take it for completed; 0: it is not")
G_CLUSTER = GRID_TABLE.column("count", "blocks of a cluster")
G_SHAPE = GRID_TABLE.column("count", "of them in x, y, z", span=3)
G_SIDES = GRID_TABLE.column("count", "blocks of the grid in x, y, z", span=3)
G_SMS = GRID_TABLE.column("count", "SMs that its clusters go to")

ROOM_TABLE = Table(__name__, "room", "an SM", "What is free there, as the dispatcher knows it.")
R_WARPS = ROOM_TABLE.column("mask", "warp slots that are free", span=2)
R_SLOTS = ROOM_TABLE.column("mask", "block slots that are free")
R_REGISTERS = ROOM_TABLE.column("count", "registers")
R_SHARED = ROOM_TABLE.column("bytes", "of shared memory")

CHAIN_TABLE = Table(__name__, "chain", "a chain (one)", "Where the dispatcher stands.")
C_ENDS = CHAIN_TABLE.column("count", "ends of blocks whose room is not free yet, in the heap ``ends``")
C_GRID = CHAIN_TABLE.column("index", "of the grid whose blocks are dispatched")
C_COMPLETED = CHAIN_TABLE.column("count", "grids that have completed")
C_TOLD = CHAIN_TABLE.column("count", "of them that the SMs have been told of")
C_STAGED = CHAIN_TABLE.column("count", "places that wait for the rest of their cluster, of the first grid")
C_DECISION = CHAIN_TABLE.column("cycle", "of the next decision at the earliest")
C_FULL = CHAIN_TABLE.column("flag", "no SM has room for the next block until another one ends")
C_FIRST_SERVED = CHAIN_TABLE.column("count", "slots that have been given their first block of the first grid")
C_SLOTS = CHAIN_TABLE.column("count", "slots that the first grid uses")

#: Columns of ``placed``: the grid of a block that is resident in a slot, its first warp slot, whether it has let others
#: go.
P_GRID, P_FIRST_WARP, P_LET_GO = range(3)
_HALF = 32  # warp slots in a word of R_WARPS


class ChainRates(NamedTuple):
    """Frozen scalars: counts, and times in cycles; see :class:`gpusim.engine.block_dispatcher.DispatchRates`."""

    first_interval: int
    interval: int
    to_dispatcher: int
    to_sm: int
    launch: int  # of a dependent grid, from the last decision for the grid before to its own first
    completion: int  # of a grid, from when its blocks have ended and its writes have been acknowledged
    max_warps: int
    max_blocks: int


class ChainState(NamedTuple):
    """Everything that changes."""

    chain: np.ndarray
    grids: np.ndarray
    room: np.ndarray
    held: np.ndarray  # int64[SMs, grids]: blocks of each that are resident
    placed: np.ndarray  # int64[SMs, slots, 3]
    ends: np.ndarray  # int64[1, slots of all SMs]: a heap
    owed: np.ndarray  # bool[SMs, grids]: the SM will tell when the grid's writes have been acknowledged
    order: np.ndarray  # int64[grids, SMs]: in the order of service
    places: np.ndarray  # int64[blocks of a cluster]: SM << PLACE_SHIFT | slot
    times: np.ndarray  # int64[blocks, columns]: as in ``block_times``
    starts: np.ndarray  # START[n]


@compiled
def _gate(p, s, grid):
    """Cycle from which blocks of a dependent grid may be dispatched; NEVER while it is not known."""
    before = grid - 1
    if s.grids[before, G_NEXT] < s.grids[before, G_BLOCKS] or s.grids[before, G_LET_GO] < s.grids[before, G_BLOCKS]:
        return NEVER
    if s.grids[before, G_EXPLICIT] == 0:
        return s.grids[before, G_COMPLETE] + p.launch if s.grids[before, G_COMPLETE] else NEVER
    return max(s.grids[before, G_LET_GO_CYCLE], s.grids[before, G_DISPATCHED] + p.launch)


@compiled
def _next(p, s):
    """Cycle of the next decision or message at the earliest; NEVER if none is in sight."""
    chain, grids = s.chain, s.grids
    soonest = NEVER
    told = chain[0, C_TOLD]
    if told < chain[0, C_COMPLETED] and told + 1 < grids.shape[0]:
        soonest = grids[told, G_END_CYCLE]
    grid = chain[0, C_GRID]
    if grids[grid, G_NEXT] == grids[grid, G_BLOCKS]:
        if grid + 1 == grids.shape[0]:
            return soonest
        gate = _gate(p, s, grid + 1)
        return min(soonest, max(gate, chain[0, C_DECISION]))
    if grid == 0:
        if chain[0, C_FIRST_SERVED] < chain[0, C_SLOTS]:
            return min(soonest, chain[0, C_DECISION])
        if chain[0, C_ENDS] == 0:
            return soonest
        return min(soonest, max(s.ends[0, 0] >> _PLACE_BITS, chain[0, C_DECISION]))
    if chain[0, C_FULL] == 0:
        return min(soonest, max(chain[0, C_DECISION], _gate(p, s, grid)))
    if chain[0, C_ENDS] == 0:
        return soonest
    return min(soonest, max(s.ends[0, 0] >> _PLACE_BITS, chain[0, C_DECISION]))


@compiled
def _is_free(room, sm, warp):
    return (room[sm, R_WARPS + warp // _HALF] >> (warp % _HALF)) & 1


@compiled
def _flip_warps(room, sm, first, count):
    for warp in range(first, first + count):
        room[sm, R_WARPS + warp // _HALF] ^= 1 << (warp % _HALF)


@compiled
def _leave(s, place):
    """The block at ``place`` has ended, and what it used is free."""
    sm, slot = place >> _SLOT_BITS, place & ((1 << _SLOT_BITS) - 1)
    grid = s.placed[sm, slot, P_GRID]
    _flip_warps(s.room, sm, s.placed[sm, slot, P_FIRST_WARP], s.grids[grid, G_WARPS])
    s.room[sm, R_SLOTS] ^= 1 << slot
    s.room[sm, R_REGISTERS] += s.grids[grid, G_REGISTERS]
    s.room[sm, R_SHARED] += s.grids[grid, G_SHARED]
    s.held[sm, grid] -= 1


@compiled
def _leave_next(s):
    """The block that ended first leaves; its place."""
    place = pop(s.ends, 0, s.chain, C_ENDS) & ((1 << _PLACE_BITS) - 1)
    _leave(s, place)
    s.chain[0, C_FULL] = 0
    return place


@compiled
def _first_warp(p, s, sm, grid):
    """The first of as many free warp slots side by side as a block of the grid needs, -1 if it does not fit on the
    SM."""
    room, grids = s.room, s.grids
    if room[sm, R_SLOTS] == 0 or s.held[sm, grid] == grids[grid, G_MOST]:
        return -1
    if room[sm, R_REGISTERS] < grids[grid, G_REGISTERS] or room[sm, R_SHARED] < grids[grid, G_SHARED]:
        return -1
    free = 0
    for warp in range(p.max_warps):
        free = free + 1 if _is_free(room, sm, warp) else 0
        if free == grids[grid, G_WARPS]:
            return warp + 1 - free
    return -1


@compiled
def _group_with_room(p, s, grid):
    """Of the groups of SMs with room for a block of a cluster of the grid on each the one that holds the fewest of
    them, as the index of its first SM in the order of service; -1 if there is none."""
    best, size, order = -1, s.grids[grid, G_CLUSTER], s.order[grid]
    for first in range(0, s.grids[grid, G_SMS], size):
        if best >= 0 and s.held[order[first], grid] >= s.held[order[best], grid]:
            continue
        rank = 0
        while rank < size and _first_warp(p, s, order[first + rank], grid) >= 0:
            rank += 1
        if rank == size:
            best = first
    return best


@compiled
def _place(p, s, grid, rank, sm, slot, first_warp):
    """A block of the grid takes its room in a slot; it is the one with rank ``rank`` of the cluster that is
    dispatched."""
    grids, room = s.grids, s.room
    _flip_warps(room, sm, first_warp, grids[grid, G_WARPS])
    room[sm, R_SLOTS] ^= 1 << slot
    room[sm, R_REGISTERS] -= grids[grid, G_REGISTERS]
    room[sm, R_SHARED] -= grids[grid, G_SHARED]
    s.held[sm, grid] += 1
    s.placed[sm, slot, P_GRID], s.placed[sm, slot, P_FIRST_WARP], s.placed[sm, slot, P_LET_GO] = grid, first_warp, 0
    s.places[rank] = sm << PLACE_SHIFT | slot


@compiled
def _start_cluster(p, s, n, grid, decision, rows, first_row_block, end_row_block):
    """The next cluster of the grid starts where its blocks have been placed; its messages are those from number ``n``
    on. False if a block of it is none of ``first_row_block`` to ``end_row_block - 1``."""
    grids, size = s.grids, s.grids[grid, G_CLUSTER]
    number = grids[grid, G_NEXT]
    grids[grid, G_NEXT] = number + size
    grids[grid, G_DISPATCHED] = decision
    cycle = decision + p.to_sm
    shape, sides = grids[grid, G_SHAPE : G_SHAPE + 3], grids[grid, G_SIDES : G_SIDES + 3]
    for rank in range(size):
        own = block_at(size, shape, sides, number + rank)
        if not first_row_block <= own < end_row_block:
            return False
        sm, slot = s.places[rank] >> PLACE_SHIFT, s.places[rank] & ((1 << PLACE_SHIFT) - 1)
        block = grids[grid, G_FIRST] + own
        s.times[block, 0], s.times[block, 2], s.times[block, 3] = cycle, sm, slot
        start = s.starts[n + rank]
        start["time"], start["sm"], start["slot"], start["block"] = cycle * TICKS_PER_CYCLE, sm, slot, block
        start["warp_row"] = rows + (own - first_row_block) * grids[grid, G_WARPS]
        start["cluster"], start["cluster_blocks"] = grids[grid, G_FIRST] + number // size, size
        start["rank"] = rank
        for other in range(size):
            start["peers"][other] = s.places[other]
        start["warps"], start["first_warp"], start["grid"] = (
            grids[grid, G_WARPS],
            s.placed[sm, slot, P_FIRST_WARP],
            grid,
        )
        start["held"] = 0
        if grid:
            start["held"] = grids[grid - 1, G_COMPLETE] if grids[grid - 1, G_COMPLETE] else NEVER
    return True


@compiled
def _tell(s, until):
    """Tell the SMs of grids that have completed; the number of messages of ``starts`` written."""
    n, chain = 0, s.chain
    while chain[0, C_TOLD] < chain[0, C_COMPLETED] and chain[0, C_TOLD] + 1 < s.grids.shape[0]:
        grid = chain[0, C_TOLD]
        if s.grids[grid, G_END_CYCLE] >= until:
            break
        chain[0, C_TOLD] += 1
        start = s.starts[n]
        start["time"], start["sm"], start["slot"] = s.grids[grid, G_COMPLETE] * TICKS_PER_CYCLE, -1, -1
        start["block"] = grid
        n += 1
    return n


@compiled
def _serve(p, s, first, end, rows, until):
    """Dispatch blocks of the grid that is served, whose blocks ``first`` to ``end - 1`` have their warps in the tables
    from ``rows`` on, as far as their turn comes before ``until``; the number of messages of ``starts`` written, -1 for
    a cluster that does not lie in these blocks. The last one may end the room of ``starts``."""
    chain, grids = s.chain, s.grids
    grid, n = chain[0, C_GRID], 0
    size, sms, order = grids[grid, G_CLUSTER], grids[grid, G_SMS], s.order[grid]
    while grids[grid, G_NEXT] < end and n + size <= s.starts.shape[0]:
        if grid == 0:
            served = chain[0, C_FIRST_SERVED]
            if served < chain[0, C_SLOTS]:
                decision = chain[0, C_DECISION]
                if decision >= until:
                    break
                sm, slot = order[served % sms], served // sms
                chain[0, C_FIRST_SERVED] = served + 1
                chain[0, C_DECISION] = decision + (p.first_interval if served < sms else p.interval)
            else:
                if chain[0, C_ENDS] == 0:
                    break
                decision = max(s.ends[0, 0] >> _PLACE_BITS, chain[0, C_DECISION])
                if decision >= until:
                    break
                place = _leave_next(s)
                sm, slot = place >> _SLOT_BITS, place & ((1 << _SLOT_BITS) - 1)
                chain[0, C_DECISION] = decision + p.interval
            _place(p, s, grid, chain[0, C_STAGED], sm, slot, slot * grids[grid, G_WARPS])
            chain[0, C_STAGED] += 1
            if chain[0, C_STAGED] < size:
                continue
            chain[0, C_STAGED] = 0
        else:
            decision = max(chain[0, C_DECISION], _gate(p, s, grid))
            if decision >= until:
                break
            while chain[0, C_ENDS] and s.ends[0, 0] >> _PLACE_BITS <= decision:
                _leave_next(s)
            group = -1 if chain[0, C_FULL] else _group_with_room(p, s, grid)
            if group < 0:
                chain[0, C_FULL] = 1
                if chain[0, C_ENDS] == 0 or s.ends[0, 0] >> _PLACE_BITS >= until:
                    break
                chain[0, C_DECISION] = s.ends[0, 0] >> _PLACE_BITS
                continue
            for rank in range(size):
                sm, slot = order[group + rank], 0
                while not (s.room[sm, R_SLOTS] >> slot) & 1:
                    slot += 1
                if rank:
                    decision = chain[0, C_DECISION]
                chain[0, C_DECISION] = decision + (p.interval if s.held[sm, grid] else p.first_interval)
                _place(p, s, grid, rank, sm, slot, _first_warp(p, s, sm, grid))
        if not _start_cluster(p, s, n, grid, decision, rows, first, end):
            return -1
        n += size
    return n


@compiled
def _note(p, s, exits):
    """Note which blocks have let others go, which have ended, and whose writes have been acknowledged."""
    grids, chain = s.grids, s.chain
    for i in range(exits.shape[0]):
        sm, slot, cycle = exits[i]["sm"], exits[i]["slot"], exits[i]["time"] // TICKS_PER_CYCLE
        end = cycle - p.to_dispatcher
        if exits[i]["kind"] == FLUSHED:
            grid = exits[i]["block"]
            s.owed[sm, grid] = False
            grids[grid, G_WRITING] -= 1
            grids[grid, G_FLUSHED_CYCLE] = max(grids[grid, G_FLUSHED_CYCLE], end)
            grids[grid, G_END_CYCLE] = max(grids[grid, G_END_CYCLE], cycle)
            continue
        grid = s.placed[sm, slot, P_GRID]
        if not s.placed[sm, slot, P_LET_GO]:
            s.placed[sm, slot, P_LET_GO] = 1
            grids[grid, G_LET_GO] += 1
            grids[grid, G_LET_GO_CYCLE] = max(grids[grid, G_LET_GO_CYCLE], cycle)
            grids[grid, G_EXPLICIT] += exits[i]["kind"] == GOES_ON
        if exits[i]["kind"] == GOES_ON:
            continue
        s.times[exits[i]["block"], 1] = end
        if exits[i]["kind"] == ENDED_WRITING and not s.owed[sm, grid]:
            s.owed[sm, grid] = True
            grids[grid, G_WRITING] += 1
        grids[grid, G_FLUSHED_CYCLE] = max(grids[grid, G_FLUSHED_CYCLE], end)
        grids[grid, G_ENDED] += 1
        grids[grid, G_END_CYCLE] = max(grids[grid, G_END_CYCLE], cycle)
        push(s.ends, 0, chain, C_ENDS, cycle << _PLACE_BITS | sm << _SLOT_BITS | slot)
    while chain[0, C_COMPLETED] < grids.shape[0]:
        grid = chain[0, C_COMPLETED]
        if grids[grid, G_ENDED] < grids[grid, G_BLOCKS] or grids[grid, G_WRITING]:
            break
        chain[0, C_COMPLETED] += 1
        if grid:
            grids[grid, G_END_CYCLE] = max(grids[grid, G_END_CYCLE], grids[grid - 1, G_END_CYCLE])
            grids[grid, G_FLUSHED_CYCLE] = max(grids[grid, G_FLUSHED_CYCLE], grids[grid - 1, G_FLUSHED_CYCLE])
        end = grids[grid, G_FLUSHED_CYCLE] + p.completion
        grids[grid, G_COMPLETE] = max(end, grids[grid, G_END_CYCLE] + p.to_sm)


decision_after, note_exits, serve_until, tell_completions = direct(_next), direct(_note), direct(_serve), direct(_tell)


def chain_rates(spec: GpuSpec) -> ChainRates:
    """The rates of a GPU's dispatcher."""
    to_dispatcher, to_sm = turnaround_halves(spec)
    interval = max(1, spec.launch.dispatch_interval_cycles)
    return ChainRates(
        first_interval=max(interval, spec.launch.first_dispatch_interval_cycles),
        interval=interval,
        to_dispatcher=to_dispatcher,
        to_sm=to_sm,
        launch=max(0, spec.launch.start_cycles - to_sm),
        completion=spec.launch.end_cycles,
        max_warps=spec.sm.max_warps,
        max_blocks=spec.sm.max_blocks,
    )


def chain_state(spec: GpuSpec, needs: np.ndarray, shared_bytes: int, decision: int) -> ChainState:
    """Nothing dispatched yet; ``needs`` GRID_TABLE rows with what blocks need; ``shared_bytes`` an SM's, the first
    decision at cycle ``decision``."""
    sizes = sorted({int(size) for size in needs[:, G_CLUSTER]})
    orders = {size: service_order(spec, size) for size in sizes}
    order = np.full((len(needs), spec.sm_count), -1, np.int64)
    for row, need in zip(order, needs, strict=True):
        of_size = orders[int(need[G_CLUSTER])]
        row[: len(of_size)], need[G_SMS] = of_size, len(of_size)
    chain, room = CHAIN_TABLE.zeros(1), ROOM_TABLE.zeros(spec.sm_count)
    chain[0, C_DECISION] = decision
    size = needs[0, G_CLUSTER]
    chain[0, C_SLOTS] = min(needs[0, G_BLOCKS], needs[0, G_MOST] * needs[0, G_SMS]) // size * size
    for word in range(2):
        bits = min(_HALF, max(0, spec.sm.max_warps - word * _HALF))
        room[:, R_WARPS + word] = (1 << bits) - 1
    room[:, R_SLOTS] = (1 << spec.sm.max_blocks) - 1
    room[:, R_REGISTERS], room[:, R_SHARED] = spec.sm.registers, shared_bytes
    slots = spec.sm_count * spec.sm.max_blocks
    blocks = int(needs[:, G_BLOCKS].sum())
    return ChainState(
        chain=chain,
        grids=needs,
        room=room,
        held=np.zeros((spec.sm_count, len(needs)), np.int64),
        placed=np.zeros((spec.sm_count, spec.sm.max_blocks, 3), np.int64),
        ends=np.zeros((1, slots + 1), np.int64),
        owed=np.zeros((spec.sm_count, len(needs)), np.bool_),
        order=order,
        places=np.zeros(MOST_PEERS, np.int64),
        times=np.zeros((blocks, 4), np.int64),
        starts=np.zeros(slots + len(needs), START),
    )
