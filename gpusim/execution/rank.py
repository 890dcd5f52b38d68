"""One rank of a replay: its streams, what is ready in each, what runs.

Mental model: of the nodes of a stream whose dependencies have ended the one with the least id begins when the one
before has ended. A computation's progress is counted anew whenever a collective beside it begins or ends.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator
from typing import Any

import simpy

from gpusim.errors import ExecutionTraceError
from gpusim.execution.meeting import Meeting, Whole
from gpusim.execution.result import Happened
from gpusim.execution.trace import ExecutionTrace, Node

Steps = Generator[simpy.Event, Any, Any]
_LEFT_SECONDS = 1e-15


class Rank:
    """``happened``: by node id, when it began and ended; ``collective_share``: of their speed that its collectives have
    now; ``changed``: an event of the next change of it."""

    def __init__(self, replaying: Whole, trace: ExecutionTrace) -> None:
        self.trace = trace
        self.happened: dict[int, Happened] = {}
        self.collective_share = 1.0
        self._replaying, self._environment = replaying, replaying.environment
        self.changed: simpy.Event = self._environment.event()
        self._nodes = {node.id: node for node in trace.nodes}
        self._missing = {node.id: len(node.depends) for node in trace.nodes}
        self._after: dict[int, list[int]] = {}
        for node in trace.nodes:
            for other in node.depends:
                self._after.setdefault(other, []).append(node.id)
        self._ready: dict[str, list[int]] = {}
        self._busy: set[str] = set()
        self._released: dict[int, tuple[int, int] | None] = {}
        self._last: dict[str, int] = {}
        self._active: list[Meeting] = []
        self._computing: list[Node] = []

    def begin(self) -> None:
        """All nodes that wait for none."""
        for node in self.trace.nodes:
            if not self._missing[node.id]:
                self._make_ready(node, None)
        for stream in list(self._ready):
            self._dispatch(stream)

    def waiting(self) -> list[Node]:
        """Nodes that have not ended, those that began first."""
        begun = [
            node
            for node in self.trace.nodes
            if node.id in self._released and node.id not in self.happened and node.stream in self._busy
        ]
        rest = [node for node in self.trace.nodes if node.id not in self.happened]
        return begun[:1] + [node for node in rest if node not in begun[:1]] if rest else []

    def _make_ready(self, node: Node, released: tuple[int, int] | None) -> None:
        self._released[node.id] = released
        heapq.heappush(self._ready.setdefault(node.stream, []), node.id)

    def _dispatch(self, stream: str) -> None:
        if stream not in self._busy and self._ready.get(stream):
            self._busy.add(stream)
            self._environment.process(self._run(self._nodes[heapq.heappop(self._ready[stream])]))

    def _run(self, node: Node) -> Steps:
        began, after = self._environment.now, self._released[node.id]
        previous = self._last.get(node.stream)
        # Whoever ended last let it begin: a dependency, or the node before in its stream.
        if previous is not None and (after is None or self.happened[previous].ended > self.happened[after[1]].ended):
            after = (self.trace.rank, previous)
        moved = began
        if node.communicates:
            moved, after = yield from self._exchange(node, after)
        elif node.kind == "compute" and node.seconds:
            yield from self._compute(node, node.seconds)
        elif node.seconds:
            yield self._environment.timeout(node.seconds)
        elif node.kind == "memory":
            raise ExecutionTraceError(f"{self.trace.source}: node {node.id} ({node.name[:60]!r}) moves data between memories, and has no duration")  # fmt: skip
        self._end(node, Happened(node, began, moved, self._environment.now, after))

    def _end(self, node: Node, happened: Happened) -> None:
        self.happened[node.id] = happened
        self._busy.discard(node.stream)
        self._last[node.stream] = node.id
        touched = {node.stream}
        for other in self._after.get(node.id, ()):
            self._missing[other] -= 1
            if not self._missing[other]:
                self._make_ready(self._nodes[other], (self.trace.rank, node.id))
                touched.add(self._nodes[other].stream)
        for stream in sorted(touched):
            self._dispatch(stream)

    def _compute(self, node: Node, left: float) -> Steps:
        self._computing.append(node)
        self._change()
        while left > _LEFT_SECONDS:
            rate, _ = self._replaying.speed(node, [meeting.beside for meeting in self._active])
            since = self._environment.now
            yield self._environment.timeout(left / rate) | self.changed
            left -= (self._environment.now - since) * rate
        self._computing.remove(node)
        self._change()

    def _exchange(
        self, node: Node, after: tuple[int, int] | None
    ) -> Generator[simpy.Event, Any, tuple[float, tuple[int, int] | None]]:
        """When its last member came, and whom that waited for."""
        meeting = self._replaying.meet(self.trace.rank, node)
        meeting.after[self.trace.rank] = after
        assert meeting.begins is not None and meeting.done is not None
        came = self._environment.now
        self._active.append(meeting)
        self._change()
        if not meeting.begins.triggered:
            yield meeting.begins
            self._change()
        yield meeting.done
        self._active.remove(meeting)
        self._change()
        # Of several that came last the own one, so that a path stays on its rank.
        return meeting.began, after if came == meeting.began else meeting.after[meeting.last]

    def _change(self) -> None:
        """Speeds are told to what runs."""
        beside = [meeting.beside for meeting in self._active]
        shares = [self._replaying.speed(node, beside)[1] for node in self._computing]
        self.collective_share = min(shares, default=1.0)
        for meeting in self._active:
            if meeting.exchange is not None:
                meeting.exchange.slow(self.trace.rank, self.collective_share)
        told, self.changed = self.changed, self._environment.event()
        told.succeed()
