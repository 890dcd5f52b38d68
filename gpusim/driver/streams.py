"""Streams as the driver API has them.

Mental model: work that is submitted to a stream runs to its end inside the call that makes it, so every stream is
always idle. What is left of a stream is its identity, its device, its attributes, and whether it is being captured
(:mod:`gpusim.driver.captures`), in which case work is written down instead. Each device has default streams of its own;
their handles stand for those of the current context's device.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from ctypes import c_int, c_uint
from dataclasses import dataclass, field

from gpusim.driver.abi import (
    HOST,
    INT_OUT,
    INVALID_HANDLE,
    INVALID_VALUE,
    UINT_OUT,
    WORD,
    WORD_OUT,
    DriverError,
    Handles,
    entry,
    put,
)
from gpusim.driver.captures import Captures
from gpusim.driver.contexts import GREATEST_PRIORITY, LEAST_PRIORITY, Contexts
from gpusim.driver.work import KERNEL, HostFunction, Work

NON_BLOCKING = 1
#: Handles that need no stream of their own: default, legacy default, per-thread default.
DEFAULT_STREAMS = (0, 1, 2)
_SUCCESS = 0
# CUstreamAttrID: the launch attributes that a stream has, with their bytes.
_ACCESS_POLICY, _SYNCHRONIZATION, _PRIORITY, _SYNC_DOMAIN_MAP, _SYNC_DOMAIN = 1, 3, 8, 9, 10
_ATTRIBUTE_BYTES = {_ACCESS_POLICY: 32, _SYNCHRONIZATION: 4, _PRIORITY: 4, _SYNC_DOMAIN_MAP: 2, _SYNC_DOMAIN: 4}
#: Values that a new stream has: synchronization is automatic (1), remote traffic uses domain 1.
_ATTRIBUTE_DEFAULTS = {_SYNCHRONIZATION: b"\1\0\0\0", _SYNC_DOMAIN_MAP: b"\0\1"}


@dataclass(eq=False)
class Stream:
    """``attributes``: bytes of the CUstreamAttrValue that was set, by CUstreamAttrID; ``last``: the last work that it
    was given. ``context``: the handle of the context that it was made in, 0 for a default stream."""

    flags: int
    priority: int
    device: int = 0
    context: int = 0
    handle: int = 0
    attributes: dict[int, bytes] = field(default_factory=dict)
    last: Work | None = None


class Streams:
    """Entry points cuStream* without those of captures. ``now_ns`` tells a device's time; ``check_alive`` raises
    DriverError while a device's contexts are broken by a failed launch; ``on_synchronize`` is called when the program
    waits for a device, ``on_other_work`` when something else than a kernel goes into a stream: no launch depends
    programmatically on one that lies before it any more."""

    def __init__(self, contexts: Contexts, check_alive: Callable[[int], None], captures: Captures):
        self._contexts, self.check_alive, self._captures = contexts, check_alive, captures
        self._streams = Handles(0xA0_0000)
        self._defaults: dict[tuple[int, int], Stream] = {}  # by device and handle
        self.now_ns: Callable[[int], float] = lambda device: time.perf_counter_ns()
        self.on_synchronize: Callable[[int], None] = lambda device: None
        self.on_other_work: Callable[[], None] = lambda: None

    def reset(self, device: int) -> None:
        """Forget a device's streams."""
        for stream in self._streams.all():
            if stream.device == device:
                self._streams.remove(stream.handle)
                self._captures.forget(stream.handle)
        for handle in DEFAULT_STREAMS:
            if self._defaults.pop((device, handle), None) is not None:
                self._captures.forget(handle)

    def here(self) -> int:
        """The device of the current context."""
        return self._contexts.here()

    def check(self, stream: int) -> Stream:
        """The stream of a handle; raises DriverError for one that is none."""
        if stream not in DEFAULT_STREAMS:
            return self._streams.get(stream)
        place = self._contexts.here(), stream
        if place not in self._defaults:
            self._defaults[place] = Stream(0, 0, place[0])
        return self._defaults[place]

    def submit(self, stream: int, work: Work) -> None:
        """Run ``work`` now, or write it down if ``stream`` is being captured."""
        facts = self.check(stream)
        self.check_alive(facts.device)
        if not self._captures.take(stream, work):
            if work.kind != KERNEL:
                self.on_other_work()
            work.follow(facts.last)
            facts.last = work
            work.run()

    def is_captured(self, stream: int) -> bool:
        """Whether work of ``stream`` is written down; raises DriverError for a handle that is no stream."""
        self.check(stream)
        return self._captures.of(stream) is not None

    # ---- making and breaking --------------------------------------------------------------------

    @entry("cuStreamCreate", arguments=(WORD_OUT, c_uint))
    def create(self, out, flags: int) -> None:
        self.create_with_priority(out, flags, 0)

    @entry("cuStreamCreateWithPriority", arguments=(WORD_OUT, c_uint, c_int))
    def create_with_priority(self, out, flags: int, priority: int) -> None:
        if flags & ~NON_BLOCKING:
            raise DriverError(INVALID_VALUE, f"a stream has no flags 0x{flags:x}")
        context, bounded = self._contexts.need(), min(LEAST_PRIORITY, max(GREATEST_PRIORITY, priority))
        stream = Stream(flags, bounded, self._contexts.here(), context)
        stream.handle = self._streams.new(stream)
        put(out, stream.handle)

    @entry("cuStreamDestroy", arguments=(WORD,))
    def destroy(self, stream: int) -> None:
        if stream in DEFAULT_STREAMS:
            raise DriverError(INVALID_HANDLE, "a default stream cannot be destroyed")
        self._streams.remove(stream)
        self._captures.forget(stream)

    # ---- waiting --------------------------------------------------------------------------------

    @entry("cuStreamSynchronize", "cuStreamQuery", arguments=(WORD,))
    def synchronize(self, stream: int) -> None:
        facts = self.check(stream)
        self._captures.refuse_wait(stream)
        self.check_alive(facts.device)
        facts.last = None  # it has ended: what is launched from now on cannot begin before that
        self.on_synchronize(facts.device)

    @entry("cuCtxSynchronize")
    def synchronize_context(self) -> None:
        self._contexts.need()
        self._captures.refuse_unsafe("cuCtxSynchronize")
        self.wait_for(self._contexts.here())

    @entry("cuCtxSynchronize", arguments=(WORD,), since=13000)
    @entry("cuCtxSynchronize_v2", arguments=(WORD,))
    def synchronize_that_context(self, context: int) -> None:
        self.wait_for(self._contexts.find(context).device)

    def wait_for(self, device: int) -> None:
        """Wait for all that a device was given."""
        self.check_alive(device)
        for facts in (*self._defaults.values(), *self._streams):
            if facts.device == device:
                facts.last = None
        self.on_synchronize(device)

    # ---- facts ----------------------------------------------------------------------------------

    @entry("cuStreamGetFlags", arguments=(WORD, UINT_OUT))
    def flags(self, stream: int, out) -> None:
        put(out, self.check(stream).flags)

    @entry("cuStreamGetPriority", arguments=(WORD, INT_OUT))
    def priority(self, stream: int, out) -> None:
        put(out, self.check(stream).priority)

    @entry("cuStreamGetId", arguments=(WORD, WORD_OUT))
    def identity(self, stream: int, out) -> None:
        self.check(stream)
        put(out, stream or 1)  # the default stream is the legacy one

    @entry("cuStreamGetDevice", arguments=(WORD, INT_OUT))
    def device(self, stream: int, out) -> None:
        put(out, self.check(stream).device)

    @entry("cuStreamGetCtx", arguments=(WORD, WORD_OUT))
    def context(self, stream: int, out) -> None:
        put(out, self.check(stream).context or self._contexts.need())

    @entry("cuStreamGetCtx", arguments=(WORD, WORD_OUT, WORD_OUT), since=12050)
    @entry("cuStreamGetCtx_v2", arguments=(WORD, WORD_OUT, WORD_OUT))
    def context_and_green(self, stream: int, out, green) -> None:
        self.context(stream, out)
        if green:
            green[0] = 0

    @entry("cuStreamGetAttribute", arguments=(WORD, c_int, HOST))
    def attribute(self, stream: int, attribute: int, out: int) -> None:
        facts, size = self.check(stream), self._size(attribute)
        value = facts.attributes.get(attribute) or _ATTRIBUTE_DEFAULTS.get(attribute, bytes(size))
        if attribute == _PRIORITY:
            value = facts.priority.to_bytes(4, "little", signed=True)
        if not out:
            raise DriverError(INVALID_VALUE, "a pointer for a result is null")
        ctypes.memmove(out, value, size)

    @entry("cuStreamSetAttribute", arguments=(WORD, c_int, HOST))
    def set_attribute(self, stream: int, attribute: int, value: int) -> None:
        facts, size = self.check(stream), self._size(attribute)
        if not value:
            raise DriverError(INVALID_VALUE, "the pointer to the attribute's value is null")
        data = ctypes.string_at(value, size)
        if attribute == _PRIORITY:
            raise DriverError(INVALID_VALUE, "a stream keeps the priority that it was created with")
        if attribute == _SYNCHRONIZATION and not 1 <= int.from_bytes(data, "little") <= 4:
            raise DriverError(
                INVALID_VALUE, f"synchronization policy {int.from_bytes(data, 'little')} is none of 1 to 4"
            )
        facts.attributes[attribute] = data

    @staticmethod
    def _size(attribute: int) -> int:
        if attribute not in _ATTRIBUTE_BYTES:
            raise DriverError(INVALID_VALUE, f"a stream has no attribute {attribute}")
        return _ATTRIBUTE_BYTES[attribute]

    @entry("cuStreamCopyAttributes", arguments=(WORD, WORD))
    def copy_attributes(self, target: int, source: int) -> None:
        self.check(target).attributes = dict(self.check(source).attributes)

    # ---- calls of the program's functions -------------------------------------------------------

    @entry("cuStreamAddCallback", arguments=(WORD, HOST, HOST, c_uint))
    def add_callback(self, stream: int, function: int, data: int, flags: int) -> None:
        if flags or not function:
            raise DriverError(INVALID_VALUE, "a stream's callback needs a function, and flags of 0")
        self._captures.refuse_work(stream, "cuStreamAddCallback (cuLaunchHostFunc can be captured)")
        self.check(stream)
        _STREAM_CALLBACK(function)(stream, _SUCCESS, data)

    @entry("cuLaunchHostFunc", arguments=(WORD, HOST, HOST))
    def host_function(self, stream: int, function: int, data: int) -> None:
        if not function:
            raise DriverError(INVALID_VALUE, "the host function is null")
        self.submit(stream, HostFunction(function, data))

    @entry("cuLaunchHostFunc", arguments=(WORD, HOST, HOST, c_uint), since=13010)
    @entry("cuLaunchHostFunc_v2", arguments=(WORD, HOST, HOST, c_uint))
    def host_function_with_mode(self, stream: int, function: int, data: int, mode: int) -> None:
        self.host_function(stream, function, data)

    @entry("cuProfilerStart", "cuProfilerStop")
    def profiler(self) -> None:
        pass


_STREAM_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_uint64, c_int, ctypes.c_uint64)
