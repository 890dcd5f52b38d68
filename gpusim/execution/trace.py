"""What one GPU does in a step: nodes that wait for nodes.

Mental model: a node computes, exchanges with other GPUs, or is the host's; it begins when all that it depends on have
ended and its stream is free. Nodes of one stream follow each other, those of several run at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpusim.errors import ExecutionTraceError

KINDS = ("compute", "host", "memory", "collective", "send", "receive", "nothing")
#: Nodes of a trace, and of what one waits for in all: more is no trace of a step.
MOST_NODES, MOST_DEPENDENCIES = 1 << 22, 1 << 24


@dataclass(frozen=True, slots=True)
class Node:
    """``kind``: of :data:`KINDS`; ``depends``: ids of nodes; ``seconds``: of what computes, None where not known;
    ``stream``: nodes of one follow each other;
    ``operations``, ``moved_bytes``: of a computation, from and to DRAM; ``exchange``: of a collective its kind
    (:data:`gpusim.collective.shape.KINDS`), ``message_bytes`` that a rank puts in (of an all-gather its part);
    ``group``: the name of its members; ``peer``: the other rank of a send or receive, ``tag``."""

    id: int
    name: str
    kind: str
    depends: tuple[int, ...] = ()
    seconds: float | None = None
    stream: str = ""
    operations: float = 0.0
    moved_bytes: float = 0.0
    exchange: str = ""
    message_bytes: int = 0
    group: str = ""
    peer: int = -1
    tag: int = 0
    inputs: str = ""
    dtypes: str = ""

    @property
    def communicates(self) -> bool:
        """Whether it waits for other GPUs."""
        return self.kind in ("collective", "send", "receive")


@dataclass(frozen=True)
class ExecutionTrace:
    """``nodes`` of ``rank``; ``groups``: ranks of a collective's members by the group's name, as far as the trace says;
    ``source``: a file, for messages."""

    rank: int
    nodes: Sequence[Node]
    groups: Mapping[str, tuple[int, ...]]
    source: str

    def check(self) -> None:
        """Raises ExecutionTraceError for an id that stands twice, a dependency that is not there, nodes that wait for
        each other in a circle."""
        places = {node.id: place for place, node in enumerate(self.nodes)}
        if len(places) < len(self.nodes):
            seen: set[int] = set()
            twice = next(node for node in self.nodes if node.id in seen or seen.add(node.id))
            raise ExecutionTraceError(f"{self.source}: node {twice.id} stands twice")
        waiting, after = [0] * len(self.nodes), [[] for _ in self.nodes]
        for place, node in enumerate(self.nodes):
            if node.seconds is not None and not (math.isfinite(node.seconds) and 0.0 <= node.seconds <= 1e9):
                raise ExecutionTraceError(f"{self._named(node)} takes {node.seconds} s")
            for other in node.depends:
                if other not in places:
                    raise ExecutionTraceError(f"{self._named(node)} waits for node {other}, which is not there")
                waiting[place] += 1
                after[places[other]].append(place)
        free = [place for place, count in enumerate(waiting) if not count]
        done = 0
        while free:
            done += 1
            for place in after[free.pop()]:
                waiting[place] -= 1
                if not waiting[place]:
                    free.append(place)
        if done < len(self.nodes):
            circle = self._circle({place for place, count in enumerate(waiting) if count}, places)
            raise ExecutionTraceError(f"{self.source}: nodes wait for each other in a circle: {circle}")

    def _named(self, node: Node) -> str:
        return f"{self.source}: node {node.id} ({node.name[:60]!r})"

    def _circle(self, stuck: set[int], places: Mapping[int, int]) -> str:
        """Some nodes of it, in the order in which they wait."""
        place, way = next(iter(sorted(stuck))), []
        while place not in way:
            way.append(place)
            place = next(places[other] for other in self.nodes[place].depends if places[other] in stuck)
        ring = [self.nodes[each].id for each in way[way.index(place) :]]
        shown = [str(each) for each in (*ring[:8], *(["..."] if len(ring) > 8 else []), ring[0])]
        return " after ".join(shown)
