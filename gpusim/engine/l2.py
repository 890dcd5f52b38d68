"""The L2 slices as a part of the engine.

Mental model: requests and fills wait in inboxes in their one total order; the jitted
:func:`gpusim.model.l2.handle_until` handles everything before a tick. Python runs here once a window.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gpusim.engine.arena import Arena
from gpusim.engine.graph import part_name
from gpusim.engine.inbox import Inbox
from gpusim.engine.latencies import dram_request_ticks
from gpusim.engine.part import Outgoing
from gpusim.engine.peer_memory import Windows, owners
from gpusim.engine.tables import FIRST_NODES, copied, grown
from gpusim.errors import DeadlockError
from gpusim.gpus.spec import GpuSpec
from gpusim.io.jit_direct import direct
from gpusim.model import l2, l2_state, l2_tags
from gpusim.model.address_hash import channel_of, fold, layout_of
from gpusim.model.crossbar import gpc_count, nearest_hit_ticks, response_latency_ticks, slice_ways, sm_ways, ticks
from gpusim.model.event_wheel import MARK_WORDS, WHEEL_TICKS
from gpusim.model.l2_merging import MERGE_TABLE
from gpusim.model.l2_tags import make_tags
from gpusim.model.l2_traffic import ROOM_OF_SLICE_0
from gpusim.model.l2_warm import warm_lines
from gpusim.model.messages import DRAM_REQUEST, DRAM_RESPONSE, NEVER, REQUEST, RESPONSE, WRITE
from gpusim.model.tlb import make_pages, page_shift
from gpusim.model.trace_tables import SIGNAL_TABLE
from gpusim.state_tables import line_aligned

_handle_until = direct(l2.handle_until)


class L2Part:
    """The slices of both partitions. Takes REQUEST and DRAM_RESPONSE, sends RESPONSE and DRAM_REQUEST. ``rates`` and
    ``state`` are what the compiled code gets; ``requests`` and ``fills`` hold what has not been handled yet."""

    def __init__(self, spec: GpuSpec, device: int = 0, elsewhere: Windows = ()) -> None:
        self.name, self.device, self._spec = part_name(device, "l2"), device, spec
        self.elsewhere = elsewhere
        chip, sectors = spec.l2, spec.l2.line_bytes // spec.l2.sector_bytes
        sets = chip.total_bytes // (chip.slices * chip.ways * chip.line_bytes)
        counts = np.arange(sectors + 1)

        def port_ticks(bytes_per_ns: float) -> np.ndarray:
            return np.array([ticks(spec, n * chip.sector_bytes / bytes_per_ns) for n in counts], np.int64)

        crossing_ns = chip.sector_bytes / chip.partition_link_bytes_per_ns
        self.rates = l2_state.L2Rates(
            layout=layout_of(chip, spec.dram),
            partitions=chip.partitions,
            slices_per_partition=chip.slices // chip.partitions,
            sets=sets,
            ways=chip.ways,
            dirty_ways=max(1, round(chip.dirty_share * chip.ways)),
            turn=chip.slices * sets * chip.ways,
            channels=spec.dram.channels,
            line_bytes=chip.line_bytes,
            sector_bytes=chip.sector_bytes,
            line_sectors=sectors,
            fetch_sectors=chip.fetch_bytes // chip.sector_bytes,
            near_sectors=1,
            gpcs=gpc_count(spec),
            merges=spec.crossbar.merges_reads and gpc_count(spec) > 0,
            tag=ticks(spec, chip.tag_interval_ns),
            hit=nearest_hit_ticks(spec),
            response=response_latency_ticks(spec),
            far=ticks(spec, chip.far_hit_extra_ns / 2),
            far_miss=max(0, ticks(spec, chip.far_miss_extra_ns - chip.far_hit_extra_ns)),
            to_dram=dram_request_ticks(spec),
            masked_writes=spec.dram.masked_writes,
            atomic=ticks(spec, chip.atomic_interval_ns),
            atomic_sector=ticks(spec, chip.atomic_sector_ns),
            atomic_float=ticks(spec, 1e9 * chip.atomic_float_cycles / spec.clock_hz),
            retry=16 * max(1, ticks(spec, chip.tag_interval_ns)),
            page_shift=page_shift(spec.tlb),
            tlb_miss=ticks(spec, spec.tlb.miss_ns),
        )
        self._costs = np.array(
            [
                *(port_ticks(rate) for rate in (chip.slice_bytes_per_ns, chip.slice_write_bytes_per_ns)),
                counts * ticks(spec, crossing_ns * l2_state.LINK_TICK_PARTS),
            ]
        )
        self.reset()

    def reset(self) -> None:
        """Empty, with nothing under way, tick 0."""
        spec, chip, rates = self._spec, self._spec.l2, self.rates
        room = max(1, spec.dram.write_queue_entries * spec.dram.channels // chip.slices)
        self.state = l2_state.L2State(
            tags=make_tags(chip.slices * rates.sets * chip.ways, rates.line_sectors),
            # One row more for what comes from other devices.
            pages=make_pages(spec.tlb, spec.sm_count + 1),
            costs=self._costs,
            servers=np.zeros((chip.slices, l2_state.SERVERS), np.int64),
            nodes=l2_state.NODE_TABLE.zeros(FIRST_NODES),
            places=l2_state.PLACE_TABLE.zeros(FIRST_NODES),
            merged=MERGE_TABLE.zeros(max(1, rates.gpcs * l2_state.MERGE_ROWS * rates.merges)),
            wheel=line_aligned((WHEEL_TICKS,), np.dtype(np.int32)),
            marks=line_aligned((MARK_WORDS,), np.dtype(np.uint32)),
            heap=np.zeros((2, FIRST_NODES), np.int64),
            scalars=np.zeros(l2_state.SCALARS, np.int64),
            responses=np.zeros(256, RESPONSE),
            dram=np.zeros(256, DRAM_REQUEST),
            signals=SIGNAL_TABLE.zeros(1),
            written=np.zeros(1, np.int64),
            sm_ways=sm_ways(spec),
            slice_ways=slice_ways(spec),
        )
        self._arena: Arena | None = None
        self.state.servers[:, l2_state.WRITE_ROOM] = room
        self.state.servers[:, l2_state.FIRST_BLOCKED] = -1
        self.state.scalars[l2_state.FREE_NODE] = self.state.scalars[l2_state.DUE] = -1
        self.state.scalars[l2_state.NEXT_EVENT] = NEVER
        kept = min(room, spec.dram.write_high_entries * max(1, spec.dram.channels // chip.slices))
        #: Dirty lines that warming has evicted last, by slice, and their number.
        self._evicted = np.zeros((chip.slices, kept), np.int64)
        self._evictions = np.zeros(chip.slices, np.int64)
        self.warmed = False  #: whether there may be any
        self.requests = Inbox(REQUEST, (("sm", 12), ("sequence", 20)))
        self.fills = Inbox(DRAM_RESPONSE, (("sequence", 30),))

    @property
    def minimum_latency_ticks(self) -> int:
        """Least latency of any message that this part sends."""
        return min(self.rates.response, self.rates.to_dram)

    @property
    def last_tick(self) -> int:
        """Tick of the latest event handled."""
        return int(self.state.scalars[l2_state.LAST_TICK])

    @property
    def filled(self) -> float:
        """Share of all lines that hold something."""
        held = self.state.tags.slots[l2_tags.HELD]
        return 1.0 - np.count_nonzero(held == l2_tags.EMPTY) / len(held)

    def deliver(self, batch: np.ndarray) -> None:
        """Take a batch whose times are not before any tick already advanced to. Requests for memory that is elsewhere
        are left to the port to its devices."""
        if self.elsewhere and batch.dtype == REQUEST:
            batch = batch[owners(batch["line"], self.elsewhere) < 0]
        (self.requests if batch.dtype == REQUEST else self.fills).add(batch)

    def next_tick(self) -> int:
        """Earliest tick with work, own or delivered; NEVER when there is none."""
        own = int(self.state.scalars[l2_state.NEXT_EVENT])
        return min(own, self.requests.next_tick(), self.fills.next_tick())

    def advance_alone(self, until_tick: int, answer_ticks: Mapping[np.dtype, int]) -> Outgoing:
        """As :meth:`advance`, but no further than an answer to what it sends could come."""
        scalars = self.state.scalars
        scalars[l2_state.ALONE] = 1
        scalars[l2_state.RESPONSE_ANSWER] = answer_ticks[RESPONSE]
        scalars[l2_state.DRAM_ANSWER] = answer_ticks[DRAM_REQUEST]
        try:
            return self.advance(until_tick)
        finally:
            scalars[l2_state.ALONE] = 0

    def advance(self, until_tick: int) -> Outgoing:
        """Handle all events strictly before ``until_tick``."""
        sent: Outgoing = []
        if self.warmed and (first := self.next_tick()) < until_tick:
            sent.append(self._unwritten(first))
        requests, fills = self.requests.ordered(until_tick), self.fills.ordered(until_tick)
        self.make_room(len(requests), len(fills))
        state = self.state
        taken, taken_fills = _handle_until(self.rates, state, requests, fills, until_tick)
        self.requests.drop(taken)
        self.fills.drop(taken_fills)
        count = int(state.scalars[l2_state.RESPONSES])
        if count:
            sent.append(copied(state.responses, count))
        count = int(state.scalars[l2_state.DRAM_REQUESTS])
        if count:
            sent.append(copied(state.dram, count))
        return sent

    def begin_launch(self, arena: Arena) -> None:
        """A launch whose trace lies in ``arena`` begins: no word that its warps poll has been written."""
        self._arena = arena
        self.state.written[:] = 0

    def written(self, word: int) -> int:
        """How often word number ``word`` of those that warps poll has been written."""
        return int(self.state.written[word]) if word < len(self.state.written) else 0

    def make_room(self, requests: int, fills: int) -> None:
        """Grow nodes, heap and outgoing messages to what the coming window may need at most."""
        state = self.state
        if self._arena is not None and (words := self._arena.words):
            written = state.written if len(state.written) >= words else grown(state.written, words)
            state = state._replace(signals=self._arena.tables.signals, written=written)
        outstanding, events = int(state.scalars[l2_state.OUTSTANDING]), int(state.scalars[l2_state.EVENTS])
        nodes, answers, asked = l2_state.room_needed(outstanding, events, requests, fills)
        if len(state.nodes) < nodes:
            bigger = grown(state.nodes, nodes)
            heap = np.zeros((2, len(bigger)), np.int64)
            heap[:, : state.heap.shape[1]] = state.heap
            state = state._replace(nodes=bigger, heap=heap)
        if len(state.places) < requests:
            state = state._replace(places=l2_state.PLACE_TABLE.zeros(2 * requests))
        if len(state.responses) < answers:
            state = state._replace(responses=np.zeros(2 * answers, RESPONSE))
        if len(state.dram) < asked:
            state = state._replace(dram=np.zeros(2 * asked, DRAM_REQUEST))
        self.state = state

    def warm(self, lines: np.ndarray, sectors: np.ndarray, is_write: np.ndarray, sms: np.ndarray) -> None:
        """Install the state that these accesses leave, in order, in no time; the dirty lines that they
        evict last go to DRAM's write queues with the first event to come. Memory that is elsewhere is left out.

        ``lines`` uint64[n] byte addresses, ``sectors`` uint8[n], ``is_write`` bool or uint8[n], ``sms``
        int16[n]. Raises :class:`DeadlockError` while requests are under way.
        """
        if self.next_tick() != NEVER or self.state.scalars[l2_state.OUTSTANDING]:
            raise DeadlockError(f"warming a busy L2: {self.waiting_for()}")
        self.warmed = True
        if self.elsewhere:
            own = owners(lines, self.elsewhere) < 0
            lines, sectors, is_write, sms = (each[own] for each in (lines, sectors, is_write, sms))
        warm_lines(
            self.rates,
            self.state,
            np.ascontiguousarray(lines, np.uint64),
            np.ascontiguousarray(sectors, np.uint8),
            np.ascontiguousarray(is_write, np.uint8),
            np.ascontiguousarray(sms, np.int16),
            self._evicted,
            self._evictions,
        )

    def _unwritten(self, tick: int) -> np.ndarray:
        """Writes that fill DRAM's queues as a busy machine leaves them: each slice's last evictions,
        as many as a random moment between two drains would find."""
        kept = self._evicted.shape[1]
        rows = []
        for index in range(len(self._evictions)):
            evicted = int(self._evictions[index])
            count = min(evicted, fold(index) % (kept + 1))
            lines = [int(self._evicted[index, (evicted - 1 - i) % kept]) for i in range(count)]
            rows += [(index, line) for line in reversed(lines)]
        self._evictions[:] = 0
        self.warmed = False
        batch = np.zeros(len(rows), DRAM_REQUEST)
        rates, state = self.rates, self.state
        for request, (index, line) in zip(batch, rows, strict=True):
            state.scalars[l2_state.BIRTHS] += 1
            state.servers[index, l2_state.WRITE_ROOM] -= 1
            request["time"] = tick + rates.to_dram
            request["line"] = line * rates.line_bytes
            request["sequence"] = state.scalars[l2_state.BIRTHS]
            request["handle"] = ROOM_OF_SLICE_0 - index
            request["channel"] = channel_of(line, rates.layout, rates.channels)
            request["kind"], request["sectors"] = WRITE, (1 << rates.line_sectors) - 1
        return batch

    def waiting_for(self) -> str:
        """One line: what is under way here; empty if nothing is."""
        unanswered, events = (int(self.state.scalars[i]) for i in (l2_state.OUTSTANDING, l2_state.EVENTS))
        coming = len(self.requests) + len(self.fills)
        if not unanswered and not events and not coming:
            return ""
        return f"{self.name}: {unanswered} requests unanswered, {coming} messages not yet arrived, {events} internal events"

    def counters(self) -> dict[str, int]:
        """Cumulative counters; Nsight Compute's names where they mean the same."""
        c = self.state.scalars
        return {
            "lts__t_requests.sum": int(c[l2_state.REQUESTS]),
            "lts__t_sectors_op_read.sum": int(c[l2_state.READ_SECTORS]),
            "lts__t_sectors_op_write.sum": int(c[l2_state.WRITE_SECTORS]),
            "lts__t_sectors_op_atom.sum": int(c[l2_state.ATOMIC_SECTORS]),
            "lts__t_sectors_op_red.sum": int(c[l2_state.REDUCTION_SECTORS]),
            "lts__t_sectors_lookup_hit.sum": int(c[l2_state.HIT_SECTORS]),
            "lts__t_sectors_lookup_miss.sum": int(c[l2_state.MISS_SECTORS]),
            "l2__merged_sectors.sum": int(c[l2_state.MERGED_SECTORS]),
            "l2__partition_link_sectors.sum": int(c[l2_state.FAR_SECTORS]),
            "l2__evicted_dirty_sectors.sum": int(c[l2_state.EVICTED_SECTORS]),
            "tlb__misses.sum": int(c[l2_state.TLB_MISSES]),
            "l2__set_stalls.sum": int(c[l2_state.SET_STALLS]),
            "l2__write_stalls.sum": int(c[l2_state.WRITE_STALLS]),
            "l2__slice_busy_ticks.sum": int(c[l2_state.BUSY_TICKS]),
        }
