"""A group of SMs as one part of the engine: its state, and the calls that move it through a window.

Mental model: the SMs of a GPU are cut into groups, so that several may run in parallel; each is a part
(:mod:`gpusim.engine.part`), which gets the messages for all SMs and takes its own. They share only the
read-only tables of the trace.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpusim.engine.arena import Arena
from gpusim.engine.graph import part_name
from gpusim.engine.latencies import peer_ticks, turnaround_halves
from gpusim.engine.part import Outgoing
from gpusim.engine.sm_advance import advance_group
from gpusim.engine.tables import copied, grown
from gpusim.gpus.spec import GpuSpec
from gpusim.io.jit_direct import direct
from gpusim.model import timing as at
from gpusim.model.arrivals import TAG_BITS, push
from gpusim.model.cache import sets_in
from gpusim.model.compiled import compiled
from gpusim.model.crossbar import request_latency_ticks
from gpusim.model.grid_writes import GRID_WRITES_TABLE
from gpusim.model.messages import EXIT, MOST_PEERS, NEVER, PEER, START, TICKS_PER_CYCLE
from gpusim.model.mshr import SENDER
from gpusim.model.occupancy import Occupancy
from gpusim.model.program import CONSTANT_BANK_BYTES, CONSTANT_LINE, LINE, LOADED_LINE, counts_down, program_table
from gpusim.model.register_file import operand_table
from gpusim.model.residency import BLOCK, GRID, HELD_END, wake
from gpusim.model.scheduler import AGE
from gpusim.model.sm_state import empty_state, for_program
from gpusim.model.sm_tables import (
    ARRIVALS,
    EXIT_TABLE,
    NEXT,
    P_CLUSTER,
    P_CYCLE,
    P_KIND,
    P_SLOT,
    P_VALUE,
    PEER_NEXT,
    PEER_TABLE,
    PEERS_OUT,
    R_EXITS,
    R_LAST_CYCLE,
    R_NEXT_CYCLE,
    R_PEERS,
    R_REQUESTS,
    READS_OUT,
    RESIDENT_BLOCKS,
    S_BLOCK,
    S_CLUSTER,
    S_CLUSTER_BLOCKS,
    S_CYCLE,
    S_FIRST_WARP,
    S_GRID,
    S_HELD,
    S_PEERS,
    S_RANK,
    S_WARP_ROW,
    S_WARPS,
    START_NEXT,
    WRITES_OUT,
)
from gpusim.trace.record import Flag, Launch, Program, Trace

_CLUSTER_FLAGS = int(Flag.CLUSTER_ARRIVE | Flag.CLUSTER_WAIT)
#: Programs whose tables a group keeps.
_KEPT_PROGRAMS = 32
#: More lines of constant memory than a program can name: 256 banks of lines of 16 bytes or more.
_CONSTANT_LINES = 256 * CONSTANT_BANK_BYTES // 16


def is_clustered(program: Program, launch: Launch) -> bool:
    """Whether blocks of the launch may tell each other anything: it has clusters, or a barrier of them."""
    return launch.cluster_blocks > 1 or bool((program.instructions["flags"] & _CLUSTER_FLAGS).any())


@compiled
def deliver_responses(state, batch):
    """Promise the responses of ``batch`` that are for this group; returns its next cycle with work."""
    timing, sms = state.timing, state.sms
    first = timing[at.FIRST_SM]
    following = state.report[R_NEXT_CYCLE]
    for i in range(batch.shape[0]):
        sm = np.int64(batch[i]["sm"]) - first
        if sm < 0 or sm >= sms.shape[0]:
            continue
        tick = np.int64(batch[i]["time"])
        if not batch[i]["seen"]:
            requests = state.mshr.requests
            requests[sm, np.int64(batch[i]["tag"]), SENDER] = ~requests[sm, np.int64(batch[i]["tag"]), SENDER]
        push(state.heap, sm, sms, ARRIVALS, (tick << TAG_BITS) | np.int64(batch[i]["tag"]))
        cycle = (tick + TICKS_PER_CYCLE - 1) // TICKS_PER_CYCLE
        sms[sm, NEXT] = min(sms[sm, NEXT], cycle)
        following = min(following, cycle)
    state.report[R_NEXT_CYCLE] = following


@compiled
def _let_go(state, grid, cycle):
    """The grid on which ``grid`` depends completes at ``cycle``: what its warps wait for at griddepcontrol.wait is
    known."""
    timing, sms, starts, resident = state.timing, state.sms, state.starts, state.resident
    warps, blocks, slots = resident.warps, resident.blocks, resident.slots
    for row in range(starts.shape[0]):
        if starts[row, S_CYCLE] != NEVER and starts[row, S_GRID] == grid and starts[row, S_HELD] == NEVER:
            starts[row, S_HELD] = cycle
    for warp in range(warps.shape[0]):
        if slots[warp, AGE] == 0 or warps[warp, HELD_END] != NEVER or blocks[warps[warp, BLOCK], GRID] != grid:
            continue
        warps[warp, HELD_END] = cycle
        if resident.ready[warp] == NEVER:
            wake(resident, state.program, timing, warp, cycle)
            if resident.ready[warp] != NEVER:
                sm = warps[warp, BLOCK] // timing[at.MAX_BLOCKS]
                ready = resident.ready[warp]
                sms[sm, NEXT] = min(sms[sm, NEXT], ready)
                state.report[R_NEXT_CYCLE] = min(state.report[R_NEXT_CYCLE], ready)


@compiled
def deliver_starts(state, batch):
    """Note block starts, one row a slot, for this group's SMs."""
    timing, sms = state.timing, state.sms
    for i in range(batch.shape[0]):
        if batch[i]["slot"] < 0:
            _let_go(state, batch[i]["block"] + 1, batch[i]["time"] // TICKS_PER_CYCLE)
            continue
        sm = batch[i]["sm"] - timing[at.FIRST_SM]
        if sm < 0 or sm >= sms.shape[0]:
            continue
        row = sm * timing[at.MAX_BLOCKS] + batch[i]["slot"]
        cycle = batch[i]["time"] // TICKS_PER_CYCLE
        state.starts[row, S_CYCLE] = cycle
        state.starts[row, S_BLOCK] = batch[i]["block"]
        state.starts[row, S_WARP_ROW] = batch[i]["warp_row"]
        state.starts[row, S_CLUSTER] = batch[i]["cluster"]
        state.starts[row, S_CLUSTER_BLOCKS] = batch[i]["cluster_blocks"]
        state.starts[row, S_RANK] = batch[i]["rank"]
        for rank in range(MOST_PEERS):
            state.starts[row, S_PEERS + rank] = batch[i]["peers"][rank]
        state.starts[row, S_WARPS], state.starts[row, S_FIRST_WARP] = batch[i]["warps"], batch[i]["first_warp"]
        if batch[i]["warps"] == 0:
            state.starts[row, S_WARPS] = timing[at.WARPS_PER_BLOCK]
            state.starts[row, S_FIRST_WARP] = batch[i]["slot"] * timing[at.WARPS_PER_BLOCK]
        state.starts[row, S_GRID], state.starts[row, S_HELD] = batch[i]["grid"], batch[i]["held"]
        sms[sm, START_NEXT] = min(sms[sm, START_NEXT], cycle)
        sms[sm, NEXT] = min(sms[sm, NEXT], cycle)
        state.report[R_NEXT_CYCLE] = min(state.report[R_NEXT_CYCLE], cycle)


@compiled
def deliver_peers(state, batch):
    """Keep what blocks on other SMs tell this group's, until it comes; there is room."""
    timing, sms, peers = state.timing, state.sms, state.peers
    for i in range(batch.shape[0]):
        sm = batch[i]["sm"] - timing[at.FIRST_SM]
        if sm < 0 or sm >= sms.shape[0]:
            continue
        n = sms[sm, PEERS_OUT]
        sms[sm, PEERS_OUT] = n + 1
        cycle = (batch[i]["time"] + TICKS_PER_CYCLE - 1) // TICKS_PER_CYCLE
        peers[sm, n, P_CYCLE], peers[sm, n, P_SLOT] = cycle, batch[i]["slot"]
        peers[sm, n, P_CLUSTER] = batch[i]["cluster"]
        peers[sm, n, P_KIND], peers[sm, n, P_VALUE] = batch[i]["kind"], batch[i]["value"]
        sms[sm, PEER_NEXT] = min(sms[sm, PEER_NEXT], cycle)
        sms[sm, NEXT] = min(sms[sm, NEXT], cycle)
        state.report[R_NEXT_CYCLE] = min(state.report[R_NEXT_CYCLE], cycle)


_advance_group, _promise, _note_starts = direct(advance_group), direct(deliver_responses), direct(deliver_starts)
_note_peers = direct(deliver_peers)


class SmGroup:
    """SMs ``first .. first + count - 1`` of a GPU. Takes RESPONSE, START and PEER, sends REQUEST, EXIT and PEER."""

    def __init__(self, spec: GpuSpec, first: int, count_: int, device: int = 0) -> None:
        self.spec = spec
        self.name, self.device = f"{part_name(device, 'sm')}{first}-{first + count_ - 1}", device
        self.exit_ticks = turnaround_halves(spec)[0] * TICKS_PER_CYCLE
        self.first, self.count = first, count_
        self.state = empty_state(spec, first, count_)
        self.arena = Arena()
        # Programs lie one after another in memory, in the order of their first launch: line of code by the program's
        # hash.
        self._code_lines: dict[int, int] = {}
        self._next_line = 0
        self._loaded: dict[tuple, tuple[np.ndarray, np.ndarray]] = {}  # tables of the programs that were launched last

    def begin_launch(self, program: Program, launch: Launch, occupancy: Occupancy, arena: Arena, keep_l1: bool) -> None:
        """Load a program into an idle group; ``keep_l1`` leaves the L1 as it is (it is emptied at a
        kernel's start)."""
        spec, timing = self.spec, self.state.timing
        sets = sets_in(spec.l1, occupancy.l1_bytes)
        if not keep_l1 or timing[at.L1_SETS] != sets:
            self.state.l1[:] = 0
        timing[at.L1_SETS] = sets
        timing[at.WARPS_PER_BLOCK] = launch.warps_per_block
        timing[at.CLUSTER_SIZE] = launch.cluster_blocks
        timing[at.CHAINED] = 0
        self._place_memories([launch])
        first = not self._loaded
        table, operands = self._tables(program)
        timing[at.CODE_LINES] = table[:, LINE].max() + 1
        self._next_line = max(self._next_line, int(timing[at.CODE_LINES]))
        self.state = for_program(self.state, table, operands, counts_down(table), first)
        if is_clustered(program, launch):
            self._meet_peers()
        self.arena = arena

    def begin_chain(self, traces: Sequence[Trace], l1_bytes: int, arena: Arena, keep_l1: bool) -> None:
        """Load the programs of a chain of grids into an idle group, one behind the other; ``keep_l1`` as in
        :meth:`begin_launch`."""
        timing, launches = self.state.timing, [trace.launch for trace in traces]
        sets = sets_in(self.spec.l1, l1_bytes)
        if not keep_l1 or timing[at.L1_SETS] != sets:
            self.state.l1[:] = 0
        timing[at.L1_SETS] = sets
        timing[at.WARPS_PER_BLOCK], timing[at.CHAINED] = launches[0].warps_per_block, 1
        timing[at.CLUSTER_SIZE] = max(launch.cluster_blocks for launch in launches)
        self._place_memories(launches)
        first, tables, every_operand, code_lines = not self._loaded, [], [], 0
        for number, trace in enumerate(traces):
            table, operands = self._tables(trace.program)
            code_lines = max(code_lines, int(table[:, LINE].max()) + 1)
            self._next_line = max(self._next_line, code_lines)
            table = table.copy()
            for column in (CONSTANT_LINE, LOADED_LINE):  # its parameters are not those of the grid before
                table[table[:, column] != 0, column] += number * _CONSTANT_LINES
            tables.append(table)
            every_operand.append(operands)
        timing[at.CODE_LINES] = code_lines
        joined = np.concatenate(tables)
        self.state = for_program(self.state, joined, np.concatenate(every_operand), counts_down(joined), first)
        grids, ends = len(traces), 2 * len(self.state.resident.blocks) + 1
        self.state = self.state._replace(
            grid_writes=GRID_WRITES_TABLE.zeros(self.count, grids), exits=EXIT_TABLE.zeros(ends + self.count * grids)
        )
        if any(is_clustered(trace.program, trace.launch) for trace in traces):
            self._meet_peers()
        self.arena = arena

    def _meet_peers(self) -> None:
        """Make room for what blocks of clusters tell each other."""
        if len(self.state.peers_sent) == 1:
            self.state = self.state._replace(peers_sent=np.zeros(self.count * self._most_told(), PEER))

    def _place_memories(self, launches: Sequence[Launch]) -> None:
        """Note how much local memory a warp has, the most of ``launches``, and where generic addresses find local and
        shared memory."""
        timing = self.state.timing
        local_bytes = max(launch.local_bytes for launch in launches)
        timing[at.LOCAL_BYTES_PER_WARP] = -(-max(local_bytes, 1) // 128) * 128 * 32
        for column, window in (
            (at.SHARED_WINDOW, max(launch.shared_window for launch in launches)),
            (at.LOCAL_WINDOW, max(launch.local_window for launch in launches)),
        ):
            timing[column] = window >> 24 if window else -1

    def _tables(self, program: Program) -> tuple[np.ndarray, np.ndarray]:
        """The program's and its operands' table, kept for its next launch: making them takes longer than a small
        one."""
        code = program.instructions.tobytes(), program.texts
        found = self._loaded.pop(code, None)
        if found is None:
            line = self._code_lines.setdefault(hash(code), self._next_line)
            found = program_table(program, self.spec, line), operand_table(program, self.spec.register_file)
            if len(self._loaded) == _KEPT_PROGRAMS:
                del self._loaded[next(iter(self._loaded))]
        self._loaded[code] = found  # the latest last
        return found

    def _most_told(self) -> int:
        """Messages that an SM sends other SMs in two windows at most: one a memory instruction and lane of a cycle each
        would be more than the LSU takes; the same of bulk copies and of commits; and of the barrier and the end of each
        block one to each of its cluster."""
        cycles = 2 * request_latency_ticks(self.spec) // TICKS_PER_CYCLE
        return MOST_PEERS * (3 * cycles + 4 * self.spec.sm.max_blocks)

    def next_tick(self) -> int:
        """Earliest tick at which anything can happen here; NEVER if nothing is in sight."""
        cycle = int(self.state.report[R_NEXT_CYCLE])
        return NEVER if cycle == NEVER else cycle * TICKS_PER_CYCLE

    @property
    def minimum_latency_ticks(self) -> int:
        """Least latency of any message that this part sends."""
        return min(request_latency_ticks(self.spec), self.exit_ticks, peer_ticks(self.spec))

    def deliver(self, batch: np.ndarray) -> None:
        """Take messages; those of other groups are ignored."""
        if batch.dtype == START:
            _note_starts(self.state, batch)
        elif batch.dtype == PEER:
            held, room = int(self.state.sms[:, PEERS_OUT].max()) + len(batch), self.state.peers.shape[1]
            if held > room:
                peers = PEER_TABLE.zeros(self.count, 2 * held)
                peers[:, :room] = self.state.peers
                self.state = self.state._replace(peers=peers)
            _note_peers(self.state, batch)
        else:
            _promise(self.state, batch)

    def advance(self, until_tick: int) -> Outgoing:
        """Run all SMs up to ``until_tick``."""
        self.make_room()
        state = self.state
        _advance_group(state, self.arena.tables, until_tick // TICKS_PER_CYCLE)
        requests, exits = int(state.report[R_REQUESTS]), int(state.report[R_EXITS])
        outgoing: Outgoing = []
        if requests:
            outgoing.append(copied(state.out, requests))
        if exits:
            outgoing.append(self.exits())
        if state.report[R_PEERS]:
            outgoing.append(copied(state.peers_sent, int(state.report[R_PEERS])))
        return outgoing

    def make_room(self) -> None:
        """Have a count for every word that warps of the launch write and poll."""
        if len(self.state.written) < self.arena.words:
            self.state = self.state._replace(written=grown(self.state.written, self.arena.words))

    def exits(self) -> np.ndarray:
        """Block ends of the last turn as messages to the dispatcher."""
        exits = (
            self.state.exits[: int(self.state.report[R_EXITS])].copy().view(EXIT)[:, 0]
        )  # the table's columns stand in the order of the message's fields
        exits["time"] *= TICKS_PER_CYCLE
        exits["time"] += self.exit_ticks
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
        return f"{self.name}: {blocks} resident blocks, {reads} unanswered reads, {writes} unacknowledged sectors of writes"
