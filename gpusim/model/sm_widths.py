"""The state of a group of SMs, and the trace's tables, with the widths of their rows known to the compiled code.

Mental model: :func:`gpusim.model.known_widths.known_rows`, table by table. Left as they are: what is as wide as a GPU
or a launch says (caches, hashes, boards that keep several falls a counter).
"""

from __future__ import annotations

from gpusim.model import (
    coalescer,
    counters,
    lane_patterns,
    mshr,
    register_file,
    residency,
    scheduler,
    stall_reasons,
    trace_tables,
)
from gpusim.model import sm_tables as sm
from gpusim.model.compiled import inlined
from gpusim.model.fetch import CodeState
from gpusim.model.grid_writes import GRID_WRITES_TABLE
from gpusim.model.known_widths import known_planes, known_rows
from gpusim.model.line_cache import LINE_TABLE
from gpusim.model.mshr import MshrState
from gpusim.model.program import PORTS, PROGRAM_TABLE
from gpusim.model.residency import ResidentState
from gpusim.model.sm_state import FrontState, SmState
from gpusim.model.timing import LINES_MAX
from gpusim.model.tma import TMA_TABLE
from gpusim.model.trace_tables import Tables

_PROGRAM, _SMS, _LSU = PROGRAM_TABLE.row_width, sm.SM_TABLE.row_width, sm.LSU_TABLE.row_width
_LINES, _SUBS, _QUEUE = coalescer.LINE_TABLE.row_width, sm.SUB_TABLE.row_width, sm.QUEUE_TABLE.row_width
_STARTS, _EXITS, _PEERS = sm.START_TABLE.row_width, sm.EXIT_TABLE.row_width, sm.PEER_TABLE.row_width
_STALLS, _WORK = stall_reasons.STALL_TABLE.row_width, counters.WORK_TABLE.row_width
_MEMO, _TMA = lane_patterns.MEMO_TABLE.row_width, TMA_TABLE.row_width
_GRID_WRITES = GRID_WRITES_TABLE.row_width
_WARPS, _BLOCKS = residency.WARP_TABLE.row_width, residency.BLOCK_TABLE.row_width
_SLOTS, _PORT, _SETS = scheduler.SLOT_TABLE.row_width, scheduler.PORT_TABLE.row_width, scheduler.SET_TABLE.row_width
_ENTRIES, _TARGETS = mshr.ENTRY_TABLE.row_width, mshr.TARGET_TABLE.row_width
_PENDING, _REQUESTS = mshr.PENDING_TABLE.row_width, mshr.REQUEST_TABLE.row_width
_OPERANDS, _REGISTERS = register_file.OPERAND_TABLE.row_width, register_file.REGISTER_TABLE.row_width
_CODE = LINE_TABLE.row_width
_ROWS, _RUNS = trace_tables.ROW_TABLE.row_width, trace_tables.RUN_TABLE.row_width
_ACCESSES, _SCATTERED = trace_tables.ACCESS_TABLE.row_width, trace_tables.SCATTER_TABLE.row_width
_SIGNALS, _BULKS = trace_tables.SIGNAL_TABLE.row_width, trace_tables.BULK_TABLE.row_width


@inlined
def _resident(of):
    return ResidentState(
        known_rows(of.warps, _WARPS),
        of.ready,
        known_rows(of.slots, _SLOTS),
        known_planes(of.ports, PORTS, _PORT),
        known_rows(of.sets, _SETS),
        of.board,
        known_rows(of.blocks, _BLOCKS),
        of.subs_next,
    )


@inlined
def _mshr(of):
    return MshrState(
        known_rows(of.entries, _ENTRIES),
        of.lookup,
        known_rows(of.targets, _TARGETS),
        known_rows(of.pending, _PENDING),
        known_rows(of.requests, _REQUESTS),
    )


@inlined
def _front(of):
    code = of.code
    return FrontState(
        CodeState(known_rows(code.l0, _CODE), known_rows(code.l1, _CODE), known_rows(code.l15, _CODE), code.streams),
        known_rows(of.constants, _CODE),
        known_rows(of.operands, _OPERANDS),
        known_rows(of.registers, _REGISTERS),
    )


@inlined
def known_state(of):
    """An SmState as it is."""
    return SmState(
        of.timing,
        known_rows(of.program, _PROGRAM),
        known_rows(of.sms, _SMS),
        known_rows(of.lsu, _LSU),
        known_planes(of.lines, LINES_MAX, _LINES),
        known_rows(of.subs, _SUBS),
        known_rows(of.queue, _QUEUE),
        of.queue_ready,
        known_rows(of.starts, _STARTS),
        of.l1,
        of.heap,
        of.out,
        known_rows(of.exits, _EXITS),
        known_rows(of.peers, _PEERS),
        of.peers_sent,
        of.report,
        of.counters,
        known_rows(of.stalls, _STALLS),
        known_rows(of.work, _WORK),
        known_rows(of.scratch, LINES_MAX),
        known_rows(of.memo, _MEMO),
        of.written,
        known_rows(of.tma, _TMA),
        known_rows(of.grid_writes, _GRID_WRITES),
        of.order,
        _resident(of.resident),
        _mshr(of.mshr),
        _front(of.front),
    )


@inlined
def known_tables(of):
    """Tables as they are."""
    return Tables(
        known_rows(of.warps, _ROWS),
        known_rows(of.runs, _RUNS),
        known_rows(of.accesses, _ACCESSES),
        known_rows(of.scattered, _SCATTERED),
        known_rows(of.signals, _SIGNALS),
        known_rows(of.bulks, _BULKS),
    )
