"""Streams and events as the driver API has them.

Mental model: a launch runs to its end inside the call that makes it, so every stream is always idle and
every recorded event has happened. What is left of a stream is its identity, and of an event the time at which
it was recorded: time of the host, or predicted time of the GPU where launches are simulated.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from ctypes import POINTER, c_float, c_int, c_uint
from dataclasses import dataclass

from gpusim.driver.abi import (
    HOST,
    INT_OUT,
    INVALID_HANDLE,
    UINT_OUT,
    WORD,
    WORD_OUT,
    DriverError,
    Handles,
    entry,
    put,
)
from gpusim.driver.contexts import Contexts

_DISABLE_TIMING = 0x2
#: Handles that need no stream of their own: default, legacy default, per-thread default.
DEFAULT_STREAMS = (0, 1, 2)
_SUCCESS = 0


@dataclass
class Event:
    """``time_ns`` is None until the event is recorded."""

    timed: bool
    time_ns: float | None = None


@dataclass(frozen=True)
class StreamFacts:
    flags: int
    priority: int


class Streams:
    """Entry points cuStream* and cuEvent*. ``now_ns`` tells the time; ``check`` raises DriverError while the
    context is broken by a failed launch."""

    def __init__(self, contexts: Contexts, check: Callable[[], None]):
        self._contexts, self._check_alive = contexts, check
        self._streams, self._events = Handles(0xA0_0000), Handles(0xB0_0000)
        self.now_ns: Callable[[], float] = time.perf_counter_ns

    def reset(self) -> None:
        """Forget all streams and events."""
        self._streams.clear()
        self._events.clear()

    def check(self, stream: int) -> None:
        """Raise DriverError for a handle that is no stream."""
        if stream not in DEFAULT_STREAMS:
            self._facts(stream)

    def _facts(self, stream: int) -> StreamFacts:
        if stream in DEFAULT_STREAMS:
            return StreamFacts(0, 0)
        return self._streams.get(stream)

    @entry("cuStreamCreate", arguments=(WORD_OUT, c_uint))
    def create(self, out, flags: int) -> None:
        put(out, self._streams.new(StreamFacts(flags, 0)))

    @entry("cuStreamCreateWithPriority", arguments=(WORD_OUT, c_uint, c_int))
    def create_with_priority(self, out, flags: int, priority: int) -> None:
        put(out, self._streams.new(StreamFacts(flags, min(0, max(-5, priority)))))

    @entry("cuStreamDestroy", arguments=(WORD,))
    def destroy(self, stream: int) -> None:
        self._streams.remove(stream)

    @entry("cuStreamSynchronize", "cuStreamQuery", arguments=(WORD,))
    def synchronize(self, stream: int) -> None:
        self.check(stream)
        self._check_alive()

    @entry("cuCtxSynchronize")
    def synchronize_context(self) -> None:
        self._contexts.need()
        self._check_alive()

    @entry("cuStreamWaitEvent", arguments=(WORD, WORD, c_uint))
    def wait_event(self, stream: int, event: int, flags: int) -> None:
        self.check(stream)
        self._events.get(event)

    @entry("cuStreamGetFlags", arguments=(WORD, UINT_OUT))
    def flags(self, stream: int, out) -> None:
        put(out, self._facts(stream).flags)

    @entry("cuStreamGetPriority", arguments=(WORD, INT_OUT))
    def priority(self, stream: int, out) -> None:
        put(out, self._facts(stream).priority)

    @entry("cuStreamGetId", arguments=(WORD, WORD_OUT))
    def identity(self, stream: int, out) -> None:
        self.check(stream)
        put(out, stream)

    @entry("cuStreamGetDevice", arguments=(WORD, INT_OUT))
    def device(self, stream: int, out) -> None:
        self.check(stream)
        put(out, 0)

    @entry("cuStreamGetCtx", arguments=(WORD, WORD_OUT))
    def context(self, stream: int, out) -> None:
        self.check(stream)
        put(out, self._contexts.need())

    @entry("cuStreamGetCtx", arguments=(WORD, WORD_OUT, WORD_OUT), since=12050)
    def context_and_green(self, stream: int, out, green) -> None:
        self.context(stream, out)
        if green:
            green[0] = 0

    @entry("cuStreamIsCapturing", "cuStreamGetCaptureInfo", arguments=(WORD, INT_OUT))
    def is_capturing(self, stream: int, out) -> None:
        self.check(stream)
        put(out, 0)

    @entry("cuThreadExchangeStreamCaptureMode", arguments=(INT_OUT,))
    def exchange_capture_mode(self, mode) -> None:
        put(mode, 0)

    @entry("cuStreamAddCallback", arguments=(WORD, HOST, HOST, c_uint))
    def add_callback(self, stream: int, function: int, data: int, flags: int) -> None:
        self.check(stream)
        _STREAM_CALLBACK(function)(stream, _SUCCESS, data)

    @entry("cuLaunchHostFunc", arguments=(WORD, HOST, HOST))
    def host_function(self, stream: int, function: int, data: int) -> None:
        self.check(stream)
        _HOST_FUNCTION(function)(data)

    @entry("cuEventCreate", arguments=(WORD_OUT, c_uint))
    def create_event(self, out, flags: int) -> None:
        put(out, self._events.new(Event(timed=not flags & _DISABLE_TIMING)))

    @entry("cuEventDestroy", arguments=(WORD,))
    def destroy_event(self, event: int) -> None:
        self._events.remove(event)

    @entry("cuEventRecord", arguments=(WORD, WORD))
    def record(self, event: int, stream: int) -> None:
        self.check(stream)
        self._events.get(event).time_ns = self.now_ns()

    @entry("cuEventRecordWithFlags", arguments=(WORD, WORD, c_uint))
    def record_with_flags(self, event: int, stream: int, flags: int) -> None:
        self.record(event, stream)

    @entry("cuEventQuery", "cuEventSynchronize", arguments=(WORD,))
    def query(self, event: int) -> None:
        self._events.get(event)
        self._check_alive()

    @entry("cuEventElapsedTime", arguments=(POINTER(c_float), WORD, WORD))
    def elapsed(self, out, start: int, end: int) -> None:
        first, last = self._events.get(start), self._events.get(end)
        if not (first.timed and last.timed):
            raise DriverError(INVALID_HANDLE, "the time between events that were made without timing")
        if first.time_ns is None or last.time_ns is None:
            raise DriverError(INVALID_HANDLE, "the time between events of which one was never recorded")
        put(out, (last.time_ns - first.time_ns) / 1e6)

    @entry("cuProfilerStart", "cuProfilerStop")
    def profiler(self) -> None:
        pass


_STREAM_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_uint64, c_int, ctypes.c_uint64)
_HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_uint64)
