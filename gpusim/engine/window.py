"""The conductor: one SimPy process a part, windows that never let a message come too late.

Mental model: a message takes at least one window to get anywhere. So all parts may run through the
same window independently, in any order or at once, and exchange what they sent afterwards: nothing
that is sent within a window can matter before its end. Simulated time in SimPy is the window's
number. A part with nothing to do sleeps on an event; a message for it sets its alarm to the window of
its arrival. When no process has an alarm, nothing can ever happen again: the machine is quiet, or it
is deadlocked, which the caller can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

import numpy as np
import simpy

from gpusim.model.messages import NEVER


class Part(Protocol):
    """What the conductor needs of a part; ticks are those of :mod:`gpusim.model.messages`."""

    name: str

    def next_tick(self) -> int:
        """Earliest tick with work, own or promised; NEVER if there is none."""

    def advance(self, until_tick: int) -> list[tuple[str, np.ndarray]]:
        """Handle everything strictly before ``until_tick``, touching nothing outside the part; what it
        sent, as (destination, batch), for the conductor to deliver."""

    def waiting_for(self) -> str:
        """One line on who waits here for what, empty if nobody does."""


class _Seat:
    """A part's place in the orchestra: its process's sleep and the alarm that ends it."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.asleep: simpy.Event | None = None
        self.alarm: int | None = None
        self.outgoing: Future | None = None


class Conductor:
    """Runs parts window by window, those of a window in the order of ``parts`` where threads take them
    (the longest should begin first). ``routes`` maps a destination's name to the parts that take its
    messages and the function that gives one of them a batch. ``pool``: run parts of a window in threads.
    ``on_window(until_tick)`` is called after each part's turn; ``on_boundary(tick)`` once before a window's
    first turn, when all parts have done everything before ``tick`` and nothing after it."""

    def __init__(
        self,
        parts: list[Part],
        routes: dict[str, list[tuple[Part, Callable[[np.ndarray], None]]]],
        window_ticks: int,
        start_tick: int = 0,
        pool: ThreadPoolExecutor | None = None,
        on_window: Callable[[int], None] | None = None,
        on_boundary: Callable[[int], None] | None = None,
    ) -> None:
        self.window_ticks = window_ticks
        self.windows = 0
        self._environment = simpy.Environment(initial_time=start_tick // window_ticks)
        self._pool = pool
        self._on_window = on_window
        self._on_boundary = on_boundary
        self._last_boundary = -1
        self._awake: list[_Seat] = []
        self._seats = {id(part): _Seat(part) for part in parts}
        self._routes = {
            name: [(self._seats[id(part)], deliver) for part, deliver in takers] for name, takers in routes.items()
        }
        self._performances = [self._perform(seat) for seat in self._seats.values()]
        for performance in self._performances:
            self._environment.process(performance)

    def run(self) -> None:
        """Run until nothing has anything to do any more; messages may have been put in by hand before."""
        for seat in self._seats.values():
            self._set_alarm(seat)
        try:
            self._environment.run()
        finally:
            # A process that sleeps for good would hold the conductor and with it all parts until Python looks for cycles.
            for performance in self._performances:
                performance.close()

    def waiting(self) -> list[str]:
        """What every part waits for, for a deadlock's message."""
        return [line for seat in self._seats.values() if (line := seat.part.waiting_for())]

    def _set_alarm(self, seat: _Seat) -> None:
        """Make a sleeping part wake at the start of the window that holds its next tick."""
        if seat.asleep is None:
            return
        tick = seat.part.next_tick()
        if tick >= NEVER:
            return
        window = tick // self.window_ticks
        if seat.alarm is not None and seat.alarm <= window:
            return
        seat.alarm = window
        alarm = self._environment.timeout(max(0, window - self._environment.now))
        alarm.callbacks.append(lambda _event: self._ring(seat, window))

    def _ring(self, seat: _Seat, window: int) -> None:
        if seat.asleep is not None and seat.alarm == window:
            event, seat.asleep, seat.alarm = seat.asleep, None, None
            event.succeed()

    def _perform(self, seat: _Seat) -> Generator:
        """One part's process: sleep until its window, run through it, hand over what it sent."""
        environment, part = self._environment, seat.part
        while True:
            seat.asleep = environment.event()
            self._set_alarm(seat)
            yield seat.asleep
            until = (int(environment.now) + 1) * self.window_ticks
            if self._on_boundary is not None and until != self._last_boundary:
                self._last_boundary = until
                self._on_boundary(until - self.window_ticks)
            if self._pool is None:
                outgoing = part.advance(until)
            else:
                # Everybody who wakes in this window starts before anybody waits, and nobody's
                # messages are delivered before everybody has come to the window's end.
                self._awake.append(seat)
                yield environment.timeout(0)
                if self._awake:
                    self._start(until)
                outgoing = seat.outgoing.result()
                yield environment.timeout(0)
            self.windows += 1
            for name, batch in outgoing:
                for taker, deliver in self._routes[name]:
                    deliver(batch)
                    self._set_alarm(taker)
            if self._on_window is not None:
                self._on_window(until)

    def _start(self, until: int) -> None:
        """Give all parts that are awake to the threads."""
        for seat in self._seats.values():
            if seat in self._awake:
                seat.outgoing = self._pool.submit(seat.part.advance, until)
        self._awake.clear()
