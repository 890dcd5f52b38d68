"""Runs blocks: one after another while that works, side by side when blocks wait for each other.

Mental model: nearly every block ends without looking at another, so one slot serves them one after another. A block
that uses up its slice of instructions may be spinning for a later one, and a grid-wide barrier needs all
blocks at once: then further slots are opened and run round robin, as blocks are resident together on a GPU. Those of a
cluster run side by side from the start. The log is one; slots hand its fill level and the instruction count on to each
other. It grows up to its limits; when it is full the caller gets what it holds as a :class:`LoggedBlocks` and it starts
anew, if need be in the middle of blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence

import numpy as np

from gpusim.emulator.chunks import grown, lanes_of, new_log, roomier
from gpusim.emulator.clusters import ClusterOrder, ResidentCluster
from gpusim.emulator.convergence import release_spinning
from gpusim.emulator.early_end import end_block, end_lanes, exit_index
from gpusim.emulator.events import EVENT_ROWS
from gpusim.emulator.host_calls import HostCalls
from gpusim.emulator.listeners import Fault, Listener
from gpusim.emulator.livelock import LivelockDetector
from gpusim.emulator.lockstep import run_blocks
from gpusim.emulator.log_limits import BULK_ROWS, LOG_LIMITS, holding_one_decision
from gpusim.emulator.slots import LoggedBlocks, Slot, release_grid, stuck_blocks
from gpusim.emulator.tensor_boxes import LOG_WIDTH
from gpusim.isa import event_table as table
from gpusim.isa import system_ops as ops
from gpusim.isa import warp as at
from gpusim.trace.record import SCATTERED, Space

#: Why a warp or a block cannot go on, where a listener may take that.
_TAKEN = (at.BAD_ADDRESS, at.MISALIGNED, at.DEADLOCK)
#: Blocks that run side by side because one of them is slow; a grid-wide barrier opens as many as it needs.
_MAX_SLOW = 64
#: Instructions of a block's slice once blocks run side by side: short, so that a stretch of the log holds a
#: stretch of time of all of them.
_SLICE_TOGETHER = 1 << 16
#: The same for the blocks of a cooperative launch, where a warp that polls for the others goes on polling so long.
_SLICE_COOPERATIVE = 1 << 12
#: Warp instructions after which listeners are told how far the launch is, some milliseconds of work; signals and other
#: threads of Python have their turn then.
PAUSE_INSTRUCTIONS = 1 << 20
#: Barriers that are logged before the listeners hear of them: 1.3 MB.
SYNC_ROWS = 1 << 14


class BlockScheduler:
    """The slots of a launch; ``machine`` holds the log, whose arrays grow when they must; ``host`` serves what blocks
    call; ``listeners`` hear of faults and of blocks that end. The blocks of a ``cooperative`` launch are all resident
    from the start, as on a GPU, and have short slices each; those of a cluster are resident together (``order``)."""

    def __init__(
        self,
        slot: Slot,
        machine: at.Machine,
        open_slot: Callable[[], Slot],
        host: HostCalls,
        order: ClusterOrder,
        cooperative: bool = False,
    ):
        self._order = order
        self._cooperative = cooperative
        if cooperative:
            slot.states[0].slice = _SLICE_COOPERATIVE
        self.first, self.machine, self._open, self.host = slot, machine, open_slot, host
        self._last = slot
        self._base = 0  # block from which the log counts its warps
        #: the slot whose block could not go on, and why
        self.failed: Slot | None = None
        self.status = at.DONE
        #: blocks that ran side by side when one failed, how many had ended before, whether the rest only spin
        self.resident: list[Slot] = []
        self.ended = 0
        self.spinning = False
        self.listeners: Sequence[Listener] = ()
        copies = np.isin(machine.matrix[:, at.OP], (ops.BULK, ops.TENSOR_MEMORY)).any()
        self._bulks = np.empty((BULK_ROWS if copies else 0, LOG_WIDTH), np.int64)
        self._watch, self._events = np.empty(0, np.uint8), np.empty((1, table.EVENT_TABLE_WIDTH), np.int64)
        self._ended_early = False  # there are threads without which the launch goes on
        self._pause_end = PAUSE_INSTRUCTIONS
        self._log_limits = holding_one_decision(LOG_LIMITS)

    def listen(self, listeners: Sequence[Listener], watch: Callable[[], np.ndarray]) -> None:
        """Tell ``listeners`` from now on; barriers, and events as ``watch()`` says, are logged if one of them asks for
        them."""
        self.listeners = self.host.listeners = tuple(listeners)
        if any(type(listener).syncs_logged is not Listener.syncs_logged for listener in listeners):
            self.machine = self.machine._replace(syncs=np.empty((SYNC_ROWS, at.SYNC_TABLE.width), np.int64))
        if any(type(listener).events_logged is not Listener.events_logged for listener in listeners):
            self._watch, self._events = watch(), np.empty((EVENT_ROWS, table.EVENT_TABLE_WIDTH), np.int64)
            state = self._last.states[0]
            state["watch_host"], state["events_host"] = self._watch.ctypes.data, self._events.ctypes.data
            state["events_room"] = len(self._events)

    def limit_log(self, limits: tuple[int, int, int]) -> None:
        """Let the log, which is empty yet, hold no more than so many runs, accesses and scattered rows."""
        self._log_limits = holding_one_decision(limits)
        log = self.machine.runs, self.machine.accesses, self.machine.scattered
        runs, accesses, scattered = new_log(*(min(len(part), most) for part, most in zip(log, limits, strict=True)))
        self.machine = self.machine._replace(runs=runs, accesses=accesses, scattered=scattered)

    def hurry(self) -> None:
        """Let loops that wait for a time put the clock forward instead of going round until it has come."""
        self._last.states[0].hurries = 1

    def used(self) -> tuple[int, int, int]:
        """Entries of the log that are filled: runs, accesses, scattered rows."""
        return tuple(self._last.plain["used"][: at.SYNCS].tolist())

    def signals_used(self) -> int:
        """Signals of the log."""
        return int(self._last.states[0]["used"][at.SIGNALS])

    def bulks(self) -> np.ndarray:
        """The log of boxes that bulk copies have moved, int64[b, LOG_WIDTH] (:mod:`gpusim.emulator.tensor_boxes`)."""
        return self._bulks[: int(self._last.states[0].bulks_used)]

    def _logged_so_far(self) -> tuple[int, ...]:
        """What changes when any warp does anything but poll."""
        return (int(self._last.plain["epoch"]), *self.used())

    def _polled_by(self, slot: Slot) -> tuple[int, ...]:
        """Rows of ``touched`` for the words that the warps of ``slot`` poll; none where one of them polls several."""
        words = slot.plain["poll_watch"][slot.plain["poll_loop"] != 0].tolist()
        return tuple({word % len(self.machine.touched) for word in words}) if words and min(words) >= 0 else ()

    def _may_give_up(self, resident: Sequence[Slot]) -> bool:
        """Whether a warp polls in a loop that may end although nobody writes: after some rounds, after some time."""
        polls = self.machine.polls
        kinds = np.isin(polls[:, at.POLL_KIND], (at.POLL_GIVES_UP, at.POLL_ROUND))
        loops = {int(loop) + 1 for loop in polls[kinds, at.POLL_LOOP]}
        return any(loops & set(slot.states[0].poll_loop.tolist()) for slot in resident)

    def _sleeps(self, slot: Slot) -> bool:
        """Whether no word that ``slot`` polls has been written since it looked."""
        if slot.polled_at < 0 or slot.polled_at == int(self._last.plain["changes"]):
            return slot.polled_at >= 0
        touched = self.machine.touched
        return bool(slot.watched) and all(touched[word] <= slot.polled_at for word in slot.watched)

    def tensor_memory_left(self) -> tuple[int, int, int]:
        """(blocks that ended with tensor memory that they had not given back, the first of them, columns that it
        had)."""
        state = self._last.states[0]
        return int(state.tensor_left), int(state.tensor_left_block), 32 * int(state.tensor_left_units).bit_count()

    def dropped_prints(self) -> int:
        """Calls of ``vprintf`` that came when its buffer was full and never reached Python."""
        return int(self._last.states[0].dropped_prints)

    def run(self, blocks: int, chunk_blocks: int, first: int = 0) -> Iterator[LoggedBlocks]:
        """Run blocks ``first`` to ``blocks - 1``, in stretches of at most ``chunk_blocks`` where they end one by one.
        The log holds a stretch until the next is asked for. Ends early, with ``failed`` and ``status`` set, when a
        block cannot go on."""
        if self._order.size > 1:
            yield from self._run_clusters(blocks, chunk_blocks, first)
            return
        self._base = current = first
        self._empty_log()
        while current < blocks:
            end = min(self._base + chunk_blocks, blocks)
            begun = current
            status, current = self._step(self.first, current, end)
            self._report_ended(begun, current - begun)
            if status in (at.PREEMPTED, at.GRID_WAIT):
                self.first.block = current
                current = yield from self._together(current + 1, blocks, [self.first], [])
                if self.failed is not None:
                    return
            elif status == at.LOG_FULL:
                open_blocks = int(self.first.states[0].started)
                self.first.block = current
                self._close_runs([self.first] if open_blocks else [])
                yield self._logged(current + open_blocks, open_blocks)
                self._empty_log()
            elif status != at.DONE:
                self._report_syncs()
                self._fail(self.first, status)
                return
            if current < blocks and current >= self._base + chunk_blocks:
                yield self._logged(current, 0)
                self._empty_log()
        self._report_syncs()
        yield LoggedBlocks(self._base, blocks - self._base)

    def _run_clusters(self, blocks: int, chunk_blocks: int, first: int) -> Generator[LoggedBlocks]:
        """As :meth:`run`, of a launch in clusters: ``first`` and ``blocks`` lie between bands of them."""
        order, free = self._order, [self.first]
        self._base = current = first
        self._empty_log()
        while current < blocks:
            if (rest := order.past_taken(current, blocks)) > current:
                current = rest
                continue
            started = self._begin(current, free)
            current = yield from self._together(current + order.size, blocks, started, free)
            if self.failed is not None:
                return
            used, limits = self.used(), self._log_limits
            full = any(4 * filled > 3 * most for filled, most in zip(used, limits, strict=True))
            if current % order.band == 0 and current < blocks and (full or current >= self._base + chunk_blocks):
                yield self._logged(current, 0)
                self._empty_log()
        self._report_syncs()
        yield LoggedBlocks(self._base, blocks - self._base)

    def _begin(self, place: int, free: list[Slot]) -> list[Slot]:
        """Slots, of those that are ``free`` and new ones, for the blocks of the cluster that begins at ``place`` of the
        order."""
        self._order.start(place)
        slots = [free.pop() if free else self._open() for _ in range(self._order.size)]
        for i, slot in enumerate(slots):
            slot.block, slot.polled_at = self._order.block(place + i), -1
        if len(slots) > 1:
            cluster = ResidentCluster.together([slot.states[0] for slot in slots], [slot.block for slot in slots])
            for slot in slots:
                slot.cluster = cluster
        return slots

    def _logged(self, end: int, open_blocks: int) -> LoggedBlocks:
        """The log as blocks up to ``end``; what is logged from now on counts from the first open block."""
        self._report_syncs()
        logged = LoggedBlocks(self._base, end - self._base, open_blocks)
        self._base = end - open_blocks
        return logged

    def _close_runs(self, slots: list[Slot]) -> None:
        """Log what the warps of open blocks have done of runs that are not at their end."""
        for slot in slots:
            state = slot.states[0]
            for warp in np.flatnonzero((state.held != 0) & (state.held_pc > state.held_first)).tolist():
                self._close_run(slot, warp)

    def _close_run(self, slot: Slot, warp: int) -> None:
        """Log what the fragment that ``warp`` holds has done so far."""
        state, used = slot.states[0], self._last.states[0].used
        first, end = state.held_first[warp], state.held_pc[warp]
        if end <= first:
            return
        if used[at.RUNS] == len(self.machine.runs):
            runs = np.concatenate([self.machine.runs, np.empty_like(self.machine.runs)])
            self.machine = self.machine._replace(runs=runs)
        number = (slot.block - self._base) * int(state.warps) + warp
        self.machine.runs[used[at.RUNS]] = number, first, end - first, state.held_mask[warp]
        used[at.RUNS] += 1
        state.held_first[warp] = end

    def _free(self, resident: Sequence[Slot]) -> bool:
        """Whether some lanes go on that waited to converge with lanes of their warps that only poll."""
        return any([release_spinning(slot.states, 0, slot.registers) for slot in resident])

    def _empty_log(self) -> None:
        self._last.states[0].used[:] = 0
        self._last.states[0].bulks_used = 0
        self._last.states[0].epoch += 1

    def _take(self, slot: Slot, status: int) -> bool:
        """Whether a listener takes what has stopped ``slot``, whose block then goes on without the threads that
        cannot."""
        if status == at.DEADLOCK:
            return self._take_stuck([slot])
        exit_at = exit_index(self.machine.matrix) if self.listeners else -1
        if exit_at < 0:
            return False
        state = slot.states[0]
        warp, fault, ending = int(state.fault_warp), self._fault(slot, status), 0
        for listener in self.listeners:
            ending |= listener.warp_faulted(fault)
        if not ending:
            return False
        self._close_run(slot, warp)
        end_lanes(state, warp, ending & fault.mask | 1 << int(state.fault_lane), exit_at)
        self._ended_early = True
        return True

    def _take_stuck(self, slots: Sequence[Slot]) -> bool:
        """Whether a listener takes that no warp of ``slots`` can move; their blocks' threads then end."""
        self._report_syncs()
        exit_at = exit_index(self.machine.matrix) if self.listeners else -1
        if exit_at < 0:
            return False
        states = [slot.states[0] for slot in slots]
        if not any([listener.block_stuck(state) for state in states for listener in self.listeners]):
            return False
        for state in states:
            end_block(state, exit_at)
        self._ended_early = True
        return True

    def _fault(self, slot: Slot, status: int) -> Fault:
        """The fault of ``slot``, with the addresses of all lanes; what the instruction has logged leaves the log, for
        it will be made again."""
        state, accesses = slot.states[0], self.machine.accesses
        number = (slot.block - self._base) * int(state.warps) + int(state.fault_warp)
        address, mask = np.full(at.LANES, int(state.fault_address)), 1 << int(state.fault_lane)
        # An access logs its lanes before it looks at them; of a copy the shared side comes second.
        records = int(self.machine.matrix[int(state.fault_index), at.RECORDS])
        logged = 2 if records == 2 and int(state.fault_space) == Space.SHARED else 1
        used = int(state.used[at.ACCESSES])
        rows = accesses[used - logged : used]
        if used < logged or (rows[:, at.ACCESS_WARP] != number).any():
            return Fault(status, state, address, mask)
        address, mask = lanes_of(self.machine, rows[-1])
        state.used[at.ACCESSES] -= logged
        state.used[at.SCATTERED_ROWS] -= ((rows[:, at.ACCESS_PATTERN] >> 32) == SCATTERED).sum()
        return Fault(status, state, address, mask)

    def _report_syncs(self) -> None:
        """Tell the listeners of the barriers and events in the log, which then leave it."""
        used, state = self._last.states[0].used, self._last.states[0]
        if state.events_used:
            for listener in self.listeners:
                listener.events_logged(self._events[: int(state.events_used)])
            state.events_used = 0
        if used[at.SYNCS]:
            for listener in self.listeners:
                listener.syncs_logged(self._base, self.machine.syncs[: used[at.SYNCS]])
            used[at.SYNCS] = 0

    def _report_ended(self, first_block: int, blocks: int) -> None:
        """Tell the listeners of blocks that have come to their end."""
        if blocks:
            for listener in self.listeners:
                listener.blocks_ended(first_block, blocks)

    def _pause(self, block: int, executed: int) -> None:
        """Tell the listeners how far the launch is."""
        self._pause_end = executed + PAUSE_INSTRUCTIONS
        ended = self.ended if self.resident else block
        for listener in self.listeners:
            listener.emulating(ended, executed)

    def _fail(self, slot: Slot, status: int) -> None:
        self.failed, self.status = slot, status

    def _step(self, slot: Slot, block: int, end: int) -> tuple[int, int]:
        """Run ``slot`` from ``block`` on, growing the log as needed and possible."""
        state, plain = slot.states[0], slot.plain
        if slot is not self._last:
            slot.go_on_from(self._last)
            self._last = slot
        while True:
            machine = self.machine
            if machine.registers is not slot.registers:
                machine = machine._replace(registers=slot.registers)
            plain["pause_end"] = self._pause_end
            if len(self._bulks):
                plain["bulks_host"], plain["bulks_room"] = self._bulks.ctypes.data, len(self._bulks)
                plain["allocations_host"], plain["allocations"] = (
                    machine.allocations.ctypes.data,
                    len(machine.allocations),
                )
            status, block = run_blocks(slot.states, 0, machine, self._base, block, end)
            if plain["executed"] >= self._pause_end:
                self._pause(block, int(plain["executed"]))
            if status == at.PAUSED:
                continue
            if status == at.HOST_CALL:
                self.host.serve(state, slot.registers, self.machine)
                continue
            if status == at.CLUSTER_WAIT and self._order.size == 1:  # a cluster of one block
                if ResidentCluster([state]).release():
                    continue
                status = at.DEADLOCK
            if status in _TAKEN:
                slot.block = block
                if not self._take(slot, status):
                    return status, block
                continue
            if status != at.LOG_FULL:
                return status, block
            if 2 * int(state.used[at.SYNCS]) > SYNC_ROWS or 2 * int(state.events_used) > len(self._events):
                self._report_syncs()
                continue
            larger = grown(self.machine, self.used(), self._log_limits)
            if len(larger.words):
                larger = roomier(larger, int(state.words_used), int(state.used[at.SIGNALS]))
            if larger is self.machine:
                return status, block
            self.machine = larger

    def _together(
        self, pending: int, end: int, resident: list[Slot], free: list[Slot]
    ) -> Generator[LoggedBlocks, None, int]:
        """Run the blocks in the slots ``resident`` and those from place ``pending`` of the order on side by side, in
        ``free`` slots and new ones, until all that were started have ended; returns the place to go on with."""
        alone, size = int(self.first.states[0].slice), self._order.size
        length = _SLICE_COOPERATIVE if self._cooperative else _SLICE_TOGETHER
        livelock = LivelockDetector()
        while self._cooperative and pending < end:  # all of them may wait for each other
            resident.extend(self._begin(pending, free))
            pending += size
        opened = int(self._last.plain["executed"])
        rouse = True  # polling blocks have their turn although nothing that is known to be polled has been written
        while resident:
            moved, slow, ended, polled, skipped = False, False, False, False, False
            for slot in list(resident):
                if not rouse and self._sleeps(slot):
                    polled = skipped = True
                    continue
                slot.plain["slice"] = length
                before = self._logged_so_far()
                while True:
                    status, _ = self._step(slot, slot.block, slot.block + 1)
                    if status != at.LOG_FULL:
                        break
                    self._close_runs(resident)
                    yield self._logged(*self._order.open_blocks(pending, [each.block for each in resident]))
                    self._empty_log()
                slot.status = status
                if status == at.DONE:
                    self._report_ended(slot.block, 1)
                    resident.remove(slot)
                    free.append(slot)
                    moved = ended = True
                    if slot.cluster is not None:
                        slot.cluster.leave(int(slot.states[0].cluster_rank))
                        slot.cluster.release()
                    livelock.progress()
                elif status == at.PREEMPTED and slot.plain["only_polled"]:
                    polled, waits = True, before == self._logged_so_far()
                    moved |= not waits
                    slot.polled_at = int(slot.plain["changes"]) if waits else -1
                    slot.watched = self._polled_by(slot)
                elif status == at.PREEMPTED:
                    moved = slow = True
                elif status == at.CLUSTER_WAIT and slot.cluster is not None:
                    moved |= slot.cluster.release()
                elif status != at.GRID_WAIT:
                    self._report_syncs()
                    if size > 1:
                        self.resident = [other for other in resident if other.cluster is slot.cluster]
                        self.ended = size - len(self.resident)
                    self._fail(slot, status)
                    return pending
            if size > 1:
                stuck_cluster = stuck_blocks(resident)
                if stuck_cluster and not self._take_stuck(stuck_cluster):
                    self.resident, self.ended = stuck_cluster, size - len(stuck_cluster)
                    self._fail(stuck_cluster[0], at.DEADLOCK)
                    return pending
                # Blocks of a cluster wait for each other, not for later ones, unless that goes on for long.
                patient = moved and int(self._last.plain["executed"]) - opened < alone * len(resident)
                slow, polled = slow and not patient, polled and not patient
            rouse = not moved and not rouse
            if rouse and skipped and resident:
                continue
            self.resident, self.ended = resident, pending - len(resident)
            crowded = len(resident) >= _MAX_SLOW
            hopeless = polled and not moved and not skipped
            giving_up = hopeless and self._may_give_up(resident)
            for slot in resident:
                slot.plain["impatient"] = giving_up
            pending = self._order.past_taken(pending, end)
            stuck = (slow or giving_up) and not ended and livelock.reached(resident, self.machine.allocations)
            if pending < end and resident and ((slow or polled) and not crowded or not moved or stuck):
                # All of them may wait for all others, as at a grid's barrier: twice as many have the next turn.
                for _ in range(min(len(resident), end - pending) // size if polled and not slow else 1):
                    resident.extend(self._begin(pending, free))
                    pending += size
                opened = int(self._last.plain["executed"])
                livelock.progress()
            elif giving_up and not stuck:
                rouse = True
            elif (stuck or (polled and not moved)) and self._free(resident):
                rouse = True
                livelock.progress()
            elif stuck or (polled and not moved):
                self._report_syncs()
                self.spinning = True
                self._fail(resident[0], at.DEADLOCK)
                return pending
            elif not moved and any(slot.status == at.CLUSTER_WAIT for slot in resident):
                # For blocks of their clusters that wait for the whole grid.
                waiting = next(slot for slot in resident if slot.status == at.CLUSTER_WAIT)
                self.resident = [slot for slot in resident if slot.cluster is waiting.cluster]
                self.ended = size - len(self.resident)
                self._fail(waiting, at.DEADLOCK)
                return pending
            elif not moved and resident and self.ended and not self._ended_early:
                if not self._take_stuck(resident):
                    waiting = next(slot for slot in resident if slot.states[0].fragment.max() == at.AT_GRID)
                    self._fail(waiting, at.DEADLOCK)
                    return pending
            elif not moved:
                for slot in resident:
                    release_grid(slot.states[0])
        self.first.states[0].slice, self.first.states[0].impatient = alone, 0
        self.resident, self.ended = [], 0
        return pending
