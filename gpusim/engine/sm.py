"""A group of SMs as one part of the engine: its state, and the calls that move it through a window.

Mental model: the SMs of a GPU are cut into groups, so that several may run in parallel; each is a part
(:mod:`gpusim.engine.part`), which gets the messages for all SMs and takes its own. They share only the
read-only tables of the trace.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpusim.engine.arena import Arena
from gpusim.engine.graph import part_name
from gpusim.engine.latencies import turnaround_halves
from gpusim.engine.part import Outgoing
from gpusim.engine.sm_advance import (
    E_BLOCK,
    E_CYCLE,
    E_SLOT,
    E_SM,
    EXIT_COLUMNS,
    R_EXITS,
    R_LAST_CYCLE,
    R_NEXT_CYCLE,
    R_REQUESTS,
    REPORT_SIZE,
    S_BLOCK,
    S_CYCLE,
    S_WARP_ROW,
    START_COLUMNS,
    advance_group,
)
from gpusim.gpus.spec import GpuSpec
from gpusim.model import counters as count
from gpusim.model import timing as at
from gpusim.model.arrivals import TAG_BITS, push
from gpusim.model.cache import sets_in
from gpusim.model.coalescer import LINE_COLUMNS
from gpusim.model.compiled import compiled
from gpusim.model.crossbar import request_latency_ticks
from gpusim.model.dispatch import Occupancy
from gpusim.model.fetch import STREAM_ENTRIES
from gpusim.model.l1_access import FLIGHT_LIMIT, WAITER_LIMIT
from gpusim.model.line_cache import READY as READY_FROM
from gpusim.model.line_cache import line_cache
from gpusim.model.messages import EXIT, NEVER, REQUEST, START, TICKS_PER_CYCLE
from gpusim.model.miss_table import FLIGHT_COLUMNS, MISS_COLUMNS, REQUEST_COLUMNS, WAITER_COLUMNS
from gpusim.model.program import LINE, PORTS, counts_down, program_table
from gpusim.model.register_file import OPERAND_COLUMNS, REGISTER_COLUMNS, operand_table
from gpusim.model.residency import BLOCK_COLUMNS, WARP_COLUMNS
from gpusim.model.scheduler import READY, SLOT_COLUMNS
from gpusim.model.scoreboard import DEEP_WIDTH, WIDTH
from gpusim.model.sm_columns import (
    ADDRESS_FREE,
    ARRIVALS,
    CODE_PORT_FREE,
    HAND_COLUMNS,
    HELD_FROM,
    HOLD,
    LAST_WARP,
    NEXT,
    QUEUE_COLUMNS,
    QUEUE_NEXT,
    READS_OUT,
    RESIDENT_BLOCKS,
    SM_COLUMNS,
    START_NEXT,
    SUB_COLUMNS,
    TENSOR_FREE_TICK,
    WRITES_OUT,
)
from gpusim.model.stall_reasons import STALL_NAMES
from gpusim.trace.record import Launch, Program


class FrontState(NamedTuple):
    """Fetch, constants and operand reads: what stands before the pipes. See ``fetch``, ``constants``, ``register_file``."""

    code_l0: np.ndarray
    code_l1: np.ndarray
    streams: np.ndarray
    constants: np.ndarray
    operands: np.ndarray
    registers: np.ndarray


class SmState(NamedTuple):
    """Everything that an SM group's jitted loop reads and writes; the arrays are described where used."""

    timing: np.ndarray
    program: np.ndarray
    sms: np.ndarray
    hand: np.ndarray
    lines: np.ndarray
    subs: np.ndarray
    subs_next: np.ndarray
    port_free: np.ndarray
    queue: np.ndarray
    slots: np.ndarray
    warps: np.ndarray
    board: np.ndarray
    blocks: np.ndarray
    starts: np.ndarray
    l1: np.ndarray
    misses: np.ndarray
    miss_index: np.ndarray
    waiters: np.ndarray
    flights: np.ndarray
    requests: np.ndarray
    heap: np.ndarray
    out: np.ndarray
    exits: np.ndarray
    report: np.ndarray
    counters: np.ndarray
    stalls: np.ndarray
    work: np.ndarray
    scratch: np.ndarray
    order: np.ndarray
    front: FrontState


@compiled
def _deliver(state, batch):
    """Promise the responses of ``batch`` that are for this group; returns its next cycle with work."""
    timing, sms = state.timing, state.sms
    first = timing[at.FIRST_SM]
    following = state.report[R_NEXT_CYCLE]
    for i in range(batch.shape[0]):
        sm = np.int64(batch[i]["sm"]) - first
        if sm < 0 or sm >= sms.shape[0]:
            continue
        tick = np.int64(batch[i]["time"])
        push(state.heap, sm, sms, ARRIVALS, (tick << TAG_BITS) | np.int64(batch[i]["tag"]))
        cycle = (tick + TICKS_PER_CYCLE - 1) // TICKS_PER_CYCLE
        sms[sm, NEXT] = min(sms[sm, NEXT], cycle)
        following = min(following, cycle)
    state.report[R_NEXT_CYCLE] = following


@compiled
def _deliver_starts(state, batch):
    """Note block starts, one row a slot, for this group's SMs."""
    timing, sms = state.timing, state.sms
    for i in range(batch.shape[0]):
        sm = batch[i]["sm"] - timing[at.FIRST_SM]
        if sm < 0 or sm >= sms.shape[0]:
            continue
        row = sm * timing[at.MAX_BLOCKS] + batch[i]["slot"]
        cycle = batch[i]["time"] // TICKS_PER_CYCLE
        state.starts[row, S_CYCLE] = cycle
        state.starts[row, S_BLOCK] = batch[i]["block"]
        state.starts[row, S_WARP_ROW] = batch[i]["warp_row"]
        sms[sm, START_NEXT] = min(sms[sm, START_NEXT], cycle)
        sms[sm, NEXT] = min(sms[sm, NEXT], cycle)
        state.report[R_NEXT_CYCLE] = min(state.report[R_NEXT_CYCLE], cycle)


def _front(spec: GpuSpec, sms: int, subs: int) -> FrontState:
    """Empty caches and ports of ``sms`` SMs with ``subs`` sub-cores in all."""
    code, constant = spec.instruction_cache, spec.constant_cache
    return FrontState(
        code_l0=line_cache(subs, code.l0_bytes, code.line_bytes, code.l0_ways),
        code_l1=line_cache(sms, code.l1_bytes, code.line_bytes, code.l1_ways),
        streams=np.zeros((subs, STREAM_ENTRIES + code.stream_entries), np.int64),
        constants=line_cache(2 * subs, constant.bytes, constant.line_bytes, constant.ways),
        operands=np.zeros((1, OPERAND_COLUMNS), np.int64),
        registers=np.zeros((subs, REGISTER_COLUMNS), np.int64),
    )


def _renew(front: FrontState) -> None:
    """As a launch finds them: constants are new; code that earlier launches have left is there at once."""
    front.constants[:] = 0
    front.registers[:] = 0
    for lines in (front.code_l0, front.code_l1):
        lines[..., READY_FROM] = 0
    front.streams[:] = 0


class SmGroup:
    """SMs ``first .. first + count - 1`` of a GPU. Takes RESPONSE and START, sends REQUEST and EXIT."""

    def __init__(self, spec: GpuSpec, first: int, count_: int, device: int = 0) -> None:
        self.spec = spec
        self.name, self.device = f"{part_name(device, 'sm')}{first}-{first + count_ - 1}", device
        self._exit_ticks = turnaround_halves(spec)[0] * TICKS_PER_CYCLE
        self.first, self.count = first, count_
        timing = at.sm_timing(spec)
        timing[at.FIRST_SM] = first
        subs = count_ * int(timing[at.SUB_CORES])
        warps = count_ * spec.sm.max_warps
        slots = count_ * spec.sm.max_blocks
        limit = int(timing[at.READ_LIMIT] + timing[at.WRITE_LIMIT]) + 2 * at.LINES_MAX
        index_size = 1 << (4 * (int(timing[at.READ_LIMIT]) + at.LINES_MAX) - 1).bit_length()

        def table(*shape: int) -> np.ndarray:
            return np.zeros(shape, np.int64)

        self.state = SmState(
            timing=timing,
            program=table(1, 1),
            sms=table(count_, SM_COLUMNS),
            hand=table(count_, HAND_COLUMNS),
            lines=table(count_, at.LINES_MAX, LINE_COLUMNS),
            subs=table(subs, SUB_COLUMNS),
            subs_next=np.full(subs, NEVER, np.int64),
            port_free=table(subs, PORTS),
            queue=table(subs, int(timing[at.QUEUE_ENTRIES]), QUEUE_COLUMNS),
            slots=table(warps, SLOT_COLUMNS),
            warps=table(warps, WARP_COLUMNS),
            board=table(warps, WIDTH),
            blocks=table(slots, BLOCK_COLUMNS),
            starts=table(slots, START_COLUMNS),
            l1=table(count_, spec.l1.total_bytes // spec.l1.line_bytes // spec.l1.ways, 2 * spec.l1.ways),
            misses=table(count_, limit + 1, MISS_COLUMNS),
            miss_index=np.zeros((count_, index_size), np.int32),
            waiters=table(count_, WAITER_LIMIT + at.LINES_MAX + 1, WAITER_COLUMNS),
            flights=table(count_, FLIGHT_LIMIT + 2, FLIGHT_COLUMNS),
            requests=table(count_, limit + 1, REQUEST_COLUMNS),
            heap=table(count_, limit + 1),
            out=np.zeros(2 * count_ * limit, REQUEST),
            exits=table(slots + 1, EXIT_COLUMNS),
            report=np.zeros(REPORT_SIZE, np.int64),
            counters=table(count.COUNT),
            stalls=table(1, len(STALL_NAMES)),
            work=table(1, count.WORK_COLUMNS),
            scratch=table(5, at.LINES_MAX),
            order=np.arange(count_, dtype=np.int64),
            front=_front(spec, count_, subs),
        )
        self.state.sms[:, (NEXT, START_NEXT, QUEUE_NEXT)] = NEVER
        self.state.report[R_NEXT_CYCLE] = NEVER
        self.state.starts[:, S_CYCLE] = NEVER
        self.state.slots[:, READY] = NEVER
        self.state.subs[:, LAST_WARP] = -1
        self.arena = Arena()
        # Programs lie one after another in memory, in the order of their first launch: line of code by the program's hash.
        self._code_lines: dict[int, int] = {}
        self._next_line = 0

    def begin_launch(self, program: Program, launch: Launch, occupancy: Occupancy, arena: Arena, keep_l1: bool) -> None:
        """Load a program into an idle group; ``keep_l1`` leaves the L1 as it is (it is emptied at a
        kernel's start)."""
        spec, timing = self.spec, self.state.timing
        sets = sets_in(spec.l1, occupancy.l1_bytes)
        if not keep_l1 or timing[at.L1_SETS] != sets:
            self.state.l1[:] = 0
        timing[at.L1_SETS] = sets
        timing[at.WARPS_PER_BLOCK] = launch.warps_per_block
        timing[at.LOCAL_BYTES_PER_WARP] = -(-max(launch.local_bytes, 1) // 128) * 128 * 32
        timing[at.SHARED_WINDOW] = launch.shared_window >> 24 if launch.shared_window else -1
        timing[at.LOCAL_WINDOW] = launch.local_window >> 24 if launch.local_window else -1
        code = hash((program.instructions.tobytes(), program.texts))
        table = program_table(program, spec, self._code_lines.setdefault(code, self._next_line))
        timing[at.CODE_LINES] = table[:, LINE].max() + 1
        self._next_line = max(self._next_line, int(timing[at.CODE_LINES]))
        _renew(self.state.front)
        width = DEEP_WIDTH if counts_down(table) else WIDTH
        self.state = self.state._replace(
            program=table,
            board=np.zeros((len(self.state.board), width), np.int64),
            stalls=np.zeros((len(table), len(STALL_NAMES)), np.int64),
            work=np.zeros((len(table), count.WORK_COLUMNS), np.int64),
            counters=np.zeros(count.COUNT, np.int64),
            front=self.state.front._replace(operands=operand_table(program, spec.register_file)),
        )
        self.state.subs[:, (HOLD, HELD_FROM, ADDRESS_FREE, TENSOR_FREE_TICK)] = 0
        self.state.sms[:, CODE_PORT_FREE] = 0
        self.state.port_free[:] = 0
        self.state.report[R_LAST_CYCLE] = 0
        self.arena = arena

    def next_tick(self) -> int:
        """Earliest tick at which anything can happen here; NEVER if nothing is in sight."""
        cycle = int(self.state.report[R_NEXT_CYCLE])
        return NEVER if cycle == NEVER else cycle * TICKS_PER_CYCLE

    @property
    def minimum_latency_ticks(self) -> int:
        """Least latency of any message that this part sends."""
        return min(request_latency_ticks(self.spec), self._exit_ticks)

    def deliver(self, batch: np.ndarray) -> None:
        """Take messages; those of other groups are ignored."""
        if batch.dtype == START:
            _deliver_starts(self.state, batch)
        else:
            _deliver(self.state, batch)

    def advance(self, until_tick: int) -> Outgoing:
        """Run all SMs up to ``until_tick``."""
        state = self.state
        advance_group(state, self.arena.tables, until_tick // TICKS_PER_CYCLE)
        report = state.report
        outgoing: Outgoing = []
        if report[R_REQUESTS]:
            outgoing.append(state.out[: report[R_REQUESTS]].copy())
        if report[R_EXITS]:
            outgoing.append(self._exits(state.exits[: report[R_EXITS]]))
        return outgoing

    def _exits(self, rows: np.ndarray) -> np.ndarray:
        """Block ends as messages to the dispatcher."""
        exits = np.empty(len(rows), EXIT)
        exits["time"] = rows[:, E_CYCLE] * TICKS_PER_CYCLE + self._exit_ticks
        exits["sm"], exits["slot"], exits["block"] = rows[:, E_SM], rows[:, E_SLOT], rows[:, E_BLOCK]
        return exits

    @property
    def last_tick(self) -> int:
        """Tick of the last response, or block end, of this launch."""
        return int(self.state.report[R_LAST_CYCLE]) * TICKS_PER_CYCLE

    def waiting_for(self) -> str:
        """Who waits here, in a line; empty if nobody does."""
        sms = self.state.sms
        blocks, reads, writes = (int(sms[:, c].sum()) for c in (RESIDENT_BLOCKS, READS_OUT, WRITES_OUT))
        if not blocks and not reads and not writes:
            return ""
        return f"{self.name}: {blocks} resident blocks, {reads} unanswered reads, {writes} unacknowledged writes"
