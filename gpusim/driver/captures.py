"""Stream capture: what would run is written down as a graph.

Mental model: a capture begins at one stream, its origin. Work submitted to it becomes a node behind the stream's last
ones. An event that is recorded in it is a place in the graph, and another stream that waits for this event joins the
capture; all of them must have come back to the origin, by events, when it ends. Rules and error codes: CUDA Driver API,
"Stream Management", and CUDA Programming Guide, "Stream Capture".
"""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass, field

from gpusim.driver.abi import (
    ILLEGAL_STATE,
    INVALID_VALUE,
    STREAM_CAPTURE_IMPLICIT,
    STREAM_CAPTURE_INVALIDATED,
    STREAM_CAPTURE_ISOLATION,
    STREAM_CAPTURE_MERGE,
    STREAM_CAPTURE_UNJOINED,
    STREAM_CAPTURE_UNMATCHED,
    STREAM_CAPTURE_UNSUPPORTED,
    STREAM_CAPTURE_WRONG_THREAD,
    DriverError,
)
from gpusim.driver.graphs import Graph, Node
from gpusim.driver.thread_data import ThreadData
from gpusim.driver.work import EMPTY, Action, Work

GLOBAL, THREAD_LOCAL, RELAXED = range(3)
NONE, ACTIVE, INVALIDATED = range(3)
_LEGACY = (0, 1)


@dataclass(eq=False)
class Capture:
    """One under way. ``ends``: the last nodes of each stream that takes part; ``blocking``: those streams of them that
    synchronize with the legacy stream."""

    origin: int
    graph: Graph
    mode: int
    number: int
    thread: int
    status: int = ACTIVE
    own_graph: bool = True
    ends: dict[int, list[Node]] = field(default_factory=dict)
    blocking: set[int] = field(default_factory=set)
    over: bool = False
    reason: str = ""


@dataclass(frozen=True)
class Place:
    """Where in a capture an event was recorded: behind ``nodes``."""

    capture: Capture
    nodes: tuple[Node, ...]


class Captures:
    """Which streams are being captured. ``register`` names a new graph or node to the program."""

    def __init__(self) -> None:
        self._of: dict[int, Capture] = {}
        self._numbers = itertools.count(1)
        self._threads = ThreadData()

    def reset(self) -> None:
        """Forget all captures."""
        self._of.clear()

    def of(self, stream: int) -> Capture | None:
        """The capture that a stream takes part in."""
        return self._of.get(stream)

    def thread_mode(self, new: int | None = None) -> int:
        """The calling thread's capture mode, GLOBAL at first; replaced if one is given."""
        old = getattr(self._threads, "mode", GLOBAL)
        if new is not None:
            self._threads.mode = new
        return old

    # ---- begin and end --------------------------------------------------------------------------

    def begin(self, stream: int, mode: int, blocking: bool, graph: Graph | None, behind: list[Node]) -> Capture:
        """Begin at ``stream``, into a new graph or behind ``behind`` of ``graph``."""
        if mode not in (GLOBAL, THREAD_LOCAL, RELAXED):
            raise DriverError(INVALID_VALUE, f"capture mode {mode} is none of 0, 1, 2")
        if stream in _LEGACY:
            raise DriverError(
                STREAM_CAPTURE_UNSUPPORTED, "the legacy default stream cannot be captured: create a stream"
            )
        if stream in self._of:
            raise DriverError(ILLEGAL_STATE, "the stream is being captured already")
        capture = Capture(
            stream, graph or Graph(), mode, next(self._numbers), threading.get_ident(), own_graph=graph is None
        )
        capture.ends[stream] = behind
        if blocking:
            capture.blocking.add(stream)
        self._of[stream] = capture
        return capture

    def end(self, stream: int) -> Capture:
        """End the capture that began at ``stream``; raises DriverError, and the capture is over then too."""
        capture = self._of.get(stream)
        if capture is None:
            raise DriverError(ILLEGAL_STATE, "the stream is not being captured")
        if capture.origin != stream:
            self._spoil(capture, "its end was asked for at another stream than its origin")
            raise DriverError(STREAM_CAPTURE_UNMATCHED, "a capture ends at the stream where it began")
        if capture.mode != RELAXED and capture.thread != threading.get_ident():
            raise DriverError(
                STREAM_CAPTURE_WRONG_THREAD, "a capture ends in the thread that began it, unless it is relaxed"
            )
        self._finish(capture)
        if capture.status == INVALIDATED:
            raise DriverError(STREAM_CAPTURE_INVALIDATED, f"the capture was invalidated: {capture.reason}")
        joined = capture.graph.ancestors(capture.ends[stream])
        left = [other for other, nodes in capture.ends.items() if other != stream and not joined.issuperset(nodes)]
        if left:
            raise DriverError(
                STREAM_CAPTURE_UNJOINED,
                f"{len(left)} streams took part in the capture and were not joined: let the origin wait for their events",
            )
        return capture

    def _finish(self, capture: Capture) -> None:
        capture.over = True
        self._of = {stream: each for stream, each in self._of.items() if each is not capture}

    def _spoil(self, capture: Capture, reason: str) -> None:
        if capture.status == ACTIVE:
            capture.status, capture.reason = INVALIDATED, reason

    def forget(self, stream: int) -> None:
        """A stream is destroyed. The capture that began there is over; one that it took part in goes on, and its work
        there must have been joined as if it were not."""
        capture = self._of.pop(stream, None)
        if capture is not None and stream == capture.origin:
            self._finish(capture)

    # ---- work -----------------------------------------------------------------------------------

    def take(self, stream: int, work: Work) -> bool:
        """Write ``work`` down if ``stream`` is captured; False if it is to run. Raises DriverError where neither may
        be."""
        capture = self._of.get(stream)
        if capture is None:
            if stream in _LEGACY:
                self._refuse_implicit("work in the legacy default stream")
            return False
        self._check(capture)
        if isinstance(work, Action) or work.kind == EMPTY:
            self.refuse_work(stream, "this call")
        ends = capture.ends[stream]
        edges = [work.edge_behind(ends[0].work)] if len(ends) == 1 else []
        capture.ends[stream] = [capture.graph.add(work, ends, edges)]
        return True

    def _check(self, capture: Capture) -> None:
        if capture.status == INVALIDATED:
            raise DriverError(STREAM_CAPTURE_INVALIDATED, f"the capture was invalidated: {capture.reason}")

    def _refuse_implicit(self, what: str) -> None:
        for capture in set(self._of.values()):
            if capture.blocking and capture.status == ACTIVE:
                self._spoil(capture, f"{what} would have waited for it")
                raise DriverError(
                    STREAM_CAPTURE_IMPLICIT,
                    f"{what} would wait for a stream that is being captured: create that one with CU_STREAM_NON_BLOCKING",
                )

    def refuse_work(self, stream: int, what: str) -> None:
        """Raise DriverError if ``stream`` is captured: ``what`` cannot be a node."""
        capture = self._of.get(stream)
        if capture is not None:
            self._spoil(capture, f"{what} was called")
            raise DriverError(STREAM_CAPTURE_UNSUPPORTED, f"{what} cannot be captured")
        if stream in _LEGACY:
            self._refuse_implicit(what)

    def refuse_wait(self, stream: int) -> None:
        """Raise DriverError if the program would wait for a stream that never runs."""
        self.refuse_work(stream, "waiting for a stream that is being captured")

    def refuse_unsafe(self, what: str) -> None:
        """Raise DriverError if ``what``, which waits for the whole device or may, comes from a thread that must not
        call it."""
        if self.thread_mode() == RELAXED:
            return
        for capture in set(self._of.values()):
            mine = capture.thread == threading.get_ident()
            if capture.status == ACTIVE and (
                (mine and capture.mode != RELAXED) or (capture.mode == GLOBAL and self.thread_mode() == GLOBAL)
            ):
                self._spoil(capture, f"{what} was called")
                raise DriverError(
                    STREAM_CAPTURE_UNSUPPORTED,
                    f"{what} is not safe while a stream is being captured: call it before, or capture in relaxed mode",
                )

    # ---- events ---------------------------------------------------------------------------------

    def place_of(self, stream: int) -> Place | None:
        """Where in its capture ``stream`` stands; None if it is not captured."""
        capture = self._of.get(stream)
        if capture is None:
            return None
        self._check(capture)
        return Place(capture, tuple(capture.ends[stream]))

    def wait(self, stream: int, place: Place | None, recorded: bool) -> None:
        """Let ``stream`` wait for an event recorded at ``place``, or outside any capture."""
        capture = self._of.get(stream)
        if place is None or place.capture.over:
            if capture is not None and (recorded or place is not None):
                self._spoil(capture, "it was to wait for an event that was recorded outside")
                raise DriverError(
                    STREAM_CAPTURE_ISOLATION, "a captured stream cannot wait for an event of outside its capture"
                )
            return
        self._check(place.capture)
        if capture is None:
            if stream in _LEGACY:
                self._spoil(place.capture, "the legacy default stream was to join it")
                raise DriverError(STREAM_CAPTURE_IMPLICIT, "the legacy default stream cannot join a capture")
            self._of[stream] = place.capture
            place.capture.ends[stream] = list(place.nodes)
        elif capture is not place.capture:
            self._spoil(capture, "it was to wait for another capture")
            self._spoil(place.capture, "another capture was to wait for it")
            raise DriverError(STREAM_CAPTURE_MERGE, "two captures cannot wait for each other")
        else:
            ends = capture.ends[stream]
            ends += [node for node in place.nodes if node not in ends]
