"""The scheduler: windows that never let a message come too late, and threads that share a window's parts.

Mental model: conservative parallel discrete-event simulation. A message takes at least one window to get
anywhere (the *lookahead*). So all parts may run through the same window independently, in any order or at
once, and exchange what they sent afterwards: nothing that is sent within a window can matter before its end.
Simulated time in SimPy is the window's number; its one process sleeps until the next window in which any part has work.
A part with nothing to do costs nothing; a message for it names the window of its arrival. When no part has work in
sight, nothing can ever happen again: the machine is quiet, or it is deadlocked, which the caller can tell.

Parts may take turns within longer windows (:mod:`gpusim.engine.round_windows`): each has what those before it
have sent in the same window. Several threads share those that have their turn at once. Of one GPU many windows in which
no block starts or ends are one call of compiled code (:mod:`gpusim.engine.window_calls`), between two events of this
process.

Threads are worth their hand-over only where a window is long: parts that, after what their last turns took, would
share less than :data:`WORTH_A_HAND_OVER_NS` run one after the other.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import simpy

from gpusim.engine.part import Outgoing, Part
from gpusim.engine.run_ahead import MOST_WINDOWS, RunAhead, SelfStopping
from gpusim.engine.window_calls import WindowCalls
from gpusim.errors import SpecError
from gpusim.model.messages import ADDRESSED, NEVER, TICKS_PER_CYCLE

#: Name of the part that sends -> kind of message -> the parts that take it.
Wires = Mapping[str, Mapping[np.dtype, Sequence[Part]]]
#: Called with the number of a device, None for what lies between devices, and a tick.
Watcher = Callable[[int | None, int], None]
#: What waking a thread and waiting for it costs, about.
WORTH_A_HAND_OVER_NS = 60_000


class _Place:
    """A part in the schedule: when it has work next, the window of that turn, what it sent in its last one, what its
    turns take; how far its windows lie behind those of the schedule."""

    def __init__(self, part: Part, offset_ticks: int = 0) -> None:
        self.part, self.offset_ticks = part, offset_ticks
        self.tick = self.window = NEVER
        self.sent: Outgoing = []
        self.expected_ns = 0
        self.stopping = part if isinstance(part, SelfStopping) else None

    def run(self, until_tick: int) -> None:
        """The part's turn."""
        start = time.perf_counter_ns()
        self.sent = self.part.advance(until_tick)
        self.expected_ns = (self.expected_ns + time.perf_counter_ns() - start) // 2

    def run_alone(self, until_tick: int, answer_ticks: Mapping[np.dtype, int]) -> None:
        """The part's turn while no other has work."""
        if self.stopping is None:
            self.sent = self.part.advance(until_tick)
        else:
            self.sent = self.stopping.advance_alone(until_tick, answer_ticks)


@dataclass(frozen=True)
class _Alone:
    """How far a part may run while no other has work: ``ticks`` more than a window at most, and up to where a message
    of another (or of its own kind, back to it) could come; see :class:`~gpusim.engine.run_ahead.RunAhead`."""

    ticks: int
    ways: tuple[tuple[_Place, int], ...]
    answer_ticks: Mapping[np.dtype, int]

    def until(self, until_tick: int) -> int:
        bound = until_tick + self.ticks
        for place, ticks in self.ways:
            if place.tick + ticks < bound:
                bound = place.tick + ticks
        return max(until_tick, bound // TICKS_PER_CYCLE * TICKS_PER_CYCLE)


class WindowScheduler:
    """Runs parts window by window, those of a window in the order of ``parts``, or shared by threads, the longest
    first. ``wires`` says who takes what a part sends; of messages with a field ``device`` a part of a device gets those
    for it.
    ``pool``: ``helpers`` of its threads share a window's parts with the caller's. ``on_window(device, until_tick)`` is
    called after each part's turn; ``on_boundary(device, tick)`` once before a device's parts have their turns in a
    window, when they have done everything before ``tick`` and nothing after it. With ``ahead`` a part that alone has
    work in a window goes on behind it as far as nothing can reach it; at a boundary it may then have done more. With
    ``offset_ticks``, by part, the parts take turns, of which each has what those before it sent, those at once that
    have the same number in ``stages``: a part's windows lie so far behind the others', so that at a boundary it may
    have done as much more, and nothing less. ``leave_after``: it stops when threads have shared so many windows, if not
    before; another scheduler may go on from there, whatever its windows, with what this one knows of the parts' turns,
    ``expected_ns``. ``calls`` runs through many windows of such parts at once."""

    def __init__(
        self,
        parts: Sequence[Part],
        wires: Wires,
        window_ticks: int,
        start_tick: int = 0,
        pool: ThreadPoolExecutor | None = None,
        on_window: Watcher | None = None,
        on_boundary: Watcher | None = None,
        helpers: int = 1,
        ahead: RunAhead | None = None,
        offset_ticks: Mapping[str, int] | None = None,
        calls: WindowCalls | None = None,
        stages: Mapping[str, int] | None = None,
        leave_after: int | None = None,
        expected_ns: Mapping[str, int] | None = None,
    ) -> None:
        self._shared, self._leave_after = 0, leave_after
        self.window_ticks = window_ticks
        self.windows = 0
        self._environment = simpy.Environment(initial_time=start_tick // window_ticks)
        self._pool, self._helpers = pool, helpers
        self._on_window, self._on_boundary = on_window, on_boundary
        self._in_turns = offset_ticks is not None
        offsets = offset_ticks or {}
        places = {part.name: _Place(part, offsets.get(part.name, 0)) for part in parts}
        for name, time_ns in (expected_ns or {}).items():
            places[name].expected_ns = time_ns
        self._places = list(places.values())
        numbers = stages or {name: number for number, name in enumerate(places)}
        self._stages = [
            [place for name, place in places.items() if numbers[name] == number]
            for number in sorted(set(numbers.values()))
        ]
        self._calls = calls
        self._python = [] if calls is None else [places[calls.dispatcher.name]]
        self._alone = {} if ahead is None else {place: self._when_alone(place, ahead) for place in self._places}
        # Not in the places themselves: parts that answer each other would never be freed.
        self._takers = {
            name: {message: [places[part.name] for part in takers] for message, takers in by_message.items()}
            for name, by_message in wires.items()
        }
        self._process = self._run()
        self._environment.process(self._process)

    def run(self) -> None:
        """Run until nothing has anything to do any more; messages may have been put in by hand before."""
        try:
            self._environment.run()
        finally:
            # A process that has not ended would hold the scheduler and with it all parts until Python looks for cycles.
            self._process.close()

    @property
    def has_left(self) -> bool:
        """Whether it has stopped although parts have work."""
        return self._shared == self._leave_after

    @property
    def expected_ns(self) -> dict[str, int]:
        """What the turns of each part take, by its name."""
        return {place.part.name: place.expected_ns for place in self._places}

    def waiting(self) -> list[str]:
        """What every part waits for, for a deadlock's message."""
        return [line for place in self._places if (line := place.part.waiting_for())]

    def _run(self) -> Generator:
        """The process: sleep until the next window in which any part has work, and run those that have."""
        environment, places = self._environment, self._places
        now, never = int(environment.now), NEVER // self.window_ticks
        self._look(places)
        while True:
            window = min([place.window for place in places])
            if window >= never or self.has_left:
                return
            if window > now:
                yield environment.timeout(window - int(environment.now))
                now = window
            if self._calls is not None and (stop := self._next_in_python(now)) > now and self._calls.ready:
                now = self._run_windows(self._calls, now, stop)
            elif self._in_turns:
                self._take_turns(now)
            else:
                self._turn([place for place in places if place.window <= now], now * self.window_ticks)

    def _when_alone(self, place: _Place, ahead: RunAhead) -> _Alone:
        name = place.part.name
        ways = [(other, ahead.least_ticks[other.part.name][name]) for other in self._places]
        return _Alone(
            self.window_ticks * (1 if name in ahead.window_bound else MOST_WINDOWS),
            tuple(way for way in ways if way[1] < NEVER and not (way[0] is place and place.stopping)),
            ahead.answer_ticks[name],
        )

    def _look(self, places: Iterable[_Place]) -> None:
        """Ask parts when they have work next."""
        for place in places:
            place.tick = place.part.next_tick()
            if place.tick < NEVER:
                place.window = (place.tick - place.offset_ticks) // self.window_ticks
            else:
                place.window = NEVER  # whatever its offset

    def _turn(self, due: list[_Place], tick: int) -> None:
        """Run the parts that have work in the window that begins at ``tick``, and hand over what they sent."""
        until = tick + self.window_ticks
        if len(due) == 1 and self._alone and self._on_window is None:
            self._turn_alone(due[0], tick, until)
            return
        if self._on_boundary is not None:
            for device in dict.fromkeys([place.part.device for place in due]):
                self._on_boundary(device, tick)
        if len(due) == 1 and self._alone:
            alone = self._alone[due[0]]
            due[0].run_alone(alone.until(until), alone.answer_ticks)
        else:
            self._run_at_once(due, until)
        self._hand_over(due, until)

    def _take_turns(self, window: int) -> None:
        """Run the parts that have work in a window stage after stage, those too that only get it from parts before
        them."""
        tick, told = window * self.window_ticks, []
        until = tick + self.window_ticks
        for stage in self._stages:
            due = [place for place in stage if place.window <= window]
            if not due:
                continue
            for place in due:
                if place.part.device not in told and self._on_boundary is not None:
                    told.append(place.part.device)
                    self._on_boundary(place.part.device, tick)
            if self._alone and len(due) == 1 and len([other for other in self._places if other.window <= window]) == 1:
                alone = self._alone[due[0]]
                due[0].run_alone(alone.until(until + due[0].offset_ticks), alone.answer_ticks)
            else:
                self._run_at_once(due, until)
            self._hand_over(due, until)

    def _run_at_once(self, due: list[_Place], until: int) -> None:
        """Turns of which none can see another, up to the end of the window at ``until``."""
        if self._pool is not None and len(due) > 1 and self._to_share(due) > WORTH_A_HAND_OVER_NS:
            self._shared += 1
            self._share(self._pool, due, until)
        else:
            for place in due:
                place.run(until + place.offset_ticks)

    def _next_in_python(self, now: int) -> int:
        """The first window in which a part that is Python, or another process, may have something to do."""
        python = [] if self._calls is not None and self._calls.dispatches else self._python
        return min([place.window for place in python] + [int(min(self._environment.peek(), NEVER))])

    def _run_windows(self, calls: WindowCalls, now: int, stop: int) -> int:
        """Run through windows from ``now`` on, before ``stop``, at once; the last one begun, in which parts may yet
        have work."""
        device, ticks = calls.dispatcher.device, self.window_ticks
        if self._on_boundary is not None:
            self._on_boundary(device, now * ticks)
        unseen = -(-calls.next_boundary() // ticks)
        last = calls.run(now, min(stop, now + calls.most, max(unseen, now + 1)))
        self.windows += calls.turns
        if self._on_window is not None:
            self._on_window(device, (last + 1) * ticks)
        self._look(self._places)
        return last

    def _hand_over(self, due: list[_Place], until: int) -> None:
        """Hand over what the parts sent in the window that ends at ``until``, and see when they and others have work
        next."""
        self.windows += len(due)
        changed = set(due)
        for place in due:
            for batch in place.sent:
                changed.update(self._deliver(place, batch))
            place.sent = []
            if self._on_window is not None:
                self._on_window(place.part.device, until)
        self._look(changed)

    def _turn_alone(self, place: _Place, tick: int, until: int) -> None:
        """The same for a part that alone has work: chains of dependent loads consist of such turns."""
        if self._on_boundary is not None:
            self._on_boundary(place.part.device, tick)
        alone = self._alone[place]
        place.run_alone(alone.until(until), alone.answer_ticks)
        self.windows += 1
        changed = {place}
        for batch in place.sent:
            changed.update(self._deliver(place, batch))
        place.sent = []
        self._look(changed)

    @staticmethod
    def _to_share(due: list[_Place]) -> int:
        """Nanoseconds of all but the longest turn, after what turns took last."""
        expected = [place.expected_ns for place in due]
        return sum(expected) - max(expected)

    def _share(self, pool: ThreadPoolExecutor, due: list[_Place], until: int) -> None:
        """Run the parts in this thread and in helpers, each taking the longest that is left. What one raises is raised
        here, when none runs any more."""
        left = deque(sorted(due, key=lambda place: place.expected_ns, reverse=True))

        def work() -> None:
            while left:
                try:
                    place = left.popleft()
                except IndexError:  # another thread was quicker
                    return
                place.run(until + place.offset_ticks)

        helping = [pool.submit(work) for _ in range(min(self._helpers, len(due) - 1))]
        try:
            work()
        finally:
            left.clear()
            failures = [helper.exception() for helper in helping]
        for failure in failures:
            if failure is not None:
                raise failure

    def _deliver(self, sender: _Place, batch: np.ndarray) -> list[_Place]:
        """Hand a batch to those who take it; these."""
        takers = self._takers.get(sender.part.name, {}).get(batch.dtype)
        if takers is None:
            raise SpecError(f"{sender.part.name} sends {batch.dtype.names}, for which the machine has no route")
        if batch.dtype in ADDRESSED:
            self._deliver_by_device(sender.part, batch, takers)
        else:
            for taker in takers:
                taker.part.deliver(batch)
        return takers

    def _deliver_by_device(self, sender: Part, batch: np.ndarray, takers: list[_Place]) -> None:
        """The same where messages carry a device: a part of a device gets its own, one between devices gets all."""
        devices = {taker.part.device for taker in takers}
        strangers = set(batch["device"].tolist()) - devices
        if strangers and None not in devices:
            raise SpecError(f"{sender.name} sends to device {min(strangers)}, to which the machine has no route")
        for taker in takers:
            device = taker.part.device
            taker.part.deliver(batch if device is None else batch[batch["device"] == device])
