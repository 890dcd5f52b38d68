"""Notices when all that warps still do is poll for what nobody will write, and says who waits for whom.

Mental model: a warp that polls looks busy for ever. But if, for far longer than any instruction can take, nothing has
issued on the device but rounds of polling loops, and no block has started, nothing else ever will. It happens where the
simulated GPU holds fewer blocks at a time than wait for each other, as on silicon. Looked at now and then, at window
boundaries.
"""

from __future__ import annotations

import numpy as np

from gpusim.engine.arena import Arena
from gpusim.engine.device import Device
from gpusim.errors import DeadlockError
from gpusim.model import counters as count
from gpusim.model.messages import NEVER
from gpusim.model.residency import ACCESS, BLOCK, BLOCK_NUMBER, POLL_ACCESS, POLL_END, SUSPENDED
from gpusim.model.scheduler import AGE
from gpusim.model.stall_reasons import SELECTED
from gpusim.model.timing import MAX_BLOCKS, SUB_CORES, WARPS_PER_BLOCK, WARPS_PER_SUB_CORE
from gpusim.model.trace_tables import A_SIGNAL, G_ADDRESS, G_BLOCK, G_COUNT, G_MORE, G_POLLS, G_WARP, G_WORD

#: Cycles without any other instruction after which the launch is stuck. An instruction takes some thousands at most:
#: the longest waits for data behind everything that all SMs can have asked of DRAM.
PATIENCE_CYCLES = 1 << 18
#: Cycles from one look to the next.
_INTERVAL_CYCLES = 1 << 15
#: Warps that are named.
_NAMED = 3


def _some(waiting: list[str]) -> str:
    return "; ".join(waiting[:_NAMED]) + (f"; and {len(waiting) - _NAMED} more" if len(waiting) > _NAMED else "")


class PollWatch:
    """Watches one launch on ``device`` whose trace lies in ``arena``."""

    def __init__(self, device: Device, arena: Arena) -> None:
        self._device, self._arena = device, arena
        self._next, self._since, self._progress = 0, 0, (-1, -1)

    @property
    def next_look(self) -> int:
        """The cycle before which :meth:`look` has nothing to do."""
        return self._next if self._arena.words else NEVER

    def look(self, cycle: int) -> None:
        """All parts have done everything before ``cycle``. Raises DeadlockError."""
        if cycle < self._next or not self._arena.words:
            return
        self._next = cycle + _INTERVAL_CYCLES
        groups = self._device.groups
        issued = sum(int(group.state.stalls[:, SELECTED].sum()) for group in groups)
        polled = sum(int(group.state.counters[count.POLL_INSTRUCTIONS]) for group in groups)
        progress = issued - polled, self._device.dispatcher.next_block
        if progress != self._progress:
            self._progress, self._since = progress, cycle
        elif cycle - self._since >= PATIENCE_CYCLES and (waiting := self._waiting()):
            raise DeadlockError(
                f"{self._device.dispatcher.kernel}: deadlock: for {cycle - self._since} cycles all warps on the GPU have"
                f" only polled or waited; {_some(waiting)}"
            )

    def waiting(self) -> str:
        """Who polls or is suspended, and for what, in a few words; empty if nobody is."""
        return _some(self._waiting())

    def _waiting(self) -> list[str]:
        """A line for each warp that polls and has not seen what it waits for."""
        lines = []
        for group in self._device.groups:
            warps, slots, timing = group.state.resident.warps, group.state.resident.slots, group.state.timing
            per_sub, subs = int(timing[WARPS_PER_SUB_CORE]), int(timing[SUB_CORES])
            for warp in range(len(warps)):
                suspended = int(warps[warp, SUSPENDED])
                if not slots[warp, AGE] or not (suspended or warps[warp, POLL_END]):
                    continue
                sm, sub, place = warp // (per_sub * subs), warp // per_sub % subs, warp % per_sub
                slot = int(warps[warp, BLOCK]) - sm * int(timing[MAX_BLOCKS])
                number = place * subs + sub - slot * int(timing[WARPS_PER_BLOCK])
                block = int(group.state.resident.blocks[warps[warp, BLOCK], BLOCK_NUMBER])
                if suspended:
                    awaited = self._unwritten(suspended - 1, group.state.written)
                else:
                    awaited = self._awaited(
                        int(warps[warp, POLL_ACCESS]), int(warps[warp, ACCESS]), group.state.written
                    )
                if awaited:
                    lines.append(f"block {block} warp {number} {'waits for' if suspended else 'polls'} {awaited}")
        return lines

    def _awaited(self, first: int, end: int, shared: np.ndarray) -> str:
        """What the accesses ``first`` to ``end`` of a round poll and have not seen."""
        rows = (int(self._arena.tables.accesses[access, A_SIGNAL]) - 1 for access in range(first, end + 1))
        return next(filter(None, (self._unwritten(row, shared) for row in rows)), "")

    def _unwritten(self, row: int, shared: np.ndarray) -> str:
        """The first word of an access, of the signals from ``row`` on (-1: none), that it polls and has not seen."""
        tables, dispatcher = self._arena.tables, self._device.dispatcher
        while row >= 0:
            signal = tables.signals[row]
            word = int(signal[G_WORD])
            have = max(self._device.l2.written(word), int(shared[word]) if word < len(shared) else 0)
            if signal[G_POLLS] and have < signal[G_COUNT]:
                block = int(signal[G_BLOCK])
                where = "" if block < dispatcher.next_block else ", which is not resident: the GPU holds no more blocks"
                return (
                    f"0x{int(signal[G_ADDRESS]):x}, written {have} of {int(signal[G_COUNT])} times, for"
                    f" block {block} warp {int(signal[G_WARP])}{where}"
                )
            row = row + 1 if signal[G_MORE] else -1
        return ""
