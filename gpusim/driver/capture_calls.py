"""The calls that begin, end and look at stream captures (:mod:`gpusim.driver.captures`)."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_size_t, c_uint, c_uint64

from gpusim.driver.abi import (
    HOST,
    ILLEGAL_STATE,
    INT_OUT,
    INVALID_VALUE,
    WORD,
    WORD_OUT,
    DriverError,
    entry,
    put,
    words_at,
)
from gpusim.driver.captures import ACTIVE, NONE, Captures
from gpusim.driver.graph_calls import Graphs
from gpusim.driver.graphs import Node
from gpusim.driver.streams import NON_BLOCKING, Streams

_SET = 1  # CU_STREAM_SET_CAPTURE_DEPENDENCIES


class CaptureCalls:
    """Entry points cuStream*Capture* and cuThreadExchangeStreamCaptureMode."""

    def __init__(self, streams: Streams, captures: Captures, graphs: Graphs):
        self._streams, self._captures, self._graphs = streams, captures, graphs
        self._lists: dict[int, tuple] = {}  # what the program was told the address of

    @entry("cuStreamBeginCapture", arguments=(WORD, c_int))
    def begin(self, stream: int, mode: int) -> None:
        self._begin(stream, mode, None, [])

    def _begin(self, stream: int, mode: int, graph, behind: list[Node]) -> None:
        facts = self._streams.check(stream)
        self._captures.begin(stream, mode, not facts.flags & NON_BLOCKING, graph, behind)

    @entry("cuStreamBeginCaptureToGraph", arguments=(WORD, WORD, HOST, HOST, c_size_t, c_int))
    def begin_to_graph(self, stream: int, graph: int, nodes: int, edges: int, count: int, mode: int) -> None:
        behind = [self._graphs.node(handle) for handle in words_at(nodes, count)]
        self._begin(stream, mode, self._graphs.graph(graph), behind)

    @entry("cuStreamEndCapture", arguments=(WORD, WORD_OUT))
    def end(self, stream: int, out) -> None:
        self._streams.check(stream)
        if out:
            out[0] = 0
        capture = self._captures.end(stream)
        if out or capture.own_graph:  # the program has the handle of a graph of its own
            put(out, self._graphs.handle_of(capture.graph))

    @entry("cuStreamIsCapturing", arguments=(WORD, INT_OUT))
    def is_capturing(self, stream: int, out) -> None:
        self._streams.check(stream)
        capture = self._captures.of(stream)
        put(out, capture.status if capture else NONE)

    @entry("cuStreamGetCaptureInfo", arguments=(WORD, INT_OUT, WORD_OUT))
    def info(self, stream: int, status, number) -> None:
        self.is_capturing(stream, status)
        capture = self._captures.of(stream)
        if capture is not None and number:
            number[0] = capture.number

    @entry("cuStreamGetCaptureInfo", arguments=(WORD, INT_OUT, WORD_OUT, WORD_OUT, WORD_OUT, WORD_OUT), since=11030)
    def info_with_graph(self, stream: int, status, number, graph, nodes, count) -> None:
        self.info_with_edges(stream, status, number, graph, nodes, None, count)

    @entry(
        "cuStreamGetCaptureInfo",
        arguments=(WORD, INT_OUT, WORD_OUT, WORD_OUT, WORD_OUT, WORD_OUT, WORD_OUT),
        since=12030,
    )
    def info_with_edges(self, stream: int, status, number, graph, nodes, edges, count) -> None:
        self.info(stream, status, number)
        capture = self._captures.of(stream)
        if capture is None or capture.status != ACTIVE:
            return
        ends = capture.ends[stream]
        handles = (c_uint64 * max(1, len(ends)))(*(self._graphs.node_handle(node) for node in ends))
        data = (ctypes.c_ubyte * (8 * max(1, len(ends))))()
        self._lists[stream] = handles, data  # valid until the next call for the stream, as documented
        for out, value in (
            (graph, self._graphs.handle_of(capture.graph)),
            (nodes, ctypes.addressof(handles)),
            (edges, ctypes.addressof(data)),
            (count, len(ends)),
        ):
            if out:
                out[0] = value

    @entry("cuStreamUpdateCaptureDependencies", arguments=(WORD, HOST, c_size_t, c_uint))
    def update(self, stream: int, nodes: int, count: int, flags: int) -> None:
        capture = self._captures.of(stream)
        self._streams.check(stream)
        if capture is None:
            raise DriverError(ILLEGAL_STATE, "the stream is not being captured")
        behind = [self._graphs.node(handle) for handle in words_at(nodes, count)]
        if flags & ~_SET or any(node.graph is not capture.graph for node in behind):
            raise DriverError(INVALID_VALUE, "flags of 0 or 1 and nodes of the captured graph are wanted")
        old = [] if flags & _SET else capture.ends[stream]
        capture.ends[stream] = list(dict.fromkeys([*old, *behind]))

    @entry("cuStreamUpdateCaptureDependencies", arguments=(WORD, HOST, HOST, c_size_t, c_uint), since=12030)
    def update_with_edges(self, stream: int, nodes: int, edges: int, count: int, flags: int) -> None:
        self.update(stream, nodes, count, flags)

    @entry("cuThreadExchangeStreamCaptureMode", arguments=(INT_OUT,))
    def exchange_mode(self, mode) -> None:
        if not mode or not 0 <= mode[0] <= 2:
            raise DriverError(INVALID_VALUE, "a capture mode is 0, 1 or 2")
        put(mode, self._captures.thread_mode(mode[0]))
