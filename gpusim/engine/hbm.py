"""The DRAM channels as a part of the engine.

Mental model: requests wait in an inbox in their one total order; the jitted :func:`gpusim.model.hbm.handle_until`
takes those that have arrived and makes all decisions before a tick. Python runs here once a window.
"""

from __future__ import annotations

import numpy as np

from gpusim.engine.graph import part_name
from gpusim.engine.inbox import Inbox
from gpusim.engine.latencies import burst_ticks, dram_answer_ticks
from gpusim.engine.part import Outgoing
from gpusim.engine.tables import FIRST_NODES, copied, grown
from gpusim.gpus.spec import GpuSpec
from gpusim.io.jit_direct import direct
from gpusim.model import hbm
from gpusim.model.address_hash import layout_of
from gpusim.model.crossbar import ticks
from gpusim.model.messages import DRAM_REQUEST, DRAM_RESPONSE, NEVER

_handle_until = direct(hbm.handle_until)


class HbmPart:
    """The DRAM channels. Takes DRAM_REQUEST, sends DRAM_RESPONSE. ``rates`` and ``state`` are what the compiled code
    gets; ``requests`` holds what has not been handled yet."""

    def __init__(self, spec: GpuSpec, device: int = 0) -> None:
        self.name, self.device = part_name(device, "hbm"), device
        chip = spec.dram
        self.rates = hbm.DramRates(
            channels=chip.channels,
            banks=chip.banks_per_channel,
            row_lines=chip.row_bytes // spec.l2.line_bytes,
            line_bytes=spec.l2.line_bytes,
            sector_bytes=spec.l2.sector_bytes,
            layout=layout_of(spec.l2, chip),
            burst=burst_ticks(spec),
            row_change=ticks(spec, chip.row_miss_extra_ns),
            row_cycle=ticks(spec, chip.row_cycle_ns),
            turnaround=ticks(spec, chip.read_write_turnaround_ns),
            write_high=chip.write_high_entries,
            write_low=chip.write_low_entries,
            write_hold=ticks(spec, chip.write_hold_ns),
            turn=chip.turn_entries,
            refresh_interval=ticks(spec, chip.refresh_interval_ns),
            refresh=ticks(spec, chip.refresh_ns),
            answer=dram_answer_ticks(spec),
            codes=burst_ticks(spec) if chip.moves_codes else 0,  # the least that moves: a sector
        )
        self.reset()

    def reset(self) -> None:
        """All rows closed, nothing queued, tick 0."""
        channels, banks = hbm.make_channels(self.rates.channels, self.rates.banks)
        self.state = hbm.DramState(
            channels=channels,
            banks=banks,
            nodes=hbm.NODE_TABLE.zeros(FIRST_NODES),
            taken=np.zeros(FIRST_NODES, np.int64),
            ends=np.zeros(self.rates.channels, np.int64),
            scalars=np.zeros(hbm.SCALARS, np.int64),
            counters=np.zeros(hbm.COUNTERS, np.int64),
            responses=np.zeros(256, DRAM_RESPONSE),
        )
        self.state.scalars[hbm.NEXT_DECISION] = NEVER
        self.state.scalars[hbm.FREE_NODE] = -1
        self.requests = Inbox(DRAM_REQUEST, (("sequence", 30),))

    @property
    def minimum_latency_ticks(self) -> int:
        """Least latency of any message that this part sends."""
        return self.rates.answer + self.rates.burst

    @property
    def last_tick(self) -> int:
        """Tick of the latest burst's begin."""
        return int(self.state.scalars[hbm.LAST_TICK])

    def deliver(self, batch: np.ndarray) -> None:
        """Take a batch whose times are not before any tick already advanced to."""
        self.requests.add(batch)

    def next_tick(self) -> int:
        """Earliest tick with work, own or delivered; NEVER when there is none."""
        return min(int(self.state.scalars[hbm.NEXT_DECISION]), self.requests.next_tick())

    def advance(self, until_tick: int) -> Outgoing:
        """Make all decisions strictly before ``until_tick``."""
        requests = self.requests.ordered(until_tick)
        self.make_room(len(requests))
        state = self.state
        self.requests.drop(_handle_until(self.rates, state, requests, until_tick))
        count = int(state.scalars[hbm.RESPONSES])
        return [copied(state.responses, count)] if count else []

    def make_room(self, requests: int) -> None:
        """Grow nodes and outgoing messages to what a window may need at most in which so many requests come."""
        state = self.state
        queued = int(state.scalars[hbm.QUEUED]) + requests
        if len(state.nodes) < queued + 1:
            nodes = grown(state.nodes, queued + 1)
            state = state._replace(nodes=nodes, taken=np.zeros(len(nodes), np.int64))
        if len(state.responses) < queued:
            state = state._replace(responses=np.zeros(2 * queued, DRAM_RESPONSE))
        self.state = state

    def waiting_for(self) -> str:
        """One line: what is under way here; empty if nothing is."""
        queued = int(self.state.scalars[hbm.QUEUED])
        if not queued and not len(self.requests):
            return ""
        return f"{self.name}: {queued} requests queued, {len(self.requests)} not yet arrived"

    def counters(self) -> dict[str, int]:
        """Cumulative counters; Nsight Compute's names where they mean the same."""
        c = self.state.counters
        busy = self.state.channels[:, hbm.BUSY]
        return {
            "dram__bytes_read.sum": int(c[hbm.BYTES_READ]),
            "dram__bytes_write.sum": int(c[hbm.BYTES_WRITTEN]),
            "dram__row_hits.sum": int(c[hbm.ROW_HITS]),
            "dram__row_misses.sum": int(c[hbm.ROW_MISSES]),
            "dram__turnarounds.sum": int(c[hbm.TURNAROUNDS]),
            "dram__busy_ticks.sum": int(busy.sum()),
            "dram__busy_ticks.max": int(busy.max()),
        }
