"""How far a part may run when no other has anything to do in a window.

Mental model: what reaches a part is caused by an event of some part, and each way between them takes at least so long.
While the others have nothing to do before some tick, the part that has may go on until the first of their messages
could come, and until the first answer to one of its own could. Chains of dependent loads have one part at work at a
time: without this each of its events would be a window of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from gpusim.engine.graph import MachineGraph
from gpusim.engine.part import Outgoing, Part
from gpusim.model.messages import MESSAGES, NEVER

#: Windows that a part runs through at once at most: Python obeys a signal between two calls.
MOST_WINDOWS = 64


@runtime_checkable
class SelfStopping(Protocol):
    """A part that can stop by itself before an answer to what it sends could come."""

    def advance_alone(self, until_tick: int, answer_ticks: Mapping[np.dtype, int]) -> Outgoing:
        """As ``advance``, but no further than ``answer_ticks`` behind the time of any message that it sends, by its
        kind."""
        ...


@dataclass(frozen=True)
class RunAhead:
    """The ways of a machine, by names of parts: ``least_ticks[a][b]`` from an event of one to the arrival at another of
    a message that it causes, itself included, NEVER if there is no way; ``answer_ticks[a]`` by kind, from the arrival
    of a message of ``a`` to that of the first answer; ``window_bound`` the parts that may run a window further than the
    others at most."""

    least_ticks: Mapping[str, Mapping[str, int]]
    answer_ticks: Mapping[str, Mapping[np.dtype, int]]
    window_bound: frozenset[str]


def run_ahead(graph: MachineGraph, parts: Mapping[str, Iterable[Part]]) -> RunAhead:
    """The ways of the machine that ``graph`` describes, of whose nodes ``parts`` are the parts. SMs are fed with what
    their warps execute, window by window."""
    least = graph.least_ticks
    names = {node.name: [part.name for part in parts[node.name]] for node in graph.parts}
    answers: dict[str, dict[np.dtype, int]] = {node.name: {} for node in graph.parts}
    for route in graph.routes:
        kinds, kind = answers[route.source], MESSAGES[route.message]
        kinds[kind] = min(kinds.get(kind, NEVER), least[route.target][route.source])
    return RunAhead(
        {
            part: {other: least[source][target] for target, others in names.items() for other in others}
            for source, own in names.items()
            for part in own
        },
        {part: answers[node] for node, own in names.items() for part in own},
        frozenset(part for node in graph.parts if node.kind == "sm" for part in names[node.name]),
    )
