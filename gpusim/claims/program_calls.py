"""What a program asked of the driver, in order, as far as it concerns what was timed.

Mental model: a row of marks: launches into streams, events recorded and waited for, waits of the host, readings of its
clock. Work that the emulated driver is given runs at once, so nothing is ever late here; the marks say what would be
late on a GPU.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

#: Streams that wait for all blocking streams, and those for them; and the flag of streams that do not take part.
LEGACY = (0, 1)
_NON_BLOCKING = 1
_LAUNCHES = ("cuLaunchKernel", "cuLaunchCooperativeKernel")
_WAITS = ("cuStreamSynchronize", "cuCtxSynchronize", "cuCtxSynchronize_v2", "cuEventSynchronize")
#: Copies to the host return when they are done, unless they are asynchronous.
_COPIES = ("cuMemcpyDtoH", "cuMemcpy", "cuMemcpy2D", "cuMemcpy3D", "cuMemcpyAtoH")
#: What a program reads the host's time by.
CLOCKS = ("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "time", "time_ns", "process_time")

LAUNCH, RECORD, STREAM_WAITS, HOST_WAITS, CLOCK, ELAPSED = (
    "launch",
    "record",
    "stream waits",
    "host waits",
    "clock",
    "elapsed",
)


@dataclass(frozen=True)
class Mark:
    """``what`` of the six above; ``stream`` of a launch, a record or a waiting stream, of a host's wait None for the
    whole device; ``event`` that is recorded, waited for or ends a window, ``start`` the one that begins it."""

    what: str
    stream: int | None = None
    event: int | None = None
    start: int | None = None


@dataclass
class ProgramCalls:
    """Marks as they come; ``apart``: streams that do not wait for the default one."""

    marks: list[Mark] = field(default_factory=list)
    apart: set[int] = field(default_factory=set)

    def called(self, name: str, arguments: tuple) -> None:
        """A function of the driver has succeeded."""
        if name in _LAUNCHES:
            self.marks.append(Mark(LAUNCH, int(arguments[8] or 0)))
        elif name == "cuLaunchKernelEx":
            self.marks.append(Mark(LAUNCH, int(arguments[0][0].stream or 0)))
        elif name == "cuGraphLaunch":
            self.marks.append(Mark(LAUNCH, int(arguments[1] or 0)))
        elif name in ("cuStreamCreate", "cuStreamCreateWithPriority"):
            if arguments[1] & _NON_BLOCKING:
                self.apart.add(int(arguments[0][0]))
        elif name in ("cuEventRecord", "cuEventRecordWithFlags"):
            self.marks.append(Mark(RECORD, int(arguments[1] or 0), int(arguments[0])))
        elif name == "cuStreamWaitEvent":
            self.marks.append(Mark(STREAM_WAITS, int(arguments[0] or 0), int(arguments[1])))
        elif name in _WAITS:
            event = int(arguments[0]) if name == "cuEventSynchronize" else None
            stream = int(arguments[0] or 0) if name == "cuStreamSynchronize" else None
            self.marks.append(Mark(HOST_WAITS, stream, event))
        elif name in _COPIES:
            self.marks.append(Mark(HOST_WAITS))
        elif name == "cuEventElapsedTime":
            self.marks.append(Mark(ELAPSED, None, int(arguments[2]), int(arguments[1])))

    @contextmanager
    def reading_clocks(self, file: str) -> Iterator[None]:
        """Also mark when code of ``file`` reads the host's clock by a function of the module ``time``."""
        kept = {name: getattr(time, name) for name in CLOCKS}

        def marked(read: Callable[[], Any]) -> Callable[[], Any]:
            def call() -> Any:
                if sys._getframe(1).f_code.co_filename == file:
                    self.marks.append(Mark(CLOCK))
                return read()

            return call

        for name, read in kept.items():
            setattr(time, name, marked(read))
        try:
            yield
        finally:
            for name, read in kept.items():
                setattr(time, name, read)

    def joins(self, stream: int, other: int) -> bool:
        """Whether what is submitted to ``stream`` waits by itself for what was submitted to ``other`` before."""
        if stream == other:
            return True
        return (stream in LEGACY and other not in self.apart) or (other in LEGACY and stream not in self.apart)
