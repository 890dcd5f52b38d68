"""The parts of one GPU that take turns, as the compiled loop over windows gets them.

Mental model: :func:`gpusim.engine.window_loop.run_windows` runs through many windows in a call. Around a call, what
waits for L2 and DRAM is put into its boxes and taken out again, tables are made large enough, and what it left to do is
done. So before and after it the parts are as they are without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import numpy as np

from gpusim.engine.block_dispatcher import Dispatcher, end_blocks, serve
from gpusim.engine.hbm import HbmPart
from gpusim.engine.inbox import PLACES, Inbox
from gpusim.engine.l2 import L2Part
from gpusim.engine.part import Part
from gpusim.engine.run_ahead import MOST_WINDOWS
from gpusim.engine.sm import SmGroup, deliver_starts
from gpusim.engine.sm_advance import advance_group
from gpusim.engine.tables import copied
from gpusim.engine.window_loop import (
    BOX_TABLE,
    COUNT,
    DISPATCHER_OFFSET,
    DRAM_REQUESTS,
    EARLIEST,
    EMPTIED,
    EXIT_TICKS,
    EXITS,
    FILLS,
    HBM_OFFSET,
    L2_HELD,
    L2_OFFSET,
    LAST_START,
    LEFT,
    LIVE_ROW,
    LOOP_TABLE,
    PEERS,
    REQUESTS,
    SM_OFFSET,
    SPLIT,
    STOP,
    TURNS,
    WINDOW,
    WINDOW_TICKS,
    Box,
    Calls,
    Dispatch,
    Sent,
    run_windows,
)
from gpusim.io.jit_address import FLAG, NOTHING, NUMBER, PAIR, address_of
from gpusim.io.jit_direct import direct
from gpusim.model import hbm, l2, l2_state
from gpusim.model.messages import EXIT, NEVER, TICKS_PER_CYCLE
from gpusim.model.sm_tables import R_PEERS, R_REQUESTS

#: Cycles of SMs that one call runs through at most, some tenths of a second: Python obeys a signal between two calls.
_MOST_SM_CYCLES = 1 << 21
#: Messages that a box has room for at first.
_FIRST_ROOM = 4096

_run_windows = direct(run_windows)


def _words(messages: np.ndarray) -> np.ndarray:
    """Messages as int64[n, words]."""
    return np.ndarray((len(messages), messages.dtype.itemsize // 8), np.int64, messages)


class _Waiting:
    """The box of an inbox."""

    def __init__(self, inbox: Callable[[], Inbox], dtype: np.dtype) -> None:
        self._inbox, self._dtype = inbox, dtype
        self._room = 0
        self.grow(_FIRST_ROOM)

    def grow(self, more: int) -> None:
        """Have room for so many more messages, and as many again."""
        self._room = min(PLACES, 2 * (self._room + more))
        shape = (self._room, self._dtype.itemsize // 8)
        waiting, ordered = np.empty(shape, np.int64), np.empty(shape, np.int64)
        messages = np.ndarray(self._room, self._dtype, ordered)
        keys, counts = np.empty((2, self._room), np.int64), np.zeros(256, np.int64)
        self.box = Box(BOX_TABLE.zeros(), waiting, keys, counts, self._inbox().fields, ordered, messages)

    def fill(self) -> None:
        """Take what is in the inbox."""
        inbox = self._inbox()
        rows = inbox.take_rows()
        count = sum(map(len, rows))
        if count > self._room // 2:
            self.grow(count)
        at, earliest = 0, NEVER
        for batch in rows:
            self.box.waiting[at : at + len(batch)] = batch
            at += len(batch)
        if at:
            earliest = int(self.box.waiting[:at, 0].min())
        self.box.box[COUNT], self.box.box[EARLIEST] = at, earliest

    def empty(self) -> None:
        """Give back what is left."""
        count = int(self.box.box[COUNT])
        if count:
            self._inbox().put_rows(self.box.waiting[:count].copy())


class WindowCalls:
    """L2, SMs, DRAM and ``dispatcher`` of one GPU; ``window_ticks`` and ``offset_ticks``, by part, as
    :class:`gpusim.engine.window.WindowScheduler` has them; ``next_boundary``: the tick before which nobody need look at
    a window's beginning."""

    #: Where the functions lie, which are the same for all GPUs and launches: asking takes milliseconds.
    _calls: ClassVar[Calls | None] = None

    def __init__(
        self,
        parts: Sequence[Part],
        window_ticks: int,
        offset_ticks: Mapping[str, int],
        next_boundary: Callable[[], int],
    ) -> None:
        memory, group, dram, dispatcher = parts
        assert isinstance(memory, L2Part) and isinstance(group, SmGroup)
        assert isinstance(dram, HbmPart) and isinstance(dispatcher, Dispatcher)
        self._l2, self._group, self._hbm, self.dispatcher = memory, group, dram, dispatcher
        self.next_boundary = next_boundary
        self._loop = LOOP_TABLE.zeros()
        self._loop[WINDOW_TICKS] = window_ticks
        for column, part in (
            (L2_OFFSET, memory), (SM_OFFSET, group), (HBM_OFFSET, dram), (DISPATCHER_OFFSET, dispatcher)
        ):  # fmt: skip
            self._loop[column] = offset_ticks[part.name]
        self._loop[EXIT_TICKS] = group.exit_ticks
        self._exits, self._all = np.zeros(len(group.state.exits), EXIT), np.zeros(0, bool)
        sm_cycles = window_ticks // TICKS_PER_CYCLE * group.count
        #: Windows that a call runs through at most.
        self.most = max(1, min(MOST_WINDOWS, _MOST_SM_CYCLES // sm_cycles))
        self._requests = _Waiting(lambda: memory.requests, memory.requests.dtype)
        self._fills = _Waiting(lambda: memory.fills, memory.fills.dtype)
        self._dram = _Waiting(lambda: dram.requests, dram.requests.dtype)

    @staticmethod
    def fit(parts: Sequence[Part]) -> bool:
        """Whether the parts of a machine, in their order, are those of one GPU, whose SMs are one group."""
        kinds = L2Part, SmGroup, HbmPart, Dispatcher
        if len(parts) != len(kinds) or not all(map(isinstance, parts, kinds)):
            return False
        memory = parts[0]
        return isinstance(memory, L2Part) and not memory.elsewhere

    @property
    def ready(self) -> bool:
        """Whether all three can have their turns: the first one of an L2 that was warmed is Python's."""
        return not self._l2.warmed or self._l2.next_tick() == NEVER

    @property
    def dispatches(self) -> bool:
        """Whether the dispatcher has its turns in a call too, for the blocks of the chunk that comes next."""
        return self.dispatcher.compiled_row >= 0

    def run(self, window: int, stop: int) -> int:
        """Run through windows from ``window`` on, before ``stop``, as far as Python has nothing to do; the last one
        begun, in which parts may yet have work."""
        loop = self._loop
        loop[WINDOW], loop[STOP], loop[L2_HELD], loop[TURNS], loop[LEFT] = window, stop, self._l2.warmed, 0, 0
        loop[LIVE_ROW], loop[LAST_START], loop[EMPTIED] = self.dispatcher.compiled_row, -1, 0
        self._l2.make_room(len(self._l2.requests), len(self._l2.fills))
        self._hbm.make_room(len(self._hbm.requests))
        self._group.make_room()
        boxes = self._requests, self._fills, self._dram
        for each in boxes:
            each.fill()
        memory, dram, state, tables = self._l2.state, self._hbm.state, self._group.state, self._group.arena.tables
        sent = Sent(_words(state.out), _words(memory.dram), _words(dram.responses))
        dispatch = Dispatch(*self.dispatcher.compiled_state, self._all, self._exits, _words(self._exits))
        calls = WindowCalls._calls
        if calls is None:
            asked, filled, wanted = (each.box.messages for each in boxes)
            calls = WindowCalls._calls = Calls(
                address_of(l2.handle_until, (self._l2.rates, memory, asked, filled, stop), PAIR),
                address_of(advance_group, (state, tables, stop), NOTHING),
                address_of(hbm.handle_until, (self._hbm.rates, dram, wanted, stop), NUMBER),
                address_of(serve, (dispatch.rates, dispatch.state, dispatch.live, stop, stop, self._all), NUMBER),
                address_of(end_blocks, (dispatch.rates, dispatch.state, dispatch.live, self._exits), FLAG),
                address_of(deliver_starts, (state, dispatch.state.starts), NOTHING),
            )
        try:
            _run_windows(
                calls, state, tables, self._l2.rates, memory, self._hbm.rates, dram,
                self._requests.box, self._fills.box, self._dram.box, sent, dispatch, loop,
            )  # fmt: skip
        finally:
            for each in boxes:
                each.empty()
        self.dispatcher.served(int(loop[LAST_START]), bool(loop[EMPTIED]))
        if loop[LEFT]:
            self._do(int(loop[LEFT]))
        return int(loop[WINDOW])

    @property
    def turns(self) -> int:
        """Turns of parts in the last call of :meth:`run`."""
        return int(self._loop[TURNS])

    def _do(self, left: int) -> None:
        """Hand over what a call could not; larger tables are made before the next one."""
        memory, group, dram = self._l2.state, self._group.state, self._hbm.state
        if left & SPLIT:
            self.dispatcher.refuse_split_cluster()
        if left & DRAM_REQUESTS:
            count = int(memory.scalars[l2_state.DRAM_REQUESTS])
            self._hbm.deliver(copied(memory.dram, count))
            self._dram.grow(count)
        if left & REQUESTS:
            count = int(group.report[R_REQUESTS])
            self._l2.deliver(copied(group.out, count))
            self._requests.grow(count)
        if left & PEERS:
            self._group.deliver(copied(group.peers_sent, int(group.report[R_PEERS])))
        if left & FILLS:
            count = int(dram.scalars[hbm.RESPONSES])
            self._l2.deliver(copied(dram.responses, count))
            self._fills.grow(count)
        if left & EXITS:
            self.dispatcher.deliver(self._group.exits())
