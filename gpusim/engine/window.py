"""The scheduler: one SimPy process a part, windows that never let a message come too late.

Mental model: conservative parallel discrete-event simulation. A message takes at least one window to get
anywhere (the *lookahead*). So all parts may run through the same window independently, in any order or at
once, and exchange what they sent afterwards: nothing that is sent within a window can matter before its end.
Simulated time in SimPy is the window's number. A part with nothing to do sleeps; a message for it schedules its
wake-up for the window of its arrival. When no wake-up is scheduled, nothing can ever happen again: the
machine is quiet, or it is deadlocked, which the caller can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import simpy

from gpusim.engine.part import Outgoing, Part
from gpusim.errors import SpecError
from gpusim.model.messages import ADDRESSED, NEVER

#: Name of the part that sends -> kind of message -> the parts that take it.
Wires = Mapping[str, Mapping[np.dtype, Sequence[Part]]]
#: Called with the number of a device, None for what lies between devices, and a tick.
Watcher = Callable[[int | None, int], None]


class _Process:
    """A part's process: the event that it sleeps on, and the window of its next wake-up."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.asleep: simpy.Event | None = None
        self.wake_up: int | None = None


class WindowScheduler:
    """Runs parts window by window, those of a window in the order of ``parts`` where threads take them
    (the longest should begin first). ``wires`` says who takes what a part sends; of messages with a field ``device`` a part
    of a device gets those for it. ``pool``: run parts of a window in threads. ``on_window(device, until_tick)`` is called
    after each part's turn; ``on_boundary(device, tick)`` once before a device's first turn in a window, when all its parts
    have done everything before ``tick`` and nothing after it."""

    def __init__(
        self,
        parts: Sequence[Part],
        wires: Wires,
        window_ticks: int,
        start_tick: int = 0,
        pool: ThreadPoolExecutor | None = None,
        on_window: Watcher | None = None,
        on_boundary: Watcher | None = None,
    ) -> None:
        self.window_ticks = window_ticks
        self.windows = 0
        self._environment = simpy.Environment(initial_time=start_tick // window_ticks)
        self._pool = pool
        self._on_window = on_window
        self._on_boundary = on_boundary
        self._boundaries: dict[int | None, int] = {}
        self._awake: set[str] = set()
        self._running: dict[str, Future[Outgoing]] = {}
        self._processes = {part.name: _Process(part) for part in parts}
        self._takers = {
            name: {message: [self._processes[part.name] for part in takers] for message, takers in by_message.items()}
            for name, by_message in wires.items()
        }
        self._generators = [self._run(process) for process in self._processes.values()]
        for generator in self._generators:
            self._environment.process(generator)

    def run(self) -> None:
        """Run until nothing has anything to do any more; messages may have been put in by hand before."""
        for process in self._processes.values():
            self._schedule(process)
        try:
            self._environment.run()
        finally:
            # A process that sleeps for good would hold the scheduler and with it all parts until Python looks for cycles.
            for generator in self._generators:
                generator.close()

    def waiting(self) -> list[str]:
        """What every part waits for, for a deadlock's message."""
        return [line for process in self._processes.values() if (line := process.part.waiting_for())]

    def _schedule(self, process: _Process) -> None:
        """Make a sleeping part wake at the start of the window that holds its next tick."""
        if process.asleep is None:
            return
        tick = process.part.next_tick()
        if tick >= NEVER:
            return
        window = tick // self.window_ticks
        if process.wake_up is not None and process.wake_up <= window:
            return
        process.wake_up = window
        timeout = self._environment.timeout(max(0, window - self._environment.now))
        timeout.callbacks.append(lambda _event: self._wake(process, window))

    def _wake(self, process: _Process, window: int) -> None:
        if process.asleep is not None and process.wake_up == window:
            event, process.asleep, process.wake_up = process.asleep, None, None
            event.succeed()

    def _run(self, process: _Process) -> Generator:
        """One part's process: sleep until its window, run through it, hand over what it sent."""
        environment, part = self._environment, process.part
        takers = self._takers.get(part.name, {})
        while True:
            process.asleep = environment.event()
            self._schedule(process)
            yield process.asleep
            until = (int(environment.now) + 1) * self.window_ticks
            if self._on_boundary is not None and self._boundaries.get(part.device) != until:
                self._boundaries[part.device] = until
                self._on_boundary(part.device, until - self.window_ticks)
            if self._pool is None:
                outgoing = part.advance(until)
            else:
                # Everybody who wakes in this window starts before anybody waits, and nobody's
                # messages are delivered before everybody has come to the window's end.
                self._awake.add(part.name)
                yield environment.timeout(0)
                self._start(self._pool, until)
                outgoing = self._running.pop(part.name).result()
                yield environment.timeout(0)
            self.windows += 1
            for batch in outgoing:
                self._deliver(part, batch, takers.get(batch.dtype))
            if self._on_window is not None:
                self._on_window(part.device, until)

    def _start(self, pool: ThreadPoolExecutor, until: int) -> None:
        """Give all parts that are awake and do not run yet to the threads."""
        if not self._awake:
            return
        for name, process in self._processes.items():
            if name in self._awake:
                self._running[name] = pool.submit(process.part.advance, until)
        self._awake.clear()

    def _deliver(self, sender: Part, batch: np.ndarray, takers: list[_Process] | None) -> None:
        """Hand a batch to those who take it, and see that they wake for it."""
        if takers is None:
            raise SpecError(f"{sender.name} sends {batch.dtype.names}, for which the machine has no route")
        if batch.dtype in ADDRESSED:
            self._deliver_by_device(sender, batch, takers)
            return
        for taker in takers:
            taker.part.deliver(batch)
            self._schedule(taker)

    def _deliver_by_device(self, sender: Part, batch: np.ndarray, takers: list[_Process]) -> None:
        """The same where messages carry a device: a part of a device gets its own, one between devices gets all."""
        devices = {taker.part.device for taker in takers}
        strangers = set(batch["device"].tolist()) - devices
        if strangers and None not in devices:
            raise SpecError(f"{sender.name} sends to device {min(strangers)}, to which the machine has no route")
        for taker in takers:
            device = taker.part.device
            taker.part.deliver(batch if device is None else batch[batch["device"] == device])
            self._schedule(taker)
