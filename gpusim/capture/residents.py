"""Runs blocks: one after another while that works, side by side when blocks wait for each other.

Mental model: nearly every block ends without looking at another, so one slot serves them in turn. A block
that uses up its slice of instructions may be spinning for a later one, and a grid-wide barrier needs all
blocks at once: then further slots are opened and run round robin, as blocks are resident together on a GPU.
The log is one; slots hand its fill level and the instruction count on to each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpusim.capture import layout as at
from gpusim.capture.chunks import grown
from gpusim.capture.emulate import run_blocks
from gpusim.capture.host_calls import HostCalls

#: Counters that belong to the launch, not to a slot.
_SHARED_FIELDS = ("used", "executed", "now")
#: Blocks that run side by side because one of them is slow; a grid-wide barrier opens as many as it needs.
_MAX_SLOW = 64


@dataclass
class Slot:
    """Room for one resident block: its STATE[1] record array, registers, and the memory behind its pointers."""

    states: np.recarray
    registers: np.ndarray
    backing: list[np.ndarray]
    block: int = -1


class Residents:
    """The slots of a launch; ``machine`` holds the log, whose arrays grow when they must; ``host`` serves
    what blocks call."""

    def __init__(self, slot: Slot, machine: at.Machine, open_slot: Callable[[], Slot], host: HostCalls):
        self.first, self.machine, self._open, self.host = slot, machine, open_slot, host
        self._last = slot
        self.failed: Slot | None = None

    def used(self) -> tuple[int, int, int]:
        """Entries of the log that are filled: runs, accesses, scattered rows."""
        return tuple(int(n) for n in self._last.states[0].used)

    def run(self, first: int, end: int) -> int:
        """Run blocks ``first`` to ``end - 1`` with an empty log; returns DONE, or why they stopped with the
        slot in ``failed``."""
        self._last.states[0].used[:] = 0
        current = first
        while current < end:
            status, current = self._step(self.first, first, current, end)
            if status in (at.PREEMPTED, at.GRID_WAIT):
                return self._together(first, current, end)
            if status != at.DONE:
                self.failed = self.first
                return status
        return at.DONE

    def _step(self, slot: Slot, first: int, block: int, end: int) -> tuple[int, int]:
        """Run ``slot`` from ``block`` on, growing the log as needed."""
        state = slot.states[0]
        if slot is not self._last:
            for name in _SHARED_FIELDS:
                state[name] = self._last.states[0][name]
            self._last = slot
        while True:
            machine = self.machine._replace(registers=slot.registers)
            status, block = run_blocks(slot.states, 0, machine, first, block, end)
            if status == at.LOG_FULL:
                self.machine = grown(self.machine, self.used())
            elif status == at.HOST_CALL:
                self.host.serve(state, slot.registers, self.machine)
            else:
                return status, block

    def _together(self, first: int, current: int, end: int) -> int:
        """Run the started block ``current`` and all behind it side by side."""
        self.first.block = current
        resident, free, pending = [self.first], [], current + 1
        while resident:
            moved, slow = False, False
            for slot in list(resident):
                status, _ = self._step(slot, first, slot.block, slot.block + 1)
                if status == at.DONE:
                    resident.remove(slot)
                    free.append(slot)
                    moved = True
                elif status == at.PREEMPTED:
                    moved = slow = True
                elif status != at.GRID_WAIT:
                    self.failed = slot
                    return status
            crowded = len(resident) >= _MAX_SLOW
            if pending < end and (slow and not crowded or not moved or not resident):
                slot = free.pop() if free else self._open()
                slot.block = pending
                pending += 1
                resident.append(slot)
            elif not moved:
                for slot in resident:
                    _release_grid(slot.states[0])
        return at.DONE


def _release_grid(state: np.record) -> None:
    """Everybody has arrived at the grid's barrier: let this block's fragments go on."""
    waiting = state.fragment == at.AT_GRID
    state.fragment[waiting] = at.READY
    state.ready[:] += waiting.sum(axis=1)
