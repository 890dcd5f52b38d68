"""How long windows may be where one thread runs all parts, one after the other.

Mental model: parts that run at once see nothing of each other within a window, so a window is no longer than the shortest way
between any two of them. Parts that take turns see in a window what those before them have sent in it; and a part may stand ahead of
another by some fixed *offset*. Then only what comes back counts: a window may be as long as the shortest way round, of SM to L2 and
back twice the way there. Longer windows are fewer: what a window touches is fetched into the host's caches less often.

With parts in a fixed order and offsets o, in window k each part does what comes before ``(k + 1) * window + o``. A message from ``a`` to
``b``, sent no earlier than a's window begins, must not come before the end of what ``b`` has done when it is handed over. With its
route's latency L: ``o[b] - o[a] <= L`` where ``a`` has its turn before ``b``, and ``<= L - window`` where not. The longest window for
which some offsets satisfy all of these is found by halving, the offsets by Bellman's and Ford's algorithm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpusim.engine.graph import MachineGraph
from gpusim.model.messages import TICKS_PER_CYCLE


@dataclass(frozen=True)
class Turns:
    """Windows of ``window_ticks`` for parts that take turns in the order of a graph's nodes; ``offset_ticks`` by name of a node, 0 or
    more: so far are its windows behind the machine's. Whole cycles all."""

    window_ticks: int
    offset_ticks: Mapping[str, int]

    @property
    def reach_ticks(self) -> int:
        """The longest that a part runs in a turn, the first one, in which it makes up for its offset."""
        return self.window_ticks + max(self.offset_ticks.values(), default=0)


def turns_of(graph: MachineGraph, longest_cycles: int, unused: frozenset[str] = frozenset()) -> Turns:
    """The longest windows, at most ``longest_cycles``, of ``graph``'s nodes; no message of the kinds ``unused`` is ever sent."""
    order = {node.name: place for place, node in enumerate(graph.parts)}
    routes = [
        (route.source, route.target, route.latency_ticks // TICKS_PER_CYCLE, order[route.source] < order[route.target])
        for route in graph.routes
        if route.message not in unused
    ]

    def offsets(window: int) -> dict[str, int] | None:
        """Offsets that allow windows of so many cycles, None if there are none."""
        found = dict.fromkeys(order, 0)
        for _ in range(len(order) + 1):
            settled = True
            for source, target, latency, seen in routes:
                bound = found[source] + latency - (0 if seen else window)
                if bound < found[target]:
                    found[target], settled = bound, False
            if settled:
                return found
        return None

    known, too_long = min(longest_cycles, graph.window_limit_cycles), longest_cycles + 1
    while too_long - known > 1:
        middle = (known + too_long) // 2
        if offsets(middle) is None:
            too_long = middle
        else:
            known = middle
    found = offsets(known) or {}
    first = min(found.values(), default=0)
    return Turns(known * TICKS_PER_CYCLE, {name: (offset - first) * TICKS_PER_CYCLE for name, offset in found.items()})
