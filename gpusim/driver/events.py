"""Events as the driver API has them.

Mental model: work before an event is always done when it is recorded, so every recorded event has happened. What is
left is the time at which it was recorded: time of the host, or predicted time of the GPU where launches are simulated.
An event that is recorded in a captured stream stands for the place in that graph instead.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import POINTER, c_float, c_uint
from dataclasses import dataclass
from typing import ClassVar

from gpusim.driver.abi import (
    CAPTURED_EVENT,
    INVALID_HANDLE,
    INVALID_VALUE,
    WORD,
    WORD_OUT,
    DriverError,
    Handles,
    entry,
    put,
)
from gpusim.driver.captures import Captures, Place
from gpusim.driver.contexts import Contexts
from gpusim.driver.streams import Streams
from gpusim.driver.structures import WordNode
from gpusim.driver.work import RECORD_EVENT, WAIT_EVENT, Work

_BLOCKING_SYNC, _DISABLE_TIMING, _INTERPROCESS = 1, 2, 4
#: Flags of an event that several processes know.
FOR_PROCESSES = _DISABLE_TIMING | _INTERPROCESS
EXTERNAL = 1  # CU_EVENT_RECORD_EXTERNAL, CU_EVENT_WAIT_EXTERNAL


@dataclass(eq=False)
class Event:
    """``shared``: other processes may open it; ``time_ns`` is None until the event is recorded on ``device``; ``place``
    in a graph that is being captured."""

    timed: bool
    shared: bool = False
    handle: int = 0
    device: int = 0
    time_ns: float | None = None
    place: Place | None = None


@dataclass
class RecordEvent(Work):
    """Notes the time of its device at which it runs."""

    event: Event
    now_ns: Callable[[int], float]
    kind: ClassVar[int] = RECORD_EVENT

    def run(self) -> None:
        self.event.time_ns, self.event.place = self.now_ns(self.event.device), None

    def parameters(self) -> WordNode:
        return WordNode(self.event.handle)


@dataclass
class WaitEvent(Work):
    """Waits for what has always happened."""

    event: Event
    kind: ClassVar[int] = WAIT_EVENT

    def parameters(self) -> WordNode:
        return WordNode(self.event.handle)


class Events:
    """Entry points cuEvent*, and those that make streams and contexts wait for one."""

    def __init__(self, contexts: Contexts, streams: Streams, captures: Captures):
        self._contexts, self._streams, self._captures = contexts, streams, captures
        self._events = Handles(0xB0_0000)
        #: called with a device that waits for another one's event, and when that happened
        self.on_wait: Callable[[int, float], None] = lambda device, time_ns: None

    def reset(self, device: int) -> None:
        """Forget all events of a device."""
        self._events.remove_if(lambda event: event.device == device)

    def get(self, handle: int) -> Event:
        """The event of a handle; raises DriverError."""
        return self._events.get(handle)

    @entry("cuEventCreate", arguments=(WORD_OUT, c_uint))
    def create(self, out, flags: int) -> None:
        if flags & ~(_BLOCKING_SYNC | _DISABLE_TIMING | _INTERPROCESS):
            raise DriverError(INVALID_VALUE, f"an event has no flags 0x{flags:x}")
        if flags & _INTERPROCESS and not flags & _DISABLE_TIMING:
            raise DriverError(INVALID_VALUE, "an event for several processes must be made without timing")
        self._contexts.need()
        event = Event(not flags & _DISABLE_TIMING, bool(flags & _INTERPROCESS), device=self._contexts.here())
        event.handle = self._events.new(event)
        put(out, event.handle)

    @entry("cuEventDestroy", arguments=(WORD,))
    def destroy(self, handle: int) -> None:
        self._events.remove(handle)

    @entry("cuEventRecord", arguments=(WORD, WORD))
    def record(self, handle: int, stream: int) -> None:
        self.record_with_flags(handle, stream, 0)

    @entry("cuEventRecordWithFlags", arguments=(WORD, WORD, c_uint))
    def record_with_flags(self, handle: int, stream: int, flags: int) -> None:
        if flags & ~EXTERNAL:
            raise DriverError(INVALID_VALUE, f"an event is not recorded with flags 0x{flags:x}")
        event, facts = self.get(handle), self._streams.check(stream)
        if event.device != facts.device:
            raise DriverError(
                INVALID_HANDLE,
                f"an event of device {event.device} is not recorded in a stream of device {facts.device}",
            )
        place = self._captures.place_of(stream)
        if place is not None and not flags & EXTERNAL:
            event.place = place
        else:
            self._streams.submit(stream, RecordEvent(event, self._now_ns))

    def _now_ns(self, device: int) -> float:
        return self._streams.now_ns(device)

    def recording(self, handle: int) -> RecordEvent:
        """The work of recording that event."""
        return RecordEvent(self.get(handle), self._now_ns)

    @entry("cuStreamWaitEvent", arguments=(WORD, WORD, c_uint))
    def wait(self, stream: int, handle: int, flags: int) -> None:
        if flags & ~EXTERNAL:
            raise DriverError(INVALID_VALUE, f"a stream does not wait with flags 0x{flags:x}")
        event, facts = self.get(handle), self._streams.check(stream)
        if flags & EXTERNAL:
            self._streams.submit(stream, WaitEvent(event))
            return
        self._captures.wait(stream, event.place, recorded=event.time_ns is not None)
        if event.time_ns is not None and event.device != facts.device:
            self.on_wait(facts.device, event.time_ns)

    @entry("cuCtxRecordEvent", arguments=(WORD, WORD))
    def record_context(self, context: int, handle: int) -> None:
        device = self._contexts.find(context).device
        self._captures.refuse_unsafe("cuCtxRecordEvent")
        if self.get(handle).device != device:
            raise DriverError(INVALID_HANDLE, f"the event is not of device {device}, which the context is of")
        self.recording(handle).run()

    @entry("cuCtxWaitEvent", arguments=(WORD, WORD))
    def wait_context(self, context: int, handle: int) -> None:
        self._contexts.find(context)
        self._free(handle)

    def _free(self, handle: int) -> Event:
        event = self.get(handle)
        if event.place is not None:
            raise DriverError(CAPTURED_EVENT, "the event was recorded in a stream that is captured: it never happens")
        return event

    @entry("cuEventQuery", "cuEventSynchronize", arguments=(WORD,))
    def query(self, handle: int) -> None:
        device = self._free(handle).device
        self._streams.check_alive(device)
        self._streams.on_synchronize(device)

    @entry("cuEventElapsedTime", arguments=(POINTER(c_float), WORD, WORD))
    def elapsed(self, out, start: int, end: int) -> None:
        first, last = self._free(start), self._free(end)
        if not (first.timed and last.timed):
            raise DriverError(INVALID_HANDLE, "the time between events that were made without timing")
        if first.device != last.device:
            raise DriverError(
                INVALID_HANDLE,
                f"the time between events of devices {first.device} and {last.device}, which have clocks of their own",
            )
        if first.time_ns is None or last.time_ns is None:
            raise DriverError(INVALID_HANDLE, "the time between events of which one was never recorded")
        put(out, (last.time_ns - first.time_ns) / 1e6)
