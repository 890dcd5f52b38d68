"""Functional warming: the cache state that a launch leaves, without its time.

Mental model: blocks run one after another, block b on SM ``b % sm_count``, warps of a block in turn, each
access at once. The L1 lines and the L2's state are what such a run leaves; the exact order among
blocks, which only matters for lines about to be evicted, is not reproduced.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpusim.engine.arena import Arena
from gpusim.engine.l2 import L2Part
from gpusim.engine.sm import SmGroup
from gpusim.gpus.spec import GpuSpec
from gpusim.model import cache
from gpusim.model import program as op
from gpusim.model import timing as at
from gpusim.model.coalescer import ADDRESS, LINE_TABLE, SECTORS, coalesce_lanes, coalesce_span, lane_addresses
from gpusim.model.compiled import compiled, inner
from gpusim.model.lsu import ALL_LANES, GLOBAL, resolve_space
from gpusim.model.program import program_table
from gpusim.model.trace_tables import A_STRIDE, LANES, RUN_COUNT, RUN_FIRST, RUN_MASK, W_ACCESS, W_RUN, W_RUN_END
from gpusim.state_tables import Table
from gpusim.trace.boxes import box_lines, writes
from gpusim.trace.record import Chunk, Flag, MemoryKind, Trace

STORE, ATOMIC, REDUCTION = int(MemoryKind.STORE), int(MemoryKind.ATOMIC), int(MemoryKind.REDUCTION)
BYPASS = int(Flag.BYPASS_L1)
#: Sent to the L2 in batches of this many line accesses.
BATCH = 1 << 16
#: Instructions that one call of compiled code walks over, a tenth of a second: Python obeys a signal between two calls.
MOST_STEPS = 1 << 24

CURSOR_TABLE = Table(__name__, "cursor", "", "Where the walk through a block stands.")
C_WARP = CURSOR_TABLE.column("index", "its warp in the block")
C_RUN = CURSOR_TABLE.column("index", "the run in the warp's part")
C_OFFSET = CURSOR_TABLE.column("index", "the instruction in the run")
C_ACCESS = CURSOR_TABLE.column("index", "the access in the warp's part")

WARMED_TABLE = Table(__name__, "out", "an access to a line", "What the L2 sees of a warming launch.")
O_LINE = WARMED_TABLE.column("address", "of the line")
O_SECTORS = WARMED_TABLE.column("mask", "wanted or written")
O_WRITES = WARMED_TABLE.column("flag", "it writes")
O_SM = WARMED_TABLE.column("index", "of the machine")


class Walk(NamedTuple):
    """A walk through blocks: the program, the GPU's figures, where it stands, and room for an access's addresses."""

    program: np.ndarray
    timing: np.ndarray
    cursor: np.ndarray
    lines: np.ndarray  # int64[1, LINES_MAX, columns]
    addresses: np.ndarray  # int64[32]


@compiled
def _warm_block(walk, tables, l1, sets, sm, place, out, clock):
    """Walk one block's memory accesses through ``l1[sm]``, from ``cursor`` on, while ``out`` has room.

    ``place`` is (global SM, first warp row, warps). What the L2 sees
    goes to ``out``; after MOST_STEPS it stops, too. Returns (rows written, clock); the block is
    done when ``cursor[C_WARP] == warps``.
    """
    cursor, lines, program = walk.cursor, walk.lines, walk.program
    global_sm, warp_row, warps = place
    n_out, steps = 0, 0
    ways = walk.timing[at.L1_WAYS]
    while cursor[C_WARP] < warps and steps < MOST_STEPS:
        steps += 1
        warp = warp_row + cursor[C_WARP]
        run = tables.warps[warp, W_RUN] + cursor[C_RUN]
        if run == tables.warps[warp, W_RUN_END]:
            cursor[C_WARP] += 1
            cursor[C_RUN] = 0
            cursor[C_ACCESS] = 0
            continue
        if cursor[C_OFFSET] == tables.runs[run, RUN_COUNT]:
            cursor[C_RUN] += 1
            cursor[C_OFFSET] = 0
            continue
        if n_out + lines.shape[1] > out.shape[0]:
            break
        pc = tables.runs[run, RUN_FIRST] + cursor[C_OFFSET]
        cursor[C_OFFSET] += 1
        records = program[pc, op.RECORDS]
        if records == 0:
            continue
        access = tables.warps[warp, W_ACCESS] + cursor[C_ACCESS]
        cursor[C_ACCESS] += records
        n = _lines_of(walk, tables, pc, access, tables.runs[run, RUN_MASK])
        kind = program[pc, op.KIND]
        writes = kind == STORE or kind == ATOMIC or kind == REDUCTION
        cached = not writes and program[pc, op.FLAGS] & BYPASS == 0
        for i in range(n):
            line = lines[0, i, ADDRESS]
            sectors = lines[0, i, SECTORS]
            clock += 1
            if cached:
                missing = sectors & ~cache.look_up(l1, sm, line, sets, ways, clock)
                if missing == 0:
                    continue
                cache.fill(l1, sm, line, sectors, sets, ways, clock)
                sectors = missing
            out[n_out, O_LINE] = line
            out[n_out, O_SECTORS] = sectors
            out[n_out, O_WRITES] = writes
            out[n_out, O_SM] = global_sm
            n_out += 1
    return n_out, clock


@inner
def _lines_of(walk, tables, pc, access, mask):
    """Lines of one access if it goes to global memory, into ``walk.lines[0]``; returns how many."""
    program, addresses = walk.program, walk.addresses
    lanes = lane_addresses(tables.accesses, access, tables.scattered, mask, addresses)
    if program[pc, op.KIND] == 0 or lanes == 0:
        return 0
    if resolve_space(program[pc, op.SPACE], addresses, lanes, walk.timing) != GLOBAL:
        return 0
    width = program[pc, op.BYTES]
    if lanes == ALL_LANES and tables.accesses[access, A_STRIDE] == width:
        return coalesce_span(addresses[0], addresses[0] + LANES * width, walk.lines, 0)
    return coalesce_lanes(addresses, lanes, width, walk.lines, 0, 0)


def warm_machine(trace: Trace, spec: GpuSpec, groups: list[SmGroup], l2: L2Part, l1_bytes: int) -> None:
    """Warm the L1s of all SMs (sized ``l1_bytes``) and the L2 with one launch."""
    arena = Arena()
    program = program_table(trace.program, spec)
    launch = trace.launch
    timing = at.sm_timing(spec)
    timing[at.SHARED_WINDOW] = launch.shared_window >> 24 if launch.shared_window else -1
    timing[at.LOCAL_WINDOW] = launch.local_window >> 24 if launch.local_window else -1
    sets = cache.sets_in(spec.l1, l1_bytes)
    for group in groups:
        if group.state.timing[at.L1_SETS] != sets:
            group.state.l1[:] = 0
            group.state.timing[at.L1_SETS] = sets
    cursor = CURSOR_TABLE.zeros()
    walk = Walk(program, timing, cursor, LINE_TABLE.zeros(1, at.LINES_MAX), np.zeros(LANES, np.int64))
    out = WARMED_TABLE.zeros(BATCH)
    clock = -(1 << 40)  # earlier than any timed use
    per_block = launch.warps_per_block
    for chunk in trace.chunks():
        live = arena.add(chunk)
        filled = 0
        for block in range(chunk.blocks):
            sm = (chunk.first_block + block) % spec.sm_count
            group = next(g for g in groups if g.first <= sm < g.first + g.count)
            place = (sm, live.warps + block * per_block, per_block)
            cursor[:] = 0
            while cursor[C_WARP] < per_block:
                l1, to = group.state.l1, out[filled:]
                count, clock = _warm_block(walk, arena.tables, l1, sets, sm - group.first, place, to, clock)
                filled += count
                if cursor[C_WARP] < per_block and filled + walk.lines.shape[1] > len(out):
                    _flush(l2, out[:filled])
                    filled = 0
        _flush(l2, out[:filled])
        if len(chunk.bulks):
            _warm_boxes(chunk, per_block, spec.sm_count, l2)
        arena.free(live)


def _warm_boxes(chunk: Chunk, per_block: int, sms: int, l2: L2Part) -> None:
    """Show the L2 the chunk's bulk copies, which go past the L1, behind its other accesses."""
    lines, sectors, record = box_lines(chunk.bulks)
    access = chunk.bulks["access"].astype(np.int64)[record]
    ends = chunk.warps["access_start"].astype(np.int64) + chunk.warps["access_count"]
    order = np.argsort(ends, kind="stable")
    warp = order[np.minimum(np.searchsorted(ends[order], access, side="right"), len(order) - 1)]
    sm = (chunk.first_block + warp // per_block) % sms
    l2.warm(lines.astype(np.uint64), sectors, writes(chunk.bulks)[record].astype(np.uint8), sm.astype(np.int16))


def _flush(l2: L2Part, rows: np.ndarray) -> None:
    """Show the L2 what came through the L1s."""
    if len(rows):
        line, sectors, is_write, sm = rows.T
        l2.warm(line.astype(np.uint64), sectors.astype(np.uint8), is_write.astype(np.uint8), sm.astype(np.int16))
