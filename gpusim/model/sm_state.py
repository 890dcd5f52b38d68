"""Everything that a group of SMs remembers, in one named structure of arrays, and how it is made.

Mental model: :class:`SmState` is what the jitted loop reads and writes. Functions that are inlined take it whole, which
costs nothing; others take the part that they need (:class:`ResidentState`, :class:`MshrState`, :class:`CodeState`) or
single arrays, since a call passes about nine words for every array of a structure. What the arrays hold is declared
beside the functions that use it: see :mod:`gpusim.state_tables`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpusim.gpus.spec import GpuSpec
from gpusim.model import (
    coalescer,
    counters,
    lane_patterns,
    mshr,
    register_file,
    residency,
    scheduler,
    scoreboard,
    stall_reasons,
)
from gpusim.model import sm_tables as sm
from gpusim.model import timing as at
from gpusim.model.fetch import STREAM_CYCLES, STREAM_TABLE, CodeState
from gpusim.model.grid_writes import GRID_WRITES_TABLE
from gpusim.model.l1_access import PENDING_LIMIT, TARGET_LIMIT
from gpusim.model.line_cache import READY as LINE_ARRIVAL
from gpusim.model.line_cache import line_cache
from gpusim.model.messages import NEVER, PEER, REQUEST
from gpusim.model.mshr import MshrState
from gpusim.model.program import PORTS, PROGRAM_TABLE
from gpusim.model.residency import ResidentState
from gpusim.model.scheduler import DUE
from gpusim.model.tensor_unit import MOST_COMMITS
from gpusim.model.tma import SLACK, TMA_TABLE
from gpusim.state_tables import line_aligned

#: Rows of ``scratch``: addresses, words, links, bank heads, tag banks of the instruction that the LSU works out.
_SCRATCH_ROWS = 5


class FrontState(NamedTuple):
    """Fetch, constants and operand reads: what stands before the pipes."""

    code: CodeState
    constants: np.ndarray  # two a sub-core, see ``constants``
    operands: np.ndarray
    registers: np.ndarray


class SmState(NamedTuple):
    """Everything that an SM group's jitted loop reads and writes."""

    timing: np.ndarray
    program: np.ndarray
    sms: np.ndarray
    lsu: np.ndarray
    lines: np.ndarray  # int64[sms, LINES_MAX, columns]: of the LSU's instruction
    subs: np.ndarray
    queue: np.ndarray
    queue_ready: np.ndarray  # int64[sub-cores]: from when on the LSU can take each queue's oldest entry; NEVER: none
    starts: np.ndarray
    l1: np.ndarray  # see ``cache``
    heap: np.ndarray  # see ``arrivals``
    out: np.ndarray  # REQUEST[...]: what goes to the L2
    exits: np.ndarray
    peers: np.ndarray  # int64[sms, messages, columns]: from other blocks of clusters, in no order
    peers_sent: np.ndarray  # PEER[...]: what goes to other SMs
    report: np.ndarray
    counters: np.ndarray
    stalls: np.ndarray
    work: np.ndarray
    scratch: np.ndarray  # int64[5, LINES_MAX]
    memo: np.ndarray  # see ``lane_patterns``
    written: np.ndarray  # int64[words]: writes so far of each word of shared memory that warps poll
    tma: np.ndarray  # int64[sms, entries, columns]: see ``tma``
    grid_writes: np.ndarray  # int64[sms, grids of a chain, columns]: see ``grid_writes``
    order: np.ndarray  # int64[sms]: the order in which SMs are visited, which changes no result
    resident: ResidentState
    mshr: MshrState
    front: FrontState


def _front_state(spec: GpuSpec, sms: int, subs: int) -> FrontState:
    """Empty caches and ports of ``sms`` SMs with ``subs`` sub-cores in all."""
    code, constant = spec.instruction_cache, spec.constant_cache
    return FrontState(
        code=CodeState(
            l0=line_cache(subs, code.l0_bytes, code.line_bytes, code.l0_ways),
            l1=line_cache(sms, code.l1_bytes, code.line_bytes, code.l1_ways),
            l15=line_cache(sms, code.l15_bytes, code.line_bytes, code.l15_ways),
            streams=STREAM_TABLE.zeros(subs, code.streams, more=STREAM_CYCLES * code.stream_entries),
        ),
        constants=line_cache(2 * subs, constant.bytes, constant.line_bytes, constant.ways),
        operands=register_file.OPERAND_TABLE.zeros(1),
        registers=register_file.REGISTER_TABLE.zeros(subs),
    )


def renew(front: FrontState) -> None:
    """Make ``front`` what a launch finds: constants are new; code that earlier launches have left is there at once."""
    front.constants[:] = 0
    front.registers[:] = 0
    for lines in (front.code.l0, front.code.l1, front.code.l15):
        lines[..., LINE_ARRIVAL] = 0
    front.code.streams[:] = 0


def empty_state(spec: GpuSpec, first: int, sms: int) -> SmState:
    """The state of ``sms`` idle SMs, the first of which is the machine's number ``first``, before any launch.

    Raises SpecError for a GPU that the model cannot be.
    """
    timing = at.sm_timing(spec)
    timing[at.FIRST_SM] = first
    subs = sms * int(timing[at.SUB_CORES])
    warps, blocks = sms * spec.sm.max_warps, sms * spec.sm.max_blocks
    limit = int(timing[at.READ_LIMIT] + timing[at.WRITE_LIMIT]) + 2 * at.LINES_MAX
    if timing[at.TENSOR_COLUMN_TICKS]:
        limit += MOST_COMMITS
    if timing[at.TMA_ENTRIES]:
        limit += int(timing[at.TMA_REQUESTS] + timing[at.TMA_ENTRIES]) + SLACK
    index_size = 1 << (4 * (int(timing[at.READ_LIMIT]) + at.LINES_MAX) - 1).bit_length()
    state = SmState(
        timing=timing,
        program=PROGRAM_TABLE.zeros(1),
        sms=sm.SM_TABLE.zeros(sms),
        lsu=sm.LSU_TABLE.zeros(sms),
        lines=coalescer.LINE_TABLE.zeros(sms, at.LINES_MAX),
        subs=sm.SUB_TABLE.zeros(subs),
        queue=sm.QUEUE_TABLE.zeros(subs, int(timing[at.QUEUE_ENTRIES])),
        queue_ready=np.full(subs, NEVER, np.int64),
        starts=sm.START_TABLE.zeros(blocks),
        l1=line_aligned(
            (sms, spec.l1.total_bytes // spec.l1.line_bytes // spec.l1.ways, 2 * spec.l1.ways), np.dtype(np.int64)
        ),
        heap=line_aligned((sms, limit + 1), np.dtype(np.int64)),
        out=np.empty(2 * sms * limit, REQUEST),
        exits=sm.EXIT_TABLE.zeros(2 * blocks + 1),
        peers=sm.PEER_TABLE.zeros(sms, 1),
        peers_sent=np.zeros(1, PEER),
        report=sm.REPORT_TABLE.zeros(),
        counters=counters.COUNTER_TABLE.zeros(),
        stalls=stall_reasons.STALL_TABLE.zeros(1),
        work=counters.WORK_TABLE.zeros(1),
        scratch=np.zeros((_SCRATCH_ROWS, at.LINES_MAX), np.int64),
        memo=lane_patterns.MEMO_TABLE.zeros(lane_patterns.MEMO_ROWS),
        written=np.zeros(1, np.int64),
        tma=TMA_TABLE.zeros(sms, max(1, int(timing[at.TMA_ENTRIES])) + SLACK),
        grid_writes=GRID_WRITES_TABLE.zeros(sms, 1),
        order=np.arange(sms, dtype=np.int64),
        resident=ResidentState(
            warps=residency.WARP_TABLE.zeros(warps),
            ready=line_aligned((warps,), np.dtype(np.int64)),
            slots=scheduler.SLOT_TABLE.zeros(warps),
            ports=scheduler.PORT_TABLE.zeros(subs, PORTS),
            sets=scheduler.SET_TABLE.zeros(subs),
            board=scoreboard.BOARD_TABLE.zeros(warps),
            blocks=residency.BLOCK_TABLE.zeros(blocks),
            subs_next=np.full(subs, NEVER, np.int64),
        ),
        mshr=MshrState(
            entries=mshr.ENTRY_TABLE.zeros(sms, limit + 1),
            lookup=line_aligned((sms, index_size), np.dtype(np.int32)),
            targets=mshr.TARGET_TABLE.zeros(sms, TARGET_LIMIT + at.LINES_MAX + 1),
            pending=mshr.PENDING_TABLE.zeros(sms, PENDING_LIMIT + 2),
            requests=mshr.REQUEST_TABLE.zeros(sms, limit + 1),
        ),
        front=_front_state(spec, sms, subs),
    )
    state.sms[:, (sm.NEXT, sm.START_NEXT, sm.QUEUE_NEXT, sm.TMA_NEXT, sm.PEER_NEXT)] = NEVER
    state.report[sm.R_NEXT_CYCLE] = NEVER
    state.starts[:, sm.S_CYCLE] = NEVER
    state.resident.ready[:] = NEVER
    state.resident.sets[:, DUE] = NEVER
    state.subs[:, sm.LAST_WARP] = -1
    return state


def for_program(state: SmState, program: np.ndarray, operands: np.ndarray, deep: bool, first: bool = False) -> SmState:
    """The state for another program (of ``program_table`` and ``operand_table``), with counters at zero and nothing
    held; ``deep``: boards keep several falls a counter; ``first``: nothing has run yet, so that fetch is as it should
    be, in memory that the host need not give before it is used."""
    state.subs[:, (sm.HOLD, sm.HELD_FROM, sm.ADDRESS_FREE)] = 0
    state.subs[:, sm.TENSOR_FREE_TICK : sm.TENSOR_SPARE_TICK + 1] = 0
    state.sms[:, (sm.CODE_PORT_FREE, sm.CODE_STREAM_FREE, sm.CODE_READ)] = 0
    state.resident.ports[:] = 0
    state.resident.sets[:] = 0
    state.resident.sets[:, DUE] = NEVER
    state.written[:] = 0
    state.memo[:] = 0
    state.report[sm.R_LAST_CYCLE] = 0
    if not first:
        renew(state.front)
    more = scoreboard.DEEP_WIDTH - scoreboard.WIDTH if deep else 0
    return state._replace(
        program=program,
        stalls=stall_reasons.STALL_TABLE.zeros(len(program)),
        work=counters.WORK_TABLE.zeros(len(program)),
        counters=counters.COUNTER_TABLE.zeros(),
        resident=state.resident._replace(board=scoreboard.BOARD_TABLE.zeros(len(state.resident.board), more=more)),
        front=state.front._replace(operands=operands),
    )
