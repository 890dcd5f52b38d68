"""A collective, or a send and its receive, as ranks come to it; and what a rank of a replay asks of the whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import simpy

from gpusim.collective.messages import Exchange
from gpusim.collective.shape import Collective
from gpusim.execution.interference import Beside
from gpusim.execution.trace import Node


@dataclass
class Meeting:
    """``expected`` of its ``members`` come, who has is in ``came``; ``begins``, ``done``: events; ``exchange``: its
    messages, None where its formula counts or it has not begun; ``beside``: what it takes of a member's GPU now,
    ``moving``: once it has begun; ``last``: who came last, ``after``: by rank the node whose end let it come."""

    what: Collective
    members: tuple[int, ...]
    expected: int
    first: Node
    came: dict[int, Node] = field(default_factory=dict)
    begins: simpy.Event | None = None
    done: simpy.Event | None = None
    exchange: Exchange | None = None
    beside: Beside = field(default_factory=lambda: Beside(0, 0.0))
    moving: Beside = field(default_factory=lambda: Beside(0, 0.0))
    began: float = 0.0
    last: int = -1
    after: dict[int, tuple[int, int] | None] = field(default_factory=dict)


class Whole(Protocol):
    """A replay, as its ranks see it."""

    environment: simpy.Environment

    def speed(self, node: Node, active: Sequence[Beside]) -> tuple[float, float]:
        """Shares of their speeds of a computation and of the collectives beside it."""
        ...

    def meet(self, rank: int, node: Node) -> Meeting:
        """The exchange that a rank's node is a part of."""
        ...
